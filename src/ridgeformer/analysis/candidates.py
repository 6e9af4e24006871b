"""Candidates: what a transformer may be running, and what would then be in its stream.

Every solver in the registry is a candidate, with each preconditioner that it takes, and so are predictors that
take one step. A candidate says what would be found after each of its steps: predictions at the queries, and
coefficients, fitted values or images of features at the supports. Its step size, ridge and kernel width are not
known beforehand; they are fitted to the subject, on prompts that do not score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from math import exp
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.kernels import DEFAULT_KERNEL, Kernel
from ridgeformer.solvers import SOLVERS, EagerMachine, Precondition, Solver
from ridgeformer.solvers.base import State
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

Place = Literal["queries", "supports"]
Signal = tuple[Place, Float[Tensor, "steps1 batch n c"]]

MOST_DOUBLINGS = 7

WIDTHS = ("lengthscale", "temperature")
"""The field of a kernel that says how wide it is."""


@dataclass(frozen=True)
class Setting:
    """What is fitted of a candidate: λ, the interval that coefficients are tuned to, and the kernel."""

    kernel: Kernel
    ridge: float
    lo: float
    hi: float

    @staticmethod
    def around(
        prompt: Prompt, kernel: Kernel, ridge: float, precondition: Precondition = "none"
    ) -> Setting:
        """Where a search begins: the task's kernel and λ, and the spectra of P⁻¹A on the prompts, which are a matter of
        features alone: targets do not count."""
        lo, hi = EagerMachine(prompt, kernel, ridge).interval(precondition)
        return Setting(kernel, ridge, lo, hi)

    @property
    def width(self) -> str | None:
        """The name of the kernel's width, if it has one."""
        if not is_dataclass(self.kernel):
            return None
        names = [field.name for field in fields(self.kernel)]
        return next((name for name in WIDTHS if name in names), None)

    def moved(self, by: Mapping[str, float]) -> Setting:
        """The setting with some of its numbers multiplied by exp(…).

        The lower end of the interval follows λ, which it is where K has no full rank.
        """
        changed = replace(
            self,
            ridge=self.ridge * exp(by.get("ridge", 0.0)),
            lo=self.lo * exp(by.get("ridge", 0.0) + by.get("lo", 0.0)),
            hi=self.hi * exp(by.get("hi", 0.0)),
        )
        if "width" in by and self.width is not None:
            wider = getattr(self.kernel, self.width) * exp(by["width"])
            changed = replace(changed, kernel=replace(self.kernel, **{self.width: wider}))  # type: ignore[type-var]
        lo, hi = sorted((changed.lo, changed.hi))
        return replace(changed, lo=lo, hi=max(hi, lo * (1 + 1e-9)))


@lru_cache(maxsize=4)
def eigenbasis(
    phi: Float[Tensor, "batch k p"], kernel: Kernel
) -> tuple[Float[Tensor, "batch 1 k"], Float[Tensor, "batch k k"]]:
    """Eigenvalues and eigenvectors of K; searches ask for those of the same prompts again and again."""
    values, vectors = torch.linalg.eigh(kernel(phi, phi))
    return values[:, None], vectors


class Noting(EagerMachine):
    """A machine that notes whether the solver asks what its coefficients should be tuned to.

    Operators are polynomials in A. Where the kernel has few features, and so no width that is searched for, they are
    kept as their values at A's eigenvalues, [batch, 1, k], since a search runs a candidate thousands of times
    on the same eigenvectors.
    """

    asked = False

    def interval(self, kind: Precondition) -> tuple[float, float]:
        self.asked = True
        return super().interval(kind)

    @cached_property
    def basis(self) -> Float[Tensor, "batch k k"] | None:
        return None if self.factor is None else eigenbasis(self.prompt.phi, self.kernel)[1]

    def eigenvalues(self) -> Float[Tensor, "batch 1 k"]:
        """Those of A, in the order of the basis."""
        return eigenbasis(self.prompt.phi, self.kernel)[0] + self.ridge

    def identity(self) -> Tensor:
        return super().identity() if self.basis is None else torch.ones_like(self.eigenvalues())

    def product(self, left: Tensor, right: Tensor, key: Tensor | None = None) -> Tensor:
        if self.basis is None:
            return super().product(left, right, key)
        return left * self.eigenvalues() * (right if key is None else key * right)

    def apply(self, operator: Tensor, v: Tensor, key: Tensor | None = None) -> Tensor:
        if self.basis is None:
            return super().apply(operator, v, key)
        values = operator if key is None else key * operator
        return self.basis @ (values.mT * (self.basis.mT @ v))


