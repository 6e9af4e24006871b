"""The page of the smoother study: every sentence about an outcome is worked out from the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import line

PROSE = Prose("smoother")

KERNELS = ("exponential", "gaussian")
SMOOTHER, KRR, HEAD = "smoother", "krr", "softmax head"
BEST, TWO_HEADS = "smoother, best τ", "two heads, best τ and gain"
MATCHED, MEAN, NEAREST = "krr, matched", "mean of y", "nearest support"


LOOKS = {
    SMOOTHER: ("smoother", "#2f5fd0", "solid", 3.0),
    KRR: ("KRR", "#e07b39", "solid", 3.0),
    BEST: ("smoother, best τ in hindsight", "#7fa3f0", "dash", 2.5),
    TWO_HEADS: ("two heads, best τ and gain in hindsight", "#2a9d8f", "dash", 2.5),
    MATCHED: ("KRR with the targets' τ and λ", "#b5541b", "dot", 2.5),
    MEAN: ("mean of y", "#8a93a3", "dot", 2.5),
    NEAREST: ("nearest support", "#8e5bb5", "dot", 2.5),
}
"""Label, colour, dash and width. What is compared is solid, controls are dashed or dotted."""

USELESS, FINE, AGREE = 0.95, 0.5, 0.9
"""An error of at least 0.95 times the mean's is useless; rank correlations of at least 0.5 with the
truth look fine, and of at least 0.9 with KRR look like KRR."""


@dataclass(frozen=True)
class Sweep:
    """How one sweep is shown."""

    axis: str
    controls: tuple[str, ...] = (BEST, TWO_HEADS, MEAN)
    extra: tuple[str, str] = ("supports in use", SMOOTHER)
    """The measure that explains the sweep, for the table."""
    highest: float = 1.6
    """The largest error that is drawn; some sweeps have errors far above that of the mean."""


CONDITION = ("log10 condition", KRR)
SWEEPS = {
    "dimension": Sweep("features p"),
    "temperature": Sweep("temperature τ", (BEST, MATCHED, MEAN, NEAREST), highest=5.0),
    "ridge": Sweep("ridge λ", (BEST, MATCHED, MEAN), CONDITION, highest=5.0),
    "copies": Sweep("repeated supports", extra=CONDITION),
}


def show(number: f.Number) -> str:
    if number.mean is None or number.low is None or number.high is None:
        return "none"
    half = max(number.high - number.mean, number.mean - number.low)
    if abs(number.mean) >= 100 or 0 < abs(number.mean) < 0.005:
        return f"{number.mean:.1e} ±{half:.0e}"
    return f"{number.mean:.2f} ±{half:.2f}"


def above(a: f.Number, b: f.Number) -> bool:
    """Whether a's interval lies above b's."""
    return a.ends[0] > b.ends[1]


@dataclass(frozen=True)
class Comparison:
    """One setting: who has the lower error, and which rank correlations mislead."""

    finding: f.Finding
    sweep: str
    kernel: str
    value: float

    def get(self, measure: str, method: str) -> f.Number:
        at: f.Setting = {"sweep": self.sweep, "kernel": self.kernel, "value": self.value}
        return self.finding.get(measure, method, **at)

    @property
    def label(self) -> str:
        return f"{self.kernel[:5]}.\u00a0{self.value:g}"

    def lower(self, method: str = SMOOTHER) -> str:
        """Who has the lower error; neither, if the interval of the paired difference holds 0."""
        low, high = self.get("excess", method).ends
        return "KRR" if low > 0 else "smoother" if high < 0 else "neither"

    def silent(self, method: str) -> bool:
        """Whether the error is useless while the rank correlation looks fine."""
        useless = self.get("error", method).value >= USELESS * self.get("error", MEAN).value
        return useless and self.get("rank", method).value >= FINE

    def alike(self) -> bool:
        """Whether the smoother ranks queries as KRR does, and yet has another error."""
        return self.get("agreement", SMOOTHER).value >= AGREE and self.lower() != "neither"

    def reversed(self) -> bool:
        """Whether error and rank correlation name different winners, both beyond doubt."""
        smoother, ridge = self.get("rank", SMOOTHER), self.get("rank", KRR)
        other = {"smoother": above(ridge, smoother), "KRR": above(smoother, ridge)}
        return other.get(self.lower(), False)

    def tuned_apart(self) -> bool:
        """Whether the temperature of least error has a worse rank correlation, beyond doubt."""
        return above(self.get("rank", SMOOTHER), self.get("rank", BEST))

    def misleading(self) -> str:
        silent = [LOOKS[name][0] for name in (SMOOTHER, KRR) if self.silent(name)]
        words = {
            f"silent: {', '.join(silent)}": silent,
            "ranks like KRR": self.alike(),
            "other winner": self.reversed(),
        }
        return "; ".join(word for word, holds in words.items() if holds)

    def row(self, shown: Sequence[tuple[str, str]]) -> list[str]:
        """The setting, some numbers, and the verdicts."""
        numbers = [show(self.get(measure, method)) for measure, method in shown]
        return [self.label, *numbers, self.lower(), self.misleading()]


SHORT = [("error", SMOOTHER), ("error", KRR), ("rank", SMOOTHER), ("rank", KRR)]
SHORT_HEADER = ["setting", "error: smoother", "KRR", "rank: smoother", "KRR"]
FULL = [
    *(("error", method) for method in (SMOOTHER, BEST, TWO_HEADS, KRR)),
    *(("rank", method) for method in (SMOOTHER, BEST, KRR)),
    ("agreement", SMOOTHER),
]
HEADER = [
    "kernel, setting", "error: smoother", "best τ", "two heads", "KRR",
    "rank: smoother", "best τ", "KRR", "smoother ~ KRR",
]  # fmt: skip
VERDICTS = ["lower error", "rank misleads"]


def comparisons(finding: f.Finding, sweep: str) -> list[Comparison]:
    values = finding.settings["sweeps"][sweep]
    return [Comparison(finding, sweep, kernel, value) for kernel in KERNELS for value in values]


def sweep_section(finding: f.Finding, sweep: str) -> f.Section:
    look, compared = SWEEPS[sweep], comparisons(finding, sweep)

    def panel(
        kernel: str, title: str, measure: str, methods: Sequence[str], axes: f.Axes
    ) -> f.Panel:
        among = [c for c in compared if c.kernel == kernel]
        # Settings are steps of a plan, not points of a continuum: as names they are spaced evenly.
        x = [f"{c.value:g}" for c in among]
        lines = []
        for method in methods:
            label, color, dash, width = LOOKS[method]
            numbers = [c.get(measure, method) for c in among]
            lines.append(line(label, x, numbers, color, gaps=False, dash=dash, width=width))
        return f.Panel(title, lines, axes)

    methods = (*look.controls, SMOOTHER, KRR)
    ranked = [m for m in methods if m != MEAN]  # a constant has no ranks
    limits = (0.2, look.highest)
    errors = f.Axes(look.axis, "error ÷ spread of target", y_limits=limits, clip=True)
    ranks = f.Axes(look.axis, "rank correlation", log_y=False, y_limits=(0.0, 1.0), clip=True)
    above = [panel(k, f"{k} kernel", "error", methods, errors) for k in KERNELS]
    below = [panel(k, "", "rank", ranked, ranks) for k in KERNELS]
    rows = [c.row([*FULL, look.extra]) for c in compared]
    table = f.Table([*HEADER, look.extra[0], *VERDICTS], rows)
    return PROSE.section(sweep, f.Figure([above, below]), table, **verdict(compared))


def listed(compared: Sequence[Comparison]) -> str:
    by_kernel = {k: [f"{c.value:g}" for c in compared if c.kernel == k] for k in KERNELS}
    parts = [f"{kernel} {', '.join(values)}" for kernel, values in by_kernel.items() if values]
    return " and ".join(parts) or "none"


def verdict(compared: Sequence[Comparison]) -> dict[str, int | str]:
    """What the prose says about the settings of one sweep."""
    named = {
        "lower": listed([c for c in compared if c.lower() == "smoother"]),
        "neither": listed([c for c in compared if c.lower() == "neither"]),
        "silent_smoother": listed([c for c in compared if c.silent(SMOOTHER)]),
        "silent_krr": listed([c for c in compared if c.silent(KRR)]),
        "alike": listed([c for c in compared if c.alike()]),
        "reversed": listed([c for c in compared if c.reversed()]),
        "tuned_apart": listed([c for c in compared if c.tuned_apart()]),
    }
    wins = sum(c.lower() == "KRR" for c in compared)
    return {"wins": wins, "count": len(compared), **named}


def head_section(finding: f.Finding) -> f.Section:
    apart, negative = finding.get("head", HEAD).value, finding.get("negative weights", KRR)
    head, mean = (finding.get("distance", method) for method in (HEAD, MEAN))
    steps = [n for n in finding.numbers if n.measure == "distance" and "step" in n.setting]
    nearer = [f"{n.setting['step']:g}" for n in steps if n.value < head.value]
    numbers = [mean, head, *steps]
    header = ["distance to KRR", *(n.method for n in numbers)]
    table = f.Table(header, [["RMSE ÷ spread", *map(show, numbers)]])
    return PROSE.section("head", table, apart=apart, negative=negative, nearer=nearer)


def summary_section(finding: f.Finding) -> f.Section:
    rows = []
    for sweep in SWEEPS:
        compared = comparisons(finding, sweep)
        counts = [sum(c.lower() == who for c in compared) for who in ("KRR", "neither", "smoother")]
        tuned = [sum(c.lower(method) != "KRR" for c in compared) for method in (BEST, TWO_HEADS)]
        silent = [sum(c.silent(method) for c in compared) for method in (SMOOTHER, KRR)]
        alike = sum(c.alike() for c in compared)
        rows.append([sweep, *map(str, (len(compared), *counts, *tuned, *silent, alike))])
    header = [
        "sweep", "settings", "lower error: KRR", "neither", "smoother",
        "best τ not worse than KRR", "two heads not worse", "silent: smoother", "silent: KRR",
        "ranks like KRR",
    ]  # fmt: skip
    return PROSE.section("summary", f.Table(header, rows), useless=USELESS, fine=FINE, agree=AGREE)


def smoother_page(finding: f.Finding) -> f.Page:
    summary = summary_section(finding)
    sections = [head_section(finding), summary]
    (counts,) = summary.tables
    controls = (3, 5, 6)  # columns for which a terminal has no room
    narrow = counts.columns(c for c in range(len(counts.header)) if c not in controls)
    terminal = {summary.title: narrow}
    for sweep, look in SWEEPS.items():
        sections.append(sweep_section(finding, sweep))
        rows = [c.row(SHORT) for c in comparisons(finding, sweep)]
        terminal[f"{sections[-1].title}: {look.axis}"] = f.Table([*SHORT_HEADER, *VERDICTS], rows)
    return PROSE.page(sections, finding, terminal)
