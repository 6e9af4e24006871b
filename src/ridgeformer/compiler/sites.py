"""Where to look inside a compiled model: iterates, states, and what each layer is for."""

from __future__ import annotations

from typing import Any

from ridgeformer.compiler.assemble import Assembler, columns_of
from ridgeformer.compiler.lower import Lowering
from ridgeformer.compiler.schedule import (
    Cell,
    Form,
    Head,
    HingeWrite,
    LinearWrite,
    MLPWrite,
    ProductWrite,
)


def site_name(time: int) -> str:
    """The transformer's name for the residual stream after a sublayer."""
    if time < 0:
        return "embed"
    return f"blocks.{time // 2}.resid_{'post' if time % 2 else 'mid'}"


def describe_sites(lowering: Lowering, assembler: Assembler) -> dict[str, Any]:
    """For config.json: `predictions` and `states` by step, `layers` with what each one does."""
    final = next(s.cell for s in reversed(lowering.sites) if s.name == "prediction")
    start = {"step": 0, "site": "embed", "columns": final.columns}
    predictions = [start]
    states: dict[str, list[dict[str, Any]]] = {}
    for site in lowering.sites:
        entry: dict[str, Any] = {
            "step": site.step,
            "site": site_name(site.cell.written),
            "columns": site.cell.columns,
        }
        if site.over is not None:
            entry["over"] = site.over.columns
        if site.name == "prediction":
            predictions.append(entry)
        else:
            states.setdefault(site.name, []).append(entry)
    layers = [
        {
            "attention": [describe_head(group) for group in assembler.heads.get(layer, [])],
            "mlp": [
                describe_write(write)
                for write in assembler.writes.get(layer, [])
                if assembler.neurons(write)  # a cell that is taken over as it is needs none
            ],
        }
        for layer in range(assembler.n_layers)
    ]
    return {
        "predictions": predictions,
        "states": states,
        "channels": channel_names(lowering, assembler),
        "layers": layers,
    }


def channel_names(lowering: Lowering, assembler: Assembler) -> dict[str, list[list[str]]]:
    """By place, for each column the names of the cells that ever live in it, first come first."""
    names: dict[str, list[list[str]]] = {
        place: [[] for _ in range(assembler.width)] for place in ("data", "aggregator")
    }
    s = lowering.s
    for cell in [s.support, s.one, s.query, *s.cells]:
        for index, column in enumerate(cell.columns):
            name = cell.name if cell.width == 1 else f"{cell.name}[{index}]"
            for place in names if cell.place == "everywhere" else (cell.place,):
                if name not in names[place][column]:
                    names[place][column].append(name)
    return names


def read_columns(forms: list[Form]) -> list[int]:
    return sorted({int(c) for form in forms if form for c in columns_of(form)[0]})


def describe_head(group: list[Head]) -> dict[str, Any]:
    forms = [*group[0].q, *group[0].k, *(o.v for head in group for o in head.outputs)]
    outputs = [output for head in group for output in head.outputs]
    return {
        "does": ", ".join(dict.fromkeys(head.label for head in group)),
        "from": group[0].source,
        "to": group[0].to,
        "reads": read_columns(forms),
        "writes": sorted({c for o in outputs for c in o.cell.columns[o.offset :][: o.v[0].width]}),
    }


def describe_write(write: MLPWrite) -> dict[str, Any]:
    cell: Cell = write.cell
    match write:
        case LinearWrite():
            columns = cell.columns[write.offset :][: write.form[0].width]
            reads, kind, written = [write.form], "linear", columns
        case HingeWrite():
            also = [c.columns[offset] for c, offset, _ in write.also]
            reads, kind, written = [write.x], "table", [cell.columns[write.offset], *also]
        case ProductWrite():
            reads, kind, written = (
                [write.gate, write.value],
                "product",
                [cell.columns[write.offset]],
            )
    return {"does": write.label, "kind": kind, "reads": read_columns(reads), "writes": written}
