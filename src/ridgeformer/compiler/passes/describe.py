"""Where to look inside a compiled model: iterates, states, and what each layer is for."""

from __future__ import annotations

from typing import Any

from ridgeformer.compiler.circuit import (
    Circuit,
    Form,
    Head,
    HingeWrite,
    LinearWrite,
    MLPWrite,
    ProductWrite,
)
from ridgeformer.compiler.passes.assemble import by_layer, neurons, stream_columns
from ridgeformer.compiler.passes.place import Placement


def describe(circuit: Circuit, placement: Placement, gated: bool) -> dict[str, Any]:
    """For config.json: `predictions` and `states` by step, `layers` with what each one does."""
    columns = {cell: list(where) for cell, where in placement.columns.items()}
    predictions = [{"step": 0, "site": "embed", "columns": columns[circuit.prediction.cell]}]
    states: dict[str, list[dict[str, Any]]] = {}
    for readout in circuit.readouts:
        entry: dict[str, Any] = {
            "step": readout.step,
            "site": site_name(readout.cell.written),
            "columns": columns[readout.cell],
        }
        if circuit.loop is not None:
            entry["period"] = circuit.loop.period
        if readout.over is not None:
            entry["over"] = columns[readout.over]
        if readout.scale != 1.0:
            entry["scale"] = readout.scale
        if (early := readout.early) is not None:
            entry["site"] = site_name(early.cell.written)
            entry["times"] = {"columns": columns[early.cell], "factor": early.factor}
            entry["through"] = [early.resume // 2, circuit.end // 2 + 1]
        if readout.variable is None:
            predictions.append(entry)
        else:
            states.setdefault(readout.variable, []).append(entry)
    heads, writes = by_layer(circuit)
    layers = [
        {
            "attention": [describe_head(group, placement) for group in heads.get(layer, [])],
            "mlp": [
                describe_write(write, placement)
                for write in writes.get(layer, [])
                if neurons(write, gated)  # a cell that continues unchanged needs none
            ],
        }
        for layer in range(circuit.end // 2 + 1)
    ]
    channels = channel_names(circuit, placement)
    return {"predictions": predictions, "states": states, "channels": channels, "layers": layers}


def site_name(time: int) -> str:
    """The transformer's name for the residual stream after a sublayer."""
    if time < 0:
        return "embed"
    return f"blocks.{time // 2}.resid_{'post' if time % 2 else 'mid'}"


def channel_names(circuit: Circuit, placement: Placement) -> dict[str, list[list[str]]]:
    """For each place and column, the names of the cells that ever occupy it, in their order."""
    names: dict[str, list[list[str]]] = {
        place: [[] for _ in range(placement.width)] for place in ("data", "aggregator")
    }
    for cell in [*circuit.flags, *circuit.cells]:
        for index, column in enumerate(placement.columns[cell]):
            name = cell.name if cell.width == 1 else f"{cell.name}[{index}]"
            for place in names if cell.place == "everywhere" else (cell.place,):
                if name not in names[place][column]:
                    names[place][column].append(name)
    return names


def read_columns(forms: list[Form], placement: Placement) -> list[int]:
    return sorted({int(c) for form in forms if form for c in stream_columns(form, placement)})


def describe_head(group: list[Head], placement: Placement) -> dict[str, Any]:
    forms = [*group[0].q, *group[0].k, *(o.v for head in group for o in head.outputs)]
    writes = {
        column
        for head in group
        for o in head.outputs
        for column in placement.columns[o.cell][o.offset :][: o.v[0].width]
    }
    multiplied = dict.fromkeys(head.variable for head in group if head.variable is not None)
    return {
        "does": ", ".join(dict.fromkeys(head.label for head in group)),
        "roles": list(dict.fromkeys(head.role for head in group)),
        **({"multiplies": list(multiplied)} if multiplied else {}),
        "from": group[0].source,
        "to": group[0].to,
        "reads": read_columns(forms, placement),
        "writes": sorted(writes),
    }


def describe_write(write: MLPWrite, placement: Placement) -> dict[str, Any]:
    columns = placement.columns[write.cell]
    match write:
        case LinearWrite():
            kind, written = "linear", list(columns[write.offset :][: write.form[0].width])
        case HingeWrite():
            also = [placement.columns[cell][offset] for cell, offset, _ in write.also]
            kind, written = "table", [columns[write.offset], *also]
        case ProductWrite():
            kind, written = "product", [columns[write.offset]]
    reads = read_columns(list(write.reads), placement)
    return {"does": write.label, "kind": kind, "reads": reads, "writes": written}
