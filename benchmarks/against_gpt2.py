"""Training compared with the plain way: Hugging Face's GPT-2 backbone, interleaved tokens, Adam.

Both have the same task, layers, width, heads and batch, and take turns in the same process.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2Model
from turns import ratio, turns

from ridgeformer.tasks import Sample
from ridgeformer.training import Group, Held, Recipe, Run, recipes
from ridgeformer.training.loop import batch_at
from ridgeformer.training.scores import excess, predictions

RATES = (1e-4, 3e-4, 1e-3)
"""Learning rates of plain Adam, which goes on with the best of them after TRIAL steps; the first is usual."""

TRIAL = 100
WANTED = 0.05
"""The excess risk at all supports that both have to reach."""

PATIENCE = 4.0
"""Plain training is stopped when it has taken this many times as long."""


class PlainModel(nn.Module):
    """GPT2Model on x₁ y₁ x₂ y₂ …, where y is padded to the width of x."""

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
        """Predicts each y from the tokens before it; the last y is not read."""
        padded = torch.nn.functional.pad(y, (0, x.shape[2] - 1))
        tokens = torch.stack([x, padded], 2).flatten(1, 2)[:, :-1]
        hidden = self.backbone(inputs_embeds=self.embed(tokens)).last_hidden_state
        predicted: Tensor = self.unembed(hidden[:, ::2])
        return predicted


@dataclass
class Plain:
    """Plain training with the interface of a `Run`."""

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


def points(sample: Sample) -> tuple[Tensor, Tensor]:
    """Supports and queries as one sequence of points."""
    prompt = sample.prompt
    return torch.cat([prompt.phi, prompt.phi_query], 1), torch.cat([prompt.y, sample.targets], 1)


def with_queries(recipe: Recipe, queries: int) -> Recipe:
    """The recipe with all supports in every batch, so that the counts are fair."""
    return replace(
        recipe,
        task=replace(recipe.task, queries=queries),
        training=replace(recipe.training, fewer_supports=0.0),
    )


def speeds(queries: int, rounds: int = 30) -> tuple[float, float, float]:
    """Prompts per second of plain training, and how many times as fast interleaved and pair tokens are.

    All take turns and each turn gives one ratio, because a machine that slows down slows all of them. The
    results are medians.
    """
    causal = with_queries(recipes.load("gp-causal"), queries)
    pairs = with_queries(recipes.load("gp"), queries)
    runs = [Plain(causal), *(Run(recipe, Path("unused"), Group()) for recipe in (causal, pairs))]
    times = turns(*(partial(train, run, 1) for run in runs), rounds=rounds)
    plain = causal.training.batch / statistics.median(turn[0] for turn in times)
    interleaved, pair = (statistics.median(turn[0] / turn[i] for turn in times) for i in (1, 2))
    return plain, interleaved, pair


def excess_of(run: Plain | Run, held: Held) -> float:
    """The excess risk on prompts with one query after all supports."""
    if isinstance(run, Run):
        predicted = predictions(run.layout, run.model, held.sample.prompt)
    else:
        with torch.inference_mode():
            x, y = (t.float() for t in points(held.sample))
            predicted = run.model(x, y)[:, -1:].double()
    value = excess(predicted, held, exact=True).mean
    assert value is not None
    return value


def train(run: Plain | Run, steps: int) -> None:
    for _ in range(steps):
        run.one_step()
        run.step += 1


def steps_to_reach(run: Plain | Run, held: Held, patience: float) -> int:
    """Steps of training until the held-out error is as wanted or the patience ends."""
    while run.step < patience and excess_of(run, held) > WANTED:
        train(run, 25)
    return run.step


def time_to_error() -> tuple[float, str]:
    """Our training time over that of plain training, and a remark if plain training was stopped.

    Both are numbers of steps, which do not depend on the machine, times the time of a step, which is
    compared in turns.
    """
    plain = with_queries(recipes.load("gp-causal"), 1)
    recipe = recipes.load("gp")
    held = Held.draw(plain.task, 512, seed=7)
    timed = Run(recipe, Path("unused"), Group()), Plain(plain)
    step = ratio(*(partial(train, run, 1) for run in timed), rounds=30)
    mine = steps_to_reach(Run(recipe, Path("unused"), Group()), held, float("inf"))
    trials = [Plain(plain, rate) for rate in RATES]
    for trial in trials:
        train(trial, TRIAL)
    chosen = min(trials, key=lambda trial: excess_of(trial, held))
    theirs = steps_to_reach(chosen, held, PATIENCE * mine * step)
    stopped = excess_of(chosen, held) > WANTED
    return step * mine / theirs, ", which was stopped at this" if stopped else ""
