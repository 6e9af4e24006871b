"""`Choice`: the view and the numbers of every predictor, fixed on prompts of one seed and used on those of another.

Layer, normalisation, kernel, λ, temperature and number of neighbours decide dozens of comparisons. Whoever chooses them on the
prompts that are then scored finds something everywhere. So a choice remembers its prompts, and refuses to be used on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context.influence import influence_agreement
from ridgeformer.analysis.in_context.observations import Observations
from ridgeformer.analysis.in_context.predictors import (
    FixedMetric,
    GivenWeights,
    Predictor,
    Ridge,
    Smoothing,
    exponents,
    metric_influence,
    neighbours,
    ridge_influence,
)
from ridgeformer.analysis.in_context.ridge_profile import RIDGES, check_grid, diagonal_unit
from ridgeformer.analysis.in_context.views import View
from ridgeformer.kernels import Kernel
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, counted

STILL_RIDGE = 1.0
"""In units of the mean kernel diagonal, the largest λ of what is called ridge regression when similarity is to be told
from it. Beyond, the two differ little, and in the limit not at all."""

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""In units of the standard deviation of exponents over the supports of a prompt."""

MOST_LANDMARKS = 512
EVERY = 10
"""Of the λ of ridge regression, the fixed metric tries so many fewer."""

RIDGE, SMALL_RIDGE = "kernel ridge regression", "kernel ridge regression, smaller λ"
SIMILARITY, SMOOTHING, METRIC = "similarity", "Nadaraya–Watson", "similarity in a fixed metric"
NEIGHBOURS, ATTENTION = "nearest neighbours", "attention of one head"
SIMILARITIES = (SIMILARITY, SMOOTHING, METRIC)


@dataclass(frozen=True, eq=False)
class Choice:
    """What was fixed, and the prompts that it was fixed on. λ is in units of the mean kernel diagonal, `unit`."""

    view: View
    unit: float
    ridges: tuple[float, ...]
    ridge: float
    """The best finite λ."""
    small_ridge: float
    """The best λ up to `STILL_RIDGE`."""
    temperature: float
    metric_ridge: float
    landmarks: Float[Tensor, "n p"]
    supports: int
    """How many supports the prompts had."""
    neighbours: int
    head: int | None
    """The head whose attention agrees best; None if none was given."""
    best_similarity: str
    """The member of `SIMILARITIES` that agrees best."""
    agreement: dict[str, float]
    """What each reached on the prompts that chose it, which is too good and only for the record."""
    views_tried: int
    seed: int
    fingerprints: frozenset[str]

    def check(self, observations: Observations) -> None:
        """Refuses observations that the choice was made on, whole or in part."""
        if observations.seed == self.seed:
            raise Refusal(
                f"The choice was made on prompts of seed {self.seed}, and these are of the same seed: score it on "
                "prompts of another one."
            )
        if shared := self.fingerprints & observations.fingerprints():
            raise Refusal(
                f"The choice was made on {counted(len(shared), 'prompt')} of these {len(observations)}: score it on "
                "prompts that it has not seen."
            )

    def predictors(self, observations: Observations) -> dict[str, Predictor]:
        """Every predictor with the numbers that were chosen, for observations that the choice has not seen."""
        self.check(observations)
        kernel = self.view.kernel
        found: dict[str, Predictor] = {
            RIDGE: Ridge(self.ridge * self.unit, kernel),
            SMALL_RIDGE: Ridge(self.small_ridge * self.unit, kernel),
            SIMILARITY: Ridge(inf, kernel),
            SMOOTHING: Smoothing(self.temperature, kernel),
            METRIC: FixedMetric(
                self.metric_ridge * self.unit, kernel, self.landmarks, self.supports
            ),
            NEIGHBOURS: neighbours(min(self.neighbours, observations.targets.shape[1])),
        }
        if self.head is not None and observations.attention is not None:
            found[ATTENTION] = GivenWeights(observations.attention[self.head])
        return found

    def to_dict(self) -> dict[str, Any]:
        """What was fixed, as plain values for a file of findings."""
        return {
            "view": self.view.label,
            "kernel": self.view.kernel.to_dict(),
            "layer": self.view.layer,
            "centre": self.view.centre,
            "unit length": self.view.unit,
            "unit of λ": self.unit,
            "λ": self.ridge,
            "λ up to 1": self.small_ridge,
            "temperature": self.temperature,
            "λ of the fixed metric": self.metric_ridge,
            "neighbours": self.neighbours,
            "head": self.head,
            "best similarity": self.best_similarity,
            "agreement where chosen": dict(self.agreement),
            "views tried": self.views_tried,
            "seed": self.seed,
        }


