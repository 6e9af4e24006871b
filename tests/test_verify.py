"""`verify`: theorems hold, planted errors are named, results are the same twice."""

import json
import subprocess
import sys
from dataclasses import replace
from html import escape

import numpy as np
import pytest

from ridgeformer.solvers import EagerMachine
from ridgeformer.verification import THEOREMS, Verdict, verify
from ridgeformer.verification import depth as depth_checks
from ridgeformer.verification import rates as rate_checks
from ridgeformer.verification import sizes as size_checks
from ridgeformer.verification import softmax as softmax_checks
from ridgeformer.verification import width as width_checks
from ridgeformer.verification.base import Axes, Line, Outcome

pytestmark = pytest.mark.usefixtures("unchecked")


def run(*arguments, cwd):
    command = [sys.executable, "-m", "ridgeformer.cli", "verify", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def verdicts(unchecked, tmp_path_factory):
    out = tmp_path_factory.mktemp("verify")
    return verify(list(THEOREMS.values()), out, seed=0, fast=True), out


@pytest.mark.parametrize("name", THEOREMS)
def test_the_theorem_holds_and_says_something(verdicts, name):
    (verdict,) = (v for v in verdicts[0] if v.theorem.name == name)
    assert verdict.holds, (verdict.word, verdict.outcome.worst)
    assert verdict.outcome.ratios.size
    assert np.isfinite(verdict.outcome.ratios).all()


def test_the_report_has_every_theorem(verdicts):
    _, out = verdicts
    page = (out / "index.html").read_text()
    results = json.loads((out / "results.json").read_text())
    assert [t["name"] for t in results["theorems"]] == list(THEOREMS)
    for theorem in THEOREMS.values():
        assert escape(theorem.title) in page
        assert theorem.see in page
    assert len(page) < 15e6
    assert 'src="http' not in page, "nothing is fetched"


def test_the_same_seed_gives_the_same_numbers():
    theorem = THEOREMS["fixed-coefficient-rates"]
    first, second, other = (theorem.measure(seed, True).ratios for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_the_command_line(tmp_path):
    done = run("--fast", "--only", "sizes", "--out", "v", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sizes" in done.stdout
    assert (tmp_path / "v/results.json").exists()
    wrong = run("--only", "gravity", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "choose from cg-rate" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def outcome(worst):
    return Outcome("", np.array([worst]), [Line("a", [0], [1])], Axes("x", "y"))


def test_violated_and_vacuous_bounds_are_told_apart():
    theorem = THEOREMS["cg-rate"]
    words = [Verdict(theorem, outcome(w)).word for w in (0.5, 1 + 1e-12, 1.001, 0.01)]
    assert words == ["holds", "holds", "VIOLATED", "vacuous"]


def more(shape, **sizes):
    return replace(shape, **{name: getattr(shape, name) + by for name, by in sizes.items()})


PLANTED = [
    ("cg-rate", depth_checks, "cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 4),
    ("cg-rate", depth_checks, "cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) * 100),
    ("fixed-coefficient-rates", depth_checks, "richardson_rate", lambda f: lambda c: f(c) * 0.98),
    ("fixed-coefficient-rates", depth_checks, "chebyshev_factor", lambda f: lambda c, t: f(c, t + 1)),
    ("chebyshev-worst-mode", depth_checks, "chebyshev_factor", lambda f: lambda c, t: 2 * f(c, t)),
    ("chebyshev-worst-mode", depth_checks, "chebyshev_factor", lambda f: lambda c, t: f(2 * c, t)),
    ("row-sum-rate", rate_checks, "richardson_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("several-outputs", rate_checks, "block_cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("inexact-cg", rate_checks, "residual_gap_bound", lambda f: lambda *a, **k: f(*a, **k) / 10),
    ("width-rank", width_checks, "rank_error", lambda f: lambda *a, **k: f(*a, **k) * 1.001),
    ("effective-dimension", width_checks, "eigenvalue_bound", lambda f: lambda *a, **k: f(*a, **k) / 3),
    ("query-error", width_checks, "query_error_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("feature-drift", width_checks, "drift_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 200),
    ("temperature", softmax_checks, "ratios", lambda f: lambda m, b, z: f(m, 0.9 * b, z)),
    ("interpolated-products", softmax_checks, "ratios", lambda f: lambda m, b, z: f(m, b / 30, z)),
    ("sizes", size_checks, "matvec_widths", lambda f: lambda model: f(model)[1:]),
    ("sizes", size_checks, "predicted_shape", lambda f: lambda c: more(f(c), n_layers=1)),
    ("sizes", size_checks, "predicted_shape", lambda f: lambda c: more(f(c), d_model=-1)),
    ("sizes", size_checks, "predicted_shape", lambda f: lambda c: more(f(c), d_mlp=c.outputs == 2)),
    ("sizes", size_checks, "parameters", lambda f: lambda *a, **k: f(*a, **k) + 1),
    ("dot-products", softmax_checks, "ratios", lambda f: lambda m, b, z: f(m, np.asarray(b**2), z)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "module", "attribute", "wrong"), PLANTED)
def test_a_planted_error_is_named(monkeypatch, name, module, attribute, wrong):
    monkeypatch.setattr(module, attribute, wrong(getattr(module, attribute)))
    verdict = Verdict(THEOREMS[name], THEOREMS[name].measure(0, True))
    assert not verdict.holds


def test_a_wrong_chebyshev_start_is_noticed(monkeypatch):
    from ridgeformer.solvers.chebyshev import Chebyshev

    right = Chebyshev.step

    def wrong(self, m, s, t):
        return right(
            self, m, s, 3 if t == 2 else t
        )  # the general weight where the second is special

    monkeypatch.setattr(Chebyshev, "step", wrong)
    theorem = THEOREMS["chebyshev-worst-mode"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_wrong_beta_in_cg_is_noticed(monkeypatch):
    from ridgeformer.solvers.conjugate_gradient import ConjugateGradient

    right = ConjugateGradient.step

    def wrong(self, m, s, t):
        slip = 1.01 if isinstance(m, EagerMachine) else 1.0
        return right(self, m, s._replace(inverse_rho=slip * s.inverse_rho), t)

    monkeypatch.setattr(ConjugateGradient, "step", wrong)
    theorem = THEOREMS["finite-termination"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        ("push", 3.0),  # queries read themselves a little
        ("row_sums", (2.0, 3.0)),  # reciprocals beyond the end of their table
    ],
)
def test_a_wrong_construction_is_noticed(monkeypatch, attribute, wrong):
    from ridgeformer.compiler import softmax_plan
    from ridgeformer.compiler.softmax import SoftmaxLowering

    def build(**options):
        return SoftmaxLowering(**(options | {attribute: wrong}))

    monkeypatch.setattr(softmax_plan, "SoftmaxLowering", build)
    theorem = THEOREMS["compiled-is-solver"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_leaking_mask_is_noticed(monkeypatch):
    from ridgeformer.transformer.model import Attention

    right = Attention.linear_prefix

    def leaking(self, x, context):
        return right(self, x, x.shape[1])  # queries among what the supports read

    monkeypatch.setattr(Attention, "linear_prefix", leaking)
    theorem = THEOREMS["masking"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_reference_that_keeps_what_was_ablated_is_noticed(monkeypatch):
    from ridgeformer.analysis.reference import WithoutKernel

    monkeypatch.setattr(WithoutKernel, "kernel_product", EagerMachine.kernel_product)
    theorem = THEOREMS["ablations"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_ridge_left_in_the_weights_is_noticed(monkeypatch):
    from ridgeformer.analysis import ridge

    monkeypatch.setattr(ridge, "with_ridge", lambda model, twin: model)
    theorem = THEOREMS["ridge-in-the-weights"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds
