"""One prompt of words, as a task whose result is kept: what a changed label does, and what else is read of it.

Labels are coded −1 and 1, so that a flip changes one by 2, and influence is half of what the log-odds of the second label
change, with the sign of the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
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

QUERIES = 12
"""More than language tasks have by themselves: a query costs little beside the supports, and power grows with queries."""
COPIES = 3
"""How often one support of a prompt occurs when it is repeated, in the place of others."""
TOGETHER = (2, 6)
"""So many labels, of supports that are drawn for each prompt, are flipped at once, besides one by one."""
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
        found = answers(model, prompt, *self.at_random())
        return {name: packed(part) for name, part in found.items()}

    def at_random(self) -> tuple[Int[Tensor, " c"], Bool[Tensor, "n k"]]:
        """The places of copies, that of the support itself first, and which labels are flipped together."""
        generator, k = generator_of(self.seed, 0xC0, self.number), self.task.supports
        slots = torch.randperm(k, generator=generator)[:COPIES]
        order = torch.randperm(k, generator=generator)
        return slots, torch.stack([order < n for n in TOGETHER])


def answers(
    model: LanguageModel,
    prompt: TokenPrompt,
    slots: Int[Tensor, " c"],
    together: Bool[Tensor, "n k"],
) -> dict[str, Tensor]:
    """All that is kept of one prompt, with copies in these places, and these labels flipped at once."""
    k, which = prompt.supports, int(slots[0])
    own = torch.tensor(prompt.answers)
    alone = torch.eye(k + 1, k, dtype=torch.bool).roll(1, 0)  # none, and then each
    flipped = torch.cat([alone, together])
    said = log_odds(changed_answers(model, prompt, torch.where(flipped, 1 - own, own)))
    moved = (said[1 : k + 1] - said[0]) / change(own)[:, None]
    order = torch.arange(k).index_fill(0, slots, which)
    repeated = prompt.with_supports(order.tolist())
    labels = own[order]
    changed = torch.stack([labels, torch.where(order == which, 1 - labels, labels)])
    both = log_odds(changed_answers(model, repeated, changed))
    seen = read(model, [prompt])
    return {
        "outputs": said[0],
        "influence": moved,
        "together": said[k + 1 :] - said[0],
        "flipped together": together,
        "slots": slots,
        "once": moved[which],
        "repeated": (both[1] - both[0]) / change(own[which]) / len(slots),
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
