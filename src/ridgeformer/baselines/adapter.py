"""A small network that has learned to adapt to the supports of a prompt in a few gradient steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines.base import Baseline, mean_squared, training_generator
from ridgeformer.baselines.learning import learn
from ridgeformer.tasks import LearnableTask, Prompt
from ridgeformer.tasks.learnable import normal
from ridgeformer.types import Refusal

POOL = 1024
"""The initial weights and step sizes are learned on this many training prompts."""

FIRST_RATE = 0.1
"""Every step size starts at this value."""


class Network(NamedTuple):
    """f(x) = ⟨w, x̃⟩ + ⟨v, tanh(Uᵀx̃)⟩ with x̃ = (x, 1): a linear model and learned features.

    All prompts share one network, or a leading axis holds one for each prompt.
    """

    w: Float[Tensor, "*batch inputs 1"]
    U: Float[Tensor, "*batch inputs m"]
    v: Float[Tensor, "*batch m 1"]

    def __call__(self, x: Float[Tensor, "batch n inputs"]) -> Float[Tensor, "batch n 1"]:
        return x @ self.w + (x @ self.U).tanh() @ self.v

    def gradient(
        self, x: Float[Tensor, "batch k inputs"], y: Float[Tensor, "batch k 1"]
    ) -> Network:
        """The gradient of |y − f(x)|²/2k for every prompt, in closed form so that `predict` needs no autograd."""
        hidden = (x @ self.U).tanh()
        error = (x @ self.w + hidden @ self.v - y) / x.shape[1]
        back = error @ self.v.mT * (1 - hidden.square())
        return Network(x.mT @ error, x.mT @ back, hidden.mT @ error)

    def adapted(
        self,
        rates: Float[Tensor, "steps 3"],
        x: Float[Tensor, "batch k inputs"],
        y: Float[Tensor, "batch k 1"],
    ) -> Network:
        """The network after gradient steps on the supports; each of w, U and v has a size for each step."""
        now = self
        for rate in rates:
            slope = now.gradient(x, y)
            now = Network(*(a - r * g for a, r, g in zip(now, rate, slope, strict=True)))
        return now


@dataclass(frozen=True, eq=False)
class Adapter(Baseline):
    """A few gradient steps on the supports; initial weights and step sizes are learned from training prompts.

    This is MAML (Finn, Abbeel, Levine 2017) with all second derivatives and with learned step sizes.
    The model reads the raw features and has one output: it adapts to several outputs one at a time.
    """

    steps: int = 5
    hidden: int = 24
    updates: int = 300
    network: Network | None = None
    rates: Float[Tensor, "steps 3"] | None = None

    name = "adapter"
    label = "Meta-learned adapter"

    def __post_init__(self) -> None:
        if min(self.steps, self.hidden) < 1 or self.updates < 0:
            raise Refusal(
                f"{self.name} needs steps ≥ 1, hidden ≥ 1 and updates ≥ 0; got {self.steps}, "
                f"{self.hidden} and {self.updates}."
            )

    def fit(self, task: LearnableTask, seed: int) -> Adapter:
        generator = training_generator(seed)
        sample = task.sample(POOL, generator)
        p, m = sample.prompt.features, self.hidden
        w = torch.zeros(p + 1, 1, dtype=torch.float64)
        U = normal(generator, p + 1, m) / (p + 1) ** 0.5
        v = normal(generator, m, 1) / m
        rates = torch.full((self.steps, 3), FIRST_RATE, dtype=torch.float64)

        def risk(parameters: list[Tensor], rows: Tensor) -> Tensor:
            *weights, rates = parameters
            part = sample[rows]
            return mean_squared(adapt(Network(*weights), rates, part.prompt), part.targets)

        *weights, rates = learn(
            [[w, U, v, rates]],
            risk,
            pool=POOL,
            updates=self.updates,
            batch=24,
            rate=0.03,
            generator=generator,
        )
        return replace(self, network=Network(*weights), rates=rates)

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        network, rates = self.learned(self.network), self.learned(self.rates)
        self.check_features(len(network.w) - 1, prompt)
        return adapt(network, rates, prompt.to(torch.float64))


def adapt(
    network: Network, rates: Float[Tensor, "steps 3"], prompt: Prompt
) -> Float[Tensor, "batch q r"]:
    """Predictions after adapting, where every output counts as a prompt of its own."""
    r = prompt.outputs
    phi, query = (with_one(t).repeat_interleave(r, 0) for t in (prompt.phi, prompt.phi_query))
    y = prompt.y.mT.reshape(-1, prompt.supports, 1)
    predicted = network.adapted(rates, phi, y)(query)
    return predicted.view(-1, r, query.shape[1]).mT


def with_one(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
