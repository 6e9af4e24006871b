"""Calibrates verdicts, prints how often they are wrong, and writes the calibration and its page."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from ridgeformer.experiments.identification.calibrate_page import page_of
from ridgeformer.experiments.identification.calibrating import FAST, FULL, calibrated, cases_of
from ridgeformer.experiments.identification.calibration import FILE, Calibration
from ridgeformer.experiments.identification.measure import measure_all
from ridgeformer.experiments.jobs import HERE, Store, Where, code, going_on
from ridgeformer.experiments.run import Run, check_seed


def calibrate(
    out: str | Path,
    *,
    seed: int = 3,
    fast: bool = False,
    where: Where = HERE,
    store: Store | None = None,
    console: Console | None = None,
) -> Calibration:
    """Measures all cases, those that the store has but once, and writes calibration.json and the page.

    Without a store, results are kept in the directory `tasks` of `out`: the same call goes on from there. The
    models of the seeds before it were looked at while the method was made.
    """
    check_seed(seed, below=32)
    run = Run(out, FILE, console)
    cases = cases_of(FAST if fast else FULL, seed)
    kept = store or Store(Path(out) / "tasks", code())
    with going_on(kept):
        found = measure_all(cases, kept, where, lambda cases: run.track(cases, "measuring models"))
        calibration, judged = calibrated(cases, found, seed)
        page = page_of(calibration, judged, len(cases) - len(judged))
        run.show(page.terminal)
        run.write(page, calibration.to_dict())
    return calibration
