"""Solvers and kernels that the package does not have, written as a user would, against their own numerics."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import FeatureMap, Gaussian, Kernel, Linear, Logits, Monomial
from ridgeformer.models import trajectory
from ridgeformer.program import trace
from ridgeformer.solvers import Solver, solve
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.types import Refusal


class State(NamedTuple):
    alpha: Any
    inverse: Any = None


@dataclass(frozen=True)
class DampedSteepestDescent(Solver):
    """α ← α + (0.9γ + 0.01)·r with γ = rᵀr/rᵀAr: a multiple of a scalar, and a sum."""

    name = "damped-steepest-descent"

    def init(self, m):
        return State(m.zeros())

    def step(self, m, s, t):
        r = m.target() - m.matvec(s.alpha)
        lo, hi = m.interval("none")
        size = m.assume(m.dot(r, r), lambda: (1e-6, 1e6), "the residuals of these prompts")
        curvature = m.assume(
            m.dot(r, m.matvec(r)),
            lambda: (1e-6 * lo, 1e6 * hi),
            "rᵀAr lies between these times rᵀr",
        )
        step = 0.9 * size * m.reciprocal(curvature) + 0.01
        return State(m.bound(s.alpha + step * r, lambda: 1e3 * m.solution_norm(), "these prompts"))


@dataclass(frozen=True)
class DampedJacobi(Solver):
    """α ← α + (η/2)P⁻¹(y − Aα), where the multiple stands at the diagonal."""

    name = "damped-jacobi"
    preconditioners = ("jacobi",)
    precondition = "jacobi"

    def init(self, m):
        return State(m.zeros(), m.inverse_preconditioner("jacobi"))

    def step(self, m, s, t):
        lo, hi = m.interval("jacobi")
        change = (1 / (lo + hi)) * s.inverse * (m.target() - m.matvec(s.alpha))
        return s._replace(
            alpha=m.bound(s.alpha + change, lambda: 2 * m.solution_norm(), "a step is damped")
        )


@dataclass(frozen=True)
class EverySecondStep(Solver):
    """A gradient step in odd steps, and none in even ones."""

    name = "every-second-step"

    def init(self, m):
        return State(m.zeros())

    def step(self, m, s, t):
        if t % 2 == 0:
            return s
        eta = 1 / m.interval("none")[1]
        alpha = s.alpha + eta * (m.target() - m.matvec(s.alpha))
        return State(m.bound(alpha, m.solution_norm, "errors shrink"))


@dataclass(frozen=True)
class Waits(EverySecondStep):
    name = "waits"

    def step(self, m, s, t):
        return s if t == 1 else super().step(m, s, t + 1)


@dataclass(frozen=True)
class Quadratic(Kernel):
    """exp(⟨u(x), u(x')⟩/2) for u(x) = (x₀, x₀x₁, x₁²), products behind softmax attention."""

    name = "quadratic"

    def logits(self):
        monomials = (Monomial(1.0, (0,)), Monomial(1.0, (0, 1)), Monomial(0.7, (1, 1)))
        return Logits(FeatureMap(monomials=monomials), 0.5)


@dataclass(frozen=True)
class Bent(Kernel):
    """exp(−|u(x) − u(x')|²/2) for u(x) = relu(Wx + b): a distance between features of one's own."""

    name = "bent"

    def logits(self):
        weights = torch.tensor([[1.0, 0.5], [-1.0, 0.3], [0.2, -0.8]], dtype=torch.float64)
        return Logits(FeatureMap(hidden=(weights, 0.1 * torch.ones(3).double())), 1.0, 0.5)


def prompts(outputs=1, seed=0):
    task = PrescribedSpectrum(features=2, supports=9, condition=10, outputs=outputs)
    return task.draw(5, seed=seed).inside(max_norm=1.0)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    ("solver", "kernel", "to"),
    [
        (DampedSteepestDescent(), Linear(), LinearAttention(9.0)),
        (DampedSteepestDescent(), Linear(), LinearAttention(9.0, causal=True)),
        (DampedSteepestDescent(), Gaussian(0.7), SoftmaxAttention(1.0, 9)),
        (DampedJacobi(), Linear(), LinearAttention(9.0, Exact())),
        (DampedJacobi(), Linear(), SoftmaxAttention(1.0, 9)),
        (EverySecondStep(), Linear(), LinearAttention(9.0)),
        (EverySecondStep(), Gaussian(0.7), SoftmaxAttention(1.0, 9)),
        (EverySecondStep(), Quadratic(), SoftmaxAttention(1.0, 9)),
        (DampedSteepestDescent(), Quadratic(), SoftmaxAttention(1.0, 9)),
        (EverySecondStep(), Bent(), SoftmaxAttention(1.0, 9)),
    ],
    ids=lambda value: getattr(value, "name", type(value).__name__),
)
def test_they_compile_to_what_they_compute(solver, kernel, to, outputs):
    prompt, steps, ridge = prompts(outputs), 4, 1.0
    model = compile(
        solver, features=2, outputs=outputs, steps=steps, ridge=ridge, kernel=kernel, to=to
    )
    found = trajectory(model, prompt).predictions
    own = dual_or_feature_space(solver, prompt, kernel, to, steps, ridge)
    assert found.shape == own.shape
    assert float((found - own).abs().max()) < 1e-9 * float(own.abs().max())


def dual_or_feature_space(solver, prompt, kernel, to, steps, ridge):
    """The solver's own predictions, tuned as the model is; adaptive ones differ in feature space."""
    from ridgeformer.compiler.domain import Domain

    top = to.max_eigenvalue if isinstance(to, LinearAttention) else None
    top = top or Domain(kernel, 1.0, 9).max_eigenvalue
    if not getattr(to, "causal", False):
        settings = {"ridge": ridge, "kernel": kernel, "max_eigenvalue": top}
        return solve(solver, prompt, steps=steps, **settings).predictions
    # (ΦᵀΦ + λI)w = Φᵀy is a dual system too, with √ of it for features and Φᵀy for targets.
    values, vectors = torch.linalg.eigh(prompt.phi.mT @ prompt.phi)
    root = vectors * values.sqrt()[:, None] @ vectors.mT
    swapped = Prompt(root, prompt.phi.mT @ prompt.y, root)
    run = solve(solver, swapped, steps=steps, ridge=ridge, max_eigenvalue=top, states=True)
    return prompt.phi_query @ run.states["alpha"]


def test_an_iterate_that_is_still_zero_has_nothing_to_read():
    with pytest.raises(Refusal, match="still 0 after step 1"):
        compile(Waits(), features=2, steps=3, ridge=1.0, to=LinearAttention(9.0))


def test_a_kernel_of_products_needs_a_gated_mlp():
    with pytest.raises(Refusal, match="needs products of features"):
        compile(
            EverySecondStep(), features=2, steps=3, ridge=1.0,
            kernel=Monomials(), to=LinearAttention(9.0),
        )  # fmt: skip


@dataclass(frozen=True)
class Monomials(Kernel):
    name = "monomials"

    def dot_product(self, features):
        return FeatureMap(monomials=(Monomial(1.0, (0, 1)), Monomial(2.0, (1,))))


def test_adaptivity_is_read_off_the_program():
    for solver, adaptive in ((DampedSteepestDescent(), True), (EverySecondStep(), False)):
        program = trace(solver, steps=2, ridge=1.0, max_eigenvalue=9.0)
        assert program.adaptive is adaptive
