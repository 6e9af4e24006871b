"""The sections on a candidate's state: probes for it, its exchange, heads removed; and what else gives the answers."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.identification.view import MODEL, PROSE, View, some
from ridgeformer.experiments.wording import shown, spread

LETTERS = {"alpha": "α"}


def ends(view: View) -> f.Section:
    fitted = view.part("ends")["fitted"]
    rows = []
    for name, numbers in fitted.items():
        left = view.finding.get("left by a predictor", name)
        said = ", ".join(f"{what} {shown(value)}" for what, value in numbers.items())
        rows.append([name, spread(left), said])
    return PROSE.section("ends", f.Table(["predictor", "left", "fitted"], rows))


def probes(view: View) -> f.Section:
    words = view.part("probes")
    found = view.finding.select_all("cosine")
    panels = {part: [panel(found, quantity, part) for quantity in quantities(found)] for part in ("whole", "new")}  # fmt: skip
    figures = [
        f.Matrices(
            panels[part], "layer", "step", f"cosine, {part}", limits=(0.0, 1.0), written=True
        )
        for part in panels
    ]
    return PROSE.section("probes", *figures, probe_table(view), words=words)


def quantities(numbers: Sequence[f.Number]) -> list[str]:
    return list(dict.fromkeys(n.method for n in numbers))


def panel(numbers: Sequence[f.Number], quantity: str, part: str) -> f.Matrix:
    own = [n for n in numbers if n.method == quantity and n.setting["part"] == part]
    steps = sorted({n.setting["step"] for n in own if n.mean is not None})
    layers = some(sorted({n.setting["layer"] for n in own}), 9)
    by_place = {(n.setting["step"], n.setting["layer"]): n.value for n in own}
    values = [[by_place.get((s, layer), nan) for layer in layers] for s in steps]
    name = LETTERS.get(quantity, quantity)
    return f.Matrix(
        name, [f"{name}_{s:g}" for s in steps], [f"{layer:g}" for layer in layers], values
    )


def probe_table(view: View) -> f.Table:
    """The largest cosine of what is new in each step, and of its controls at the same layer."""
    rows = []
    found = [n for n in view.finding.select_all("cosine") if n.setting["part"] == "new"]
    for key in dict.fromkeys((n.method, n.setting["step"]) for n in found):
        own = [n for n in found if (n.method, n.setting["step"]) == key and n.mean is not None]
        if not own:
            continue
        best = max(own, key=lambda n: n.value)
        controls = [
            view.finding.get(f"cosine, {control}", key[0], **best.setting)
            for control in ("untrained", "other prompts", "control task")
        ]
        name = f"{LETTERS.get(key[0], key[0])}_{key[1]:g}"
        rows.append([name, f"{best.setting['layer']:g}", *map(spread, [best, *controls])])
    return f.Table(
        ["new part of", "layer", "cosine", "untrained", "other prompts", "control task"], rows
    )


def interchange(view: View) -> f.Section:
    words = view.part("interchange")
    name = words["candidate"]
    effects = view.finding.select("effect", name)
    rows = []
    for one in effects:
        others = [
            view.finding.get(measure, name, **one.setting)
            for measure in ("slope of the effect", "effect, random directions", "effect, other layers")
        ]  # fmt: skip
        step, layer = one.setting["step"], one.setting["layer"]
        rows.append([f"{step:g}", f"{layer:g}", *map(spread, [one, *others])])
    header = ["step", "layer", "correlation", "slope", "random directions", "other layers"]
    return PROSE.section("interchange", f.Table(header, rows), words=words)


def heads(view: View) -> f.Section:
    name = view.part("heads")["candidate"]
    sizes = view.finding.select("effect of a head", MODEL)
    alike = {
        (n.setting["layer"], n.setting["head"]): n for n in view.finding.select("head like a step", name)
    }  # fmt: skip
    layers = sorted({n.setting["layer"] for n in sizes})
    count = sorted({n.setting["head"] for n in sizes})
    by_place = {(n.setting["layer"], n.setting["head"]): n.value for n in sizes}
    matrix = f.Matrix(
        "", [f"layer {layer:g}" for layer in layers], [f"head {head:g}" for head in count],
        [[by_place.get((layer, head)) or nan for head in count] for layer in layers],
    )  # fmt: skip
    figure = f.Matrices([matrix], "", "", "effect of silencing it", log=True, written=True)
    largest = sorted(alike, key=lambda place: -by_place[place])[:8]
    rows = []
    for place in largest:
        match = alike[place]
        control = view.finding.get("head like a step, other prompts", name, **match.setting)
        step = f"{match.setting['step']:g}"
        rows.append([f"{place[0]:g}", f"{place[1]:g}", f"{by_place[place]:.2g}", step, spread(match), spread(control)])  # fmt: skip
    table = f.Table(["layer", "head", "effect", "step", "correlation", "other prompts"], rows)
    aggregator = view.part("heads")["aggregator"]
    return PROSE.section("heads", figure, table, candidate=name, aggregator=aggregator)
