"""The page of the dot-product study: every sentence about an outcome is worked out from the findings."""

from __future__ import annotations

from ridgeformer.experiments.report import Axis, Line, Plot, Section, Table, line_figure
from ridgeformer.experiments.studies.base import Findings, Number, Page
from ridgeformer.experiments.studies.wording import (
    CONTROL,
    SHADES,
    SOLVER,
    line,
    plain,
    size,
    spread,
)

ERRORS, STEPS = "Error of one mat-vec", "CG on dot products from heads"


def matvec_section(findings: Findings) -> Section:
    s = findings.settings
    lines, rows, kept = [], [], 0
    for heads, color in zip(s["heads"], SHADES, strict=False):
        name = f"{heads} heads"
        numbers = [
            findings.get("mat-vec error", name, heads=heads, epsilon=e) for e in s["epsilons"]
        ]
        lines.append(line(name, s["epsilons"], numbers, color, bars=True, mode="lines+markers"))
        fitted, points, round_off, best, least = (
            findings.get(m, name, heads=heads)
            for m in ("slope", "points", "round-off", "best ε", "least error")
        )
        kept += abs(size(fitted) - heads) <= 0.3
        rows.append([
            name, spread(fitted), plain(size(points)), spread(round_off), f"{size(best):.2g}",
            spread(least),
        ])  # fmt: skip
    factor = size(findings.get("round-off", f"{s['heads'][-1]} heads"))
    floor = [factor * 2.0**-52 / e for e in s["epsilons"]]
    lines.append(Line(f"{factor:.1f}·u/ε", s["epsilons"], floor, CONTROL, dash="dot"))
    eight = size(findings.get("least error", f"{s['heads'][-1]} heads"))
    text = (
        "h pairs of heads at scales ±ε … ±hε give K v with an error of order ε<sup>2h</sup>, so that the slope "
        f"should be the number of heads: {kept} of {len(rows)} are within 0.3. Slopes are fitted where "
        f"ε ≤ {s['largest ε of a fit']:g} and the error is at least "
        f"{s['times above round-off in a fit']:g} times the round-off, which is a small number times "
        f"u/ε, u = 2⁻⁵². Where the two meet is the best ε; {s['heads'][-1]} heads get to {eight:.1e}."
    )
    figure = line_figure(
        [[Plot("", lines)]], Axis("ε", log=True), Axis("relative error of K v", log=True, decades=2)
    )
    header = ["", "slope", "points", "round-off ÷ (u/ε)", "best ε", "least error"]
    return Section(ERRORS, text, [figure, Table(header, rows)])


def names(findings: Findings, ridge: float) -> list[Number]:
    """One number per model that ran CG at that ridge."""
    return [n for n in findings.numbers if n.measure == "drift" and n.setting["ridge"] == ridge]


