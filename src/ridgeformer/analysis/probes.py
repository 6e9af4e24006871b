"""Linear probes: is a quantity of the recurrence in the residual stream, wherever it may be?

A probe is a single ridge regression from a token's stream to the quantity, the same for all
prompts; it is not told the layout. The prompts are split into three parts: the probe is fitted on
the first, the site is chosen on the second, and the score is computed on the third, with a 95 %
bootstrap interval over prompts.

Vectors (α_t, r_t, p_t at the supports) are compared by the cosine within each prompt, and targets
start with length 1 in each prompt: r and p are kept in a unit that changes with prompt and step, so
that only their direction is there to be found. A few more regressions then give each fitted prompt's
target the length that the last probe found for it, so that no prompt is held to a unit that it does
not have; held-out prompts are never rescaled. Scalars (at the aggregator) are one number per prompt and
are compared by their correlation over prompts, since any positive constant has a cosine near 1.

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
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.models.compiled import streams
from ridgeformer.models.reference import kernel_of, ridge_of, solver_of
from ridgeformer.solvers import EagerMachine, solve
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal

RESAMPLES = 1000
PENALTY = 1e-10
"""The penalty of the ridge regression, for columns of variance 1 and a mean squared error."""

ROUNDS = 5
"""The number of regressions in which the lengths of targets are found."""

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


def random_weights(transformer: Transformer, supports: int, seed: int) -> Transformer:
    """The same shape with GPT-2's initial weights; linear attention averages, to stay finite."""
    config = transformer.config
    if config.attention == "linear":
        config = replace(config, attn_scale=1 / (supports + 1))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Transformer(config)


Sites = Mapping[str, Float[Tensor, "batch tokens width"]]
"""For each site, its stream at the tokens of interest, with columns of mean 0 and variance 1."""


def standardised(stream: Tensor, fitted: int) -> Tensor:
    """The stream, standardised over the fitted prompts, without columns that are constant there."""
    rows = stream[:fitted].flatten(0, 1)
    mean, spread = rows.mean(0), rows.std(0)
    varies = spread > 1e-9 * (mean.abs() + spread.max())
    return ((stream - mean) / spread)[..., varies]


def fit(columns: Tensor, target: Tensor, fitted: int) -> Tensor:
    """The output of the fitted probe for every prompt, [batch, tokens]."""
    rows, goal = columns[:fitted], target[:fitted]
    x = rows.flatten(0, 1)
    gram = x.mT @ x / len(x) + PENALTY * torch.eye(x.shape[1], dtype=x.dtype)
    solved = torch.linalg.solve(gram, x.mT / len(x))
    length = torch.ones_like(goal[:, :1])
    for _ in range(ROUNDS if goal.shape[1] > 1 else 1):
        y = (length * goal).flatten()
        weights, mean = solved @ (y - y.mean()), y.mean()
        # The length is at least 0: a prompt may have its own unit, but not its own sign.
        length = ((rows @ weights + mean) * goal).sum(1, keepdim=True).clamp(min=0)
        length = length / length.square().mean().sqrt().clamp(min=1e-12)
    said: Tensor = columns @ weights + mean
    return said


def agreement(said: Tensor, target: Tensor) -> Tensor:
    """The mean cosine within prompts, or for a single token the correlation over prompts.

    Both arguments have the shape […, batch, tokens].
    """
    if said.shape[-1] > 1:
        return torch.cosine_similarity(said, target, dim=-1).mean(-1)
    said, target = (v[..., 0] - v[..., 0].mean(-1, keepdim=True) for v in (said, target))
    return torch.cosine_similarity(said, target, dim=-1)


def best(said: Mapping[str, Tensor], target: Tensor, fitted: int, chosen: int, seed: int) -> Score:
    """The score of the best of several sites.

    The site is chosen on the prompts from `fitted` to `chosen`, and scored on those after them.
    """
    if not said:  # the aggregator's embedding is the same in all prompts
        return Score("none", 0.0, 0.0, 0.0)
    middle = slice(fitted, chosen)
    name = max(said, key=lambda n: float(agreement(said[n][middle], target[middle])))
    rest, goal = said[name][chosen:], target[chosen:]
    generator = torch.Generator().manual_seed(seed)
    again = torch.randint(len(goal), (RESAMPLES, len(goal)), generator=generator)
    quantiles = torch.tensor([0.025, 0.975], dtype=goal.dtype)
    ends = agreement(rest[again], goal[again]).quantile(quantiles).tolist()
    return Score(name, float(agreement(rest, goal)), *ends)


