"""The sections of the evidence that needs no alignment of layers with steps; each reads the finding alone."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.identification.view import (
    FLOOR,
    LAYER,
    MODEL,
    PROSE,
    View,
    label,
    some,
    table_of,
)
from ridgeformer.experiments.wording import floored, line

BASES = {"none": "A", "jacobi": "Jacobi", "row-sum": "row sums"}
"""What the preconditioned systems are called."""
SHADES = ("#c6d4f7", "#a9c1f5", "#86a6ee", "#6389e2", "#4670d8", "#2f5fd0", "#264db0", "#1d3c90", "#14307d", "#0f2562", "#0b1b49", "#071230")  # fmt: skip
"""From the first layer to the last."""


def filters(view: View) -> f.Section:
    panels = [filter_panel(view, method) for method in view.methods]
    words = {
        "left_out": view.part("filters")["bases left out"],
        "best": best_basis(view),
        "last": view.own("R² of a filter", of="queries", basis="none"),
    }
    return PROSE.section("filters", f.Figure([panels]), filter_table(view), **words)


def filter_panel(view: View, method: str) -> f.Panel:
    numbers = view.finding.select("filter", method)
    key = "layer" if method == MODEL else "step"
    entries = list(dict.fromkeys(n.setting[key] for n in numbers if key in n.setting))
    shown = some(entries)
    lines = []
    for entry in shown:
        curve = [n for n in numbers if n.setting.get(key) == entry]
        shade = SHADES[round((len(SHADES) - 1) * shown.index(entry) / max(1, len(shown) - 1))]
        places = [float(n.setting["eigenvalue"]) for n in curve]
        name = f"{key} {entry:g}" if isinstance(entry, (int, float)) else str(entry)
        lines.append(line(name, places, curve, shade, bars=method == MODEL, gaps=False, mode="lines"))  # fmt: skip
    axes = f.Axes(
        "eigenvalue σ of A", "g(σ)", log_x=True, log_y=False, y_limits=(-0.5, 1.5), clip=True
    )
    return f.Panel(label(method), lines, axes)


def filter_table(view: View) -> f.Table:
    """R² of any filter by layer: in every basis, at the supports, and of the candidates."""
    columns: dict[str, list[f.Number]] = {}
    for basis, name in BASES.items():
        if found := entries(view, MODEL, basis, "queries"):
            columns[name] = found
    columns["A, at the supports"] = entries(view, MODEL, "none", "supports")
    rows = list(zip(*columns.values(), strict=True))
    named = [(entry_name(row[0]), list(row)) for row in rows]
    kept = [*some(named[:-1]), named[-1]]
    return table_of(["layer", *columns], kept)


def entries(view: View, method: str, basis: str, of: str) -> list[f.Number]:
    return view.finding.select("R² of a filter", method, basis=basis, of=of)


def entry_name(number: f.Number) -> str:
    return str(number.setting.get("layer", "prediction"))


def best_basis(view: View) -> str | None:
    """The basis that explains most, averaged over the layers that say something in all of them."""
    found = {b: view.layers("R² of a filter", MODEL, basis=b, of="queries") for b in BASES}
    known = {name: numbers for name, numbers in found.items() if numbers}
    means = {
        BASES[name]: sum(n.mean or 0.0 for n in numbers) / len(numbers)
        for name, numbers in known.items()
    }
    return max(means, key=lambda name: means[name]) if len(means) > 1 else None


def additivity(view: View) -> f.Section:
    resolution = view.finding.get("resolution", MODEL)
    control = least_additive(view)
    more = [] if control is None else [control.method]
    factors = list(dict.fromkeys(n.setting["factor"] for n in view.layers("homogeneity", MODEL)))
    panels = [
        f.Panel("additivity", with_limit(view, view.curves("additivity", FLOOR, more)), AXES),
        *(
            f.Panel(f"homogeneity, c = {signed(c)}", with_limit(view, view.curves("homogeneity", FLOOR, more, factor=c)), AXES)
            for c in factors
        ),
    ]  # fmt: skip
    rows = [
        ("additivity", [view.own("additivity")]),
        *((f"homogeneity, c = {signed(c)}", [view.own("homogeneity", factor=c)]) for c in factors),
    ]
    table = table_of(["defect of the model's own predictions", "over Var f*"], rows)
    largest = max(view.layers("additivity", MODEL), key=lambda n: n.value, default=None)
    words = {
        "resolution": resolution,
        "error": view.finding.get("own error", MODEL),
        "largest": largest,
        "control": control,
        "beyond": largest is not None and largest.ends[0] > resolution.ends[1],
    }
    return PROSE.section("additivity", f.Figure([panels[:2], panels[2:4]]), table, **words)


def least_additive(view: View) -> f.Number | None:
    """The largest defect of any candidate: what a method looks like whose coefficients depend on y."""
    found = (view.layers("additivity", name) for name in view.part("candidates")["fits"])
    every = [n for numbers in found for n in numbers if n.mean is not None]
    return max(every, key=lambda n: n.value, default=None)


def signed(value: float | str) -> str:
    """A number with a minus sign that is as wide as a plus."""
    return f"{value:g}".replace("-", "−") if isinstance(value, float) else str(value)


AXES = f.Axes(LAYER, "defect / Var f*")


def with_limit(view: View, lines: Sequence[f.Line]) -> list[f.Line]:
    """The lines, and the defect that the model's own error allows."""
    number = view.finding.get("resolution", MODEL)
    ends = [float(x) for drawn in lines for x in drawn.x]
    limit = line(
        "resolution", [min(ends), max(ends)], [number, number], "#8a93a3", bars=False, bound=True
    )
    return [*lines, floored(limit, FLOOR)]


