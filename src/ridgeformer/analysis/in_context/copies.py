"""Copies: a support that comes c times counts less each time in ridge regression, and no less in a smoother.

Two prompts are compared: one in which a support a occurs once, and the same with c − 1 others, at random places, replaced by copies of
it, input and target. So both have as many supports, and no place is favoured. The response per copy is the change of an output when the target of one copy is changed, or of all copies at once divided by
c, per unit of the change. Over prompts b and queries j, the **discount** is

    D = Σ_b Σ_j s_bj · (response per copy, c copies) / Σ_b Σ_j s_bj · (response, one copy)

where s_bj is the kernel between a and the query, less its mean over queries. s is the same on both sides and knows nothing
of responses, so that noise in them does not bias D as it would a ratio or a slope, and a bias of labels has no part in it.

    pure similarity            D = 1
    Nadaraya–Watson            a little below 1: near the support, copies enlarge the sum of the weights
    kernel ridge regression    (κ + λ)/(cκ + λ) for a support with nothing else near, where κ = k(a, a), less the
                               part that other supports explain; 1/c for λ → 0, and 1 for λ → ∞
    nearest neighbours         1/c for one neighbour, and a little more as there are fewer rivals

so that copies tell ridge regression from similarity, and influence tells both from neighbours. What each predicts is worked out
from the features of the very prompts, centred as they are without copies. Let N_b = Σ_j s_bj (response per copy), M_b = Σ_j s_bj (response to one), S_b = Σ_j s_bj², and let
(n, m) be the same of a predictor, of length 1 in each prompt. If it is right, N_b m_b − M_b n_b is 0 in every prompt but for noise, whatever
the size of the responses. The **way** from one predictor to another is the statistic that tells them best,

    t_b = (N_b m_b − M_b n_b) δ_b,    δ_b = (N'_b m_b − M'_b n_b)/S_b

where N' and M' are those of the other predictor. It is linear in the responses. Its mean is told in such units that it is 0 if the first
predictor is right, and 1 if the other one is. In the first case every t_b is noise, as often below 0 as above, whose size differs by orders
of magnitude as δ_b does. So it is tested by changes of signs, which need no more than that. The λ of copies minimises Σ_b (N_b m_b − M_b n_b)²/S_b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import scipy
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.analysis.in_context.influence import LEVEL
from ridgeformer.analysis.in_context.observations import Observations
from ridgeformer.analysis.in_context.predictors import Predictor, ridge_influence
from ridgeformer.analysis.in_context.ridge_profile import (
    RIDGES,
    BestRidge,
    best_with_interval,
    diagonal_unit,
)
from ridgeformer.analysis.in_context.views import View
from ridgeformer.kernels import Kernel
from ridgeformer.statistics import Estimate, chance_by_signs, estimate, estimate_of
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


@dataclass(frozen=True, eq=False)
class Copies:
    """Responses to a support that was repeated, for the same prompts as some observations."""

    slots: Int[Tensor, "batch c"]
    """The places of its c copies: that of the support itself first, and then those of the supports that were replaced."""
    once: Float[Tensor, "batch q"]
    """The response per unit of its target where it occurs once."""
    repeated: Float[Tensor, "batch q"]
    """The response per unit and per copy where it occurs c times."""

    def __post_init__(self) -> None:
        check_slots(self.slots)
        if self.once.shape != self.repeated.shape or len(self.slots) != len(self.once):
            raise Refusal(
                "Copies need places for each prompt, and responses of one shape; got "
                f"{list(self.slots.shape)}, {list(self.once.shape)} and {list(self.repeated.shape)}."
            )
        for name in ("once", "repeated"):
            if not torch.isfinite(getattr(self, name)).all():
                raise Refusal(
                    f"The responses to copies ({name}) are not all finite: leave out prompts that failed."
                )

    @property
    def count(self) -> int:
        """How often the support occurs, c."""
        return self.slots.shape[1]


def check_slots(slots: Int[Tensor, "batch c"]) -> None:
    """Refuses places of copies that are not at least two for each prompt, all of them different."""
    if slots.ndim != 2 or slots.shape[1] < 2:
        raise Refusal(
            "A repeated support occurs at least twice: give at least two places for each prompt; got "
            f"{list(slots.shape)}."
        )
    if not slots.sort(-1).values.diff(dim=-1).all():
        raise Refusal("A place of copies is named twice in a prompt: give places that differ.")


def with_copies(prompt: Prompt, slots: Int[Tensor, "batch c"]) -> Prompt:
    """The prompt with copies of a support in the given places, the first of which is its own; all others stay."""
    check_slots(slots)
    rows = torch.arange(len(prompt))
    phi, y = (
        part.index_put((rows[:, None], slots), part[rows, slots[:, 0]][:, None].expand(-1, slots.shape[1], -1))
        for part in (prompt.phi, prompt.y)
    )  # fmt: skip
    return Prompt(phi, y, prompt.phi_query)


def per_copy(
    influence: Float[Tensor, "*more batch k q"], slots: Int[Tensor, "batch c"]
) -> Float[Tensor, "*more batch q"]:
    """The mean influence of the copies that `with_copies` made."""
    rows = torch.arange(len(slots))[:, None]
    return influence[..., rows, slots, :].mean(-2)


def instrument(
    prompt: Prompt, slots: Int[Tensor, "batch c"], kernel: Kernel
) -> Float[Tensor, "batch q"]:
    """s: the kernel between the support and each query, less its mean over queries."""
    rows = torch.arange(len(prompt))
    support = prompt.phi.double()[rows, slots[:, 0]][:, None]
    similar = kernel(support, prompt.phi_query.double())[:, 0]
    return similar - similar.mean(-1, keepdim=True)


@dataclass(frozen=True)
class Discount:
    """How much less repeated examples count than new ones, in a model and in what it is compared with."""

    count: int
    ratio: Estimate
    """D of the model."""
    expected: dict[str, float]
    """D of each predictor on the same prompts."""
    ways: dict[tuple[str, str], Estimate]
    """From each predictor to each other one: 0 if the first is right, 1 if the other is."""
    chances: dict[tuple[str, str], float]
    """The p-value of each way being not above 0."""
    ridge: BestRidge
    """The λ of copies, in units of the mean kernel diagonal."""

    def rejects(self, own: str, others: Sequence[str]) -> bool:
        """Whether copies reject a predictor in favour of one of the others.

        The way to one of them has a mean beyond its middle, and above 0 at `LEVEL`, after Bonferroni's correction for the
        others. So a predictor that is right is rejected at most that often.
        """
        return any(
            (self.ways[own, other].mean or 0.0) > 0.5
            and self.chances[own, other] * len(others) <= LEVEL
            for other in others
        )


def find_discount(
    observations: Observations,
    copies: Copies,
    view: View,
    predictors: Mapping[str, Predictor],
    *,
    unit: float | None = None,
    seed: int,
) -> Discount:
    """The discount of copies, beside what each predictor says it would be."""
    if copies.once.shape != observations.outputs.shape:
        raise Refusal(
            f"Copies of {len(copies.slots)} prompts were given for observations of {len(observations)}: give those "
            "of the same prompts and queries."
        )
    prompt = view.prompt(observations)
    unit = diagonal_unit(prompt, view.kernel) if unit is None else unit
    s = instrument(prompt, copies.slots, view.kernel)
    size = s.square().sum(-1)
    found = torch.stack([(s * part.double()).sum(-1) for part in (copies.repeated, copies.once)], 1)
    sums = {name: expected_sums(prompt, copies.slots, s, one) for name, one in predictors.items()}
    by_ridge = ridge_sums(prompt, copies.slots, s, view.kernel, unit)
    ways = {
        (first, other): way(found, sums[first], sums[other], size)
        for first, other in permutations(sums, 2)
    }
    return Discount(
        copies.count,
        estimate_of(found, ratio_of_means, seed),
        {name: float(one[:, 0].sum() / one[:, 1].sum()) for name, one in sums.items()},
        {pair: estimate(t, seed) for pair, t in ways.items()},
        {pair: chance_by_signs(t, seed) for pair, t in ways.items()},
        ridge_of_copies(found, by_ridge, size, seed),
    )


def ratio_of_means(means: Float[Tensor, "n 2"]) -> Float[Tensor, " n"]:
    """D; NaN where the response to one copy does not follow the similarity at all."""
    return torch.where(means[:, 1] > 0, means[:, 0] / means[:, 1], torch.nan)


def off(
    found: Float[Tensor, "*more batch 2"], expected: Float[Tensor, "*more batch 2"]
) -> Float[Tensor, "*more batch"]:
    """N m − M n, where (n, m) has length 1."""
    n, m = (expected / expected.norm(dim=-1, keepdim=True).clamp(min=1e-300)).unbind(-1)
    apart: Tensor = found[..., 0] * m - found[..., 1] * n
    return apart


def way(
    found: Float[Tensor, "batch 2"],
    first: Float[Tensor, "batch 2"],
    other: Float[Tensor, "batch 2"],
    size: Float[Tensor, " batch"],
) -> Float[Tensor, " batch"]:
    """t of each prompt; NaN where the two predictors do not differ, or the response to one copy follows neither."""
    gap = off(other, first)
    weight = gap / size.clamp(min=1e-300)
    gain = (found[:, 1] * other[:, 1]).sum() / other[:, 1].square().sum().clamp(min=1e-300)
    unit = float((weight * gap).mean() * gain)
    if unit <= 1e-12 * float(found.square().mean()):
        return torch.full_like(gap, torch.nan)
    return off(found, first) * weight / unit


def expected_sums(
    prompt: Prompt, slots: Int[Tensor, "batch c"], s: Float[Tensor, "batch q"], predictor: Predictor
) -> Float[Tensor, "batch 2"]:
    """Σ_j s·repeated and Σ_j s·once of a predictor."""
    repeated = per_copy(predictor.influence(with_copies(prompt, slots)), slots)
    once = predictor.influence(prompt)[torch.arange(len(prompt)), slots[:, 0]]
    return torch.stack([(s * repeated).sum(-1), (s * once).sum(-1)], dim=1)


def ridge_sums(
    prompt: Prompt,
    slots: Int[Tensor, "batch c"],
    s: Float[Tensor, "batch q"],
    kernel: Kernel,
    unit: float,
) -> Float[Tensor, "grid batch 2"]:
    """`expected_sums` of ridge regression with every λ of the grid."""
    ridges = [r * unit for r in RIDGES]
    repeated = per_copy(ridge_influence(with_copies(prompt, slots), kernel, ridges), slots)
    once = ridge_influence(prompt, kernel, ridges)[:, torch.arange(len(prompt)), slots[:, 0]]
    return torch.stack([(s * repeated).sum(-1), (s * once).sum(-1)], dim=-1)


def ridge_of_copies(
    found: Float[Tensor, "batch 2"],
    by_ridge: Float[Tensor, "grid batch 2"],
    size: Float[Tensor, " batch"],
    seed: int,
) -> BestRidge:
    """The λ of copies with its interval over prompts."""
    squares = off(found.expand_as(by_ridge), by_ridge).square() / size.clamp(min=1e-300)
    return best_with_interval(squares.T[:, None], RIDGES, seed)


def discount_spread(
    prompt: Prompt,
    slots: Int[Tensor, "batch c"],
    kernel: Kernel,
    true: Predictor,
    other: Predictor,
    noise: float,
) -> tuple[float, float]:
    """The mean over prompts of the way from another predictor to the true one, and its standard deviation.

    Responses are the true influence plus noise of this standard deviation, independent of each other. `power_of_test` and
    `prompts_needed` take both numbers.
    """
    s = instrument(prompt, slots, kernel)
    size = s.square().sum(-1)
    found, wrong = (expected_sums(prompt, slots, s, one) for one in (true, other))
    t = way(found, wrong, found, size)
    gap = off(found, wrong)
    unit = float((gap.square() / size.clamp(min=1e-300)).mean())
    noises = noise**2 * gap.square() / size.clamp(min=1e-300) / unit**2
    return float(t.mean()), float((t.var() + noises.mean()).sqrt())


def power_of_test(apart: float, spread: float, prompts: int, level: float = 0.05) -> float:
    """How often Student's t finds a mean `apart` from 0 at this level, for values of that spread; one sign counts."""
    if prompts < 2:
        return 0.0
    limit = scipy.stats.t.ppf(1 - level / 2, prompts - 1)
    return float(scipy.stats.nct.sf(limit, prompts - 1, abs(apart) / spread * prompts**0.5))


def prompts_needed(
    apart: float, spread: float, power: float = 0.9, level: float = 0.05
) -> int | None:
    """The fewest prompts with that power; None if 10,000 do not have it."""
    low, high = 2, 10_000
    if power_of_test(apart, spread, high, level) < power:
        return None
    while low < high:
        middle = (low + high) // 2
        if power_of_test(apart, spread, middle, level) >= power:
            high = middle
        else:
            low = middle + 1
    return low
