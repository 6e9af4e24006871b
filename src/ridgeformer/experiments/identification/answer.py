"""Which solver does a model run? All evidence on one subject, and the verdict, as plain numbers and words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import inf
from typing import Any

from ridgeformer.analysis.verdict import Findings, Limits, Verdict, accepts, beyond, judge
from ridgeformer.experiments.finding import Collector, Finding, Number
from ridgeformer.experiments.identification.calibration import Calibration, shipped
from ridgeformer.experiments.identification.inquiry import Guess, Inquiry, Track
from ridgeformer.experiments.identification.parts import PARTS, Part
from ridgeformer.experiments.kept import Keep, at_once
from ridgeformer.experiments.run import check_seed
from ridgeformer.models import Subject
from ridgeformer.tasks import LearnableTask
from ridgeformer.transformer.threads import one_thread_each
from ridgeformer.types import Refusal

PROMPTS = 256


def in_silence(cases: Sequence[Any], doing: str) -> Iterable[Any]:
    return cases


@one_thread_each
def identify(
    subject: Subject,
    task: LearnableTask,
    *,
    prompts: int = PROMPTS,
    seed: int = 0,
    calibration: Calibration | None = None,
    guess: Guess | None = None,
    track: Track = in_silence,
    keep: Keep = at_once,
) -> Finding:
    """Which solver a model runs: everything that is found about a subject on prompts of a task.

    The same seed gives the same finding. Its `settings["verdict"]["sentence"]` is the verdict in words.

    subject   the model, as `subject(model)` or a `ModuleSubject`
    task   the task whose prompts the model is shown
    prompts   how many prompts; half of them fit, a quarter chooses, and the last quarter scores
    seed   the seed of the prompts
    calibration   the limits of the verdict, those that are shipped if it is left out
    guess   the kernel and λ at which the search for a candidate's numbers begins, or else the task's own
    track   shows progress
    keep   may know a piece of the work from before
    """
    if not isinstance(subject, Subject):
        raise Refusal(
            "A Subject is needed: `subject(model)` makes one of a compiled or trained model, and a module of your "
            f"own is a `ModuleSubject(…)`; got {str(subject)[:80]!r}, of type {type(subject).__name__}."
        )
    check_seed(seed, below=62)
    known = calibration or shipped()
    (q,) = [
        Inquiry.into(subject, task, prompts, seed, guess, track, keep)
        for _ in track((0,), "fitting candidates")
    ]
    found = Findings.of(q.fits, q.evidence)
    verdict = judge(found, known.limits, seed)
    out = Collector(prompts, seed)
    parts: dict[str, Any] = {}
    for part in track(PARTS, "gathering evidence"):
        parts[part.name], numbers = keep(part.name, partial(measured, part, q))
        out.numbers.extend(numbers)
    settings = {
        "subject": subject.name,
        "about": "",
        "task": task.to_dict(),
        "layers": len(q.model.places) - 1,
        "guess": {"kernel": q.guess.kernel.to_dict(), "ridge": q.guess.ridge, "source": q.guess.source},
        "searched": len(q.evidence.prompt),
        "compared": [fit.candidate.name for fit in q.compared],
        "verdict": described(verdict, found, known),
        "calibration": known.to_dict() | {"sentence": known.sentence},
        "parts": parts,
    }  # fmt: skip
    measures = {name: meaning for part in PARTS for name, meaning in part.measures.items()}
    told = {number.measure for number in out.numbers}
    return Finding(
        "identify",
        seed,
        prompts,
        settings,
        {name: meaning for name, meaning in measures.items() if name in told},
        out.numbers,
    )


def measured(part: Part, q: Inquiry) -> tuple[dict[str, Any], list[Number]]:
    """What a part says, or why it is left out, and its numbers."""
    out = Collector(len(q.prompt), q.seed)
    try:
        return dict(part.measure(q, out)), out.numbers
    except Refusal as refusal:
        return {"left out": str(refusal)}, out.numbers


def described(verdict: Verdict, found: Findings, calibration: Calibration) -> dict[str, Any]:
    return {
        "kind": verdict.kind,
        "names": list(verdict.names),
        "why": verdict.why,
        "sentence": verdict.sentence,
        "accepted": [one.name for one in found.accounts if accepts(one, calibration.limits)],
        "combination": found.together if found.together < inf else None,
        "what would change it": what_would_change(verdict, found, calibration.limits),
        "calibrated": calibration.cases > 0,
    }


def what_would_change(verdict: Verdict, found: Findings, limits: Limits) -> str:
    """The candidate that is nearest to another verdict, and the numbers that stand between."""
    rejected = [one for one in found.accounts if not accepts(one, limits)]
    nearest = min(rejected, key=lambda one: max(beyond(one, limits).values()), default=None)
    said = []
    if verdict.kind == "solver":
        first = next(one for one in found.accounts if one.name == verdict.names[0])
        tight = max(beyond(first, limits).items(), key=lambda item: item[1])
        said.append(
            f"The verdict would fall if {first.name} had {tight[0]} > {getattr(limits, tight[0]):.2g} "
            f"(it has {getattr(first, tight[0]):.2g})"
        )
        worse = [one.name for one in found.accounts if accepts(one, limits)]
        worse = [name for name in worse if name not in verdict.names]
        if worse:
            said.append(
                f"If the difference on the same prompts were chance, {' and '.join(worse)} would be named, too"
            )
    if verdict.kind == "mixture":
        said.append(
            f"The verdict would fall if the combination left more than {limits.systematic:.2g} unexplained, "
            f"and not {found.together:.2g}"
        )
    if nearest is not None:
        over = [name for name, times in beyond(nearest, limits).items() if times > 1]
        needs = " and ".join(
            f"{name} ≤ {getattr(limits, name):.2g} (it has {getattr(nearest, name):.2g})"
            for name in over
        )
        had = f"had {needs}" if over else f"had taken more than {nearest.steps} steps like these"
        said.append(f"If {nearest.name} {had}, it would be accepted")
    return "".join(f"{text}. " for text in said).strip()
