"""Compiled methods with fixed coefficients: what too small reciprocals cost, by the models too."""

import pytest
import torch
from theorem_cases import largest_ratio

from ridgeformer import theory
from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.experiments.theorems import THEOREMS
from ridgeformer.experiments.theorems.compiled_fixed import ERROR, cases, difference_and_bound
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.models import reference, trajectory
from ridgeformer.models.reference import interval_of
from ridgeformer.program import tables
from ridgeformer.solvers import Chebyshev, HeavyBall, Richardson
from ridgeformer.tasks import KernelDraw

COARSE = 3.0


@pytest.fixture
def coarse(monkeypatch):
    for name in ("FINE_RATIO", "COARSE_RATIO"):
        monkeypatch.setattr(tables, name, COARSE)
    tables.reciprocal_table.cache_clear()
    yield
    tables.reciprocal_table.cache_clear()


@pytest.mark.parametrize(("label", "solver", "kernel", "errors"), list(cases()))
def test_fixed_methods_err_as_their_reciprocals_do(label, solver, kernel, errors):
    for supports in (1, 6, 12):
        prompt = KernelDraw(kernel=kernel, features=3, supports=supports, scale=0.5).draw(12, 1)
        for steps in (2, 5):
            apart, bound = difference_and_bound(solver, kernel, prompt, steps, errors)
            largest_ratio(apart, bound)
            assert float(apart.max()) > 1e-3 * ERROR
            without = difference_and_bound(
                solver, kernel, prompt, steps, {name: 1e-6 * e for name, e in errors.items()}
            )[1]
            assert (apart > without).any(), "the error itself is what is bounded"


MODELS = {
    "softmax": (Richardson(), Gaussian(0.7), SoftmaxAttention(2.0, 12), False),
    "softmax, heavy ball": (HeavyBall(), Gaussian(0.7), SoftmaxAttention(2.0, 12), False),
    "Jacobi": (Richardson("jacobi"), Linear(), LinearAttention(30.0, Exact()), False),
    "looped": (Chebyshev(), Linear(), LinearAttention(30.0), True),
}


@pytest.mark.parametrize("label", MODELS)
def test_models_with_coarse_tables_err_as_bounded_by_their_reciprocals(label, coarse):
    """Compiled models themselves, whose reciprocals are off by 1e-7."""
    solver, kernel, target, looped = MODELS[label]
    prompt = KernelDraw(kernel=kernel, features=2, supports=12, scale=0.5).draw(8, 0).inside(2.0)
    model = compile(solver, features=2, steps=6, ridge=1.0, kernel=kernel, to=target, looped=looped)
    steps = 6 if looped else None
    run = trajectory(model, prompt, states=True, steps=steps)
    exact = reference(model, prompt, steps=steps).final
    errors = {
        "normaliser": theory.table_error(1 / 13, 1.0, COARSE) if "softmax" in label else 0.0,
        "diagonal": theory.table_error(1.0, 31.0, COARSE) if label == "Jacobi" else 0.0,
        "divisor": theory.table_error(0.5, 1.0, COARSE) if looped else 0.0,
    }
    bound = theory.compiled_fixed_bound(
        solver, prompt, run.states["alpha"], run.final, ridge=1.0, interval=interval_of(model),
        kernel=kernel, **errors,
    )  # fmt: skip
    apart = (run.final - exact).abs()
    assert (apart <= bound + 1e-13).all()
    if not looped:  # a table of one cell is accurate to round-off
        assert float(apart.max()) > 1e-12


def test_looped_chebyshev_errs_as_its_divisors_do():
    assert theory.divisor_error(0.0, 9.0) == 0.0
    found = theory.divisor_error(1e-3, 9.0)
    assert found == pytest.approx(1e-3 / (1 - 1e-3) * (1 + 16 / 6))
    solver, kernel = Chebyshev(), Linear()
    prompt = KernelDraw(kernel=kernel, features=3, supports=12, scale=0.5).draw(12, 1)
    for error in (1e-2, 1e-4):
        apart, bound = difference_and_bound(solver, kernel, prompt, 6, {"divisor": error})
        assert largest_ratio(apart, bound) > 1e-3


def test_what_reciprocals_multiply_is_measured_on_the_iterates():
    """Residuals with λα in them, and products: on vectors that are large, so that nothing else is largest."""
    generator = torch.Generator().manual_seed(0)
    for solver, kernel, kind in (
        (Richardson("jacobi"), Linear(), "diagonal"),
        (Richardson(), Gaussian(0.7), "normaliser"),
    ):
        prompt = KernelDraw(kernel=kernel, features=3, supports=5, scale=0.5).draw(4, 1)
        alphas = 10 * torch.randn(3, 4, 5, 1, generator=generator, dtype=torch.float64)
        known = {"ridge": 2.0, "interval": (1.0, 20.0), "kernel": kernel}
        found = theory.compiled_fixed_bound(
            solver, prompt, alphas, 0 * prompt.phi_query[..., :1], **known, **{kind: 0.1}
        )
        gram = theory.gram(prompt, kernel)
        held = alphas[:2]
        off = prompt.y - gram @ held - 2.0 * held if kind == "diagonal" else gram @ held
        error = 0.1 * off.norm(dim=2).amax(0)
        carried = theory.perturbed_prediction_bound(
            solver, prompt, steps=2, residual_error=1.0, **known
        )
        torch.testing.assert_close(found, carried[..., None] * error[:, None])


def test_wrong_constants_are_found(monkeypatch):
    right = theory.compiled_fixed_bound
    monkeypatch.setattr(theory, "compiled_fixed_bound", lambda *a, **k: right(*a, **k) / 1.01)
    assert THEOREMS["compiled-fixed"].verify(0, True).verdict == "VIOLATED"


def test_methods_without_reciprocals_are_equal_in_both_spaces():
    """In feature space and in the dual space the same polynomials give the same predictions."""
    prompt = KernelDraw(kernel=Linear(), features=3, supports=8, scale=0.5).draw(6, 0)
    for solver in (Richardson(), Chebyshev(), HeavyBall()):
        dual, features = (
            compile(solver, features=3, steps=5, ridge=1.0, to=LinearAttention(30.0, causal=causal))
            for causal in (False, True)
        )
        torch.testing.assert_close(
            trajectory(dual, prompt).predictions,
            trajectory(features, prompt).predictions,
            rtol=0,
            atol=1e-12,
        )
