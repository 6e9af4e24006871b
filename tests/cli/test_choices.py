"""Options are the fields of targets, kernels and solvers; what means nothing cannot be said."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import typer
from fork_server import cli, refused

import ridgeformer as rf
from ridgeformer.cli import choices
from ridgeformer.cli.app import app
from ridgeformer.cli.commands import COMPLETED
from ridgeformer.kernels import KERNELS
from ridgeformer.solvers import SOLVERS
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.types import Refusal

TARGETS = (rf.LinearAttention, rf.SoftmaxAttention)
PARTS = (*TARGETS, rf.Exact, rf.Interpolated, rf.HeadPairs)
ROOM = ["--features", "3", "--steps", "2", "--ridge", "1"]


def flags_of(command):
    typer.main.get_command(app)
    return {option for parameter in COMPLETED[command]().params for option in parameter.opts}


def plain_fields(cls):
    """Fields whose values are numbers and switches, not parts with fields of their own."""
    hints = get_type_hints(cls)
    return [f for f in fields(cls) if not set(get_args(hints[f.name])) & set(PARTS)]


def test_every_field_of_a_target_is_an_option_with_its_help():
    flags = flags_of("compile")
    named = [f.name for f in plain_fields(rf.LinearAttention)]
    assert named == ["max_eigenvalue", "causal", "every_prefix"]
    for cls in PARTS:
        for field in plain_fields(cls):
            name = choices.RENAMED.get((cls, field.name), field.name)
            assert choices.flag_of(name) in flags, field.name
            assert field.metadata["help"].endswith("."), field.name


def test_every_part_of_a_target_can_be_chosen():
    for cls in TARGETS:
        chosen = {
            c
            for choice in choices.target_choices()
            if cls in choice.classes
            for c in choice.classes
        }
        hints = {part for hint in get_type_hints(cls).values() for part in get_args(hint)}
        assert chosen - {cls} == hints & set(PARTS)


def test_every_number_of_a_kernel_or_solver_is_an_option_of_compile_and_solve():
    for cls in (*KERNELS.values(), *SOLVERS.values()):
        for field in fields(cls):
            assert choices.flag_of(field.name) in flags_of("compile") & flags_of("solve"), field


@pytest.mark.parametrize(
    ("attention", "mlp", "options", "target"),
    [
        ("linear", "relu", {"max_eigenvalue": 9.0}, rf.LinearAttention(9.0)),
        (
            "linear",
            "reglu",
            {"max_eigenvalue": 9.0, "causal": True},
            rf.LinearAttention(9.0, rf.Exact(), causal=True),
        ),
        (
            "softmax",
            "reglu",
            {"max_norm": 2.0, "max_supports": 8},
            rf.SoftmaxAttention(2.0, 8, rf.Exact()),
        ),
        ("softmax", "relu", {}, rf.SoftmaxAttention(products=None)),
        (
            "softmax",
            "relu",
            {"max_norm": 2.0, "max_supports": 8, "max_target": 3.0, "mlp_width": 64},
            rf.SoftmaxAttention(2.0, 8, rf.Interpolated(3.0, width=64)),
        ),
        (
            "softmax",
            "relu",
            {"max_target": 3.0, "tolerance": 0.1, "digits": True},
            rf.SoftmaxAttention(products=rf.Interpolated(3.0, 0.1, digits=True)),
        ),
        (
            "softmax",
            "relu",
            {"max_target": 3.0, "tolerance": 0.1, "heads": 4, "epsilon": 0.5},
            rf.SoftmaxAttention(
                products=rf.Interpolated(3.0, 0.1), dot_products=rf.HeadPairs(4, 0.5)
            ),
        ),
    ],
)
def test_targets_are_built_from_flags(attention, mlp, options, target):
    choices.check(options, choices.chosen_target(attention, mlp))
    assert choices.make_target(attention, mlp, options) == target


def test_options_reach_the_kernel_and_the_solver(tmp_path):
    np.save(tmp_path / "u.npy", np.eye(2, 3))
    options = {"temperature": 3.0, "projection": tmp_path / "u.npy", "lengthscale": 2.0}
    kernel = choices.make_kernel("exponential", options)
    assert (kernel.temperature, kernel.projection.tolist()) == (3.0, np.eye(2, 3).tolist())
    assert choices.make_kernel("gaussian", options) == rf.Gaussian(2.0)
    asked = {"precondition": "row-sum", "interval": (1.0, 2.0), "lengthscale": 2.0}
    assert choices.make_solver("richardson", asked) == rf.Richardson("row-sum", (1.0, 2.0))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["cg", "--max-eigenvalue", "9", "--lengthscale", "77"],
            "--lengthscale is not an option of the linear kernel: leave it out, or use --kernel gaussian.",
        ),
        (
            ["cg", "--max-eigenvalue", "9", "--temperature", "1"],
            "--temperature is not an option of the linear kernel: leave it out, or use --kernel exponential.",
        ),
        (
            ["cg", "--kernel", "polynomial", "--projection", "u.npy"],
            "--projection is not an option of the polynomial kernel: leave it out, or use --kernel linear "
            "or --kernel exponential.",
        ),
        (
            ["cg", "--max-eigenvalue", "9", "--interval", "1", "2"],
            "--interval is not an option of cg: leave it out, or use gd, richardson, heavy-ball, "
            "chebyshev, newton or gd++.",
        ),
        (
            ["cg", "--max-norm", "9"],
            "--max-norm is not an option of linear attention: leave it out, or use --attention softmax.",
        ),
        (
            ["cg", "--tolerance", "0.1"],
            "--tolerance is not an option of linear attention: leave it out, or use --attention softmax.",
        ),
        (
            ["cg", "--mlp", "reglu", "--tolerance", "0.1"],
            "--tolerance is not an option of linear attention with the reglu MLP: leave it out, or use "
            "--attention softmax --mlp relu.",
        ),
        (
            ["cg", "--attention", "softmax", "--mlp", "reglu", "--mlp-width", "64"],
            "--mlp-width is not an option of the reglu MLP: leave it out, or use --mlp relu.",
        ),
        (
            ["cg", "--attention", "softmax", "--mlp", "reglu", "--causal"],
            "--causal is not an option of softmax attention: leave it out, or use --attention linear.",
        ),
        (
            ["cg", "--attention", "softmax", "--mlp", "reglu", "--every-prefix"],
            "--every-prefix is not an option of softmax attention: leave it out, or use --attention "
            "linear.",
        ),
        (
            ["cg", "--max-eigenvalue", "9", "--every-prefix"],
            "Every prefix is solved at a token that sees nothing after it: use --causal with "
            "--every-prefix.",
        ),
        (
            ["cg", "--max-eigenvalue", "9", "--causal", "--every-prefix", "--mlp", "relu"],
            "With --every-prefix each token multiplies its own vectors, which a plain ReLU MLP does "
            "not do exactly: use --mlp reglu.",
        ),
        (["cg"], "--max-eigenvalue is needed with linear attention: a bound on λ_max(K)"),
        (
            ["gd", "--attention", "softmax", "--kernel", "gaussian", "--tolerance", "1"],
            "--max-target is needed with softmax attention and --mlp relu: a bound on |y|.",
        ),
        (["cg", "--kernel", "gausian"], "There is no kernel 'gausian': did you mean gaussian?"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_by_compile(tmp_path, arguments, sentence):
    refused(cli("compile", *arguments, *ROOM, "--out", tmp_path / "m"), f"Error: {sentence}")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cg", "--lengthscale", "77"], "--lengthscale is not an option of the linear kernel"),
        (["krr", "--kernel", "gaussian", "--degree", "2"], "use --kernel polynomial."),
        (["krr", "--precondition", "jacobi"], "--precondition is not an option of krr"),
        (["krr", "--max-eigenvalue", "2"], "krr has none: leave it out."),
        (["cg", "--interval", "1", "2"], "--interval is not an option of cg"),
    ],
)
def test_what_means_nothing_is_refused_by_solve(tmp_path, arguments, sentence):
    PrescribedSpectrum(features=3).draw(2, seed=0).save(tmp_path / "p.npz")
    solver, *options = arguments
    command = ["solve", solver, tmp_path / "p.npz", "--steps", "2", "--ridge", "1", *options]
    refused(cli(*command, "--out", tmp_path / "o.npz"), sentence)
    assert not (tmp_path / "o.npz").exists()


def test_what_a_solver_says_of_itself_may_be_repeated():
    choices.check({"precondition": "none"}, choices.chosen_solver("gd"))
    with pytest.raises(Refusal, match="--precondition is not an option of gd"):
        choices.check({"precondition": "jacobi"}, choices.chosen_solver("gd"))


def test_a_field_of_the_user_keeps_its_name():
    @dataclass(frozen=True)
    class Mine(rf.Kernel):
        width: float = 1.0

    mine = choices.Choice({"kernel": "mine"}, (Mine,))
    assert list(mine.options()) == ["width"]
    assert choices.build(Mine, "the kernel", {"width": 2.0, "mlp_width": 8}) == Mine(2.0)


def test_types_that_words_cannot_give_are_no_options():
    assert choices.type_of_option(float | None) is float
    assert choices.type_of_option(tuple[float, float] | None) == tuple[float, float]
    assert choices.type_of_option(get_type_hints(rf.Linear)["projection"]) is Path
    for hint in (object, rf.Exact | None, float | str):
        assert choices.type_of_option(hint) is None


def test_options_of_the_command_come_before_derived_ones_of_the_same_name():
    names = [parameter.name for parameter in COMPLETED["solve"]().params]
    assert len(names) == len(set(names))
    assert "Tune fixed coefficients" in cli("solve", "--help").stdout
