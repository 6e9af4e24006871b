"""The page of the dot-product study: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from math import nan

from ridgeformer.experiments.finding import (
    Axes,
    Figure,
    Finding,
    Line,
    Number,
    Page,
    Paragraph,
    Section,
    Table,
)
from ridgeformer.experiments.wording import CONTROL, SHADES, SOLVER, line, plain, spread

ERRORS, STEPS = "Error of one mat-vec", "CG on dot products from heads"


def matvec_section(finding: Finding) -> Section:
    s = finding.settings
    lines, rows, kept = [], [], 0
    for heads, color in zip(s["heads"], SHADES, strict=False):
        name = f"{heads} heads"
        numbers = [
            finding.get("mat-vec error", name, heads=heads, epsilon=e) for e in s["epsilons"]
        ]
        lines.append(line(name, s["epsilons"], numbers, color))
        fitted, points, round_off, best, least = (
            finding.get(m, name, heads=heads)
            for m in ("slope", "points", "round-off", "best ε", "least error")
        )
        kept += abs(fitted.value - heads) <= 0.3
        rows.append([
            name, spread(fitted), plain(points.value), spread(round_off), f"{best.value:.2g}",
            spread(least),
        ])  # fmt: skip
    most = f"{s['heads'][-1]} heads"
    factor = finding.get("round-off", most).value
    floor = [factor * 2.0**-52 / e for e in s["epsilons"]]
    lines.append(Line(f"{factor:.1f}·u/ε", s["epsilons"], floor, bound=True, color=CONTROL))
    text = (
        "With h pairs of heads at the scales ±ε, …, ±hε, K v is computed with an error of order ε^{2h}, so that "
        "the slope of the error in a log-log plot should equal the number 2h of heads. This holds within 0.3 "
        f"for {kept} of {len(rows)} slopes. A slope is fitted where ε ≤ {s['largest ε of a fit']:g} and the "
        f"error is at least {s['times above round-off in a fit']:g} times the round-off, which is a small "
        "multiple of u/ε with u = 2^{−52}. The best ε lies where the two errors meet; there "
        f"{most} reach an error of {finding.get('least error', most).value:.1e}."
    )
    figure = Figure.of(lines, Axes("ε", "relative error of K v", log_x=True))
    header = ["", "slope", "points", "round-off ÷ (u/ε)", "best ε", "least error"]
    return Section(ERRORS, [Paragraph(text), figure, Table(header, rows)])


def drifts(finding: Finding, ridge: float) -> list[Number]:
    """One number for each model that ran CG at that ridge."""
    return [n for n in finding.numbers if n.measure == "drift" and n.setting["ridge"] == ridge]


def cg_figure(finding: Finding, ridge: float) -> Figure:
    steps = range(finding.settings["steps"] + 1)

    def curve(measure: str, method: str) -> list[Number]:
        return [finding.get(measure, method, ridge=ridge, step=t) for t in steps]

    exact, scale = "exact CG", finding.get("scale", "prompts", ridge=ridge).value
    lines = [
        line(exact, steps, curve("error", exact), SOLVER, bars=False, mode="lines"),
        line("bound for exact CG", steps, curve("bound", exact), CONTROL, bars=False, bound=True),
    ]
    for drift, color in zip(drifts(finding, ridge), SHADES, strict=False):
        method = drift.method
        lines.append(line(method, steps, curve("error", method), color, mode="lines"))
        largest = finding.get("largest drift", method, ridge=ridge).value
        each = largest * float(drift.setting["mat-vec error"]) * scale
        second = [each * t or nan for t in steps]
        lines.append(Line(f"C·t·ε_mv·scale: {method}", steps, second, bound=True, color=color))
    axes = Axes("CG step", "|f_t − f*|, worst query", y_limits=(1e-16, 30.0))
    return Figure.of(lines, axes, legend="beside")


def cg_section(finding: Finding) -> Section:
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
    others = "; ".join(f"{spread(n)} at κ = {condition:.0f}" for n, condition in same)
    covered = sum(n.value == 0 for n in finding.numbers if n.measure == "largest constant")
    text = (
        "Exact CG obeys |f_t − f*| ≤ 2ρ^t·scale with ρ = (√κ − 1)/(√κ + 1) and scale = "
        "‖α*‖_A·√(k(x)ᵀA⁻¹k(x)). Inexact products add a second term: |f̂_t − f_t| ≤ C·t·ε_mv·scale, where "
        "ε_mv is the measured error of one mat-vec, so that |f̂_t − f*| is at most the sum of both. Here C "
        "is the least constant that serves a prompt at all steps and queries. "
        f"At λ = {ridge:g} its mean over prompts lies between {plain(min(sizes))} and {plain(max(sizes))}, "
        f"and no prompt needs more than {plain(largest)}, for ε_mv from {plain(min(errors))} to "
        f"{plain(max(errors))}. It is not a universal constant: with {same[0][0].method} it is {others}. "
        "The last two columns give the C that is needed beyond the first term. In "
        f"{covered} of {len(rows)} cases it is 0, because the first term still exceeds every error at "
        "these depths; there the sum says nothing about ε."
    )
    header = [
        "model", "κ", "ε_mv", "C: model − exact CG", "largest", "C beyond 2ρ^t·scale", "largest",
    ]  # fmt: skip
    return Section(STEPS, [Paragraph(text), cg_figure(finding, ridge), Table(header, rows)])


def dot_products_page(finding: Finding) -> Page:
    s = finding.settings
    matvec, cg = matvec_section(finding), cg_section(finding)
    tables = [block for part in (matvec, cg) for block in part.content if isinstance(block, Table)]
    return Page(
        "Dot products from softmax heads",
        "Pairs of softmax heads at small opposite scales return K v for the linear kernel. This page "
        "shows how exact they are, and how their error affects conjugate gradients.",
        [matvec, cg],
        f"There are {finding.prompts} prompts of {s['supports']} supports and {s['queries']} queries, with "
        f"{s['features']} features of E|φ|² = 1 that are clipped to norm {s['largest norm']:g}. The targets "
        f"are linear with noise of standard deviation {s['noise']:g}. The models have gated MLPs and run in "
        f"float64 with seed {finding.seed}. Bars and brackets are 95 % bootstrap intervals over prompts, and "
        "fits are repeated on each resample; a largest value is taken over prompts and has no interval. "
        "With fewer than 8 prompts a smaller plan is run. All numbers are in <code>findings.json</code>.",
        {ERRORS: tables[0], STEPS: tables[1].columns(range(5))},
    )
