"""What else gives these answers? Predictors without steps, which a model's predictions may end in.

    closed-form ridge    k(x)ᵀ(K + λI)⁻¹y, with λ and the kernel's width fitted
    nearest neighbours   the mean target of the n nearest supports, with n fitted
    nothing              the mean prediction, whatever the prompt
    untrained            a linear readout of the same transformer with random weights, where one can be made

None of these says anything of layers: every solver that has converged ends in ridge regression. They tell what a
model computes when no solver's steps are found in it, and they are the floor that a solver must beat. What is fitted is
fitted on the prompts that fit, and what is left of the prediction is measured on the prompts that score, in units of
the predictions' mean square.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.candidates import Setting
from ridgeformer.analysis.readouts import Readouts, Split
from ridgeformer.baselines import NearestNeighbours
from ridgeformer.models import Subject
from ridgeformer.solvers import krr
from ridgeformer.statistics import Estimate, estimate
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

FARTHEST = 5.0
"""λ and width are sought within a factor of exp(this) around where the search begins."""


@dataclass(frozen=True)
class End:
    """A predictor without steps, and how much of the model's predictions it explains."""

    name: str
    fitted: dict[str, float]
    """The numbers that were fitted."""
    left: Estimate
    """What it leaves of the prediction, in units of the predictions' mean square."""


def find_ends(
    predictions: Float[Tensor, "batch q r"],
    prompt: Prompt,
    around: Setting,
    *,
    untrained: Subject | None = None,
    seed: int,
) -> list[End]:
    """Each predictor without steps, fitted to these predictions."""
    predictions, prompt = predictions.double(), prompt.to(torch.float64)
    if not torch.isfinite(predictions).all():
        raise Refusal(
            "Predictions that are not finite end in nothing: give prompts of the model's task."
        )
    split = Split.of(len(prompt))
    size = float(predictions[split.score].square().sum(-1).mean())

    def end(name: str, fitted: dict[str, float], found: Tensor) -> End:
        left = (predictions - found)[split.score].square().sum(-1).mean(-1) / size
        return End(name, fitted, estimate(left, seed))

    fitted = [
        end("closed-form ridge", *ridge(predictions, prompt, around, split)),
        end("nearest neighbours", *neighbours(predictions, prompt, split)),
        end("nothing", {}, predictions[split.fit].mean((0, 1)).expand_as(predictions)),
    ]
    if untrained is not None:
        streams = untrained.read(prompt).queries[-1:]
        readouts = Readouts(streams, split.fit)
        read = readouts.columns[0] @ readouts.weights(predictions[None])[0]
        fitted.append(end("untrained", {}, read))
    return fitted


def ridge(
    predictions: Tensor, prompt: Prompt, around: Setting, split: Split
) -> tuple[dict[str, float], Tensor]:
    """The λ and the width, if the kernel has one, whose ridge regression is nearest."""
    names = ["ridge"] + (["width"] if around.width is not None else [])

    def at(x: np.ndarray) -> Setting:
        return around.moved(dict(zip(names, x.tolist(), strict=True)))

    def distance(x: np.ndarray) -> float:
        setting, part = at(x), prompt[split.fit]
        found = krr(part, ridge=setting.ridge, kernel=setting.kernel)
        return float((found - predictions[split.fit]).square().mean())

    best = least(distance, len(names))
    setting = at(best)
    numbers = {"λ": setting.ridge}
    if around.width is not None:
        numbers[around.width] = float(getattr(setting.kernel, around.width))
    return numbers, krr(prompt, ridge=setting.ridge, kernel=setting.kernel)


def least(distance: Callable[[np.ndarray], float], numbers: int) -> np.ndarray:
    """The best of a coarse grid, and from there Nelder and Mead's search, within the bounds."""
    steps = np.linspace(-FARTHEST, FARTHEST, 11)
    grid = np.stack(np.meshgrid(*[steps] * numbers), axis=-1).reshape(-1, numbers)
    first = min(grid, key=distance)
    found = scipy.optimize.minimize(
        distance,
        first,
        method="Nelder-Mead",
        bounds=[(-FARTHEST, FARTHEST)] * numbers,
        options={"xatol": 1e-4, "fatol": 0.0, "maxfev": 60 * numbers},
    )
    best: np.ndarray = found.x
    return best


def neighbours(
    predictions: Tensor, prompt: Prompt, split: Split
) -> tuple[dict[str, float], Tensor]:
    """The number of neighbours whose mean is nearest."""
    every = [NearestNeighbours(n).predict(prompt) for n in range(1, prompt.supports + 1)]
    errors = [float((e - predictions)[split.fit].square().mean()) for e in every]
    best = int(np.argmin(errors))
    return {"neighbours": best + 1}, every[best]