@dataclass(frozen=True)
class Split:
    """The division of the prompts into three parts.

    Probes are fitted on the prompts before `fitted`, and sites are chosen on those between `fitted`
    and `chosen`; the others are held out.
    """

    fitted: int
    chosen: int
    order: Tensor
    """The prompt whose target each prompt gets when targets are dealt."""
    seed: int

    @classmethod
    def of(cls, batch: int, seed: int) -> Split:
        order = torch.randperm(batch, generator=torch.Generator().manual_seed(seed))
        found = cls(batch // 2, 3 * batch // 4, order, seed)
        if found.chosen - found.fitted < 2:
            raise Refusal(f"Probes need at least 8 prompts, got {batch}.")
        return found

    def sites(self, stream: Mapping[str, Tensor]) -> Sites:
        """The sites whose streams are finite and not constant, standardised."""
        finite = {name: x for name, x in stream.items() if torch.isfinite(x).all()}
        made = {name: standardised(x, self.fitted) for name, x in finite.items()}
        return {name: columns for name, columns in made.items() if columns.shape[-1]}

    def probe(self, what: Target, goal: Tensor, dealt: Tensor, mine: Sites, random: Sites) -> Probe:
        """Probes for one target at all sites, with the controls."""

        def fit_all(where: Sites, target: Tensor) -> dict[str, Tensor]:
            return {name: fit(columns, target, self.fitted) for name, columns in where.items()}

        def score(said: Mapping[str, Tensor], target: Tensor) -> Score:
            return best(said, target, self.fitted, self.chosen, self.seed)

        said, rest = fit_all(mine, goal), slice(self.chosen, None)
        return Probe(
            *what,
            score(said, goal),
            score({name: x for name, x in said.items() if name == "embed"}, goal),
            score(fit_all(random, goal), goal),
            score(fit_all(mine, dealt), dealt),
            tuple((site, float(agreement(x[rest], goal[rest]))) for site, x in said.items()),
        )


def both_streams(
    model: CompiledModel, prompt: Prompt, seed: int, tokens: slice
) -> list[dict[str, Tensor]]:
    """The streams of the model and of its copy with random weights, at the given tokens."""
    control = random_weights(model.transformer, prompt.supports, seed)
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
    split = Split.of(len(prompt.y), seed)
    mine, random = (split.sites(s) for s in both_streams(model, prompt, seed, tokens))
    return tuple(
        split.probe(what, goal, goal[split.order], mine, random) for what, goal in targets.items()
    )


def probe(model: CompiledModel, prompt: Prompt, *, seed: int) -> tuple[Probe, ...]:
    """Probes for every vector and scalar."""
    return probe_vectors(model, prompt, seed=seed) + probe_scalars(model, prompt, seed=seed)


def probe_new_parts(model: CompiledModel, prompt: Prompt, *, seed: int) -> tuple[Probe, ...]:
    """Probes for r_1, r_2, … given y, Ky, …, by partial regression.

    Each prompt may have its own coefficients on the Krylov space of the earlier steps.
    """
    split = Split.of(len(prompt.y), seed)
    found = vectors(model, prompt).items()
    residuals = torch.stack([v for (name, _), v in found if name == "r"], dim=-1)
    pair = both_streams(model, prompt, seed, slice(0, prompt.supports))
    probes = []
    for step in range(1, residuals.shape[-1]):
        known, _ = torch.linalg.qr(residuals[..., :step])

        def free(x: Tensor, known: Tensor = known) -> Tensor:
            return x - known @ (known.mT @ x)

        def direction(x: Tensor, known: Tensor = known) -> Tensor:
            left = free(x[..., None], known)[..., 0]
            length: Tensor = left.norm(dim=1, keepdim=True)
            return left / length

        mine, random = (split.sites({name: free(x) for name, x in s.items()}) for s in pair)
        goal = residuals[..., step]
        dealt = direction(goal[split.order])
        probes.append(split.probe(("r", step), direction(goal), dealt, mine, random))
    return tuple(probes)
