"""Where the tasks of a command run, and where their results are kept, from its options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ridgeformer.cli.imports import UserFile
    from ridgeformer.experiments.jobs import Store, Where


def plan(
    context: typer.Context,
    out: Path,
    workers: int | None,
    scheduler: str | None,
    store: Path | None,
) -> tuple[Where, Store]:
    """This process, and a store that is kept until the job is done, unless the options say more.

    Workers run the files of `--import` too, and results of other files are not taken for those of these.
    """
    from ridgeformer.experiments.cluster import where_of
    from ridgeformer.experiments.jobs import HERE, Store, Unfinished, code

    setups = imported(context)
    where = where_of(workers, scheduler, setups)
    made_by = " ".join([code(), *(s.content for s in setups)])
    if where is HERE and store is None:
        return where, Unfinished(out / "unfinished", made_by)
    return where, Store(store or out / "tasks", made_by)


def imported(context: typer.Context) -> list[UserFile]:
    """The files of `--import`, as workers run them."""
    from ridgeformer.cli.imports import UserFile

    return [UserFile.of(path) for path in context.find_root().params.get("files") or ()]
