"""`ridgeformer inspect`: a saved model explained in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ridgeformer.experiments.wording import shown
from ridgeformer.training import TrainedModel
from ridgeformer.transformer import load


def show(directory: str | Path, limit: int, console: Console | None = None) -> None:
    console = console or Console()
    model, config = load(directory)
    if "recipe" in config:
        console.print(recipe_table(TrainedModel.load(directory), str(directory)))
        return
    shape = model.config
    console.print(
        f"[bold]{directory}[/bold]: {shape.attention} attention, {shape.mlp} MLP, norm {shape.norm}, "
        f"{shape.mask} mask, {shape.dtype}"
    )
    parameters = sum(p.numel() for p in model.parameters())
    nonzero = sum(int(p.count_nonzero()) for p in model.parameters())
    console.print(
        f"{shape.n_layers} layers, d_model {shape.d_model}, {shape.n_heads} heads of {shape.d_head}, "
        f"d_mlp {shape.d_mlp}; {parameters:,} parameters, {nonzero:,} of them not zero"
    )
    if "certificate" in config:
        show_certificate(config["certificate"], console)
    if "sites" in config:
        show_sites(config["sites"], console)
        show_layers(config["sites"], limit, console)
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
        "positions": f"{config.max_tokens} learned" if config.positional == "learned" else "none",
        "precision": config.dtype,
    }
    parts = {
        "recipe": {"name": recipe.name, "seed": recipe.seed},
        "task": values["task"],
        "model": values["model"] | sizes,
        "training": values["training"],
        "scores": model.scores or {"": "none were saved"},
    }
    for part, entries in parts.items():
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


def show_certificate(certificate: dict[str, Any], console: Console) -> None:
    c = certificate
    console.print(
        f"\n[bold]Certificate[/bold]: {c['steps']} steps of {c['solver']} (precondition "
        f"{c['precondition']}) on the {describe_kernel(c['kernel'])} kernel, in {c['space']} space",
        soft_wrap=True,
    )
    console.print(f"  domain   {', '.join(describe_domain(c))}", soft_wrap=True)
    console.print(f"  promise  {describe_promise(c)}", soft_wrap=True)


def describe_kernel(kernel: dict[str, Any]) -> str:
    symbols = {"temperature": "τ", "lengthscale": "ℓ", "degree": "degree", "offset": "offset"}
    values = [f"{symbol} = {kernel[n]:g}" for n, symbol in symbols.items() if n in kernel]
    if kernel.get("projection") is not None:
        values.append(f"projected to {len(kernel['projection'])} features")
    return str(kernel["name"]) + (f" ({', '.join(values)})" if values else "")


def describe_domain(c: dict[str, Any]) -> list[str]:
    domain = [f"{c['features']} features", f"{c['outputs']} outputs"]
    if c["ridge"] is not None:
        domain.append(f"λ = {c['ridge']:g}")
    if c["attention"] == "linear":
        domain += [
            f"λ_max(K) ≤ {c['max_eigenvalue']:g}",
            "any number of supports",
            f"‖φ(x)‖ ≤ {c['max_query_norm']:.3g}",
        ]
    for name, symbol in (("max_norm", "|φ|"), ("max_supports", "k"), ("max_target", "|y|")):
        if c[name] is not None:
            domain.append(f"{symbol} ≤ {c[name]:g}")
    if c["ridge"] is not None:
        target = "‖y‖" if c["space"] == "dual" else "‖Φᵀy‖"
        least, most = c["min_target_norm"], c["max_target_norm"]
        domain.append(f"{target} = 0 or in [{least:.3g}, {most:.3g}]")
    if c["interval"] is not None:
        domain.append(f"eigenvalues ≤ {c['interval'][1]:g}")
    return domain


def describe_promise(c: dict[str, Any]) -> str:
    if c["absolute_error"] is not None:
        return f"every step within {c['absolute_error']:.3g} of the solver"
    if c["relative_error"] is None:
        return "none: at this MLP width an iterate may leave the range in which products are interpolated"
    return (
        f"every step within {c['relative_error']:g} of the solver, relative to the largest prediction, "
        f"or {c['round_off_factor']:g} times the solver's own round-off"
    )


def show_sites(sites: dict[str, Any], console: Console) -> None:
    table = Table(title="Where iterates are read", title_justify="left")
    for name in ("step", "predictions (queries)", *sites["states"]):
        table.add_column(name)
    for step, entry in enumerate(sites["predictions"]):
        cells = [str(step), place(entry)]
        for line in sites["states"].values():
            found = [place(e) for e in line if e["step"] == step]
            cells.append(found[0] if found else "")
        table.add_row(*cells)
    console.print(table)


def place(entry: dict[str, Any]) -> str:
    over = f" ÷ {span(entry['over'])}" if "over" in entry else ""
    return f"{entry['site']} {span(entry['columns'])}{over}"


def span(columns: list[int]) -> str:
    if len(columns) > 2 and columns == list(range(columns[0], columns[-1] + 1)):
        return f"[{columns[0]}…{columns[-1]}]"
    return "[" + " ".join(map(str, columns)) + "]"


def show_layers(sites: dict[str, Any], limit: int, console: Console) -> None:
    table = Table(title="What each layer does (reads → writes channels)", title_justify="left")
    table.add_column("layer", justify="right")
    table.add_column("attention")
    table.add_column("MLP")
    layers = sites["layers"]
    shown = layers if limit == 0 else layers[:limit]
    for index, layer in enumerate(shown):
        heads = [
            f"{h['does']}  {span(h['reads'])} → {span(h['writes'])}" for h in layer["attention"]
        ]
        writes = [f"{w['does']}  {span(w['reads'])} → {span(w['writes'])}" for w in layer["mlp"]]
        table.add_row(str(index), "\n".join(heads), "\n".join(dict.fromkeys(writes)))
        table.add_section()
    console.print(table)
    if len(shown) < len(layers):
        console.print(f"… {len(layers) - len(shown)} more layers: --layers 0 shows all.")
