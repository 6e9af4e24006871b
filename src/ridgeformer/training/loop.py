"""The training loop: fresh batches, AdamW or Muon with warm-up, cosine decay and clipping, and a log.

The batch of a step depends on the seed and the step alone, and the learning rate on the step, so that
the weights and the optimiser's moments are all that a checkpoint has to hold.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import cos, isfinite, pi
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch
from torch import Tensor, nn

from ridgeformer.tasks import Prompt, Sample, generator_of
from ridgeformer.training import checkpoint
from ridgeformer.training.cotraining import cotraining_loss
from ridgeformer.training.final import final_scores
from ridgeformer.training.layouts import LAYOUTS, Layout
from ridgeformer.training.optimisers import optimiser_of
from ridgeformer.training.parallel import Group
from ridgeformer.training.recipe import Recipe, TrainingOptions
from ridgeformer.training.scores import Held, score
from ridgeformer.training.trained import TrainedModel
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal
from ridgeformer.whole import write_whole

TRAINING = 0x7A19
"""This number is part of every batch's seed, so that no other prompts share its random numbers."""

CPU = torch.device("cpu")

HELD_OUT = 256
"""The periodic evaluation uses this many prompts."""

Report = Callable[[int, dict[str, float]], None]
"""A function that is called after every step with its number, and with scores where they were measured."""


def never() -> bool:
    return False


class Loss(nn.Module):
    """The training loss as a module, which DistributedDataParallel can wrap."""

    def __init__(self, layout: Layout, model: Transformer, s: TrainingOptions) -> None:
        super().__init__()
        self.layout, self.model, self.options = layout, model, s

    def forward(self, sample: Sample) -> Tensor:
        s = self.options
        if not s.auxiliary:
            return self.layout.loss(self.model, sample)
        return cotraining_loss(
            self.model, sample, s.auxiliary, s.auxiliary_layers, s.auxiliary_ridge
        )


def rate_at(step: int, s: TrainingOptions) -> float:
    """The learning rate rises linearly to `rate`, then falls as a cosine to `final_rate · rate`."""
    if step < s.warmup:
        return s.rate * (step + 1) / s.warmup
    share = (step - s.warmup) / max(1, s.steps - s.warmup)
    return s.rate * (s.final_rate + (1 - s.final_rate) * (1 + cos(pi * share)) / 2)


def batch_at(step: int, recipe: Recipe) -> Sample:
    """Draws the batch of a step, in float32.

    A curriculum draws from the task with fewer features, whose inputs are filled up with zeros.
    """
    task, s, curriculum = recipe.task, recipe.training, recipe.curriculum
    generator = generator_of(TRAINING, recipe.seed, step)
    supports = curriculum.points(step, task.supports + task.queries) - task.queries
    if float(torch.rand((), generator=generator)) < s.fewer_supports:
        supports = int(torch.randint(1, supports + 1, (), generator=generator))
    features = curriculum.features(step, task.features)
    if features == task.features:
        return single(task.sample(s.batch, generator, supports))
    few = replace(task, features=features).sample(s.batch, generator, supports)
    return single(with_zeros(few, task.features))


def with_zeros(sample: Sample, features: int) -> Sample:
    """The sample with inputs of that many features, of which the added ones are 0."""
    prompt = sample.prompt
    more = (0, features - prompt.features)
    phi, query = (nn.functional.pad(x, more) for x in (prompt.phi, prompt.phi_query))
    return Sample(Prompt(phi, prompt.y, query), sample.targets)


def single(sample: Sample) -> Sample:
    return Sample(sample.prompt.to(torch.float32), sample.targets.float())


