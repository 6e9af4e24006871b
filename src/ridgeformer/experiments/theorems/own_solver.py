"""The general theorems on one solver, ours or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from ridgeformer.compiler.targets import Target, check_target
from ridgeformer.experiments.finding import Finding
from ridgeformer.experiments.run import Run, check_seed, terminal_table
from ridgeformer.experiments.theorems.base import Outcome, Theorem
from ridgeformer.experiments.theorems.cases import Case
from ridgeformer.experiments.theorems.general import (
    CompiledIsSolver,
    GeneralTheorem,
    InexactFixed,
    PolynomialRate,
    SizeLaw,
)
from ridgeformer.experiments.theorems.page import summary, verify_page
from ridgeformer.experiments.theorems.run import results
from ridgeformer.experiments.theorems.structure import Masking
from ridgeformer.kernels import Kernel, kernel_or_default
from ridgeformer.solvers import Solver, check_ridge, check_solver
from ridgeformer.types import check_whole

GENERAL: tuple[GeneralTheorem, ...] = (
    CompiledIsSolver(),
    PolynomialRate(),
    InexactFixed(),
    Masking(),
    SizeLaw(),
)


class OnOneCase(Theorem):
    """A general theorem, measured on one case alone, where its bound need not be met."""

    attained = 0.0

    def __init__(self, theorem: GeneralTheorem, case: Case) -> None:
        self.theorem, self.case = theorem, case
        self.name, self.title, self.see = theorem.name, theorem.title, theorem.see
        self.states, self.measured, self.equality = (
            theorem.states,
            theorem.measured,
            theorem.equality,
        )

    def measure(self, seed: int, fast: bool) -> Outcome:
        return replace(self.theorem.measure_on(self.case, seed, fast), parts=())


@dataclass(frozen=True)
class SolverReport:
    """What the general theorems say of one solver. It prints as a table."""

    label: str
    findings: tuple[Finding, ...]
    inapplicable: Mapping[str, str]
    """The theorems that say nothing about the solver, each with the reason."""

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    def __str__(self) -> str:
        console = Console(width=100, color_system=None)
        with console.capture() as printed:
            console.print(terminal_table(self.label, summary(self.findings)))
            for name, reason in self.inapplicable.items():
                console.print(f"{name} does not apply. {reason}")
        return printed.get().rstrip()


def verify_solver(
    solver: Solver,
    *,
    kernel: Kernel | None = None,
    to: Target | None = None,
    features: int = 4,
    steps: int = 4,
    ridge: float = 1.0,
    seed: int = 0,
    fast: bool = False,
    out: str | Path | None = None,
) -> SolverReport:
    """Measures every general theorem on one solver; those that do not apply are named with the reason.

    Without a target `to`, nothing is compiled and only what concerns the numerics is measured. A violated
    bound is in the report, not an exception.

    solver   an instance of your solver
    kernel   the kernel, `Linear()` if it is left out
    to   the target to which it is compiled
    features   the number of features of the problems
    steps   how many steps are measured
    ridge   λ
    seed   the seed of the problems
    fast   whether fewer problems are drawn
    out   a directory for the page with statements and figures
    """
    check_solver(solver)
    if to is not None:
        check_target(to)
    check_whole("features", features, 1)
    check_whole("steps", steps, 1)
    check_whole("seed", seed)
    check_seed(seed, 31)
    check_ridge(ridge)
    case = Case(solver, kernel_or_default(kernel), to, features, ridge, steps)
    reasons = {theorem.name: theorem.inapplicable(case) for theorem in GENERAL}
    run = None if out is None else Run(out, "results.json", Console(quiet=True))
    findings = tuple(
        OnOneCase(theorem, case).verify(seed, fast)
        for theorem in GENERAL
        if reasons[theorem.name] is None
    )
    if run is not None:
        run.write(verify_page(findings, seed, fast), results(findings, seed, fast))
    named = {name: reason for name, reason in reasons.items() if reason is not None}
    return SolverReport(case.label, findings, named)