def choose(
    observations: Observations, views: Sequence[View], *, ridges: Sequence[float] = RIDGES
) -> Choice:
    """Fixes the view in which any of the predictors agrees best with the influence, and each one's numbers there.

    All predictors share the view, so that none is compared with another at a layer that suits only the other. A view in
    which all features are 0 is left out.
    """
    check_grid(ridges)
    if not views:
        raise Refusal("There is no view to choose from: give at least one.")
    best: tuple[float, Numbers] | None = None
    for view in views:
        if not view.prompt(observations).phi.any():
            continue
        numbers = Numbers.of(observations, view, ridges)
        score = max(numbers.agreement.values())
        if best is None or score > best[0]:
            best = score, numbers
    if best is None:
        raise Refusal(
            "The features of the supports are 0 in every view: give features that tell inputs apart."
        )
    return best[1].choice(observations, tuple(ridges), len(views))


@dataclass(frozen=True, eq=False)
class Numbers:
    """The best numbers of each predictor in one view."""

    view: View
    prompt: Prompt
    unit: float
    ridge: float
    small_ridge: float
    temperature: float
    neighbours: int
    agreement: dict[str, float]

    @staticmethod
    def of(observations: Observations, view: View, ridges: Sequence[float]) -> Numbers:
        prompt, kernel = view.prompt(observations), view.kernel
        unit = diagonal_unit(prompt, kernel)
        influence = observations.influence

        def reached(*predicted: Tensor) -> Tensor:
            return influence_agreement(influence, torch.stack(predicted)).mean(-1)

        by_ridge = reached(*ridge_influence(prompt, kernel, [r * unit for r in ridges]))
        finite = by_ridge[:-1]
        small = finite[: max(1, sum(r <= STILL_RIDGE * (1 + 1e-9) for r in ridges))]
        temperatures = tempered(prompt, kernel)
        by_heat = reached(*(Smoothing(t, kernel).influence(prompt) for t in temperatures))
        counts = range(1, prompt.supports)
        by_count = reached(*(neighbours(n).influence(prompt) for n in counts))
        return Numbers(
            view,
            prompt,
            unit,
            ridges[int(finite.argmax())],
            ridges[int(small.argmax())],
            temperatures[int(by_heat.argmax())],
            counts[int(by_count.argmax())],
            {
                RIDGE: float(finite.max()),
                SMALL_RIDGE: float(small.max()),
                SIMILARITY: float(by_ridge[-1]),
                SMOOTHING: float(by_heat.max()),
                NEIGHBOURS: float(by_count.max()),
            },
        )

    def choice(
        self, observations: Observations, ridges: tuple[float, ...], views_tried: int
    ) -> Choice:
        """The choice of this view, with a fixed metric, and a head where there are any."""
        agreement = dict(self.agreement)
        landmarks = self.prompt.phi.flatten(0, 1)[:MOST_LANDMARKS]
        tried = ridges[:-1:EVERY]
        metrics = metric_influence(
            self.prompt,
            self.view.kernel,
            landmarks,
            self.prompt.supports,
            [r * self.unit for r in tried],
        )
        by_metric = influence_agreement(observations.influence, metrics).mean(-1)
        agreement[METRIC] = float(by_metric.max())
        head = None
        if observations.attention is not None:
            by_head = influence_agreement(observations.influence, observations.attention).mean(-1)
            head = int(by_head.argmax())
            agreement[ATTENTION] = float(by_head.max())
        return Choice(
            self.view,
            self.unit,
            ridges,
            self.ridge,
            self.small_ridge,
            self.temperature,
            tried[int(by_metric.argmax())],
            landmarks,
            self.prompt.supports,
            self.neighbours,
            head,
            max(SIMILARITIES, key=lambda name: agreement[name]),
            agreement,
            views_tried,
            observations.seed,
            observations.fingerprints(),
        )


def tempered(prompt: Prompt, kernel: Kernel) -> list[float]:
    """The temperatures that are tried; 1 is among them where the kernel is an exponential, and makes it the kernel."""
    spread = float(exponents(kernel, prompt).std(-1).mean()) or 1.0
    own = [1.0] if kernel.logits() is not None else []
    return [t * spread for t in TEMPERATURES] + own
