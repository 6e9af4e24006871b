"""`ridgeformer suite`: models whose workings are known, for tools that look for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeformer.cli import options as o
from ridgeformer.cli.commands import register
from ridgeformer.cli.files import busy

if TYPE_CHECKING:
    from ridgeformer.suite import Suite

app = typer.Typer(
    help="Models whose workings are known, for interpretability tools: export them, and score what a tool finds.",
    no_args_is_help=True,
)

Directory = Annotated[Path, typer.Option(help="Directory of an exported suite, with its answers.")]


def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the suite.")],
    seed: Annotated[
        int,
        typer.Option(
            help="0 is the public suite; any other is one of its own, held out where the seed is kept."
        ),
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a suite.")] = False,
) -> None:
    """Write the suite: 15 MB in about ten seconds, always the same bytes for a seed.

    cases/ is what a tool may see, interventions/ what it is asked about afterwards, answers/ what the scorer reads.
    """
    from ridgeformer.experiments.run import check_seed
    from ridgeformer.suite import export as write
    from ridgeformer.types import Refusal

    check_seed(seed, 31)
    if directory.is_dir() and any(directory.iterdir()) and not force:
        raise Refusal(
            f"{directory} exists and is not empty: choose another directory, or `force=True`."
        )
    with busy("Writing the suite"):
        groups = write(directory, seed=seed, force=force)
    counts = ", ".join(f"{count} {group}" for group, count in groups.items())
    typer.echo(f"{directory}: {sum(groups.values())} cases ({counts}).")


def score(
    predictions: Annotated[
        Path,
        typer.Argument(metavar="PREDICTIONS.json", help="What a tool says; see docs/suite.md."),
    ],
    suite: Directory,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write all scores; scores.json beside PREDICTIONS.json if left out."
        ),
    ] = None,
) -> None:
    """Score what a tool says of a suite: subspaces, mat-vec heads, solvers, and interventions."""
    from ridgeformer.experiments.run import check_writable
    from ridgeformer.suite import Suite, read_predictions
    from ridgeformer.types import Refusal

    target = out or predictions.with_name("scores.json")
    if target.exists() and predictions.exists() and target.samefile(predictions):
        raise Refusal(f"--out {target} is the file of predictions itself: choose another name.")
    loaded = Suite.load(suite)
    answers = read_predictions(predictions, loaded)
    check_writable(target)
    scored(loaded, answers, target, str(predictions))


def baselines(
    suite: Directory,
    out: Annotated[Path, typer.Option(help="Directory of their predictions and scores.")],
    seed: o.Seed = 0,
) -> None:
    """Let three simple tools answer, and score them: random guesses, principal directions, and linear probes."""
    import json

    from ridgeformer.experiments.run import check_seed, check_writable
    from ridgeformer.suite import BASELINES, Suite, check_predictions
    from ridgeformer.whole import write_whole

    check_seed(seed, 31)
    loaded = Suite.load(suite)
    files = {
        kind: (out / kind.name / "predictions.json", out / kind.name / "scores.json")
        for kind in BASELINES
    }
    for pair in files.values():
        for path in pair:
            check_writable(path)
    for kind, (said, target) in files.items():
        with busy(f"Answering: {kind.name}"):
            answers: dict[str, Any] = kind(seed).answers(loaded)
        write_whole(said, (json.dumps(answers) + "\n").encode())
        scored(loaded, check_predictions(answers, loaded), target, kind.name)


def scored(suite: Suite, answers: Any, target: Path, title: str) -> None:
    """Prints the summary of the scores, and writes all of them."""
    import json

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from ridgeformer.suite import score as score_all
    from ridgeformer.suite.score import GROUPS, ROWS
    from ridgeformer.whole import write_whole

    scores = score_all(suite, answers)
    table = Table(
        title=f"{title}: means over cases, and 95 % intervals", title_justify="left",
        box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    table.add_column("")
    for column in GROUPS:
        table.add_column(column, justify="right")
    for row, columns in scores["summary"].items():
        table.add_row(ROWS[row], *(cell(columns[column]) for column in GROUPS))
    text = json.dumps(scores, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(target, text.encode())
    console = Console()
    console.print(table)
    console.print(f"All scores: {target}", soft_wrap=True, highlight=False)


def cell(estimate: dict[str, Any]) -> str:
    if estimate["mean"] is None:
        return ""
    return "{mean:.2f} [{low:.2f}, {high:.2f}]".format(**estimate)


for command in (export, score, baselines):
    register(app, command)