def cg_section(findings: Findings) -> Section:
    s = findings.settings
    ridge, steps = s["ridge"], range(s["steps"] + 1)

    def curve(measure: str, method: str) -> list[Number]:
        return [findings.get(measure, method, ridge=ridge, step=t) for t in steps]

    bound = curve("bound", "exact CG")
    scale = size(findings.get("scale", "prompts", ridge=ridge))
    lines = [
        line("exact CG", steps, curve("error", "exact CG"), SOLVER),
        line("bound for exact CG", steps, bound, CONTROL, dash="dot"),
    ]
    for drift, color in zip(names(findings, ridge), SHADES, strict=False):
        lines.append(line(drift.method, steps, curve("error", drift.method), color, bars=True))
        largest = size(findings.get("largest drift", drift.method, ridge=ridge))
        each = largest * float(drift.setting["mat-vec error"]) * scale
        second = [each * t or float("nan") for t in steps]
        lines.append(Line(f"C·t·ε_mv·scale: {drift.method}", steps, second, color, dash="dot"))
    figure = line_figure(
        [[Plot("", lines)]], Axis("CG step"),
        Axis("|f_t − f*|, worst query", log=True, limits=(1e-16, 30.0), decades=2),
    )  # fmt: skip
    figure.update_layout(legend={"orientation": "v", "x": 1.01, "y": 1.0, "yanchor": "top"},
                         margin={"t": 40}, height=560)  # fmt: skip
    rows = []
    for other in (ridge, *s["ridges"]):
        condition = findings.get("condition", "prompts", ridge=other)
        for drift in names(findings, other):
            constant, most, needed = (
                findings.get(m, drift.method, ridge=other)
                for m in ("largest drift", "largest constant", "constant")
            )
            rows.append([
                f"λ = {other:g}, {drift.method}", spread(condition),
                plain(float(drift.setting["mat-vec error"])), spread(drift), plain(size(constant)),
                spread(needed), plain(size(most)),
            ])  # fmt: skip
    here = names(findings, ridge)
    sizes = [size(n) for n in here]
    errors = [float(n.setting["mat-vec error"]) for n in here]
    heads, epsilon = s["elsewhere"]
    same = f"{heads} heads, ε = {epsilon:g}"
    others = [
        f"{spread(n)} at κ = {size(findings.get('condition', 'prompts', ridge=other)):.0f}"
        for other in sorted((ridge, *s["ridges"]), reverse=True)
        for n in names(findings, other)
        if n.method == same
    ]
    covered = sum(size(n) == 0 for n in findings.numbers if n.measure == "largest constant")
    text = (
        "Exact CG obeys |f_t − f*| ≤ 2ρᵗ·scale with ρ = (√κ − 1)/(√κ + 1) and scale = "
        "‖α*‖_A·√(k(x)ᵀA⁻¹k(x)). Inexact products add a term: |f̂_t − f_t| ≤ C·t·ε_mv·scale, with the "
        "measured error ε_mv of one mat-vec, so that |f̂_t − f*| is at most the sum of both. C is the "
        f"least that serves a prompt at all steps and queries. At λ = {ridge:g} its mean over prompts "
        f"lies between {plain(min(sizes))} and {plain(max(sizes))}, and no prompt needs more than "
        f"{plain(max(size(findings.get('largest drift', n.method, ridge=ridge)) for n in here))}, for "
        f"ε_mv from {plain(min(errors))} to {plain(max(errors))}. It is no universal constant: with "
        f"{same} it is {'; '.join(others)}. The last columns have the C that is needed beyond the "
        f"first term; in {covered} of {len(rows)} cases that is 0, because the first term is still "
        "above every error at these depths, and the sum says nothing of ε there."
    )
    header = [
        "model", "κ", "ε_mv", "C: model − exact CG", "largest", "C beyond 2ρᵗ·scale", "largest",
    ]  # fmt: skip
    return Section(STEPS, text, [figure, Table(header, rows)])


def dot_products_page(findings: Findings) -> Page:
    s = findings.settings
    matvec, cg = matvec_section(findings), cg_section(findings)
    table: Table = cg.content[1]
    return Page(
        "Dot products from softmax heads",
        "Pairs of softmax heads at opposite small scales return K v for the linear kernel. How exact "
        "that is, and what conjugate gradients make of what is missing.",
        [matvec, cg],
        f"{findings.prompts} prompts of {s['supports']} supports and {s['queries']} queries, "
        f"{s['features']} features with E|φ|² = 1, clipped to norm {s['largest norm']:g}; linear "
        f"targets with noise of standard deviation {s['noise']:g}; gated MLP, float64, seed "
        f"{findings.seed}. Bars and brackets are 95 % bootstrap intervals over prompts; fits are "
        "repeated on each resample; a largest value is the largest over prompts, without interval. "
        "Fewer than 8 prompts run a smaller plan. All numbers are in <code>findings.json</code>.",
        {
            ERRORS: matvec.content[1],
            STEPS: Table(table.header[:5], [row[:5] for row in table.rows]),
        },
    )
