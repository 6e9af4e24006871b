"""The page of a calibration: rates, confusion, what the limits separate, and every error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ridgeformer.analysis.verdict import Limits
from ridgeformer.experiments import finding as f
from ridgeformer.experiments.identification.calibration import Calibration
from ridgeformer.experiments.identification.cases import PROMPTS, WEIGHT_NOISE
from ridgeformer.experiments.identification.verdict_sections import confusion
from ridgeformer.experiments.page import Prose

if TYPE_CHECKING:
    from ridgeformer.experiments.identification.calibrating import Judged

PROSE = Prose("calibrate")
FLOOR = 1e-9
MEASURES = ("interior", "unexplained", "systematic")


def page_of(calibration: Calibration, judged: Sequence[Judged], known: int) -> f.Page:
    rates = rates_table(calibration)
    reached = [f"{name} up to {spread:.1g}" for name, spread in calibration.resolution.items()]
    finding = f.Finding("calibrate", calibration.seed, PROMPTS)
    wrong = [one for one in judged if not one.right]
    sections = [
        PROSE.section(
            "rates",
            rates,
            low=WEIGHT_NOISE[0],
            high=WEIGHT_NOISE[1],
            resolution="; ".join(reached) or "none",
        ),
        PROSE.section(
            "confusion",
            *(confusion(name, counts) for name, counts in calibration.confusion.items()),
        ),
        PROSE.section("limits", separation(calibration.limits, judged), limits=calibration.limits),
        PROSE.section("wrong", *([errors_table(wrong)] if wrong else []), errors=len(wrong)),
    ]
    return PROSE.page(
        sections,
        finding,
        {"Errors on models that were held out": rates},
        known=known,
        held_out=len(judged),
        method=calibration.method,
    )


def rates_table(calibration: Calibration) -> f.Table:
    rows = [
        [
            name,
            str(rate.wrong),
            str(rate.of),
            f"{100 * rate.mean:.2g} %",
            f"{100 * rate.ends[0]:.2g}–{100 * rate.ends[1]:.2g} %",
        ]
        for name, rate in calibration.error_rates.items()
    ]
    return f.Table(["error", "wrong", "of", "rate", "95 %"], rows)


def separation(limits: Limits, judged: Sequence[Judged]) -> f.Figure:
    """The three measures of every model, with the limit of each."""
    panels = []
    for measure in MEASURES:
        lines = []
        for group in dict.fromkeys(group_of(one) for one in judged):
            shown = [one.account for one in judged if group_of(one) == group and one.account]
            values = [max(getattr(account, measure), FLOOR) for account in shown]
            lines.append(f.Line(group, [group] * len(values), values, mode="markers"))
        groups = [line.name for line in lines]
        limit = [getattr(limits, measure)] * len(groups)
        lines.append(f.Line("limit", groups, limit, bound=True))
        panels.append(f.Panel(measure, lines, f.Axes("", "", y_limits=(FLOOR, 10.0), clip=True)))
    return f.Figure([panels])


def group_of(one: Judged) -> str:
    return one.case.answer if one.case.is_control else one.case.treatment


def errors_table(wrong: Sequence[Judged]) -> f.Table:
    rows = []
    for one in wrong:
        numbers = one.account
        shown = ["–"] * 3 if numbers is None else [f"{getattr(numbers, m):.2g}" for m in MEASURES]
        said = ", ".join(one.verdict.names) or one.verdict.kind
        rows.append([one.case.answer, one.case.treatment, str(one.case.seed), said, *shown])
    return f.Table(["truth", "treatment", "seed", "verdict", *MEASURES], rows, words=4)
