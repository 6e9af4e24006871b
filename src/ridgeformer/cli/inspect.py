"""`ridgeformer inspect`: a saved model explained in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, starmap
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ridgeformer.cli import options as o

if TYPE_CHECKING:
    from ridgeformer.training import TrainedModel


def inspect(
    model: o.SavedOrShipped,
    layers: Annotated[int, typer.Option(help="How many layers to list; 0 for all.", min=0)] = 24,
) -> None:
    """Show what a model computes, layer by layer, with its size and certificate; of a trained one its recipe."""
    from ridgeformer.compiler.certificate import Certificate
    from ridgeformer.compiler.saved import check_sites
    from ridgeformer.experiments.named import directory_of
    from ridgeformer.training import TrainedModel
    from ridgeformer.transformer import load
    from ridgeformer.types import counted

    console = Console(highlight=False)
    directory = directory_of(model)
    transformer, config = load(directory)
    if "recipe" in config:
        console.print(recipe_table(TrainedModel.load(directory), escape(str(model))))
        return
    shape = transformer.config
    mlp, neurons = f"{shape.mlp} MLP", f", d_mlp {shape.d_mlp}"
    if not shape.d_mlp:
        mlp, neurons = "no MLP", ""
    registers = f", {counted(shape.n_registers, 'register')}" if shape.n_registers else ""
    console.print(
        f"[bold]{escape(str(model))}[/bold]: {shape.attention} attention, {mlp}, norm {shape.norm}, "
        f"{shape.mask} mask, {shape.dtype}"
    )
    parameters = sum(p.numel() for p in transformer.parameters())
    nonzero = sum(int(p.count_nonzero()) for p in transformer.parameters())
    console.print(
        f"{counted(shape.n_layers, 'layer')}, d_model {shape.d_model}, "
        f"{counted(shape.n_heads, 'head')} of {shape.d_head}"
        f"{neurons}{registers}; {parameters:,} parameters, {nonzero:,} of them not zero"
    )
    if shape.loop is not None:
        first, stop = shape.loop
        which = (
            f"Layers {first} to {stop - 1} (↻) are" if stop - first > 1 else f"Layer {first} (↻) is"
        )
        console.print(f"{which} a loop, repeated in every step; the others are applied once")
    read_at, states_at = "queries", ""
    if "certificate" in config:
        certificate = Certificate.from_dict(config["certificate"])
        console.print(f"\n[bold]Certificate[/bold]: {escape(certificate.summary())}")
        lines = Table.grid(padding=(0, 2))
        lines.add_row("", "domain", escape(", ".join(certificate.domain())))
        lines.add_row("", "promise", escape(certificate.promise()))
        console.print(lines)
        read_at = "every x" if certificate.every_prefix else read_at
        states_at = PLACES["prefix" if certificate.every_prefix else certificate.space]
    if "sites" in config:
        check_sites(config["sites"], shape)
        show_sites(config["sites"], read_at, states_at, console)
        show_layers(config["sites"], layers, console, shape.loop)
    else:
        console.print("Neither compiled nor trained here: it has no certificate and no recipe.")


def recipe_table(model: TrainedModel, title: str) -> Table:
    """Recipe, sizes and scores of a trained model."""
    table = Table(title=title, title_justify="left", show_header=False)
    recipe, config = model.recipe, model.transformer.config
    values = recipe.to_dict()
    sizes = {
        "parameters": f"{sum(p.numel() for p in model.transformer.parameters()):,}",
        "mask": config.mask,
        "positions": f"{config.max_tokens} learned"
        if config.positional == "learned"
        else config.positional,
        "precision": config.dtype,
    }
    parts = {
        "recipe": {"name": recipe.name, "seed": recipe.seed},
        "task": values["task"],
        "model": values["model"] | sizes,
        "training": values["training"],
        "curriculum": values["curriculum"] if recipe.curriculum.grows else {},
        "scores": model.scores or {"": "none were saved"},
    }
    for part, entries in parts.items():
        if not entries:
            continue
        rows = list(flat(entries))
        for index, (name, value) in enumerate(rows):
            table.add_row("" if index else f"[bold]{part}[/bold]", name, value)
        table.add_section()
    return table


def flat(entries: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Names and values; the names of a table's entries follow its own, and numbers share a line."""
    for name, value in entries.items():
        if isinstance(value, dict):
            if value and not any(isinstance(v, dict) for v in value.values()):
                yield f"{before}{name}", ", ".join(f"{n} {shown(v)}" for n, v in value.items())
            else:
                yield from flat(value, f"{before}{name}, ")
        else:
            yield f"{before}{name}", shown(value)


def shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(shown(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


PLACES = {
    "dual": "the supports, an entry at each",
    "feature": "the aggregator",
    "operator": "supports and registers",
    "prefix": "every token, for the pairs up to it",
}
"""Where the solver's vectors are read, by the space in which it works."""


def show_sites(sites: dict[str, Any], read_at: str, states_at: str, console: Console) -> None:
    predictions = sites["predictions"]
    entries = [*predictions, *(entry for line in sites["states"].values() for entry in line)]
    captions = ["7 mid [15]: channel 15 after the attention of block 7"]
    if any(entry["site"].endswith("post") for entry in entries):
        captions[0] += "; post: after its MLP"
    if sites["states"] and states_at:
        captions.append(f"{', '.join(sites['states'])}: at {states_at}")
    if any("scale" in entry for entry in entries):
        captions.append("× 0.5: multiply by it after reading")
    captions += [early_exit(entry) for entry in predictions if "through" in entry][:1]
    captions += later_steps(predictions)
    table = Table(
        title="Where iterates are read", title_justify="left",
        caption="\n".join(captions), caption_justify="left",
    )  # fmt: skip
    for name in ("step", f"predictions ({read_at})", *sites["states"]):
        table.add_column(name, overflow="fold")
    for step, entry in enumerate(sites["predictions"]):
        cells = [str(step), place(entry)]
        for line in sites["states"].values():
            cells.append(next((place(e) for e in line if e["step"] == step), ""))
        table.add_row(*map(escape, cells))
    console.print(table)


def later_steps(entries: list[dict[str, Any]]) -> list[str]:
    """What a loop adds: the sites of later steps follow from those of the first."""
    periods = {entry["period"] for entry in entries if "period" in entry}
    return [
        f"each later step: {period} block{'s' * (period > 1)} further on, as blocks are applied"
        for period in periods
    ]


def early_exit(entry: dict[str, Any]) -> str:
    """How a prediction is read that the stream itself does not hold."""
    first, stop = entry["through"]
    columns = escape(span(entry["times"]["columns"]))
    return f"→ {first}…{stop - 1}: multiply {columns} by the factor in config.json, apply these blocks, read"


def place(entry: dict[str, Any]) -> str:
    over = f" ÷ {span(entry['over'])}" if "over" in entry else ""
    site = entry["site"].replace("blocks.", "").replace(".resid_", " ")
    if "through" in entry:
        first, stop = entry["through"]
        site += f" → {first}…{stop - 1}"
    scale = f" × {entry['scale']:.3g}".replace("-", "−") if "scale" in entry else ""
    return f"{site} {span(entry['columns'])}{over}{scale}"


def span(columns: list[int]) -> str:
    """Columns as they come, runs of three and more by their ends."""
    runs: list[list[int]] = []
    for column in columns:
        if runs and column == runs[-1][-1] + 1:
            runs[-1].append(column)
        else:
            runs.append([column])
    words = [f"{r[0]}…{r[-1]}" if len(r) > 2 else " ".join(map(str, r)) for r in runs]
    return "[" + " ".join(words) + "]"


def merged(writes: list[dict[str, Any]]) -> list[tuple[str, list[int], list[int]]]:
    """Neurons that do the same as one entry: what they do, and all columns that they read and write."""
    columns: dict[str, tuple[set[int], set[int]]] = {}
    for write in writes:
        reads, to = columns.setdefault(write["does"], (set(), set()))
        reads.update(write["reads"])
        to.update(write["writes"])
    return [(does, sorted(reads), sorted(to)) for does, (reads, to) in columns.items()]


def show_layers(
    sites: dict[str, Any], limit: int, console: Console, loop: tuple[int, int] | None = None
) -> None:
    table = Table(title="What each layer does (reads → writes channels)", title_justify="left")
    table.add_column("layer", justify="right")
    layers = sites["layers"]
    shown = layers if limit == 0 else layers[:limit]
    parts = ("attention", "MLP") if any(layer["mlp"] for layer in layers) else ("attention",)
    for name in parts:
        table.add_column(name, overflow="fold")
    for (repeated, *cells), numbers in alike(shown, loop):
        number = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}…{numbers[-1]}"
        row = [f"↻ {number}" if repeated else number, *cells[: len(parts)]]
        table.add_row(*map(escape, row))
        table.add_section()
    console.print(table)
    if len(shown) < len(layers):
        left = len(layers) - len(shown)
        console.print(f"{left} more layer{'s' * (left > 1)}: --layers 0 shows all.")


def alike(
    layers: list[dict[str, Any]], loop: tuple[int, int] | None
) -> Iterator[tuple[tuple[bool, str, str], list[int]]]:
    """Layers in a row that do the same, with their numbers: in the loop or not, their heads, their MLP."""

    def described(index: int) -> tuple[bool, str, str]:
        heads = [(h["does"], h["reads"], h["writes"]) for h in layers[index]["attention"]]
        sides = (heads, merged(layers[index]["mlp"]))
        attention, mlp = ("\n".join(starmap(does_what, side)) for side in sides)
        return loop is not None and loop[0] <= index < loop[1], attention, mlp

    for words, numbers in groupby(range(len(layers)), described):
        yield words, list(numbers)


LONGEST = 24
"""Longer names may be broken after a factor, since a line has no room for two of them."""


def does_what(does: str, reads: list[int], writes: list[int]) -> str:
    name = " ".join(
        word.replace("·", "· ") if len(word) > LONGEST else word for word in does.split(" ")
    )
    return f"{name}  {span(reads)} → {span(writes)}"
