"""The page of the learning-curve study: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, SHADES, SOLVER, line, plain, spread

PROSE = Prose("learning_curve")

RIDGE, NOTHING, BOUND = "exact ridge", "predicting 0", "bound, t = {}"
CG, GD = "cg", "gd"
ROWS = (1, 4, 8, 16, 32, 48)
"""The numbers of pairs in the table."""
AS_GOOD = 0.01
"""An excess of the error below this is called none."""


def after(solver: str, steps: int) -> str:
    """The decoder, as it is called after so many steps."""
    return f"{solver}, {steps} step{'' if steps == 1 else 's'}"


def decoders(finding: f.Finding) -> list[str]:
    steps = finding.settings["steps"]
    return [*(after(CG, t) for t in steps), after(GD, steps[-1])]


def error_section(finding: f.Finding) -> f.Section:
    s, methods = finding.settings, decoders(finding)
    pairs = range(s["pairs"] + 1)
    lines = [
        line(RIDGE, pairs, finding.select("error", RIDGE), SOLVER, bars=False, mode="lines", width=5),
        line(NOTHING, pairs, finding.select("error", NOTHING), CONTROL, bars=False, dash="dot", mode="lines"),
    ]  # fmt: skip
    for method, color in zip(methods, (*SHADES[:4], SHADES[5]), strict=True):
        lines.append(line(method, pairs, finding.select("error", method), color, bars=False))
    axes = f.Axes("pairs before x", "squared error ÷ variance of y")
    rows = [
        [str(n), *(spread(finding.get("error", m, pairs=n)) for m in (*methods, RIDGE))]
        for n in ROWS
        if n <= s["pairs"]
    ]
    table = f.Table(["pairs", *methods, RIDGE], rows)
    last = after(CG, s["steps"][-1])
    worst = max(finding.select("excess", last), key=lambda n: abs(n.value))
    enough = [t for t in s["steps"] if largest_excess(finding, after(CG, t)) < AS_GOOD]
    words = {
        "s": s, "first": finding.get("error", RIDGE, pairs=0), "end": finding.get("error", RIDGE, pairs=s["pairs"]),
        "worst": worst, "last": last, "enough": enough, "as_good": AS_GOOD,
        "other": finding.get("error", after(GD, s["steps"][-1]), pairs=s["pairs"]), "gd": after(GD, s["steps"][-1]),
        "layers": finding.get("layers", CG).value, "parameters": int(finding.get("parameters", CG).value),
    }  # fmt: skip
    return PROSE.section("error", f.Figure.of(lines, axes), table, **words)


def largest_excess(finding: f.Finding, method: str) -> float:
    return max(abs(n.value) for n in finding.select("excess", method))


def distance_section(finding: f.Finding) -> f.Section:
    s = finding.settings
    pairs = range(s["pairs"] + 1)
    lines, rows, below = [], [], 0
    for t, color in zip(s["steps"], SHADES, strict=False):
        name, bound = after(CG, t), finding.select("bound", BOUND.format(t))
        distance = finding.select("distance", name)
        lines.append(line(name, pairs, distance, color))
        lines.append(line(BOUND.format(t), pairs, bound, color, bars=False, bound=True))
        below += sum(d.value <= b.value for d, b in zip(distance, bound, strict=True))
        nearest = max(d.value / b.value for d, b in zip(distance, bound, strict=True) if b.value)
        most = max(distance, key=lambda n: n.value)
        rows.append([
            name, spread(most), plain(float(most.setting["pairs"])),
            plain(finding.get("largest distance", name).value), plain(nearest),
        ])  # fmt: skip
    header = [
        "decoder",
        "largest mean distance",
        "at pairs",
        "largest of any prompt",
        "÷ bound, most",
    ]
    axes = f.Axes("pairs before x", "distance to exact ridge", y_limits=(1e-17, 100.0))
    ended = max(
        finding.get("distance", after(CG, t), pairs=n).value
        for t in s["steps"]
        for n in range(t + 1)
    )
    last = finding.select("distance", after(CG, s["steps"][-1]))
    words = {
        "s": s, "below": below, "count": len(pairs) * len(s["steps"]), "ended": ended,
        "hardest": max(last, key=lambda n: n.value).setting["pairs"],
    }  # fmt: skip
    figure = f.Figure.of(lines, axes)
    return PROSE.section("distance", figure, f.Table(header, rows), **words)


def learning_curve_page(finding: f.Finding) -> f.Page:
    sections = [error_section(finding), distance_section(finding)]
    error, distance = (section.tables[0] for section in sections)
    terminal = {sections[0].title: error.columns((0, 1, 4, 6)), sections[1].title: distance}
    return PROSE.page(sections, finding, terminal)
