"""All numbers of an evaluation: by supports, by condition number, under shifts, and of speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.experiments.evaluation.methods import Method, of_baselines, of_best, of_model
from ridgeformer.experiments.evaluation.page import BEST, MODEL, UNAWARE
from ridgeformer.experiments.evaluation.scores import agreement, disagreement, feature_condition
from ridgeformer.experiments.evaluation.shifts import shifts_of
from ridgeformer.experiments.finding import Collector, Finding, Number, Progress, Setting
from ridgeformer.experiments.kept import Keep, at_once
from ridgeformer.models import Model
from ridgeformer.statistics import Estimate
from ridgeformer.tasks import LearnableTask
from ridgeformer.training import Held
from ridgeformer.training.scores import errors, excess, excess_from_targets

SIZES = (1, 2, 4, 8, 16, 32)
BINS = 4

MEASURES = {
    "mse": "mean squared error against the noisy targets",
    "above the model": "mean squared error above the model's, on the same prompts",
    "excess": "(MSE − best)/(Var y − best); by the mean of (f − f_best)² where best is Bayes' predictor",
    "excess from targets": "the same, by MSE − best as measured against the targets",
    "disagreement": "excess from targets − excess: 0 if best is Bayes' predictor",
    "squared difference": "mean squared difference to the best predictor",
    "correlation": "with the best predictor, over prompts and queries",
    "R²": "1 − squared difference/variance of the best predictor",
    "excess by condition": "excess of the prompts of one quarter, by cond(ΦᵀΦ + λI)",
    "excess under shift": "excess on a shifted task, over that task's own best predictor",
    "prompts per second": "measured on this machine, not reproducible",
}


@dataclass(frozen=True)
class Case:
    """Prompts to draw, and what is measured on them."""

    label: str
    task: LearnableTask
    methods: Sequence[Method]
    supports: int
    shift: str = ""
    value: float = 0.0

    @property
    def own(self) -> bool:
        """Whether these are prompts of the task as it is."""
        return not self.shift and self.supports == self.task.supports

    @property
    def where(self) -> Setting:
        shift: Setting = {"shift": self.shift, "value": self.value} if self.shift else {}
        return {"task": self.label, "supports": self.supports, **shift}


def sizes_of(task: LearnableTask, most: int | None) -> list[int]:
    """Up to four times as many supports as the task has, if the model reads so many."""
    beyond = [min(task.supports * times, most or inf) for times in (2, 4)]
    sizes = {*(k for k in SIZES if k < task.supports), task.supports, *beyond}
    return sorted(map(int, sizes))


def most_supports(model: Model) -> int | None:
    if isinstance(model, CompiledModel):
        return model.certificate.max_supports
    return model.most_supports


def measure(
    model: Model,
    tasks: Mapping[str, LearnableTask],
    prompts: int,
    seed: int,
    progress: Progress = iter,
    baselines: Sequence[str] | None = None,
    steps: int | None = None,
    keep: Keep = at_once,
) -> Finding:
    """The same seed gives the same numbers, except for the speed."""
    for task in tasks.values():  # before any work
        model.check(Held.draw(task, prompts, seed).sample.prompt)
    subject = of_model(model)
    cases: list[Case] = []
    labels = {MODEL: subject.label}
    for label, task in tasks.items():
        others = of_baselines(task, seed, baselines, steps)
        methods = [subject, of_best(task), *others]
        # The best predictor of the task itself, on prompts of a shifted one.
        unaware = Method(UNAWARE, "best predictor, not told of the shift", task.best)
        labels |= {m.name: m.label for m in (*methods, unaware)}
        cases += [Case(label, task, methods, k) for k in sizes_of(task, most_supports(model))]
        cases += [
            Case(label, variant, [subject, unaware, *others], task.supports, shift, value)
            for shift, variants in shifts_of(task).items()
            for value, variant in variants
        ]
    numbers: list[Number] = []
    refusals: list[dict[str, Any]] = []
    for index, case in enumerate(progress(cases)):
        name = f"{index}: {dict(case.where)}"
        found, refused = keep(name, partial(measured, case, prompts, seed))
        numbers += found
        refusals += refused
    settings = {
        "tasks": {label: task.to_dict() for label, task in tasks.items()},
        "exact": {label: task.exact for label, task in tasks.items()},
        "methods": labels,
        "baseline steps": steps,
        "threads": torch.get_num_threads(),
        "refusals": refusals,
    }
    return Finding("evaluation", seed, prompts, settings, MEASURES, numbers)


def measured(case: Case, prompts: int, seed: int) -> tuple[list[Number], list[dict[str, Any]]]:
    """The numbers of one case, and what was refused."""
    out = Collector(prompts, seed)
    refused = run_case(case, out)
    return out.numbers, refused


TRIED = (8, 24)
"""On so many prompts of the task itself it is tried how long measuring takes."""


def seconds_of(cases: Sequence[Case], prompts: int) -> float:
    """About how long it takes to measure all cases, from a trial on few prompts here and now.

    The time is linear in the prompts, and for each of them in its supports.
    """
    total = 0.0
    for own in (case for case in cases if case.own):
        seconds = []
        for few in (TRIED[0], *TRIED):  # The first run loads what the others have.
            before = perf_counter()
            run_case(own, Collector(few, 0))
            seconds.append(perf_counter() - before)
        each = max(seconds[2] - seconds[1], 0.0) / (TRIED[1] - TRIED[0])
        once = max(seconds[1] - each * TRIED[0], 0.0)
        for case in cases:
            if case.label == own.label:
                total += once + each * prompts * case.supports / own.supports
    return total


def run_case(case: Case, out: Collector) -> list[dict[str, Any]]:
    """Records the numbers of every method, and returns what was refused."""
    held = Held.draw(case.task, out.prompts, out.seed, case.supports)
    refused, by_model = [], None
    for method in case.methods:
        found = method.attempt(held.sample.prompt)
        if isinstance(found, str):
            refused.append({"method": method.name, **case.where, "reason": found})
            continue
        for measure, value in numbers_of(found, held, case, method.name, out.seed).items():
            out.add(measure, method.name, value, **case.where)
        if case.shift:
            continue
        error = errors(found, held.sample.targets)
        if method.name == MODEL:
            by_model = error
        elif by_model is not None:
            out.add("above the model", method.name, error - by_model, **case.where)
        if case.own:
            by_condition(found, held, case, method.name, out)
            rate = method.prompts_per_second(held.sample.prompt)
            out.exact("prompts per second", method.name, rate, **case.where)
    return refused


def numbers_of(
    found: Tensor, held: Held, case: Case, method: str, seed: int
) -> dict[str, Tensor | Estimate]:
    """By measure, what is known of a method's predictions from these prompts alone."""
    if case.shift:
        return {"excess under shift": excess(found, held, case.task.exact, seed)}
    numbers: dict[str, Tensor | Estimate] = {"mse": errors(found, held.sample.targets)}
    if method != BEST:
        numbers["excess"] = excess(found, held, case.task.exact, seed)
        numbers["excess from targets"] = excess_from_targets(found, held, seed)
        if case.task.exact:
            numbers["disagreement"] = disagreement(found, held, seed)
        numbers |= agreement(found, held, seed)
    return numbers


def by_condition(found: Tensor, held: Held, case: Case, method: str, out: Collector) -> None:
    """Records the excess by quarters of the prompts, in order of their condition number."""
    if case.task.ridge is None or method == BEST:
        return
    condition = feature_condition(held.sample.prompt.phi, case.task.ridge)
    for quarter, part in enumerate(condition.argsort().tensor_split(BINS), start=1):
        among = condition[part]
        value = excess(found[part], held.part(part), case.task.exact, out.seed)
        out.add(
            "excess by condition", method, value, **case.where, quarter=quarter,
            least=float(among.min()), middle=float(among.median()), most=float(among.max()),
        )  # fmt: skip
