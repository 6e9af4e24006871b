"""What is measured of one case, as a task whose result is kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ridgeformer.analysis.candidates import Setting, candidates
from ridgeformer.analysis.search import fit_all
from ridgeformer.analysis.trajectories import Evidence
from ridgeformer.analysis.verdict import Account, Findings
from ridgeformer.experiments.identification.cases import Case
from ridgeformer.experiments.jobs import HERE, Progress, Store, Where, run_all
from ridgeformer.transformer.threads import one_thread_each

METHOD = 9
"""Counted up when a change of the method makes old measurements worthless."""

MOST_STEPS = 10


@one_thread_each
def measure(case: Case) -> Findings:
    """The findings on one case; the same case gives the same findings."""
    drawn = case.drawn()
    reading = drawn.subject.read(drawn.prompt)
    if not reading.finite:
        return Findings.of_nothing()
    evidence = Evidence.of(reading, drawn.prompt)
    around = Setting.around(evidence.prompt, drawn.kernel, drawn.ridge)
    fits = fit_all(evidence, candidates(evidence.prompt, around), around, MOST_STEPS)
    return Findings.of(fits, evidence)


@dataclass(frozen=True)
class Measurement:
    """The measuring of one case, as a task."""

    case: Case

    def describe(self) -> dict[str, Any]:
        return {"method": METHOD, **self.case.to_dict()}

    def run(self) -> dict[str, Any]:
        return asdict(measure(self.case))


def findings_from(values: dict[str, Any]) -> Findings:
    accounts = tuple(
        Account(**one | {"inside": tuple(one["inside"]), "away": tuple(one["away"])})
        for one in values["accounts"]
    )
    return Findings(**values | {"accounts": accounts, "parts": tuple(values["parts"])})


def measure_all(
    cases: Sequence[Case], store: Store, where: Where = HERE, progress: Progress = iter
) -> list[Findings]:
    """The findings on all cases; those that the store has are not measured again."""
    results = run_all([Measurement(case) for case in cases], store, where, progress)
    return [findings_from(result) for result in results]
