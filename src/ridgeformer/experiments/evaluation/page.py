"""The page of an evaluation: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.figures import PALETTE
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import floored, line, plain, shown, spread

PROSE = Prose("evaluation")
MODEL, BEST, UNAWARE = "model", "best", "unaware"
DRAWN = 5
"""As many other methods are drawn before readers choose: those with the smallest errors."""
LOOKS: dict[str, dict[str, Any]] = {
    MODEL: {"color": "#2f5fd0", "dash": "solid", "width": 4.0},
    BEST: {"color": "#e07b39", "dash": "dash"},
    UNAWARE: {"color": "#b5541b", "dash": "dot"},
}
EXCESS = "excess risk"
FLOOR, CEILING, LOWEST = 1e-5, 100.0, -0.25
"""An excess below FLOOR is drawn there; one above CEILING, or an R² below LOWEST, is not drawn."""
SHIFTS = {
    "condition number": "largest condition number of the inputs",
    "noise": "noise",
    "lengthscale": "lengthscale",
    "input scale": "scale of the inputs",
}
RATE = "prompts per second"
COLUMNS = {
    "mse": "mean squared error",
    "above the model": "above the model",
    "excess": "excess risk",
    "R²": "R² with the best",
    RATE: "prompts/s",
}
NARROW = {"mse": "error", "excess": "excess risk", "R²": "R²", RATE: "prompts/s"}
"""The columns for a terminal of 80 characters."""


def page_of(finding: f.Finding) -> f.Page:
    views = [View(finding, label) for label in finding.settings["tasks"]]
    sections = [section for view in views for section in view.sections()]
    if finding.settings["refusals"]:
        sections.append(refused(finding))
    name, _, description = finding.settings["model"].partition(": ")
    terminal = {
        f"{view.task}, {view.own} supports": view.table(NARROW, narrow=True) for view in views
    }
    return PROSE.page(sections, finding, terminal, name=name, description=description)


def refused(finding: f.Finding) -> f.Section:
    labels = finding.settings["methods"]
    rows = [
        [labels[r["method"]], f"{r['supports']}", r.get("shift", ""),
         plain(r["value"]) if "value" in r else "", r["reason"]]
        for r in finding.settings["refusals"]
    ]  # fmt: skip
    table = f.Table(["method", "supports", "shift", "value", "reason"], rows, words=5)
    return PROSE.section("refused", table)


@dataclass(frozen=True)
class View:
    """The part of a finding that is about one task."""

    finding: f.Finding
    task: str

    @property
    def own(self) -> int:
        """The task's own number of supports."""
        return int(self.finding.settings["tasks"][self.task]["supports"])

    @property
    def labels(self) -> dict[str, str]:
        """What each method is called."""
        return dict(self.finding.settings["methods"])

    @property
    def best(self) -> str:
        return self.labels[BEST]

    def numbers(self, measure: str, method: str, **setting: float | str) -> list[f.Number]:
        return self.finding.select(measure, method, task=self.task, **setting)

    def at_own(self, measure: str, method: str) -> f.Number | None:
        return next(iter(self.numbers(measure, method, supports=self.own)), None)

    def sections(self) -> list[f.Section]:
        name = f" ({self.task})" if len(self.finding.settings["tasks"]) > 1 else ""
        parts = [
            self.summary(),
            self.by_supports(),
            self.excess(),
            *self.condition(),
            self.agreement(),
            self.shifts(),
            self.speed(),
        ]
        return [replace(part, title=part.title + name) for part in parts]

    def table(self, columns: dict[str, str], narrow: bool = False) -> f.Table:
        """The numbers of every method; names stand instead of labels where the table is narrow."""
        rows = []
        for method, label in self.labels.items():
            numbers = [self.at_own(measure, method) for measure in columns]
            if any(numbers):
                cells = [cell_of(number, narrow) for number in numbers]
                rows.append([method if narrow else label, *cells])
        return f.Table(["method", *columns.values()], rows)

    def figure(
        self, measure: str, x: str, axes: f.Axes, highest: float | None = CEILING, **setting: str
    ) -> f.Figure:
        """Every method's numbers over x, with a tick at every point and the model on top of all.

        `highest` is the largest value drawn on a logarithmic scale; None is for R².
        """
        lines = []
        for method, label in self.labels.items():
            numbers = self.numbers(measure, method, **setting)
            places = [float(n.setting[x]) for n in numbers]
            if numbers:
                lines.append(line(label, places, numbers, gaps=False, **self.look(method)))
        lines = [*lines[1:], lines[0]]
        places = sorted({float(v) for drawn in lines for v in drawn.x})
        ticks = [p for n, p in enumerate(places) if n == 0 or p > 1.3 * places[n - 1]]
        axes = replace(axes, log_x=True, x_ticks=[float(f"{p:.3g}") for p in ticks])
        if highest is None:
            axes = replace(axes, log_y=False, y_limits=(LOWEST, 1.05))
        else:
            lines = [floored(drawn, FLOOR) for drawn in lines]
            heights = [min(v, highest) for drawn in lines for v in drawn.y if not isnan(v)] or [1.0]
            axes = replace(axes, y_limits=(min(heights) / 2, 2 * max(heights)))
        trained = self.finding.settings["trained supports"]
        beyond = x == "supports" and trained is not None and trained < places[-1]
        return f.Figure.of(lines, axes, guide=(trained, "trained up to here") if beyond else None)

    def look(self, method: str) -> dict[str, Any]:
        if method in LOOKS:
            return LOOKS[method]
        others = [m for m in self.labels if m not in LOOKS]
        color = PALETTE[(2 + others.index(method)) % len(PALETTE)]
        return {"color": color, "hidden": method not in self.nearest(others)}

    def nearest(self, others: list[str]) -> list[str]:
        """The methods with the smallest errors at the task's own number of supports."""
        errors = {m: self.at_own("mse", m) for m in others}
        known = {m: n.mean for m, n in errors.items() if n is not None and n.mean is not None}
        return sorted(known, key=known.__getitem__)[:DRAWN]

    def summary(self) -> f.Section:
        excess, task = self.at_own("excess", MODEL), self.finding.settings["tasks"][self.task]
        settings = {n.replace("_", " "): shown(v) for n, v in task.items() if n != "name"}
        about = PROSE.text("settings", settings={n: v for n, v in settings.items() if v})
        words = {"name": task["name"], "excess": excess, "own": self.own, "best": self.best}
        table = self.table(COLUMNS)
        return PROSE.section("summary", f.Paragraph(about, "soft"), table, *self.checked(), **words)

    def checked(self) -> Iterable[f.Paragraph]:
        """Whether what is called best is best, as far as the model's errors can tell."""
        gap, literal = (self.at_own(m, MODEL) for m in ("disagreement", "excess from targets"))
        if gap is not None and literal is not None and gap.mean is not None:
            zero = gap.ends[0] <= f.ROUND_OFF and gap.ends[1] >= -f.ROUND_OFF
            text = PROSE.text("checked", gap=gap, literal=literal, includes_zero=zero)
            yield f.Paragraph(text, "soft")

    def by_supports(self) -> f.Section:
        """Which methods are better or worse than the model on the same prompts."""
        groups: dict[str, list[str]] = {"below": [], "above": [], "not distinguishable from": []}
        for method, label in self.labels.items():
            number = self.at_own("above the model", method)
            if method == BEST or number is None or number.mean is None:
                continue
            low, high = number.ends
            place = "below" if low > 0 else "above" if high < 0 else "not distinguishable from"
            groups[place].append(label)
        said = [f"{how} that of {'; '.join(names)}" for how, names in groups.items() if names]
        known = [n.mean or 0.0 for n in self.numbers("mse", BEST)]
        axes = f.Axes("supports", "mean squared error")
        figure = self.figure("mse", "supports", axes, 10 * max(known))
        return PROSE.section("supports", figure, said=said, own=self.own, best=self.best)

    def excess(self) -> f.Section:
        numbers = [n for n in self.numbers("excess", MODEL) if n.mean is not None]
        least = min(numbers, key=lambda n: n.value, default=None)
        figure = self.figure("excess", "supports", f.Axes("supports", EXCESS))
        return PROSE.section("excess", figure, numbers=numbers, least=least, best=self.best)

    def condition(self) -> Iterable[f.Section]:
        numbers = self.numbers("excess by condition", MODEL)
        if numbers:
            axes = f.Axes("cond(ΦᵀΦ + λI), median of the quarter", EXCESS)
            figure = self.figure("excess by condition", "middle", axes)
            yield PROSE.section("condition", figure, numbers=numbers)

    def agreement(self) -> f.Section:
        number = self.at_own("R²", MODEL)
        figure = self.figure(
            "R²", "supports", f.Axes("supports", "R² with the best predictor"), None
        )
        table = self.table({m: m for m in ("squared difference", "correlation", "R²")})
        return PROSE.section(
            "agreement", figure, table, number=number, own=self.own, best=self.best
        )

    def shifts(self) -> f.Section:
        content: list[f.Block] = []
        every = (n for m in self.labels for n in self.numbers("excess under shift", m))
        for kind in dict.fromkeys(str(n.setting["shift"]) for n in every):
            model, unaware = (self.worst_shift(m, kind) for m in (MODEL, UNAWARE))
            text = PROSE.text("shift", kind=kind, model=model, unaware=unaware)
            axes = f.Axes(SHIFTS.get(kind, kind), EXCESS)
            figure = self.figure("excess under shift", "value", axes, shift=kind)
            content += [f.Paragraph(text, "see"), figure]
        return PROSE.section("shifts", *content)

    def worst_shift(self, method: str, kind: str) -> f.Number | None:
        among = self.numbers("excess under shift", method, shift=kind)
        return max((n for n in among if n.mean is not None), key=lambda n: n.value, default=None)

    def speed(self) -> f.Section:
        measured = {m: self.at_own(RATE, m) for m in self.labels}
        rates = {m: n.value for m, n in measured.items() if n is not None and n.mean is not None}
        drawn = f.Line(RATE, list(rates), list(rates.values()), color=LOOKS[MODEL]["color"])
        limits = (min(rates.values()) / 2, max(rates.values()) * 2)
        axes = f.Axes("", RATE, bars="beside", y_limits=limits)
        queries = self.finding.settings["tasks"][self.task]["queries"]
        words = {"own": self.own, "queries": queries, "threads": self.finding.settings["threads"]}
        return PROSE.section("speed", f.Figure.of([drawn], axes), **words)


def cell_of(number: f.Number | None, narrow: bool) -> str:
    """A number for a table: rates with two digits, others with an interval where there is room."""
    if number is None or (narrow and number.mean is None):
        return ""
    if number.measure == RATE and number.mean is not None:
        return f"{float(f'{number.mean:.2g}'):,.0f}"
    return plain(number.value) if narrow and number.measure != "excess" else spread(number)
