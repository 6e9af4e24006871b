"""Your own solvers and kernels: one class each, compiled, certified and verified like those of the package."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import torch

import ridgeformer as rf


class Iterate(NamedTuple):
    alpha: Any
    point: Any  # where the gradient is taken
    inverse: Any = None  # the diagonal of P⁻¹


@rf.register
@dataclass(frozen=True)
class Nesterov(rf.Solver):
    """Nesterov's accelerated gradient for strongly convex quadratics (Nesterov 1983)."""

    name = "nesterov"

    def init(self, m):
        return Iterate(m.zeros(), m.zeros())

    def step(self, m, s, t):
        lo, hi = m.interval("none")
        momentum = (sqrt(hi) - sqrt(lo)) / (sqrt(hi) + sqrt(lo))
        alpha = m.bound(
            s.point + (1 / hi) * (m.target() - m.matvec(s.point)),
            lambda: (2 + 2 * t) * m.solution_norm(),
            "a mode's error is at most (1 + t)·(1 − √(lo/hi))^{t/2} of its start",
        )
        return Iterate(alpha, alpha + momentum * (alpha - s.alpha))


@rf.register
@dataclass(frozen=True)
class TwoProducts(rf.Solver):
    """α ← α + η(r − ηAr), r = y − Aα: two products with K in every step."""

    name = "two-products"

    def init(self, m):
        return Iterate(m.zeros(), None)

    def step(self, m, s, t):
        eta = 1 / m.interval("none")[1]
        r = m.target() - m.matvec(s.alpha)
        alpha = m.bound(
            s.alpha + eta * (r - eta * m.matvec(r)),
            lambda: 2 * m.solution_norm(),
            "a step multiplies a mode's error by 1 − ησ + (ησ)², which lies in [3/4, 1]",
        )
        return Iterate(alpha, None)


@rf.register
@dataclass(frozen=True)
class DampedRowSum(rf.Solver):
    """Richardson iteration with softmax's normaliser as preconditioner, at half the best step."""

    name = "damped-row-sum"
    preconditioners = ("row-sum",)
    precondition = "row-sum"

    def init(self, m):
        return Iterate(m.zeros(), None, m.inverse_preconditioner("row-sum"))

    def step(self, m, s, t):
        lo, hi = m.interval("row-sum")
        eta = 1 / (lo + hi)
        alpha = m.bound(
            s.alpha + eta * s.inverse * (m.target() - m.matvec(s.alpha)),
            lambda: 2 * m.solution_norm(),
            "a step multiplies a mode's error by 1 − ησ, which lies in [0, 1]",
        )
        return s._replace(alpha=alpha)


@rf.register
@dataclass(frozen=True)
class Corner(rf.Kernel):
    """exp(⟨u(x), u(x')⟩) for u(x) = relu(Wx + b), three features of a point in the plane."""

    name = "corner"

    def logits(self):
        weights = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-0.7, -0.7]], dtype=torch.float64)
        bias = torch.tensor([0.1, 0.1, 0.2], dtype=torch.float64)
        return rf.Logits(rf.FeatureMap(hidden=(weights, bias)), scale=1.0)


@rf.register
@dataclass(frozen=True)
class Laplace(rf.Kernel):
    """exp(−|x − x'|): solvers run on it, and no attention head makes it."""

    name = "laplace"

    def __call__(self, a, b):
        return (-torch.cdist(a, b)).exp()

    def diagonal(self, a):
        return torch.ones_like(a[..., :1])


RIDGE, STEPS, SUPPORTS = 0.5, 6, 12
LINEAR = rf.LinearAttention(max_eigenvalue=20.0)
SOFTMAX = rf.SoftmaxAttention(max_norm=1.0, max_supports=SUPPORTS)
CASES = [
    (Nesterov(), rf.Linear(), LINEAR),
    (Nesterov(), rf.Gaussian(0.7), SOFTMAX),
    (TwoProducts(), rf.Linear(), LINEAR),
    (TwoProducts(), rf.Exponential(0.5), SOFTMAX),
    (DampedRowSum(), rf.Gaussian(0.7), SOFTMAX),
    (rf.ConjugateGradient(), Corner(), SOFTMAX),
    (Nesterov(), Corner(), SOFTMAX),
]


def main() -> None:
    """Compiles every case, compares it with its own numerics, and measures the general theorems."""
    generator = torch.Generator().manual_seed(0)
    points = 2 * torch.rand(8, SUPPORTS + 5, 2, generator=generator, dtype=torch.float64) - 1
    points = points / points.norm(dim=-1, keepdim=True).clamp(min=1)
    prompt = rf.Prompt(
        points[:, :SUPPORTS], torch.sin(3 * points[:, :SUPPORTS, :1]), points[:, SUPPORTS:]
    )

    for solver, kernel, target in CASES:
        model = rf.compile(solver, features=2, steps=STEPS, ridge=RIDGE, kernel=kernel, to=target)
        own, ours = rf.reference(model, prompt), rf.trajectory(model, prompt)
        apart = float(ours.distance(own).max() / own.predictions.abs().max())
        layers, promise = model.transformer.config.n_layers, model.certificate.relative_error
        print(f"{solver.name} on the {kernel.name} kernel: {layers} layers")
        print(f"  at every step within {apart:.1e} of its own numerics; {promise:g} is certified")
        assert apart < 1e-9
        report = rf.verify_solver(
            solver, kernel=kernel, to=target, features=2, steps=4, ridge=RIDGE, fast=True
        )
        for finding in report.findings:
            print(f"  {finding.name}: {'holds' if finding.holds else 'DOES NOT HOLD'}")
        assert report.holds
        for name, reason in report.inapplicable.items():
            print(f"  {name} does not apply. {reason}")

    try:
        rf.compile(Nesterov(), features=2, steps=STEPS, ridge=RIDGE, kernel=Laplace(), to=SOFTMAX)
    except rf.Refusal as refusal:
        print(refusal)


if (
    __name__ == "__main__"
):  # `ridgeformer --import your_own_solver.py compile nesterov …` stops here
    main()
