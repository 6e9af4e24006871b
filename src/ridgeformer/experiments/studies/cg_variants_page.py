"""The page of the study of CG variants: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, MODEL, SHADES, SOLVER, line, plain, spread

PROSE = Prose("cg_variants")

COMPILED = ("cg", "cg-predicted")
TEXTBOOK, PREDICTED, UPDATED = "textbook", "pᵀAp predicted", "pᵀAp predicted, A p updated"
SAME = "cg-predicted, not compiled"
SHOWN = (*COMPILED, PREDICTED, UPDATED)
COLORS = dict(zip((*SHOWN, SAME), (MODEL, SHADES[3], SOLVER, SHADES[5], CONTROL), strict=True))
NO_WORSE = 1.1
"""The median that the tests of compiled CG allow."""


def cases(finding: f.Finding) -> list[tuple[str, float]]:
    s = finding.settings
    return [(dtype, c) for dtype in ("float64", "float32") for c in s[dtype]]


def name_of(condition: float) -> str:
    return f"{condition:,.0f}"


def across(finding: f.Finding, measure: str, names: tuple[str, ...], y: str) -> f.Figure:
    """One panel for each precision, with the condition number along x."""
    panels = []
    for dtype in ("float64", "float32"):
        along = finding.settings[dtype]
        lines = [
            line(name, along, finding.select(measure, name, dtype=dtype), COLORS[name])
            for name in names
        ]
        lines.append(f.Line("1", along, [1.0] * len(along), bound=True, color=CONTROL))
        panels.append(f.Panel(dtype, lines, f.Axes("κ", y, log_x=True)))
    return f.Figure([panels])


def rows_of(finding: f.Finding, measure: str, names: tuple[str, ...]) -> list[list[str]]:
    return [
        [dtype, name_of(c), *(spread(finding.get(measure, n, dtype=dtype, condition=c)) for n in names)]
        for dtype, c in cases(finding)
    ]  # fmt: skip


def worse(finding: f.Finding, name: str) -> int:
    """In how many cases the whole interval lies above what is no worse."""
    return sum(n.ends[0] > NO_WORSE for n in finding.select("ratio", name))


def accuracy_section(finding: f.Finding) -> f.Section:
    names = (*SHOWN, SAME)
    ratios = {name: [n.value for n in finding.select("ratio", name)] for name in names}
    figure = across(finding, "ratio", names, "final error ÷ textbook's, median")
    table = f.Table(["precision", "κ", *names], rows_of(finding, "ratio", names), words=1)
    words = {
        "s": finding.settings, "count": len(cases(finding)), "least": NO_WORSE,
        "compiled": max(max(ratios[name]) for name in COMPILED),
        "same": all(abs(v - 1) < 1e-9 for v in ratios[SAME]),
        "worse": {name: worse(finding, name) for name in SHOWN},
        "predicted": ratios[PREDICTED], "updated": ratios[UPDATED],
    }  # fmt: skip
    return PROSE.section("accuracy", figure, table, **words)


def promise_section(finding: f.Finding) -> f.Section:
    names = (TEXTBOOK, *SHOWN)
    most = {name: max(n.value for n in finding.select("share", name)) for name in SHOWN}
    table = f.Table(["precision", "κ", *names], rows_of(finding, "share", names), words=1)
    words = {"s": finding.settings, "most": most, "largest": max(most.values())}
    return PROSE.section("promise", table, **words)


def sizes_section(finding: f.Finding) -> f.Section:
    rows = [
        [dtype, name_of(c), *(
            " and ".join(plain(finding.get(m, n, dtype=dtype, condition=c).value) for n in COMPILED)
            for m in ("layers", "channels", "neurons", "heads")
        )]
        for dtype, c in cases(finding)
    ]  # fmt: skip
    header = ["precision", "κ", "layers a step", "channels beyond p", "neurons", "heads"]
    words = {
        name.replace("-", "_"): {
            m: sorted({int(n.value) for n in finding.select(m, name)})
            for m in ("layers", "channels", "neurons")
        }
        for name in COMPILED
    }
    return PROSE.section("sizes", f.Table(header, rows, words=1), **words)


def cg_variants_page(finding: f.Finding) -> f.Page:
    sections = [accuracy_section(finding), promise_section(finding), sizes_section(finding)]
    accuracy, promise, sizes = (section.tables[0] for section in sections)
    first, second, third = (section.title for section in sections)
    narrow = {first: accuracy.columns(range(6)), second: promise, third: sizes}
    return PROSE.page(sections, finding, narrow)
