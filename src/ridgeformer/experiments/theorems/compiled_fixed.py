"""Compiled methods with fixed coefficients, whose reciprocals are too small on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ridgeformer import theory
from ridgeformer.experiments.theorems.base import COMPILED, Axes, Measurement, Outcome, Theorem
from ridgeformer.kernels import Gaussian, Kernel, Linear
from ridgeformer.solvers import Chebyshev, EagerMachine, HeavyBall, Richardson, Solver, solve
from ridgeformer.solvers.machine import Precondition
from ridgeformer.tasks import KernelDraw, Prompt

ERROR = 1e-6
"""By which part reciprocals are too small: far above round-off."""


class TooSmall(EagerMachine):
    """The machine of a compiled method in real arithmetic, whose normalisers and diagonals err."""

    def __init__(
        self, prompt: Prompt, kernel: Kernel, ridge: float, normaliser: float, diagonal: float
    ) -> None:
        super().__init__(prompt, kernel, ridge)
        self.normaliser, self.off = normaliser, diagonal

    def inverse_preconditioner(self, kind: Precondition) -> Tensor | None:
        inverse: Tensor | None = super().inverse_preconditioner(kind)
        return None if inverse is None else (1 - self.off) * inverse

    def kernel_product(self, v: Tensor) -> Tensor:
        return (1 - self.normaliser) * super().kernel_product(v)

    def predict(self, alpha: Tensor) -> Tensor:
        return (1 - self.normaliser) * super().predict(alpha)


def looped_chebyshev(machine: EagerMachine, solver: Chebyshev, steps: int, error: float) -> Tensor:
    """The iterates of a loop whose reciprocals of divisors are too small by a part, α_0 … α_steps."""
    lo, hi = machine.interval(solver.precondition)
    rho, state = (hi - lo) / (hi + lo), solver.loop_start(machine)
    alpha, previous, divisor, found = state.alpha, state.previous, 0.5, [state.alpha]
    for _ in range(steps):
        omega = (1 - error) / divisor
        correction = solver.correction(machine, state._replace(alpha=alpha))
        alpha, previous = previous + omega * (alpha - previous + correction), alpha
        divisor = 1 - rho**2 / 4 * omega
        found.append(alpha)
    return torch.stack(found)


def cases() -> Iterator[tuple[str, Solver, Kernel, dict[str, float]]]:
    normaliser, diagonal = {"normaliser": ERROR}, {"diagonal": ERROR}
    for solver in (Richardson(), Chebyshev(), HeavyBall()):
        yield f"{solver.name}, D", solver, Gaussian(0.7), normaliser
    for solver in (Richardson("jacobi"), Chebyshev("jacobi")):
        yield f"{solver.name}, P⁻¹", solver, Linear(), diagonal
    yield "chebyshev, looped", Chebyshev(), Linear(), {"divisor": ERROR}


class CompiledFixed(Theorem):
    name = "compiled-fixed"
    group = COMPILED
    title = "Compiled methods with fixed coefficients are those methods"
    states = ("compiled-fixed",)
    measured = (
        "The normalisers of softmax attention, Jacobi's preconditioner, or the divisors of a looped Chebyshev "
        "iteration are too small by 1e-6. The difference after T steps, on prompts of one support and of twelve, is "
        "compared with the bound."
    )
    see = "Difference from the exact method after T steps, by what errs, under its bound."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts = Measurement(), 8 if fast else 64
        for label, solver, kernel, errors in cases():
            for supports in (1, 12):
                task = KernelDraw(kernel=kernel, features=3, supports=supports, scale=0.5)
                prompt = task.draw(prompts, seed)
                for steps in (1, 2, 4, 8):
                    apart, bound = difference_and_bound(solver, kernel, prompt, steps, errors)
                    reach = 0.11 if "divisor" in errors else None  # of which one serves all modes
                    floor = 1e-3 * ERROR * float(bound.max())
                    m.at(label, steps, apart, bound, floor, reach=reach)
        said = f"6 methods, {prompts} prompts of 1 and 12 supports"
        return m.outcome(said, Axes("steps T", "|f̂_T − f_T|", log_x=True))


def difference_and_bound(
    solver: Solver, kernel: Kernel, prompt: Prompt, steps: int, errors: dict[str, float]
) -> tuple[Tensor, Tensor]:
    ridge = 1.0
    exact = EagerMachine(prompt, kernel, ridge)
    least, most = exact.interval(solver.precondition)
    interval = least, max(most, 2 * least)  # with one support there is only one eigenvalue
    machine = TooSmall(
        prompt, kernel, ridge, errors.get("normaliser", 0.0), errors.get("diagonal", 0.0)
    )
    machine.fixed_interval = interval
    if "divisor" in errors:
        assert isinstance(solver, Chebyshev)
        alphas = looped_chebyshev(machine, solver, steps, errors["divisor"])
    else:
        states = [solver.init(machine)]
        for t in range(1, steps + 1):
            states.append(solver.step(machine, states[-1], t))
        alphas = torch.stack([s.alpha for s in states])
    found = machine.predict(alphas[-1])
    clean = solve(solver, prompt, steps=steps, ridge=ridge, kernel=kernel, interval=interval).final
    allowed = {name: error * (1 + 1e-6) for name, error in errors.items()}  # for round-off
    bound = theory.compiled_fixed_bound(
        solver, prompt, alphas, found, ridge=ridge, interval=interval, kernel=kernel, **allowed
    )
    return (found - clean).abs(), bound