@dataclass(frozen=True)
class Candidate:
    solver: Solver

    @property
    def name(self) -> str:
        kind = self.solver.precondition
        return self.solver.name + ("" if kind == "none" else f", {kind}")

    @cached_property
    def doubles(self) -> bool:
        """Whether its state is a polynomial in A, whose degree may double in every step."""
        rng = torch.Generator().manual_seed(0)
        phi, y = (torch.rand(1, 3, n, generator=rng, dtype=torch.float64) for n in (2, 1))
        prompt = Prompt(phi, y, phi)
        machine = Noting(prompt, DEFAULT_KERNEL, 1.0)
        state = self.solver.step(machine, self.solver.init(machine), 1)
        return any(is_operator(value, prompt) for value in state)

    @property
    def most_steps(self) -> int | None:
        """A smoother has one step, and doubling methods are at the solution after a few."""
        if self.solver.smooths:
            return 1
        return MOST_DOUBLINGS if self.doubles else None

    def machine(self, prompt: Prompt, setting: Setting) -> Noting:
        return Noting(prompt, setting.kernel, setting.ridge, interval=(setting.lo, setting.hi))

    def states(self, machine: EagerMachine, steps: int) -> list[State]:
        """Its state before the first step and after each; fewer than asked for where it takes fewer."""
        states = [self.solver.init(machine)]
        for t in range(1, min(steps, self.most_steps or steps) + 1):
            states.append(self.solver.step(machine, states[-1], t))
        return states

    def signals(self, prompt: Prompt, setting: Setting, steps: int) -> dict[str, Signal]:
        """What the stream would hold, before the first step and after each."""
        machine = self.machine(prompt, setting)
        states = self.states(machine, steps)
        predictions = torch.stack([self.solver.predict(machine, s) for s in states])
        if self.solver.smooths:
            predictions[0] = 0.0
            return {"predictions": ("queries", predictions)}
        alpha = torch.stack([s.alpha for s in states])
        fitted = torch.stack([machine.kernel_product(a) for a in alpha])
        found: dict[str, Signal] = {
            "predictions": ("queries", predictions),
            "coefficients": ("supports", alpha),
            "fitted values": ("supports", fitted),
        }
        mapped = setting.kernel.dot_product(prompt.features)
        for name, value in states[-1]._asdict().items():
            if mapped is not None and is_operator(value, prompt):
                images = [getattr(s, name) for s in states]
                first = next(x for x in images if x is not None)
                images = [torch.zeros_like(first) if x is None else x for x in images]
                features = mapped(prompt.phi)
                found[f"images under {name}"] = (
                    "supports",
                    torch.stack([machine.apply(x, features) for x in images]),
                )
        return found

    def tuned(self, prompt: Prompt, setting: Setting) -> bool:
        """Whether its coefficients are tuned to an interval."""
        machine = self.machine(prompt[:1], setting)
        self.solver.step(machine, self.solver.init(machine), 1)
        return machine.asked

    def free(self, prompt: Prompt, setting: Setting) -> list[str]:
        """What can be fitted of it."""
        names = [] if self.solver.smooths else ["ridge"]
        if not self.solver.smooths and self.tuned(prompt, setting):
            names.append("hi")
            if not self.only_centre_counts(prompt, setting):
                names.append("lo")
        return names + (["width"] if setting.width is not None else [])

    def only_centre_counts(self, prompt: Prompt, setting: Setting) -> bool:
        """Whether two intervals with the same centre give the same iterates, as with one step size."""
        moved = replace(setting, lo=1.5 * setting.lo, hi=setting.hi - 0.5 * setting.lo)
        once, again = (
            self.signals(prompt[:2], one, 3)["predictions"][1] for one in (setting, moved)
        )
        return torch.allclose(once, again, rtol=1e-9)


def is_operator(value: object, prompt: Prompt) -> bool:
    batch, k = len(prompt), prompt.supports
    shapes = ((batch, k, k), (batch, 1, k))
    return isinstance(value, Tensor) and value.shape in shapes and k != prompt.outputs


def candidates(prompt: Prompt, setting: Setting, only: Iterable[str] = ()) -> list[Candidate]:
    """Every solver of the registry with each of its preconditioners, if it runs on these prompts.

    Those that refuse the kernel are left out, and of several with the same iterates the first is kept.
    """
    wanted = set(only)
    kept: list[Candidate] = []
    seen: list[Tensor] = []
    for kind in SOLVERS.values():
        for precondition in kind.preconditioners:
            plain = kind() if precondition == kind.precondition else kind(precondition=precondition)  # type: ignore[call-arg]
            candidate = Candidate(plain)
            if wanted and candidate.name not in wanted and kind.name not in wanted:
                continue
            some = prompt[:4]
            try:
                own = Setting.around(some, setting.kernel, setting.ridge, precondition)
                found = candidate.signals(some, own, 3)["predictions"][1]
            except Refusal:
                continue
            alike = [
                x for x in seen if x.shape == found.shape and torch.allclose(x, found, rtol=1e-6)
            ]
            if not alike and torch.isfinite(found).all():
                kept.append(candidate)
                seen.append(found)
    return kept
