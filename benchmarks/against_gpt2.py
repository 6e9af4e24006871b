"""Training against the plain way to do it: Hugging Face's GPT-2 backbone, interleaved tokens, Adam.

Same task, layers, width, heads and batch, in the same process, turn by turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2Model

from ridgeformer.tasks import Sample
from ridgeformer.training import Group, Held, Recipe, Run
from ridgeformer.training.loop import batch_at
from ridgeformer.training.scores import excess, predictions

RECIPES = Path(__file__).parents[1] / "recipes"
RATES = (1e-4, 3e-4, 1e-3)
"""Of plain Adam; the first is that of Garg et al. (2022), and it may have the best of them."""
WANTED = 0.1
"""Excess risk at all supports that both have to reach."""
PATIENCE = 4.0
"""Plain training is stopped when it has taken so many times as long."""


class PlainModel(nn.Module):
    """x₁ y₁ x₂ y₂ … through GPT2Model; y is padded to the width of x."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        task, shape = recipe.task, recipe.model
        self.config = recipe.config()
        self.embed = nn.Linear(task.features, shape.d_model)
        self.backbone = GPT2Model(
            GPT2Config(
                n_positions=2 * (task.supports + task.queries), n_embd=shape.d_model,
                n_layer=shape.n_layers, n_head=shape.n_heads, n_inner=shape.d_mlp,
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
            )
        )  # fmt: skip
        self.unembed = nn.Linear(shape.d_model, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """A prediction of each y from what is before it; the last y is not read."""
        padded = torch.nn.functional.pad(y, (0, x.shape[2] - 1))
        tokens = torch.stack([x, padded], 2).flatten(1, 2)[:, :-1]
        hidden = self.backbone(inputs_embeds=self.embed(tokens)).last_hidden_state
        found: Tensor = self.unembed(hidden[:, ::2])
        return found


@dataclass
class Plain:
    """Plain training, with the interface of a run."""

    recipe: Recipe
    rate: float = RATES[0]
    step: int = 0

    def __post_init__(self) -> None:
        torch.manual_seed(self.recipe.seed)
        self.model = PlainModel(self.recipe)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=self.rate)

    def one_step(self) -> None:
        x, y = points(batch_at(self.step, self.recipe))
        loss = (self.model(x, y) - y).square().mean()
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()

    def predict(self, held: Held) -> Tensor:
        x, y = points(held.sample)
        with torch.inference_mode():
            return self.model(x.float(), y.float())[:, -1:].double()


def points(sample: Sample) -> tuple[Tensor, Tensor]:
    """Supports and queries in a row."""
    prompt = sample.prompt
    return torch.cat([prompt.phi, prompt.phi_query], 1), torch.cat([prompt.y, sample.targets], 1)


def with_queries(recipe: Recipe, queries: int) -> Recipe:
    """All batches with all supports, for a fair count."""
    return replace(
        recipe,
        task=replace(recipe.task, queries=queries),
        training=replace(recipe.training, fewer_supports=0.0),
    )


def speeds(queries: int = 1, rounds: int = 20) -> dict[str, float]:
    """Prompts per second of plain, interleaved and pair training, taking turns; medians."""
    causal = with_queries(Recipe.load(RECIPES / "gp-causal.toml"), queries)
    pairs = with_queries(Recipe.load(RECIPES / "gp.toml"), queries)
    alone = Group()
    runs = {
        "plain": Plain(causal),
        "interleaved": Run(causal, Path("unused"), alone),
        "pairs": Run(pairs, Path("unused"), alone),
    }
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 2):
        for name, run in runs.items():
            run.step = turn
            start = time.perf_counter()
            run.one_step()
            taken[name].append(time.perf_counter() - start)
    batch = causal.training.batch
    return {name: batch / statistics.median(times[2:]) for name, times in taken.items()}