@dataclass
class Run:
    """A training run and the folder that it writes to: how far it is, and how it goes on."""

    recipe: Recipe
    folder: Path
    group: Group
    device: torch.device = CPU
    step: int = 0
    seconds: float = 0.0
    """CPU seconds so far, which do not depend on what else the machine does."""
    saved: int | None = None
    """The step of the newest checkpoint that this run wrote or began from."""
    losses: list[float] = field(default_factory=list)
    """Of the steps since the last line of the log."""

    def __post_init__(self) -> None:
        torch.manual_seed(self.recipe.seed)
        # The first weights and all batches are drawn on the CPU, the same ones for every device.
        self.model = Transformer(self.recipe.config()).to(self.device)
        self.optimiser = optimiser_of(self.model, self.recipe.training)
        self.layout = LAYOUTS[self.recipe.model.layout]
        self.loss = self.group.averaged(Loss(self.layout, self.model, self.recipe.training))

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"

    def resume(self, say: Callable[[str], None]) -> None:
        """Restores the newest checkpoint that is not damaged."""
        if self.group.first:
            checkpoint.clear(self.folder)
        for path in checkpoint.newest_first(self.folder):
            try:
                state = checkpoint.read_state(path)
            except ValueError as damage:
                say(f"{path.name} cannot be used, {damage}: going back to the one before.")
                continue
            if Recipe.from_dict(state["recipe"]) != self.recipe:
                raise Refusal(
                    f"{self.folder} was begun with another recipe: use that one, or another `folder`."
                )
            checkpoint.restore(path, self.model, self.optimiser)
            self.step, self.seconds = int(state["step"]), float(state["seconds"])
            self.saved, self.losses = self.step, list(state.get("losses", []))
            say(f"Going on from step {self.step:,} of {self.recipe.training.steps:,}.")
            break
        else:
            say(f"{self.folder} has no checkpoint that can be used: starting at step 0.")
        if self.group.first and self.log.exists():
            kept = [
                line for line in self.log.read_text().splitlines() if step_of(line) <= self.step
            ]
            write_whole(self.log, "".join(f"{line}\n" for line in kept).encode())

    def train(self, report: Report, stop: Callable[[], bool] = never) -> bool:
        """Trains to the last step; returns whether it was not stopped before.

        As soon as `stop` is true after a step, a checkpoint is written and the run ends; resumed, it goes on as if it
        had not been stopped.
        """
        recipe, s = self.recipe, self.recipe.training
        held = Held.draw(recipe.task, HELD_OUT, seed=recipe.seed + 1)
        begun, before = time.process_time(), self.seconds
        while self.step < s.steps:
            self.losses.append(float(self.one_step()))
            self.step += 1
            self.seconds = before + time.process_time() - begun
            seen: dict[str, float] = {}
            last = self.step == s.steps
            if last or self.step % s.evaluate_every == 0:
                mean = float(torch.tensor(self.losses).mean())
                self.losses.clear()
                seen = {"loss": mean, **score(self.layout, self.model, held, recipe.task.exact)}
                if self.group.first:
                    self.write_log(seen)
            stopped = self.group.any(stop())
            if last or stopped or self.step % s.checkpoint_every == 0:
                self.save()
            report(self.step, seen)
            if stopped:
                return False
        return True

    def save(self) -> None:
        """Writes the checkpoint of this step."""
        self.check_finite()
        if self.group.first:
            checkpoint.write(
                self.folder, self.step, self.model, self.optimiser, self.recipe.to_dict(),
                self.seconds, self.losses,
            )  # fmt: skip
        self.group.wait()
        self.saved = self.step

    def one_step(self) -> Tensor:
        """Takes the next step, and returns the loss of its whole batch."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(self.step, self.recipe.training)
        sample = self.group.share(batch_at(self.step, self.recipe)).to(self.device)
        loss = self.loss(sample)
        mean = self.group.mean(loss)
        if not isfinite(float(mean)):
            raise Refusal(
                f"The loss is not finite at step {self.step + 1}: lower the rate. The checkpoint before it is "
                f"kept in {self.folder / 'checkpoints'}."
            )
        self.model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.training.clip)
        self.optimiser.step()
        return mean

    def check_finite(self) -> None:
        """Refuses weights that are not finite, so that no checkpoint ever holds them."""
        for name, weight in self.model.named_parameters():
            if not torch.isfinite(weight).all():
                raise Refusal(
                    f"{name} is not finite after step {self.step}: lower the rate. The last good checkpoint is "
                    f"kept in {self.folder / 'checkpoints'}."
                )

    def write_log(self, seen: dict[str, float]) -> None:
        line = {"step": self.step, "cpu_seconds": round(self.seconds, 2), **seen}
        try:
            with open(self.log, "a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise Refusal(
                f"{self.log} cannot be written: {error.strerror or error}. The checkpoints before step {self.step} "
                "are kept: make room, and go on with `resume=True`."
            ) from error


def step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # The process was killed while it wrote this line.


def started(
    recipe: Recipe,
    folder: Path,
    resume: bool,
    say: Callable[[str], None],
    group: Group,
    device: torch.device = CPU,
) -> Run:
    """A run at its first step or at its newest checkpoint.

    It refuses to write over another run, and to resume where none was begun: a name that was mistyped would else
    cost the hours of a new one.
    """
    if group.size > 1 and device.type != "cpu":
        raise Refusal(
            f"Several processes train on CPUs alone: leave `device` out; got {device.type}."
        )
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"{folder} is a file, not a directory: choose another `folder`.")
    begun = folder.exists() and any(folder.iterdir())
    if begun and not resume:
        raise Refusal(
            f"{folder} is not empty: choose another `folder`, or go on from what is there with `resume=True`."
        )
    if resume and not begun:
        raise Refusal(
            f"There is no run in {folder} to go on with: leave `resume=True` out to begin one there."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refusal(
            f"{folder} cannot be written: {error.strerror or error}; choose another `folder`."
        ) from error
    run = Run(recipe, folder, group, device)
    if resume:
        run.resume(say)
    return run


def finish(run: Run) -> TrainedModel:
    """Scores the model on new prompts and saves it in the run's folder."""
    scores = {
        "steps": run.step,
        "cpu minutes": round(run.seconds / 60, 1),
        "threads": torch.get_num_threads(),
        **final_scores(run.layout, run.model, run.recipe.task),
    }
    model = TrainedModel(run.model, run.recipe, scores)
    model.save(run.folder / "model", force=True)
    return model
