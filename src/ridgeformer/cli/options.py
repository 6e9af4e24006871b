"""Options that several commands have, each with its help.

`{solvers}` and `{kernels}` stand for the names that are registered when the help is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Out = Annotated[Path, Option(help="Where to write the result.")]
Force = Annotated[bool, Option("--force", help="Replace a saved model.")]
Prompts = Annotated[Path, Argument(help="An .npz with phi [B,k,p], y [B,k,r], phi_query [B,q,p].")]
SavedOrShipped = Annotated[
    Path,
    Argument(help="Directory of a saved model, compiled or trained, or the name of a shipped one."),
]
SolverName = Annotated[str, Argument(help="The solver: {solvers}.", metavar="SOLVER")]
KernelName = Annotated[str, Option(help="The kernel: {kernels}.", metavar="KERNEL")]
Seed = Annotated[int, Option(help="Seed of prompts and intervals.")]
ShippedModel = Annotated[str, Argument(help="A shipped model.", metavar="NAME")]
Workers = Annotated[
    int | None,
    Option(help="Run on that many processes of this machine, with Dask.", metavar="N"),
]
Scheduler = Annotated[
    str | None,
    Option(help="Run on the workers of a Dask scheduler, such as tcp://10.0.0.5:8786."),
]
StoreDirectory = Annotated[
    Path | None,
    Option(
        help="Keep the result of every part there, and skip what is there; OUT/tasks with --workers "
        "or --scheduler, otherwise OUT/unfinished until the command has ended."
    ),
]
Device = Annotated[str, Option(help="Where the model runs: cpu, cuda, cuda:1, … or mps.")]
Resume = Annotated[bool, Option("--resume", help="Go on from the newest checkpoint in --out.")]
