"""The page of an evaluation: every sentence about an outcome is worked out from the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan, log10, nan
from typing import Any

from ridgeformer.experiments.evaluation.methods import BEST, MODEL, UNAWARE
from ridgeformer.experiments.report import (
    Axis,
    Line,
    Paragraph,
    Plot,
    Section,
    Table,
    bar_figure,
    line_figure,
)
from ridgeformer.experiments.studies.base import Findings, Number, Page
from ridgeformer.experiments.studies.wording import plain, shown, spread
from ridgeformer.experiments.theorems.base import ROUND_OFF
from ridgeformer.experiments.theorems.page import axis

COLORS = (
    "#2a9d8f", "#8e5bb5", "#c2477f", "#b8860b", "#6b7a8f", "#7a9a01", "#1b7fa8", "#d46fb1",
    "#a0522d", "#4b5d16", "#9aa5b8", "#5f4b8b",
)  # fmt: skip
LOOKS = {
    MODEL: ("#2f5fd0", "solid"), BEST: ("#e07b39", "dash"), UNAWARE: ("#b5541b", "dot"),
}  # fmt: skip
EXCESS = "excess risk"
FLOOR, CEILING, LOWEST = 1e-5, 100.0, -0.25
"""An excess below FLOOR is drawn there; one above CEILING, or an R² below LOWEST, is not drawn."""
SHIFTS = {
    "condition number": "largest condition number of the inputs' covariance",
    "noise": "noise",
    "lengthscale": "lengthscale",
    "input scale": "scale of the inputs",
}
SCORES = ("mse", "above the model", "excess", "R²", "prompts per second")
HEADER = ["method", "mean squared error", "above the model", "excess risk", "R² with the best", "prompts/s"]  # fmt: skip


def page_of(findings: Findings) -> Page:
    views = [View(findings, label) for label in findings.settings["tasks"]]
    sections = [section for view in views for section in view.sections()]
    refusals = findings.settings["refusals"]
    if refusals:
        sections.append(refused(findings))
    return Page(
        f"Evaluation of {findings.settings['model'].split(':')[0]}",
        findings.settings["model"].split(": ", 1)[1].capitalize()
        + f". {findings.prompts} new prompts per setting; bars are 95 % intervals over prompts, the same "
        "resamples for all methods.",
        sections,
        f"Seed {findings.seed}. An excess below 10<sup>−5</sup> is drawn there; one above 100, an error above ten times "
        "the best predictor's largest, and an R² below −0.25 leave their figures; "
        "all numbers are in <code>results.json</code>.",
        {f"{view.task}, {view.own} supports": view.narrow() for view in views},
    )


def refused(findings: Findings) -> Section:
    labels = findings.settings["methods"]
    rows = [
        [labels[r["method"]], f"{r['supports']}", r.get("shift", ""),
         plain(r["value"]) if "value" in r else "", r["reason"]]
        for r in findings.settings["refusals"]
    ]  # fmt: skip
    return Section(
        "What was refused",
        "Settings in which a method gives no prediction, with its reason; the figures have gaps there.",
        [Table(["method", "supports", "shift", "value", "reason"], rows, words=5)],
    )


@dataclass(frozen=True)
class View:
    """The part of the findings that is about one task."""

    findings: Findings
    task: str

    @property
    def own(self) -> int:
        return int(self.findings.settings["tasks"][self.task]["supports"])

    @property
    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.findings.settings["methods"]
        return found

    def look(self, method: str) -> tuple[str, str]:
        others = [m for m in self.labels if m not in LOOKS]
        return LOOKS.get(method) or (COLORS[others.index(method) % len(COLORS)], "solid")

    def numbers(self, measure: str, method: str) -> list[Number]:
        among = self.findings.by_kind.get((measure, method), [])
        return [n for n in among if n.setting["task"] == self.task]

    def at_own(self, measure: str, method: str) -> Number | None:
        among = self.numbers(measure, method)
        return next((n for n in among if n.setting["supports"] == self.own), None)

    def sections(self) -> list[Section]:
        name = f" ({self.task})" if len(self.findings.settings["tasks"]) > 1 else ""
        parts = [
            self.summary(),
            self.supports_section(),
            self.excess_section(),
            *self.condition_section(),
            self.agreement_section(),
            *self.shift_sections(),
            self.speed_section(),
        ]
        return [replace(part, title=part.title + name) for part in parts]

    def table(self, measures: list[str], header: list[str]) -> Table:
        rows = []
        for method in self.labels:
            cells = [self.at_own(measure, method) for measure in measures]
            if any(cells):
                said = ["" if n is None else cell_of(n) for n in cells]
                rows.append([self.labels[method], *said])
        return Table(header, rows)

    def narrow(self) -> Table:
        """For a terminal of 80 columns: names for labels, and one interval."""
        rows = []
        for method in self.labels:
            found = {measure: self.at_own(measure, method) for measure in SCORES}
            if found["mse"] is not None:
                cells = [
                    "" if n is None or n.mean is None else spread(n) if m == "excess" else brief(n)
                    for m, n in found.items()
                    if m != "above the model"
                ]
                rows.append([method, *cells])
        return Table(["method", "error", "excess risk", "R²", "prompts/s"], rows)

    def summary(self) -> Section:
        excess, task = self.at_own("excess", MODEL), self.findings.settings["tasks"][self.task]
        text = ", ".join(f"{n} {shown(v)}" for n, v in task.items() if n != "name")
        sentence = "The model gives no prediction."
        if excess is not None:
            sentence = (
                f"With {self.own} supports the model's excess risk is <b>{spread(excess)}</b>, where 0 is the "
                f"{self.labels[BEST]} and 1 is predicting 0."
            )
            if excess.mean is None:
                sentence = "The best predictor explains nothing here, so that no excess is defined."
        return Section(
            f"Task {task['name']}",
            sentence,
            [Paragraph(text, "soft"), self.table(list(SCORES), HEADER), *self.checked()],
        )

    def checked(self) -> list[Paragraph]:
        """Whether what is called best is best, as far as the model's errors can tell."""
        gap, literal = (self.at_own(m, MODEL) for m in ("disagreement", "excess from targets"))
        if gap is None or literal is None or gap.low is None or gap.high is None:
            return []
        verdict = (
            "as it must be for a Bayes predictor"
            if gap.low <= ROUND_OFF and gap.high >= -ROUND_OFF
            else "<b>which does not include 0</b>, as a Bayes predictor should 19 times in 20"
        )
        return [
            Paragraph(
                f"The excess is measured by distance to the best predictor. Against the targets it is "
                f"{spread(literal)}; the difference is {spread(gap)}, {verdict}.",
                "soft",
            )
        ]

    def by_supports(self, measure: str, title: str, highest: float | None = CEILING) -> Any:
        lines, most = [], 0.0
        for method in self.labels:
            numbers = self.numbers(measure, method)
            if numbers:
                x = [float(n.setting["supports"]) for n in numbers]
                lines.append(self.drawn(method, x, numbers))
                most = max(most, *x)
        figure = figure_of(lines, "supports", title, highest)
        trained = self.findings.settings["trained supports"]
        if trained is not None and trained < most:
            figure.add_vline(x=trained, line={"color": "#8a93a3", "dash": "dot"})
            figure.add_annotation(
                x=log10(trained), y=1, yref="paper", text="trained up to here", showarrow=False,
                xanchor="left", yanchor="top", font={"color": "#5b6577", "size": 12},
            )  # fmt: skip
        return figure

    def drawn(self, method: str, x: Sequence[float], numbers: Sequence[Number]) -> Line:
        color, dash = self.look(method)
        y, low, high = (
            [nan if v is None else v for v in (getattr(n, end) for n in numbers)]
            for end in ("mean", "low", "high")
        )
        return Line(self.labels[method], x, y, color, low, high, dash, "lines+markers")

    def supports_section(self) -> Section:
        known = [n.mean or 0.0 for n in self.numbers("mse", BEST)]
        figure = self.by_supports("mse", "mean squared error", 10 * max(known))
        return Section("Error against the number of supports", self.ranking(), [figure])

    def ranking(self) -> str:
        """Which methods are better or worse than the model on the same prompts."""
        groups: dict[str, list[str]] = {"below": [], "above": [], "not distinguishable from": []}
        for method, label in self.labels.items():
            number = self.at_own("above the model", method)
            if method == BEST or number is None or number.low is None or number.high is None:
                continue
            place = "below" if number.low > 0 else "above" if number.high < 0 else None
            groups[place or "not distinguishable from"].append(label)
        said = [f"{how} that of {'; '.join(names)}" for how, names in groups.items() if names]
        if not said:
            return f"The line to compare with is the {self.labels[BEST]}, dashed."
        return f"With {self.own} supports the model's error is {', and '.join(said)}."

    def excess_section(self) -> Section:
        numbers = [n for n in self.numbers("excess", MODEL) if n.mean is not None]
        text = "How far from the best predictor, on the scale from it (0) to predicting 0 (1)."
        if numbers:
            least = min(numbers, key=lambda n: n.mean or 0.0)
            last = numbers[-1]
            text = (
                f"The model is nearest to the {self.labels[BEST]} with k = {least.setting['supports']} supports, by "
                f"an excess of {spread(least)}"
            )
            other = f"; with the most, k = {last.setting['supports']}, it is {spread(last)}"
            text += "." if last is least else f"{other}."
        figure = self.by_supports("excess", EXCESS)
        return Section("Excess risk against the number of supports", text, [figure])

    def condition_section(self) -> list[Section]:
        lines, ends = [], []
        for method in self.labels:
            numbers = self.numbers("excess by condition", method)
            if numbers:
                x = [float(n.setting["middle"]) for n in numbers]
                lines.append(self.drawn(method, x, numbers))
            if numbers and method == MODEL:
                ends = [numbers[0], numbers[-1]]
        if not ends:
            return []
        text = (
            f"From the quarter of the prompts with the smallest cond(ΦᵀΦ + λI) to the one with the largest, the "
            f"model's excess goes from {spread(ends[0])} to {spread(ends[1])}."
        )
        figure = figure_of(lines, "cond(ΦᵀΦ + λI), median of the quarter", EXCESS)
        return [Section("Excess risk against the condition number", text, [figure])]

    def agreement_section(self) -> Section:
        measures = ["squared difference", "correlation", "R²"]
        table = self.table(measures, ["method", *measures])
        number = self.at_own("R²", MODEL)
        text = "How much of the best predictor's variation each method reproduces."
        if number is not None:
            text = (
                f"With {self.own} supports the model's predictions reproduce the {self.labels[BEST]}'s with an R² "
                f"of {spread(number)}; a low error alone would not show whose predictions they are."
            )
        figure = self.by_supports("R²", "R² with the best predictor", None)
        return Section("Agreement with the best predictor", text, [figure, table])

    def shift_sections(self) -> list[Section]:
        kinds = dict.fromkeys(
            str(n.setting["shift"]) for m in self.labels for n in self.numbers("excess under shift", m)
        )  # fmt: skip
        plots = []
        for kind in kinds:
            lines = []
            for method in self.labels:
                among = self.numbers("excess under shift", method)
                numbers = [n for n in among if n.setting["shift"] == kind]
                if numbers:
                    x = [float(n.setting["value"]) for n in numbers]
                    lines.append(self.drawn(method, x, numbers))
            plots.append((kind, lines))
        content: list[Any] = []
        for kind, lines in plots:
            content.append(Paragraph(f"<b>{self.shift_sentence(kind)}</b>", "see"))
            content.append(figure_of(lines, SHIFTS.get(kind, kind), EXCESS))
        return [
            Section(
                "Shifts of the task",
                "Nothing is trained or fitted again: each point is a task that differs in one respect, and the "
                "excess is over that task's own best predictor. The dotted line is what the best predictor of "
                "the task itself would pay for not knowing of the shift.",
                content,
            )
        ]

    def shift_sentence(self, kind: str) -> str:
        def worst(method: str) -> Number | None:
            among = self.numbers("excess under shift", method)
            found = [n for n in among if n.setting["shift"] == kind and n.mean is not None]
            return max(found, key=lambda n: n.mean or 0.0, default=None)

        model, unaware = worst(MODEL), worst(UNAWARE)
        if model is None or unaware is None:
            return f"{kind.capitalize()}: the model gives no prediction."
        return (
            f"{kind.capitalize()}: the model's largest excess is {spread(model)}, at "
            f"{plain(float(model.setting['value']))}; not knowing of the shift costs at most {spread(unaware)}."
        )

    def speed_section(self) -> Section:
        found = [(m, self.at_own("prompts per second", m)) for m in self.labels]
        rates = [(m, n.mean) for m, n in found if n is not None and n.mean is not None]
        bars = [
            Line("prompts per second", [m for m, _ in rates], [r for _, r in rates], LOOKS[MODEL][0])
        ]  # fmt: skip
        heights = [rate for _, rate in rates]
        y = replace(
            axis("prompts per second", heights, True), limits=(min(heights) / 2, max(heights) * 2)
        )
        queries = self.findings.settings["tasks"][self.task]["queries"]
        return Section(
            "Speed",
            f"Measured on this machine (threads: {self.findings.settings['threads']}), with {self.own} supports and "
            f"{queries} queries in a prompt; other machines give other numbers.",
            [bar_figure(bars, Axis(""), y, stacked=False)],
        )


