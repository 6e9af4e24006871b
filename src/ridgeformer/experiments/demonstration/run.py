"""The demo: the picture first, then the tables and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ridgeformer.experiments.demonstration import conjugate_gradients as cg
from ridgeformer.experiments.demonstration.decoder import SHOWN as NARROW
from ridgeformer.experiments.demonstration.decoder import decoder
from ridgeformer.experiments.demonstration.softmax import CASES, softmax
from ridgeformer.experiments.demonstration.trained import trained
from ridgeformer.experiments.finding import Figure, Table
from ridgeformer.experiments.jobs import one_thread
from ridgeformer.experiments.picture import png
from ridgeformer.experiments.run import Run, check_seed, check_writable
from ridgeformer.experiments.timing import slowness
from ridgeformer.whole import write_whole

SECONDS = 17.0
"""CPU seconds that the rest takes, measured with the machine of `timing.UNIT`."""

SHOWN = [0, 2, 4, 5, 6, 7]
"""The columns about softmax that fit a terminal; the page has all."""


def means(table: Table) -> Table:
    """The same without intervals, for a terminal."""
    return replace(table, rows=[[cell.split(" [")[0] for cell in row] for row in table.rows])


@one_thread()  # Threads that wait for each other would cost minutes where a machine is busy.
def demo(out: str | Path, seed: int = 0, console: Console | None = None) -> Path:
    """Draws demo.png, measures the rest, prints tables, writes one page, and returns its path."""
    check_seed(seed, below=62)
    run = Run(out, "findings.json", console)
    picture = Path(out) / "demo.png"
    check_writable(picture)
    model = cg.compiled()
    first = cg.convergence(model, seed, run.track(cg.CONDITIONS))
    figure = first.figures[0]
    assert isinstance(figure, Figure)
    write_whole(picture, png(figure, cg.PROSE.titled("page")["title"]))
    run.console.print(f"The picture: [bold]{picture}[/bold]", soft_wrap=True)
    run.say_how_long(SECONDS * slowness(), "Measuring the rest for the page")
    size = cg.sizes(model, seed)
    layers, width = (int(size.settings[name]) for name in ("layers", "d_model"))
    run.show({
        f"CG compiled to a transformer: {layers} layers, width {width}, {cg.PROMPTS} prompts of "
        f"{cg.SUPPORTS} supports, after {cg.STEPS} steps (seed {seed})": first.tables[0]
    })  # fmt: skip
    second = softmax(seed, run.track(CASES, "softmax attention"))
    behind = f"The same behind softmax attention: {second.prompts} prompts of {second.settings['supports']} supports"
    run.show({behind: second.tables[0].columns(SHOWN)})
    (third,) = (trained(seed) for _ in run.track([seed], "trained models"))
    beside = f"Trained models beside compiled CG: excess risk, {third.prompts} prompts of linear regression, κ from 1 to 100"
    run.show({beside: third.tables[0]})
    (fourth,) = (decoder(seed) for _ in run.track([seed], "a decoder"))
    curve = f"A decoder that predicts at every x: squared error ÷ variance of y, {fourth.prompts} prompts"
    run.show({curve: means(fourth.tables[0].columns(NARROW))})
    streams = cg.residual_streams(model, cg.CONDITIONS[1], seed)
    findings = [first, streams, second, third, fourth, size]
    values = {"seed": seed, "findings": [finding.to_dict() for finding in findings]}
    return run.write(cg.PROSE.page([f.section() for f in findings], first), values)
