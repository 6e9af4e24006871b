"""Arguments of the wrong kind: a name in place of a solver, a path in place of a prompt. What to write is said."""

import numpy as np
import pytest
import torch

import ridgeformer as rf
from conftest import without_checks
from ridgeformer.models import predict
from ridgeformer.types import Refusal

TO = rf.LinearAttention(9.0)
TASK = rf.PrescribedSpectrum(features=3, supports=6, condition=10.0)
CG = rf.ConjugateGradient()


def compiled(solver=CG, **changes):
    settings = {"features": 3, "steps": 2, "ridge": 1.0, "to": TO}
    return rf.compile(solver, **(settings | changes))


def prompt():
    return TASK.draw(2, seed=0)


MASKED = np.ma.masked_array(np.ones((2, 2)), [[0, 1], [0, 0]])


def solved(**options):
    return rf.solve(rf.Chebyshev(), prompt(), steps=2, ridge=1.0, **options)


def loop():
    return rf.compile(rf.HeavyBall(), features=3, ridge=1.0, to=TO, looped=True)


CASES = {
    "compile('cg')": (lambda: compiled("cg"), r"such as `ConjugateGradient\(\)`; got 'cg'"),
    "compile of a class": (lambda: compiled(rf.Chebyshev), r"such as `Chebyshev\(\)`"),
    "compile of None": (lambda: compiled(None), "must be a Solver"),
    "solve('cg')": (lambda: rf.solve("cg", prompt(), steps=2, ridge=1.0), "must be a Solver"),
    "verify_solver('cg')": (lambda: rf.verify_solver("cg", to=TO), "must be a Solver"),
    "a kernel's name": (lambda: compiled(kernel="gaussian"), r"such as `Gaussian\(…\)`; got 'gaussian'"),
    "krr with a kernel's name": (lambda: rf.krr(prompt(), ridge=1.0, kernel="linear"), r"`Linear\(…\)`"),
    "a kernel's class": (lambda: rf.condition_number(prompt(), ridge=1.0, kernel=rf.Gaussian), r"`Gaussian\(…\)`"),
    "solve with a kernel's name": (
        lambda: rf.solve(CG, prompt(), steps=2, ridge=1.0, kernel="cosine"), "must be a Kernel",
    ),
    "a target's name": (lambda: compiled(to="linear"), "must be LinearAttention"),
    "a target's class": (lambda: compiled(to=rf.LinearAttention), "must be LinearAttention"),
    "verify_solver of a target's name": (lambda: rf.verify_solver(CG, to="x"), "must be LinearAttention"),
    "verify_solver with a negative ridge": (lambda: rf.verify_solver(CG, ridge=-1.0), "must be positive and finite"),
    "verify_solver of no step": (lambda: rf.verify_solver(CG, steps=0), "`steps` must be at least 1, got 0"),
    "a role that is none": (lambda: compiled().heads("nothing"), "`role` must be one of matvec, .*; got 'nothing'"),
    "a batch of words": (lambda: TASK.draw("x", seed=0), "`batch` must be a whole number, got 'x'"),
    "an empty batch": (lambda: TASK.draw(0, seed=0), "`batch` must be at least 1, got 0"),
    "a seed of words": (lambda: TASK.draw(2, seed="a"), "`seed` must be a whole number, got 'a'"),
    "a seed of 65 bits": (lambda: TASK.draw(2, seed=2**64), r"`seed` must be below 2\^64"),
    "a dtype": (lambda: compiled(dtype="float16"), "must be one of float64, float32"),
    "a preconditioner": (lambda: compiled(rf.ConjugateGradient("ilu")), "no preconditioner 'ilu'"),
    "features 3.0": (lambda: compiled(features=3.0), "`features` must be a whole number"),
    "steps True": (lambda: compiled(steps=True), "`steps` must be a whole number"),
    "steps 2.5": (lambda: rf.solve(CG, prompt(), steps=2.5, ridge=1.0), "must be a whole number"),
    "a ridge of words": (lambda: compiled(ridge="1"), "`ridge` must be a number"),
    "krr with a ridge of words": (lambda: rf.krr(prompt(), ridge="1"), "`ridge` must be a number"),
    "a bound of words": (lambda: rf.LinearAttention("9"), "`max_eigenvalue` must be a number"),
    "half a support": (lambda: rf.SoftmaxAttention(1.0, 7.5), "`max_supports` must be a whole number"),
    "half a head": (lambda: rf.HeadPairs(4.0), "`heads` must be a whole number"),
    "half a neuron": (lambda: rf.Interpolated(1.0, width=64.5), "`width` must be a whole number"),
    "products by a word": (lambda: rf.LinearAttention(9.0, "exact"), r"`products` must be Exact\(…\), or None"),
    "products by a class": (lambda: rf.SoftmaxAttention(1.0, 8, rf.Exact), r"Exact\(…\) or Interpolated\(…\), or None"),
    "a number of head pairs": (lambda: rf.SoftmaxAttention(1.0, 8, rf.Exact(), 3), r"must be HeadPairs\(…\)"),
    "half a degree": (lambda: rf.Polynomial(2.5), "`degree` must be a whole number"),
    "a degree of words": (lambda: rf.Polynomial("2"), "`degree` must be a whole number"),
    "half a feature of a task": (lambda: rf.PrescribedSpectrum(features=2.5), "needs whole features; got features 2.5"),
    "a condition of words": (lambda: rf.PrescribedSpectrum(condition="x"), "`condition` must be a number"),
    "a negative eigenvalue": (lambda: solved(max_eigenvalue=-1), "`max_eigenvalue` must be positive"),
    "an eigenvalue of words": (lambda: solved(max_eigenvalue="9"), "`max_eigenvalue` must be a number"),
    "one end of an interval": (lambda: solved(interval=(1,)), "`interval` must be two numbers 0 < LO ≤ HI, got 1"),
    "an interval of words": (lambda: solved(interval="none"), "`interval` must be two numbers"),
    "half a step of a loop": (lambda: loop().predict(prompt(), steps=2.5), "`steps` must be a whole number"),
    "unrolled by words": (lambda: loop().unrolled("a"), "`steps` must be a whole number"),
    "a stream of a path": (lambda: rf.residual_stream("cg", prompt()), "A compiled model is needed"),
    "rows of unequal lengths": (lambda: rf.Prompt([[1.0, 2.0], [3.0]], [1.0, 2.0], [1.0]), "unequal lengths"),
    "masked entries": (lambda: rf.Prompt(MASKED, [1.0, 2.0], [1.0, 2.0]), "phi has masked entries"),
    "sparse tensors": (lambda: rf.Prompt(torch.eye(2).to_sparse(), torch.ones(2), torch.ones(2)), "phi is sparse"),
    "a device of no kind": (lambda: prompt().to("float16"), "There is no kind of device 'float16'"),
    "a device that is not there": (lambda: prompt().to("cuda:99"), "PyTorch finds no device 'cuda:99'"),
    "a path for a prompt": (lambda: compiled().predict("prompts.npz"), r"`Prompt\.load\(path\)`"),
    "krr of a path": (lambda: rf.krr("prompts.npz", ridge=1.0), r"`Prompt\.load\(path\)`"),
    "solve of a tensor": (lambda: rf.solve(CG, prompt().phi, steps=2, ridge=1.0), "A prompt is needed"),
    "trajectory of a path": (lambda: rf.trajectory("cg", prompt()), r"`load\(directory\)`"),
    "predict of a path": (lambda: predict("cg", prompt()), r"`load\(directory\)`"),
    "subject of a path": (lambda: rf.subject("cg"), r"`load\(directory\)`"),
    "identify of a name": (lambda: rf.identify("cg", TASK), "A Subject is needed"),
    "identify of a model": (lambda: rf.identify(compiled(), TASK), r"`subject\(model\)`"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_to_write_is_said(name):
    ask, words = CASES[name]
    with without_checks(), pytest.raises(Refusal, match=words):
        ask()


def test_whole_numbers_of_numpy_are_whole_numbers(tmp_path):
    sizes = {name: np.int64(n) for name, n in (("features", 3), ("steps", 2), ("outputs", 1))}
    with without_checks():
        compiled(**sizes).save(tmp_path / "cg")
    assert rf.load(tmp_path / "cg").certificate == compiled().certificate


def test_numbers_that_float64_does_not_hold_are_infinite(recwarn):
    beyond = np.full((2, 2), np.longdouble("1e4000"))
    with pytest.raises(Refusal, match="phi contains NaN or infinite"):
        rf.Prompt(beyond, [1.0, 2.0], [1.0, 2.0])
    assert not recwarn.list
