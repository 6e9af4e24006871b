"""The page of the dot-product study: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from math import nan

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, SHADES, SOLVER, line, plain, spread

PROSE = Prose("dot_products")


def matvec_section(finding: f.Finding) -> f.Section:
    s = finding.settings
    lines, rows, kept = [], [], 0
    for heads, color in zip(s["heads"], SHADES, strict=False):
        name = f"{heads} heads"
        lines.append(line(name, s["epsilons"], finding.select("mat-vec error", name), color))
        fitted, points, round_off, best, least = (
            finding.get(m, name) for m in ("slope", "points", "round-off", "best ε", "least error")
        )
        kept += abs(fitted.value - heads) <= 0.3
        rows.append([
            name, spread(fitted), plain(points.value), spread(round_off), f"{best.value:.2g}",
            spread(least),
        ])  # fmt: skip
    most = f"{s['heads'][-1]} heads"
    factor = finding.get("round-off", most).value
    floor = [factor * 2.0**-52 / e for e in s["epsilons"]]
    lines.append(f.Line(f"{factor:.1f}·u/ε", s["epsilons"], floor, bound=True, color=CONTROL))
    figure = f.Figure.of(lines, f.Axes("ε", "relative error of K v", log_x=True))
    table = f.Table(["", "slope", "points", "round-off ÷ (u/ε)", "best ε", "least error"], rows)
    least = finding.get("least error", most)
    words = {"s": s, "kept": kept, "count": len(rows), "most": most, "least": least}
    return PROSE.section("matvec", figure, table, **words)


def drifts(finding: f.Finding, ridge: float) -> list[f.Number]:
    """One number for each model that ran CG at that ridge."""
    return [n for n in finding.numbers if n.measure == "drift" and n.setting["ridge"] == ridge]


def cg_figure(finding: f.Finding, ridge: float) -> f.Figure:
    steps = range(finding.settings["steps"] + 1)

    scale = finding.get("scale", "prompts", ridge=ridge).value
    exact, bound = (finding.select(m, "exact CG", ridge=ridge) for m in ("error", "bound"))
    lines = [
        line("exact CG", steps, exact, SOLVER, bars=False, mode="lines"),
        line("bound for exact CG", steps, bound, CONTROL, bars=False, bound=True),
    ]
    for drift, color in zip(drifts(finding, ridge), SHADES, strict=False):
        method = drift.method
        errors = finding.select("error", method, ridge=ridge)
        lines.append(line(method, steps, errors, color, mode="lines"))
        largest = finding.get("largest drift", method, ridge=ridge).value
        each = largest * float(drift.setting["mat-vec error"]) * scale
        second = [each * t or nan for t in steps]
        lines.append(f.Line(f"C·t·ε_mv·scale: {method}", steps, second, bound=True, color=color))
    axes = f.Axes("CG step", "|f_t − f*|, worst query", y_limits=(1e-16, 30.0))
    return f.Figure.of(lines, axes)


def cg_section(finding: f.Finding) -> f.Section:
    s = finding.settings
    ridge = s["ridge"]
    rows = []
    for other in (ridge, *s["ridges"]):
        condition = finding.get("condition", "prompts", ridge=other)
        for drift in drifts(finding, other):
            constant, most, needed = (
                finding.get(m, drift.method, ridge=other)
                for m in ("largest drift", "largest constant", "constant")
            )
            rows.append([
                f"λ = {other:g}, {drift.method}", spread(condition),
                plain(float(drift.setting["mat-vec error"])), spread(drift), plain(constant.value),
                spread(needed), plain(most.value),
            ])  # fmt: skip
    here = drifts(finding, ridge)
    sizes = [n.value for n in here]
    largest = max(finding.get("largest drift", n.method, ridge=ridge).value for n in here)
    errors = [float(n.setting["mat-vec error"]) for n in here]
    elsewhere = dict(zip(("heads", "epsilon"), s["elsewhere"], strict=True))
    same = [
        (n, finding.get("condition", "prompts", ridge=other).value)
        for other in sorted((ridge, *s["ridges"]), reverse=True)
        for n in drifts(finding, other)
        if elsewhere.items() <= n.setting.items()
    ]
    covered = sum(n.value == 0 for n in finding.numbers if n.measure == "largest constant")
    header = [
        "model", "κ", "ε_mv", "C: model − exact CG", "largest", "C beyond 2ρ^t·scale", "largest",
    ]  # fmt: skip
    return PROSE.section(
        "cg", cg_figure(finding, ridge), f.Table(header, rows),
        s=s, sizes=sizes, largest=largest, errors=errors, same=same, covered=covered, count=len(rows),
    )  # fmt: skip


def dot_products_page(finding: f.Finding) -> f.Page:
    sections = [matvec_section(finding), cg_section(finding)]
    matvec, cg = (section.tables[0] for section in sections)
    terminal = {sections[0].title: matvec, sections[1].title: cg.columns(range(5))}
    return PROSE.page(sections, finding, terminal)
