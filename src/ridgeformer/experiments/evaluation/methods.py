"""The methods that are compared: the model, the best predictor and the baselines."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from ridgeformer.baselines import BASELINES
from ridgeformer.compiler import CompiledModel
from ridgeformer.experiments.evaluation.page import BEST, MODEL
from ridgeformer.models import Model
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.types import Refusal

TOKENS = 2**15
"""A model is given at most this many tokens at a time."""
TIMED = 64
"""The number of prompts whose predictions are timed."""


@dataclass(frozen=True)
class Method:
    name: str
    label: str
    predict: Callable[[Prompt], Tensor]

    def attempt(self, prompt: Prompt) -> Tensor | str:
        """Predictions in float64, or why there are none."""
        try:
            found = self.predict(prompt).double()
        except Refusal as refusal:
            return str(refusal)
        finite = torch.isfinite(found).flatten(1).all(1)
        if not finite.all():
            wrong = int((~finite).sum())
            return f"Predictions are not finite for {wrong} of {len(finite)} prompts."
        return found

    def prompts_per_second(self, prompt: Prompt) -> float:
        """The fastest of three runs, after one that is not counted."""
        few = prompt[:TIMED]
        self.predict(few)
        seconds = timeit.repeat(lambda: self.predict(few), number=1, repeat=3)
        return len(few) / max(min(seconds), 1e-9)


def of_model(model: Model) -> Method:
    # Shifted prompts are strange on purpose.
    run = model.predict if isinstance(model, CompiledModel) else model.run

    def predict(prompt: Prompt) -> Tensor:
        model.check(prompt)
        size = max(1, TOKENS // model.cost(prompt))
        parts = (prompt[i : i + size] for i in range(0, len(prompt), size))
        return torch.cat([run(part.to(model.transformer.device)).cpu() for part in parts])

    return Method(MODEL, "the model", predict)


def of_best(task: LearnableTask) -> Method:
    return Method(BEST, "best predictor" if task.exact else "best known predictor", task.best)


def of_baselines(
    task: LearnableTask, seed: int, names: Sequence[str] | None, steps: int | None = None
) -> list[Method]:
    """All baselines, or those that are named, fitted to the task and never to its shifts.

    Those that are iterative take `steps` steps, or their own number if it is None.
    """
    methods = []
    for name in BASELINES if names is None else dict.fromkeys(names):
        if name not in BASELINES:
            known = ", ".join(BASELINES)
            raise Refusal(f"There is no baseline {name!r}: choose from {known}, or none.")
        made = BASELINES[name]()
        if steps is not None and "steps" in {field.name for field in fields(made)}:
            made = replace(made, **{"steps": steps})
        fitted = made.fit(task, seed)
        methods.append(Method(name, fitted.label, fitted.predict))
    return methods
