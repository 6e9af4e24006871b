"""`study_language`: is a language model's use of its examples like ridge regression, similarity or neighbours?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ridgeformer.analysis.in_context.verdict import FEWEST_PROMPTS
from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.experiments.jobs import HERE, Store, Task, Where, one_thread, run_all
from ridgeformer.experiments.language import drift, number_part, styles, told
from ridgeformer.experiments.language.asked import METHOD, fingerprint, loaded
from ridgeformer.experiments.language.gathered import WEIGHTS, gathered
from ridgeformer.experiments.language.lm_page import page_of
from ridgeformer.experiments.language.number_part import NumberPart
from ridgeformer.experiments.language.words import COPIES, LABELS, QUERIES, WordPrompt
from ridgeformer.experiments.run import Run, check_seed
from ridgeformer.language import LANGUAGE_TASKS, LanguageTask, default_directory
from ridgeformer.language.tasks import NumericTask
from ridgeformer.types import Refusal

PROMPTS = 25
WORD_TASKS = ("random-labels", "animal-tool", "fruit-country", "positive-negative")
NUMBER_TASKS = ("linear", "quadratic", "sinusoid", "linear-2d", "gp-draw")


def study_language(
    names: Sequence[str] = (),
    out: str | Path = "results/lm",
    *,
    model: str | Path | None = None,
    prompts: int = PROMPTS,
    seed: int = 0,
    console: Console | None = None,
    store: Store | None = None,
    where: Where = HERE,
) -> Finding:
    """Studies the model of a directory, or the one that was fetched, on the named tasks, and writes the page.

    What is free is fixed on prompts of the seed, and all that is reported is from those of the next one. What was answered
    is kept in `store`, OUT/tasks if left out, at once, and the same call goes on from there.
    """
    check_seed(seed, below=62)
    tasks = chosen_tasks(names)
    if prompts < FEWEST_PROMPTS:
        raise Refusal(
            f"A verdict is a statement over prompts: give at least {FEWEST_PROMPTS}, got {prompts}."
        )
    directory = str(default_directory() if model is None else model)
    loaded(directory)  # A model that cannot be read is refused before anything is written.
    known = fingerprint(directory)
    run = Run(out, "findings.json", console)
    kept = Store(Path(out) / "tasks") if store is None else store
    numeric = [task for task in tasks if isinstance(task, NumericTask)]
    verbal = [task for task in tasks if not isinstance(task, NumericTask)]
    of_words = {
        t.name: [word_jobs(directory, known, t, prompts, s) for s in (seed, seed + 1)]
        for t in verbal
    }
    of_numbers = NumberPart.of(directory, known, numeric, prompts, seed, named=bool(names))
    of_styles = styles.style_jobs(directory, known, names, list(of_words), prompts, seed + 1)
    of_drift = drift.drift_jobs(directory, known, verbal, seed + 1)
    jobs: list[Task] = [
        *chain(*chain(*of_words.values())),
        *chain(*of_styles.values()),
        *chain(*of_drift.values()),
        *of_numbers.jobs,
    ]
    with timed(run.console) as progress:
        results = dict(zip(jobs, run_all(jobs, kept, where, progress), strict=True))
    collected = Collector(prompts, seed + 1)
    heard, seen = [], {}
    with one_thread():
        for name, parts in run.track(of_words.items(), "comparing"):
            first, second = (gathered(part, [results[job] for job in part]) for part in parts)
            heard.append(told.tell(name, first, second, collected))
            seen[name] = second
        about_numbers = of_numbers.score(results, collected)
        for styled in of_styles.values():
            styles.score(styled, [results[job] for job in styled], collected)
        for moved in run.track(of_drift.values(), "drift"):
            drift.score(moved, [results[job] for job in moved], collected)
    settings = {
        **described(directory, known, seed),
        "words": list(of_words),
        **about_numbers,
        "styles": styles.settings_of(loaded(directory), of_styles),
        "drift": drift.settings_of(loaded(directory), of_drift),
        **(told.settings_of(heard, seen) if heard else {}),
    }
    measures = {**told.MEASURES, **number_part.MEASURES, **styles.MEASURES, **drift.MEASURES}
    finding = Finding("language-model", seed, prompts, settings, measures, collected.numbers)
    page = page_of(finding)
    run.show(page.terminal)
    verdicts = [settings["verdict"]] if heard else []
    for verdict in [*verdicts, *number_part.verdicts(settings)]:
        run.console.print(verdict, markup=False, highlight=False)
    run.write(page, finding.to_dict())
    return finding


def chosen_tasks(names: Sequence[str]) -> list[LanguageTask]:
    """The named tasks, or those of the default study, with their own settings but for the queries of words."""
    chosen = list(names) or [*WORD_TASKS, *NUMBER_TASKS]
    if twice := [name for name in chosen if chosen.count(name) > 1]:
        raise Refusal(f"The task {twice[0]!r} is named twice: name each once.")
    kinds = [LANGUAGE_TASKS.find(name) for name in chosen]
    return [kind() if issubclass(kind, NumericTask) else kind(queries=QUERIES) for kind in kinds]


def word_jobs(
    directory: str, known: str, task: LanguageTask, prompts: int, seed: int
) -> list[WordPrompt]:
    """The prompts of one seed."""
    return [WordPrompt(directory, known, task, seed, number) for number in range(prompts)]


def described(directory: str, known: str, seed: int) -> dict[str, Any]:
    model = loaded(directory)
    return {
        "model": {
            "name": Path(directory).absolute().name, "fingerprint": known, "layers": model.layers,
            "heads": model.heads, "width": model.width, "parameters": model.parameters,
        },
        "method": METHOD, "labels": LABELS, "copies": COPIES, "seed of choices": seed,
        "seed of numbers": seed + 1, "seed of untrained weights": WEIGHTS,
        "supports of words": LanguageTask.supports, "queries of words": QUERIES,
        "queries of numbers": NumericTask.queries,
    }  # fmt: skip


class timed:
    """Tracks answers under a bar that tells the time left, and vanishes."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left:"), TimeRemainingColumn(),
        )  # fmt: skip
        self.progress = Progress(*columns, console=console, transient=True, speed_estimate_period=120)  # fmt: skip

    def __enter__(self) -> Callable[[Collection[Any]], Iterable[Any]]:
        self.progress.start()
        return lambda cases: self.progress.track(cases, description="asking")

    def __exit__(self, *_: object) -> None:
        self.progress.stop()
