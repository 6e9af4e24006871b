"""Linear probes of compiled models: is a quantity of the recurrence in the residual stream, wherever it may be?

A probe is a single ridge regression from a token's stream to the quantity, the same for all
prompts; it is not told the layout. The prompts are split into three parts: the probe is fitted on
the first, the site is chosen on the second, and the score is computed on the third, with a 95 %
bootstrap interval over prompts.

Vectors (α_t, r_t, p_t at the supports) are compared by the cosine within each prompt (see
`directions`; `state_probes` looks for them in models of which nothing is known). Scalars (at the
aggregator) are one number per prompt and are compared by their correlation over prompts, since any
positive constant has a cosine near 1.

There are three controls, each with a site of its own choice: the same probe on the embedding alone,
which holds y and φ already (α_1 and r_0 are multiples of y); on a transformer of the same shape
with random weights; and on targets that were dealt to other prompts. **Chance** is a mean cosine of
0, which is what the last control has: a score is at chance when it is within four standard errors
of 0.

A random stream is not at chance for whole vectors, since it still holds y, and α_t and p_t point partly
along y. What is **new** in step t is r_t: it is orthogonal to y, Ky, …, K^{t−1}y, and α_{t+1} and p_t are
combinations of r_t and vectors of earlier steps. `probe_new_parts` projects that Krylov space out
of stream and targets, within each prompt, before it fits, so that only the t-th product with K can
score. One random layer of attention may still do so at t = 1: Σ_j (x_iᵀM x_j)(x_jᵀv) has Ky among
its terms. Nothing of the kind is expected for t ≥ 2, which needs two products in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.directions import (
    Directions,
    Fitted,
    deal,
    orthonormal,
    outside,
    refuse_shared_prompts,
    unit,
)
from ridgeformer.analysis.readouts import Split
from ridgeformer.compiler import CompiledModel
from ridgeformer.models.compiled import streams
from ridgeformer.models.reference import kernel_of, ridge_of, solver_of
from ridgeformer.models.untrained import untrained_for
from ridgeformer.solvers import EagerMachine, solve
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

RESAMPLES = 1000

Target = tuple[str, int]
"""A quantity's name and its step."""


@dataclass(frozen=True)
class Score:
    """How well a probe does on the prompts that were held out, with a 95 % interval."""

    site: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Probe:
    """One vector or scalar of a solver, and how well a probe finds it in the stream, with controls."""

    name: str
    step: int
    found: Score
    embedding: Score
    random_weights: Score
    shuffled: Score
    by_site: tuple[tuple[str, float], ...]
    """The value of `found` at every site, in order, on the same held-out prompts."""


def solved(model: CompiledModel, prompt: Prompt) -> Mapping[str, Tensor]:
    """The states of the model's solver."""
    return solve(
        solver_of(model), prompt, steps=model.certificate.steps, ridge=ridge_of(model),
        kernel=kernel_of(model), states=True,
    ).states  # fmt: skip


def vectors(model: CompiledModel, prompt: Prompt) -> dict[Target, Float[Tensor, "batch k"]]:
    """α_t, r_t and p_t of the model's solver, each of length 1."""
    states, last = solved(model, prompt), model.certificate.steps
    if not {"r", "p"} <= set(states) or prompt.outputs != 1:
        raise Refusal(
            "Probes look for a residual r and a direction p of one output: compile a solver whose state "
            "has them."
        )
    wanted = {"alpha": range(1, last + 1), "r": range(last), "p": range(1, last)}
    found = {(name, t): states[name][t][..., 0] for name, ts in wanted.items() for t in ts}
    return {name: v / v.norm(dim=1, keepdim=True) for name, v in found.items()}


def scalars(model: CompiledModel, prompt: Prompt) -> dict[Target, Float[Tensor, "batch 1"]]:
    """ρ_0 = yᵀy, the residual's length ‖r_t‖, and β_t = ρ_t/ρ_{t−1}, in their own units."""
    machine = EagerMachine(prompt, kernel_of(model), ridge_of(model))
    residuals = [prompt.y - machine.matvec(alpha) for alpha in solved(model, prompt)["alpha"]]
    rho = [r.square().sum(1)[:, :1] for r in residuals]
    found: dict[Target, Tensor] = {("rho", 0): rho[0]}
    for t in range(1, model.certificate.steps):
        found["length of r", t] = rho[t].sqrt()
        found["beta", t] = rho[t] / rho[t - 1]
    return found


Sites = Mapping[str, Directions]
"""For each site, its stream at the tokens of interest, ready to be probed."""


def agreement(said: Tensor, target: Tensor) -> Tensor:
    """The mean cosine within prompts, or for a single token the correlation over prompts.

    Both arguments have the shape […, batch, tokens].
    """
    if said.shape[-1] > 1:
        return torch.cosine_similarity(said, target, dim=-1).mean(-1)
    said, target = (v[..., 0] - v[..., 0].mean(-1, keepdim=True) for v in (said, target))
    return torch.cosine_similarity(said, target, dim=-1)


