"""`Inquiry`: one subject with prompts and the candidates that were fitted to it, which all evidence starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ridgeformer.analysis.candidates import Setting as CandidateSetting
from ridgeformer.analysis.candidates import candidates
from ridgeformer.analysis.layer_readouts import Read, halves, query_reader
from ridgeformer.analysis.search import End, fit_at, search_all
from ridgeformer.analysis.trajectories import TOKENS, Evidence, Fit
from ridgeformer.experiments.finding import Setting
from ridgeformer.experiments.identification.cases import PROMPTS
from ridgeformer.experiments.identification.measure import MOST_STEPS
from ridgeformer.experiments.kept import Keep, at_once
from ridgeformer.kernels import Kernel, Linear
from ridgeformer.models import Change, Reading, Subject
from ridgeformer.solvers import kernel_eigenvalues
from ridgeformer.tasks import GaussianLaw, LearnableTask, Prompt
from ridgeformer.types import Refusal

SEARCHED = PROMPTS
"""Candidates are fitted on at most as many prompts as the models of a calibration are read on, so that its
limits mean the same."""

FEWEST = 32
"""A quarter of the prompts chooses and a quarter scores, and an interval needs several."""

DEEPEST = 24
"""A deep model is searched for at most so many steps, or twice as many with a stride of 2."""

COMPARED = 3
"""So many of the nearest candidates are measured in the same way as the subject."""

AT_ONCE = 256
"""So many queries are read at a time; in an interleaved decoder each takes a sequence."""

MODEL = "model"

Track = Callable[[Sequence[Any], str], Iterable[Any]]
"""Wraps the cases of a loop, and shows how far it is."""


@dataclass(frozen=True)
class Guess:
    """Where the search for λ, step sizes and widths begins."""

    kernel: Kernel
    ridge: float
    source: str
    """Where they come from, in words."""

    @staticmethod
    def of(task: LearnableTask, prompt: Prompt) -> Guess:
        """The task's kernel and λ; of several laws the middle one, without any a linear kernel."""
        laws = task.laws()
        if not laws:
            top = float(kernel_eigenvalues(prompt, Linear()).amax(-1).median())
            source = "the linear kernel and a hundredth of its largest eigenvalue, as the task has no Gaussian law"
            return Guess(Linear(), 0.01 * top, source)
        law = laws[len(laws) // 2]
        one = "the task" if len(laws) == 1 else f"the middle one of the task's {len(laws)} laws"
        return Guess(law.kernel, law.ridge, one)


@dataclass(frozen=True)
class Reader:
    """What is read as if it were a model, and where its entries are."""

    method: str
    read: Read
    places: tuple[Setting, ...]
    """For each entry its layer, or what else it is."""


@dataclass(frozen=True)
class InParts(Subject):
    """The same subject, which reads a few prompts at a time; large tensors take longer, and more memory."""

    inner: Subject

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    def read(self, prompt: Prompt) -> Reading:
        found = [self.inner.read(part) for part in parts_of(prompt)]
        return Reading(
            torch.cat([reading.predictions for reading in found]),
            torch.cat([reading.queries for reading in found], 1),
            torch.cat([reading.supports for reading in found], 1),
        )

    def predict(self, prompt: Prompt) -> Tensor:
        return torch.cat([self.inner.predict(part) for part in parts_of(prompt)])

    def changed(self, prompt: Prompt, layer: int, change: Change) -> Tensor:
        return self.inner.changed(prompt, layer, change)

    def untrained(self, prompt: Prompt, seed: int) -> Subject | None:
        control = self.inner.untrained(prompt, seed)
        return None if control is None else InParts(control)


def parts_of(prompt: Prompt) -> list[Prompt]:
    """The prompts in parts with at most so many queries."""
    size = max(1, AT_ONCE // prompt.phi_query.shape[1])
    return [prompt[start : start + size] for start in range(0, len(prompt), size)]


@dataclass(frozen=True)
class Inquiry:
    """A subject on prompts of a task, with every candidate's fit, the nearest first."""

    subject: InParts
    task: LearnableTask
    prompt: Prompt
    seed: int
    guess: Guess
    evidence: Evidence
    fits: tuple[Fit, ...]

    @staticmethod
    def into(
        subject: Subject,
        task: LearnableTask,
        prompts: int,
        seed: int,
        guess: Guess | None,
        track: Track,
        keep: Keep = at_once,
    ) -> Inquiry:
        """Reads the subject, refuses what cannot be identified, and fits every candidate to it."""
        if prompts < FEWEST:
            raise Refusal(
                f"Half of the prompts fit, a quarter chooses and a quarter scores: give `prompts` of at least "
                f"{FEWEST}, got {prompts}."
            )
        in_parts = InParts(subject)
        prompt = task.draw(prompts, seed)
        reading = in_parts.read(prompt)
        check_reading(reading, min(prompts, SEARCHED), subject.name)
        few = slice(0, SEARCHED)
        evidence = Evidence.of(
            Reading(reading.predictions[few], reading.queries[:, few], reading.supports[:, few]),
            prompt[few],
        )
        guess = guess or Guess.of(task, evidence.prompt)
        around = CandidateSetting.around(evidence.prompt, guess.kernel, guess.ridge)
        steps = max(MOST_STEPS, min(reading.layers, DEEPEST))
        among = candidates(evidence.prompt, around)
        if not among:
            raise Refusal(f"No registered solver runs on the {guess.kernel.name} kernel.")

        def search() -> list[End]:
            return search_all(
                evidence, among, around, steps, lambda c: track(c, "trying candidates")
            )

        ends = keep("search", search)
        fits = [
            fit_at(evidence, one, around, End(*end)) for one, end in zip(among, ends, strict=True)
        ]
        nearest = tuple(sorted(fits, key=lambda fit: fit.misfit))
        return Inquiry(in_parts, task, prompt, seed, guess, evidence, nearest)

    @property
    def law(self) -> GaussianLaw:
        """The one law of the task; a task with several or none is refused."""
        return self.task.law()

    @property
    def compared(self) -> tuple[Fit, ...]:
        """The nearest candidates."""
        return self.fits[:COMPARED]

    @cached_property
    def model(self) -> Reader:
        """The subject's layers, by readouts that were fitted on the first half of the prompts."""
        read = remembered(query_reader(self.subject, halves(self.prompt)[0]))
        layers = len(read(halves(self.prompt)[0])) - 1
        numbered: list[Setting] = [{"layer": layer} for layer in range(1, layers + 1)]
        return Reader(MODEL, read, (*numbered, {"at": "prediction"}))

    @property
    def readers(self) -> list[Reader]:
        """The subject, and the exact iterates of the nearest candidates."""
        return [self.model, *map(reader_of, self.compared)]


def check_reading(reading: Reading, prompts: int, name: str) -> None:
    """Refuses a model that has no layers, that is not finite, or whose stream is too wide for the prompts."""
    if reading.layers < 1:
        raise Refusal(f"{name} has no layer to read: a model needs at least one.")
    parts = (reading.predictions, reading.queries.transpose(0, 1), reading.supports.transpose(0, 1))
    finite = torch.stack([torch.isfinite(part).flatten(1).all(1) for part in parts]).all(0)
    if not finite.all():
        raise Refusal(
            f"Predictions or streams of {name} are not finite for {int((~finite).sum())} of {len(finite)} "
            "prompts: nothing can be compared with them."
        )
    width, tokens = reading.queries.shape[-1], min(reading.queries.shape[2], TOKENS)
    needed = 2 * -(-2 * (width + 1) // tokens)
    if prompts < needed:
        raise Refusal(
            f"A readout of a stream of width {width} needs twice as many tokens: give `prompts` of at least "
            f"{needed}, got {prompts}, or a task with more than {tokens} queries (up to {TOKENS})."
        )


def reader_of(fit: Fit) -> Reader:
    """A candidate as it was fitted, read after each of the steps that were looked for."""

    def read(prompt: Prompt) -> Tensor:
        signals = fit.candidate.signals(prompt.to(torch.float64), fit.setting, fit.steps)
        return signals["predictions"][1][fit.stride :: fit.stride]

    places: list[Setting] = [
        {"step": fit.stride * (number + 1), "layer": layer}
        for number, layer in enumerate(fit.layers)
    ]
    return Reader(fit.candidate.name, read, tuple(places))


def remembered(read: Read) -> Read:
    """The same reader, which answers at once for prompts that it has seen."""
    seen: dict[tuple[bytes, ...], Tensor] = {}

    def again(prompt: Prompt) -> Tensor:
        parts = (prompt.phi, prompt.y, prompt.phi_query)
        key = tuple(part.numpy().tobytes() for part in parts)
        if key not in seen:
            seen[key] = read(prompt)
        return seen[key]

    return again


def plain_fit(fit: Fit, prompt: Prompt) -> Mapping[str, Any]:
    """What was fitted of a candidate, as plain values."""
    setting, free = fit.setting, fit.candidate.free(prompt, fit.setting)
    fitted: dict[str, Any] = {"λ": setting.ridge} if "ridge" in free else {}
    if "lo" in free:
        fitted["interval"] = [setting.lo, setting.hi]
    elif "hi" in free:
        fitted["step size"] = 2 / (setting.lo + setting.hi)
    if "width" in free and setting.width is not None:
        fitted[setting.width] = getattr(setting.kernel, setting.width)
    return {
        "steps": fit.steps,
        "stride": fit.stride,
        "layers": list(fit.layers),
        "signals": list(fit.signals),
        "free": fit.freedom,
        "fitted": fitted,
    }
