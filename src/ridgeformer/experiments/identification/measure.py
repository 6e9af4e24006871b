"""What is measured of one case, and kept on disk under a name that its content determines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ridgeformer.analysis.candidates import Setting, candidates
from ridgeformer.analysis.search import fit_all
from ridgeformer.analysis.trajectories import Evidence
from ridgeformer.analysis.verdict import Account, Findings
from ridgeformer.experiments.identification.cases import Case
from ridgeformer.experiments.run import write_whole
from ridgeformer.transformer.threads import one_thread_each

METHOD = 2
"""Counted up when a change of the method makes old measurements worthless."""

MOST_STEPS = 10


@one_thread_each
def measure(case: Case) -> Findings:
    """The findings on one case; the same case gives the same findings."""
    drawn = case.drawn()
    evidence = Evidence.of(drawn.subject.read(drawn.prompt), drawn.prompt)
    if not evidence.finite:
        return Findings.of((), evidence)
    around = Setting.around(evidence.prompt, drawn.kernel, drawn.ridge)
    fits = fit_all(evidence, candidates(evidence.prompt, around), around, MOST_STEPS)
    return Findings.of(fits, evidence)


class Store:
    """Findings by case, a file for each; a file is there whole or not at all."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)

    def path(self, case: Case) -> Path:
        text = json.dumps({"method": METHOD, **case.to_dict()}, sort_keys=True)
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    def __contains__(self, case: Case) -> bool:
        return self.path(case).exists()

    def put(self, case: Case, findings: Findings) -> None:
        values = {"case": case.to_dict(), "findings": asdict(findings)}
        write_whole(self.path(case), json.dumps(values).encode())

    def get(self, case: Case) -> Findings:
        return findings_from(json.loads(self.path(case).read_text())["findings"])


def findings_from(values: dict[str, Any]) -> Findings:
    accounts = tuple(
        Account(**one | {"inside": tuple(one["inside"]), "away": tuple(one["away"])})
        for one in values["accounts"]
    )
    return Findings(**values | {"accounts": accounts, "parts": tuple(values["parts"])})


def measure_and_keep(case: Case, directory: str) -> None:
    Store(directory).put(case, measure(case))


def measure_all(
    cases: Sequence[Case],
    store: Store,
    workers: int = 1,
    progress: Callable[[Iterable[Case]], Iterable[Case]] = iter,
) -> None:
    """Measures the cases that the store does not have. What is interrupted costs what was under way."""
    missing = [case for case in cases if case not in store]
    if workers == 1:
        for case in progress(missing):
            store.put(case, measure(case))
        return
    directory = str(store.directory)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(measure_and_keep, case, directory): case for case in missing}

        def finished() -> Iterable[Case]:
            waiting = set(jobs)
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for job in done:
                    job.result()
                    yield jobs[job]

        for _ in progress(finished()):
            pass