def brief(number: Number) -> str:
    if number.measure == "prompts per second":
        return cell_of(number)
    return "" if number.mean is None else plain(number.mean)


def cell_of(number: Number) -> str:
    if number.measure == "prompts per second" and number.mean is not None:
        return f"{float(f'{number.mean:.2g}'):,.0f}"
    return spread(number)


def figure_of(lines: Sequence[Line], x: str, y: str, most: float | None = CEILING) -> Any:
    """Over a logarithmic axis with a tick at every point, the model on top of all.

    `most` is the highest that is drawn on a logarithmic scale; None for R².
    """
    places = sorted({float(v) for drawn in lines for v in drawn.x})
    places = [p for n, p in enumerate(places) if n == 0 or p > 1.3 * places[n - 1]]
    bottom = Axis(x, log=True, ticks=[float(f"{p:.3g}") for p in places])
    lines = [*lines[1:], lines[0]]
    if most is None:
        figure = line_figure([[Plot("", lines)]], bottom, Axis(y, limits=(LOWEST, 1.05)))
    else:
        lines = [floored(drawn) for drawn in lines]
        heights = [min(v, most) for drawn in lines for v in drawn.y if not isnan(v)] or [1.0]
        limits = (min(heights) / 2, 2 * max(heights))
        scale = replace(axis(y, heights, True), limits=limits)
        figure = line_figure([[Plot("", lines)]], bottom, scale)
    return figure.update_traces(selector={"name": lines[-1].name}, legendrank=1, line_width=4)


def floored(line: Line) -> Line:
    """Nothing below FLOOR, where a logarithmic axis has no use for it; a gap stays a gap."""
    y, low, high = (
        [e if isnan(e) else max(e, FLOOR) for e in v or ()] for v in (line.y, line.low, line.high)
    )
    return replace(line, y=y, low=low, high=high)