def degree(view: View) -> f.Section:
    words = view.part("degree")
    pace = words["pace"]
    needed = view.curves("degree", basis="none")
    layers = [float(x) for x in needed[-1].x]
    one = f.Line("one product a layer", layers, layers, bound=True, color="#8a93a3")
    best = view.finding.select("best error", "polynomial", basis="none")
    errors = line("best fixed polynomial", [float(n.setting["degree"]) for n in best], best, "#2a9d8f")  # fmt: skip
    left = f.Figure.of([*needed, one], f.Axes(LAYER, "degree needed at least", log_y=False))
    right = f.Figure.of([errors], f.Axes("degree", "error of a polynomial / E f*²", log_x=True))
    rows = [
        (BASES[basis], [view.finding.get(m, MODEL, basis=basis) for m in GROWTH]) for basis in pace
    ]
    table = table_of(["basis", *GROWTH], rows)
    others = words["pace of candidates"]
    names = {BASES[b]: p for b, p in pace.items()}
    return PROSE.section(
        "degree", left, table, right, pace=names, others=others, left_out=words["bases left out"]
    )


GROWTH = ("products a layer", "R² of products", "doublings a layer", "R² of doublings")


def effective_ridge(view: View) -> f.Section:
    words = view.part("effective ridge")
    content: list[f.Block] = []
    if "ridge" in words:
        found = view.curves("effective ridge")
        layers = [float(x) for drawn in found for x in drawn.x]
        own = f.Line("λ of the task", [min(layers), max(layers)], [words["ridge"]] * 2, bound=True, color="#8a93a3")  # fmt: skip
        content.append(f.Figure.of([*found, own], f.Axes(LAYER, "effective ridge λ̂")))
        measures = ("effective ridge", "left at the effective ridge")
        pairs = [view.finding.select(m, MODEL) for m in measures]
        # Where no λ is nearest, as for a layer that says nothing, nothing is left of it either.
        rows = [
            (entry_name(ridge), [ridge, None if ridge.mean is None else left])
            for ridge, left in zip(*pairs, strict=True)
        ]
        header = ["layer", "λ̂", "left at λ̂"]
        content.append(table_of(header, [*some(rows[:-1]), rows[-1]]))
    last = view.own("effective ridge") if "ridge" in words else None
    follows = None
    if words.get("by noise"):
        content.append(noise_figure(view))
        follows = [view.finding.get("follows the noise", m) for m in (MODEL, "best")]
    return PROSE.section("ridge", *content, last=last, words=words, follows=follows)


def noise_figure(view: View) -> f.Figure:
    lines = []
    for method, name in ((MODEL, "the model"), ("best", "best predictor")):
        numbers = view.finding.select("effective ridge by noise", method)
        lines.append(line(name, [float(n.setting["noise"]) for n in numbers], numbers))
    levels = [float(x) for x in lines[0].x]
    lines.append(f.Line("λ̂ = noise", levels, levels, bound=True))
    return f.Figure.of(lines, f.Axes("noise variance", "effective ridge λ̂", log_x=True))


def symmetries(view: View) -> f.Section:
    changes = list(
        dict.fromkeys(str(n.setting["change"]) for n in view.finding.select("symmetry", MODEL))
    )
    rows = [
        (
            change.replace("-", "−"),
            [
                view.finding.get("symmetry", MODEL, change=change),
                view.finding.get("broken symmetry", MODEL, change=change),
                view.finding.get("broken symmetry", "best", change=change),
            ],
        )
        for change in changes
    ]
    table = table_of(["change", "the model moves", "broken: the model", "broken: the best"], rows)
    grown = list(
        dict.fromkeys(
            str(n.setting["grows"]) for n in view.finding.select("error out of range", MODEL)
        )
    )
    axes = f.Axes("factor", "error / E f*²", log_x=True, x_ticks=(1, 2, 4, 10), y_limits=(1e-5, 1e3), clip=True)  # fmt: skip
    panels = [f.Panel(f"{what} grow", range_lines(view, what), axes) for what in grown]
    return PROSE.section("symmetries", table, f.Figure([panels]))


def range_lines(view: View, what: str) -> list[f.Line]:
    lines = []
    looks = {MODEL: ("the model", "#2f5fd0"), "ignoring it": ("best, not told of it", "#8a93a3")}
    for method, (name, color) in looks.items():
        numbers = view.finding.select("error out of range", method, grows=what)
        places = [float(n.setting["factor"]) for n in numbers]
        lines.append(floored(line(name, places, numbers, color, gaps=False), 1e-5))
    return lines
