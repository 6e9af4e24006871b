"""The noise of a model's responses, in the numbers of `Noise`, and the power that the instrument has under it.

The influence of the predictor that agreed best where it was chosen, W, is taken for the model's own, up to the ways in which simulated
learners are spoilt. In every prompt, least squares fit

    R_ij = g_j W_ij + γ ρ_i W_ij + c_i + d_j + noise,    ρ rising from −1 for the first support to 1 for the last

and over all prompts, with weights that are the inverse variances of the coefficients but for that of the noise,

    gains      √log(1 + V/ḡ²), where V is the variance of g beyond what noise gives it (DerSimonian and Laird's moments)
    places     γ̄/ḡ
    recency    the slope of c in ρ, over the size of the interactions that are explained
    ceiling    the pooled correlation of the interactions of R and W, over what gains and places leave of that of W with itself

each at least 0. Noise of responses and features that are not the model's own lower the agreement alike, and cannot be told apart here. All of it
is taken for noise of responses, independent of each other. So the power that is found is that of a learner with these very features; one with others that
agrees as little may not be found at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.in_context import Choice, Observations, interactions
from ridgeformer.analysis.in_context.choice import ATTENTION
from ridgeformer.experiments.language.power import Rates, find_rates
from ridgeformer.experiments.language.simulated import (
    Learner,
    Noise,
    ridge_learner,
    rising_evenly,
    weighed,
)
from ridgeformer.tasks.learnable import generator_of

LEARNERS = (ridge_learner(0.1), ridge_learner(inf))
"""The learner whose power is told, and similarity as a control."""
REPEATS = 25
DRAWS = 40
"""So many draws of gains for each prompt tell what they leave of a correlation."""


def noise_of(observations: Observations, choice: Choice) -> Noise | None:
    """The noise of these responses beside the best predictor of the choice; None if that does not agree at all."""
    scores = {name: value for name, value in choice.agreement.items() if name != ATTENTION}
    best = choice.predictors(observations)[max(scores, key=lambda name: scores[name])]
    own = best.influence(choice.view.prompt(observations))
    found = observations.influence.double()
    agreement = pooled(found, own)
    if not agreement > 0:
        return None
    gains, places, slope = fitted(found, own / own.square().mean().sqrt())
    each = own.repeat(DRAWS, 1, 1)
    spoilt = weighed(each, places, gains, generator_of(0, 0xA0))
    ceiling = min(1.0, agreement / pooled(spoilt, each))
    size = ceiling * float(interactions(found).std())
    return Noise(ceiling, recency=max(0.0, slope / size), places=places, gains=gains)


def pooled(a: Float[Tensor, "batch k q"], b: Float[Tensor, "batch k q"]) -> float:
    """The correlation of interactions over all prompts together; 0 where one side has none."""
    a, b = interactions(a), interactions(b)
    size = a.norm() * b.norm()
    return float((a * b).sum() / size) if size > 0 else 0.0


def fitted(
    found: Float[Tensor, "batch k q"], own: Float[Tensor, "batch k q"]
) -> tuple[float, float, float]:
    """Gains, places, and the slope of what all queries share."""
    batch, k, q = found.shape
    rho = rising_evenly(k)
    eye_k, eye_q = (torch.eye(n, dtype=torch.float64) for n in (k, q))
    columns = [
        own[..., None] * eye_q,
        (rho[:, None] * own)[..., None],
        eye_k[:, None].expand(batch, k, q, k),
        eye_q[None, :, 1:].expand(batch, k, q, q - 1),
    ]
    design = torch.cat(columns, dim=-1).flatten(1, 2)
    normal = design.mT @ design
    # A query at which one support alone counts has no gain that can be told from that support's own part.
    inverse = torch.linalg.pinv(normal, hermitian=True)
    told = (inverse @ normal).diagonal(dim1=-2, dim2=-1) > 1 - 1e-6
    said = found.flatten(1)[..., None]
    solved = inverse @ (design.mT @ said)
    left = (said - design @ solved).square().sum()
    variance = float(left) / (batch * (k * q - design.shape[-1]))
    coefficients = solved[..., 0]
    spreads = inverse.diagonal(dim1=-2, dim2=-1).masked_fill(~told, inf)
    gain, more = moments(coefficients[:, :q], spreads[:, :q], variance)
    along, _ = moments(coefficients[:, q : q + 1], spreads[:, q : q + 1], variance)
    shared = coefficients[:, q + 1 : q + 1 + k]
    slope = float((shared @ rho).mean() / rho.square().sum())
    if gain <= 0:
        return 0.0, 0.0, slope
    return sqrt(log(1 + more / gain**2)), min(1.0, max(0.0, along / gain)), slope


def moments(
    values: Float[Tensor, "batch n"], spreads: Float[Tensor, "batch n"], variance: float
) -> tuple[float, float]:
    """The weighted mean of coefficients that are known, and their variance beyond that of noise."""
    known = spreads < inf
    values, weights = values[known], 1 / spreads[known]
    if len(values) < 2:
        return 0.0, 0.0
    total = weights.sum()
    mean = (weights * values).sum() / total
    apart = (weights * (values - mean).square()).sum() - variance * (len(values) - 1)
    beyond = apart / (total - weights.square().sum() / total).clamp(min=1e-300)
    return float(mean), max(0.0, float(beyond))


def rates_under(
    noise: Noise,
    words: Float[Tensor, "words p"],
    like: Observations,
    *,
    learners: Sequence[Learner] = LEARNERS,
    repeats: int = REPEATS,
    seed: int,
) -> list[Rates]:
    """The verdicts on simulated learners that have these features and this noise, on prompts as large and as many as these."""
    batch, k, q = like.influence.shape
    return [
        find_rates(
            learner,
            noise,
            repeats=repeats,
            words=words.double(),
            prompts=batch,
            supports=k,
            queries=q,
            seed=seed,
        )
        for learner in learners
    ]