@dataclass(frozen=True)
class Probing:
    """What all probes of one call share: the parts of the prompts, and how targets are dealt."""

    split: Split
    order: Tensor
    """The prompt whose target each prompt gets when targets are dealt."""
    seed: int

    @classmethod
    def of(cls, prompt: Prompt, seed: int) -> Probing:
        split = Split.of(len(prompt))
        refuse_shared_prompts(prompt, split)
        return cls(split, deal(len(prompt), seed), seed)

    def sites(self, stream: Mapping[str, Tensor]) -> Sites:
        """The sites whose streams are finite and not constant."""
        made = {name: Directions(x[None], self.split) for name, x in stream.items()}
        return {name: x for name, x in made.items() if x.finite.all() and x.varies}

    def best(self, fitted: Mapping[str, Fitted], target: Tensor) -> Score:
        """The score of the best of several sites, which is chosen on prompts that do not score."""
        if not fitted:  # the aggregator's embedding is the same in all prompts
            return Score("none", 0.0, 0.0, 0.0)
        choose, score = self.split.choose, self.split.score
        name = max(fitted, key=lambda n: scored(fitted[n], target, choose))
        rest, goal = said(fitted[name], score), target[score]
        generator = torch.Generator().manual_seed(self.seed)
        again = torch.randint(len(goal), (RESAMPLES, len(goal)), generator=generator)
        quantiles = torch.tensor([0.025, 0.975], dtype=goal.dtype)
        ends = agreement(rest[again], goal[again]).quantile(quantiles).tolist()
        return Score(name, float(agreement(rest, goal)), *ends)

    def probe(self, what: Target, goal: Tensor, dealt: Tensor, mine: Sites, random: Sites) -> Probe:
        """Probes for one target at all sites, with the controls."""
        found = fit_all(mine, goal)
        return Probe(
            *what,
            self.best(found, goal),
            self.best({name: x for name, x in found.items() if name == "embed"}, goal),
            self.best(fit_all(random, goal), goal),
            self.best(fit_all(mine, dealt), dealt),
            tuple((site, scored(x, goal, self.split.score)) for site, x in found.items()),
        )


def fit_all(where: Sites, target: Tensor) -> dict[str, Fitted]:
    return {name: site.fitted(target[..., None]) for name, site in where.items()}


def said(fitted: Fitted, prompts: slice) -> Float[Tensor, "some tokens"]:
    """What the probe of one vector at one site says of some prompts."""
    return fitted.said(prompts)[0, ..., 0]


def scored(fitted: Fitted, target: Tensor, prompts: slice) -> float:
    return float(agreement(said(fitted, prompts), target[prompts]))


def both_streams(
    model: CompiledModel, prompt: Prompt, seed: int, tokens: slice
) -> list[dict[str, Tensor]]:
    """The streams of the model and of its copy with random weights, at the given tokens."""
    control = untrained_for(model.transformer, prompt.supports, seed)
    pair = (
        streams(transformer, model.sequence(prompt)) for transformer in (model.transformer, control)
    )
    return [{name: x[:, tokens] for name, x in found.items()} for found in pair]


def probe_vectors(model: CompiledModel, prompt: Prompt, *, seed: int) -> tuple[Probe, ...]:
    """Probes for every vector of the model's solver, fitted on half of the prompts."""
    return probe_all(model, prompt, vectors(model, prompt), slice(0, prompt.supports), seed)


def probe_scalars(model: CompiledModel, prompt: Prompt, *, seed: int) -> tuple[Probe, ...]:
    """Probes for every scalar at the aggregator."""
    k = prompt.supports
    return probe_all(model, prompt, scalars(model, prompt), slice(k, k + 1), seed)


def probe_all(
    model: CompiledModel, prompt: Prompt, targets: Mapping[Target, Tensor], tokens: slice, seed: int
) -> tuple[Probe, ...]:
    probing = Probing.of(prompt, seed)
    mine, random = (probing.sites(s) for s in both_streams(model, prompt, seed, tokens))
    return tuple(
        probing.probe(what, goal, goal[probing.order], mine, random)
        for what, goal in targets.items()
    )


def probe(model: CompiledModel, prompt: Prompt, *, seed: int) -> tuple[Probe, ...]:
    """Probes for every vector and scalar."""
    return probe_vectors(model, prompt, seed=seed) + probe_scalars(model, prompt, seed=seed)


def probe_new_parts(model: CompiledModel, prompt: Prompt, *, seed: int) -> tuple[Probe, ...]:
    """Probes for r_1, r_2, … given y, Ky, …, by partial regression.

    Each prompt may have its own coefficients on the Krylov space of the earlier steps.
    """
    probing = Probing.of(prompt, seed)
    found = vectors(model, prompt).items()
    residuals = torch.stack([v for (name, _), v in found if name == "r"], dim=-1)
    pair = both_streams(model, prompt, seed, slice(0, prompt.supports))
    probes = []
    for step in range(1, residuals.shape[-1]):
        known = orthonormal(residuals[..., :step])

        def direction(x: Tensor, known: Tensor = known) -> Tensor:
            return unit(outside(x[..., None], known))[..., 0]

        mine, random = (
            probing.sites({name: outside(x, known) for name, x in s.items()}) for s in pair
        )
        goal = residuals[..., step]
        given = direction(goal[probing.order])
        probes.append(probing.probe(("r", step), direction(goal), given, mine, random))
    return tuple(probes)
