"""Views: from which layer features are taken, how they are normalised, and which kernel compares them.

    centre   none, or the mean of the prompt's supports, or that of all supports, is taken away
    unit     features have length 1, so that the linear kernel is the cosine
    kernel   any of the package's

These decide many comparisons, so that a view is chosen on one seed and used on another (`Choice`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context.observations import Observations
from ridgeformer.baselines.base import typical_distance
from ridgeformer.kernels import Gaussian, Kernel, Linear
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

Centre = Literal["none", "prompt", "all"]

NOTHING = 1e-6
"""A centred feature shorter than this part of the uncentred ones is round-off, and is taken for 0."""


@dataclass(frozen=True)
class View:
    """States of a model as a kernel sees them: after which layer, and centred how."""

    kernel: Kernel
    layer: int = 0
    centre: Centre = "none"
    unit: bool = False

    @property
    def label(self) -> str:
        kernel = "cosine" if self.unit and self.kernel.name == "linear" else self.kernel.label
        centred = {"none": "", "prompt": ", centred by prompt", "all": ", centred"}[self.centre]
        return f"{kernel}{centred}, layer {self.layer}"

    def prompt(self, observations: Observations) -> Prompt:
        """The observations as prompts in float64, with the features of this view."""
        if not 0 <= self.layer < observations.layers:
            raise Refusal(
                f"There is no layer {self.layer} in observations of {observations.layers}: choose one that is."
            )
        return self.compared(
            observations.supports[self.layer],
            observations.queries[self.layer],
            observations.targets,
        )

    def compared(
        self,
        supports: Float[Tensor, "batch k p"],
        queries: Float[Tensor, "batch q p"],
        targets: Float[Tensor, "batch k"],
    ) -> Prompt:
        """Features of one layer as prompts in float64, as this view normalises them."""
        supports, queries = supports.double(), queries.double()
        longest = max(float(supports.norm(dim=-1).max()), float(queries.norm(dim=-1).max()))
        if self.centre != "none":
            over = 1 if self.centre == "prompt" else (0, 1)
            mean = supports.mean(over, keepdim=True)
            supports, queries = supports - mean, queries - mean
        least = NOTHING * longest
        supports, queries = (shortened(x, least, self.unit) for x in (supports, queries))
        return Prompt(supports, targets.double()[..., None], queries)


def shortened(
    features: Float[Tensor, "batch n p"], least: float, unit: bool
) -> Float[Tensor, "batch n p"]:
    """Features of length 1 if they are to be, and 0 where they are shorter than `least`."""
    length = features.norm(dim=-1, keepdim=True)
    kept = torch.where(length > least, features, 0.0)
    return kept / length.clamp(min=max(least, 1e-300)) if unit else kept


def standard_views(observations: Observations, layers: Sequence[int] | None = None) -> list[View]:
    """The views that are tried where none is known: at each layer the linear kernel, the cosine and the RBF.

    The linear kernel and the cosine come centred by prompt and not. The width of the RBF is the median distance
    between a query and a support of these observations.
    """
    views = []
    for layer in range(observations.layers) if layers is None else layers:
        for unit in (False, True):
            for centre in ("none", "prompt"):
                views.append(View(Linear(), layer, centre, unit))
        width = typical_distance(View(Linear(), layer).prompt(observations))
        if width > 0:
            views.append(View(Gaussian(width), layer))
    return views
