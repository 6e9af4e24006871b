"""All numbers of an evaluation: by supports, by condition number, under shifts, and of speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch

from ridgeformer.compiler import CompiledModel
from ridgeformer.experiments.evaluation import scores
from ridgeformer.experiments.evaluation.methods import (
    Method,
    of_baselines,
    of_best,
    of_model,
    of_unaware,
)
from ridgeformer.experiments.evaluation.page import BEST, MODEL
from ridgeformer.experiments.evaluation.shifts import shifts_of
from ridgeformer.experiments.finding import Collector, Finding, Progress
from ridgeformer.models import Model
from ridgeformer.tasks import LearnableTask, LinearRegression
from ridgeformer.training import Held

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
    own: bool = False
    """Whether these are prompts of the task as it is."""


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
) -> Finding:
    """The same seed gives the same numbers, except for the speed."""
    for task in tasks.values():  # before any work
        model.check(Held.draw(task, prompts, seed).sample.prompt)
    subject = of_model(model)
    cases: list[Case] = []
    labels = {MODEL: subject.label}
    for label, task in tasks.items():
        others = of_baselines(task, seed, baselines)
        methods = [subject, of_best(task), *others]
        unaware = of_unaware(task)
        labels |= {m.name: m.label for m in (*methods, unaware)}
        cases += [
            Case(label, task, methods, k, own=k == task.supports)
            for k in sizes_of(task, most_supports(model))
        ]
        for shift, variants in shifts_of(task).items():
            cases += [
                Case(label, variant, [subject, unaware, *others], task.supports, shift, value)
                for value, variant in variants
            ]
    collector = Collector(prompts, seed)
    refusals: list[dict[str, Any]] = []
    for case in progress(cases):
        refusals += run_case(case, collector)
    settings = {
        "tasks": {label: task.to_dict() for label, task in tasks.items()},
        "exact": {label: task.exact for label, task in tasks.items()},
        "methods": labels,
        "threads": torch.get_num_threads(),
        "refusals": refusals,
    }
    return Finding("evaluation", seed, prompts, settings, MEASURES, collector.numbers)


def run_case(case: Case, collector: Collector) -> list[dict[str, Any]]:
    """Records the numbers of every method, and returns what was refused."""
    held = Held.draw(case.task, collector.prompts, collector.seed, case.supports)
    where: dict[str, float | str] = {"task": case.label, "supports": case.supports}
    if case.shift:
        where |= {"shift": case.shift, "value": case.value}
    refused, by_model = [], None
    for method in case.methods:
        found = method.attempt(held.sample.prompt)
        if isinstance(found, str):
            refused.append({"method": method.name, **where, "reason": found})
            continue
        here = Scored(collector, method.name, where, held, case.task.exact)
        if case.shift:
            here.shifted(found)
            continue
        error = scores.errors(found, held.sample.targets)
        if method.name == MODEL:
            by_model = error
        here.plain(found, error)
        if by_model is not None and method.name != MODEL:
            collector.add("above the model", method.name, error - by_model, **where)
        if case.own:
            here.by_condition(found, case.task)
            rate = method.prompts_per_second(held.sample.prompt)
            collector.exact("prompts per second", method.name, rate, **where)
    return refused


@dataclass(frozen=True)
class Scored:
    """Records the numbers of one method on some prompts."""

    collector: Collector
    method: str
    where: Mapping[str, float | str]
    held: Held
    exact: bool

    def plain(self, found: torch.Tensor, error: torch.Tensor) -> None:
        add, seed, held = self.collector.add, self.collector.seed, self.held
        add("mse", self.method, error, **self.where)
        if self.method == BEST:
            return
        excess = scores.excess(found, held, self.exact, seed)
        add("excess", self.method, excess, **self.where)
        literal = scores.excess_from_targets(found, held, seed)
        add("excess from targets", self.method, literal, **self.where)
        if self.exact:
            gap = scores.disagreement(found, held, seed)
            add("disagreement", self.method, gap, **self.where)
        for name, value in scores.agreement(found, held, seed).items():
            add(name, self.method, value, **self.where)

    def shifted(self, found: torch.Tensor) -> None:
        excess = scores.excess(found, self.held, self.exact, self.collector.seed)
        self.collector.add("excess under shift", self.method, excess, **self.where)

    def by_condition(self, found: torch.Tensor, task: LearnableTask) -> None:
        """Records the excess by quarters of the prompts, in order of their condition number."""
        if not isinstance(task, LinearRegression) or self.method == BEST:
            return
        prompt = self.held.sample.prompt
        condition = scores.feature_condition(prompt.phi, task.ridge)
        for number, part in enumerate(condition.argsort().tensor_split(BINS)):
            among = condition[part]
            some = self.held.part(part)
            value = scores.excess(found[part], some, self.exact, self.collector.seed)
            self.collector.add(
                "excess by condition", self.method, value, **self.where, quarter=number + 1,
                least=float(among.min()), middle=float(among.median()), most=float(among.max()),
            )  # fmt: skip
