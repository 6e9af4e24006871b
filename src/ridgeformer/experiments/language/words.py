"""One prompt of words, as a task whose result is kept: what a changed label does, and what else is read of it.

Labels are coded −1 and 1, so that a flip changes one by 2, and influence is half of what the log-odds of the second label
change, with the sign of the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.experiments.jobs import Result
from ridgeformer.experiments.language.asked import METHOD, digest, drawn, loaded, packed, unpacked
from ridgeformer.language import (
    LanguageModel,
    LanguageTask,
    Problems,
    TokenPrompt,
    changed_answers,
    log_odds,
    prompts,
    read,
)
from ridgeformer.tasks.learnable import generator_of

COPIES = 3
"""How often one support of a prompt is repeated."""
TOGETHER = (2, 6)
"""So many labels are flipped at once, besides one by one."""
LABELS = "A/B"
NOTHING = 1e-6
"""A centred state shorter than this part of the longest is round-off."""


@dataclass(frozen=True)
class WordPrompt:
    """One prompt of a task, by its number among those of a seed."""

    directory: str
    model: str
    """The fingerprint of the model."""
    task: LanguageTask
    seed: int
    number: int

    def problem(self) -> Problems:
        return drawn(self.task, self.seed, self.number)

    def describe(self) -> dict[str, Any]:
        return {
            "language model": "words", "method": METHOD, "model": self.model, "task": self.task.settings(),
            "labels": LABELS, "seed": self.seed, "number": self.number, "problem": digest(self.problem()),
        }  # fmt: skip

    def run(self) -> Result:
        model = loaded(self.directory)
        (prompt,) = prompts(model, self.task, self.problem(), LABELS)
        return {
            name: packed(part) for name, part in answers(model, prompt, self.repeated()).items()
        }

    def repeated(self) -> int:
        """The support that is repeated."""
        generator = generator_of(self.seed, 0xC0, self.number)
        return int(torch.randint(self.task.supports, (1,), generator=generator))


def answers(model: LanguageModel, prompt: TokenPrompt, which: int) -> dict[str, Tensor]:
    """All that is kept of one prompt; `which` is the support that is repeated."""
    k = prompt.supports
    own = torch.tensor(prompt.answers)
    several = [torch.arange(k) < min(n, k) for n in TOGETHER]
    flipped = torch.stack([torch.zeros(k, dtype=torch.bool), *torch.eye(k, dtype=torch.bool), *several])  # fmt: skip
    said = log_odds(changed_answers(model, prompt, torch.where(flipped, 1 - own, own)))
    moved = (said[1 : k + 1] - said[0]) / change(own)[:, None]
    # Copies stand last, as in `with_copies`.
    order = [*range(k), *[which] * (COPIES - 1)]
    extended = prompt.with_supports(order)
    labels = torch.tensor(extended.answers)
    copies = torch.tensor([i == which for i in order])
    changed = torch.stack([labels, torch.where(copies, 1 - labels, labels)])
    both = log_odds(changed_answers(model, extended, changed))
    seen = read(model, [prompt])
    return {
        "outputs": said[0],
        "influence": moved,
        "together": said[k + 1 :] - said[0],
        "which": torch.tensor([which]),
        "once": moved[which],
        "repeated": (both[1] - both[0]) / change(own[which]) / COPIES,
        "attention": seen.attention[0].permute(1, 2, 3, 0).flatten(0, 1),
        "in context": centred_cosines(
            seen.support_states[0].transpose(0, 1), seen.query_states[0].transpose(0, 1)
        ),
    }


def change(labels: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """By how much a flip changes labels that are coded −1 and 1."""
    return 2.0 - 4.0 * labels


def centred_cosines(
    supports: Float[Tensor, "*more k d"], queries: Float[Tensor, "*more q d"]
) -> Float[Tensor, "*more k q"]:
    """The cosines of states less the mean of the supports; 0 where a state is that mean, but for round-off."""
    mean = supports.mean(-2, keepdim=True)
    least = NOTHING * supports.norm(dim=-1).amax()
    a, b = (
        torch.where(x.norm(dim=-1, keepdim=True) > least, x, 0.0)
        for x in (supports - mean, queries - mean)
    )
    a, b = (torch.nn.functional.normalize(x, dim=-1) for x in (a, b))
    return a @ b.mT


def stacked(results: list[Result]) -> dict[str, Tensor]:
    """The results of several prompts, each part with prompts as its first axis."""
    return {name: torch.stack([unpacked(r[name]) for r in results]) for name in results[0]}
