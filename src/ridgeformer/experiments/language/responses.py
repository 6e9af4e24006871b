"""Responses of a `Subject`: it is run again with changed targets, and with supports repeated."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.analysis.in_context import Copies, Observations, with_copies
from ridgeformer.models import Subject
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

AT_ONCE = 512
"""So many problems are run in one batch."""


def observe(
    subject: Subject, prompt: Prompt, *, seed: int, change: float | None = None
) -> Observations:
    """The subject's outputs and the influence of every support, beside the prompt's own features.

    Each target is raised by `change`, which is a standard deviation of all targets if it is left out.
    """
    check_one_output(prompt)
    step = size_of(prompt) if change is None else change
    batch, k, _ = prompt.phi.shape
    y = prompt.y[..., 0]
    raised = y[:, None, :] + step * torch.eye(k, dtype=y.dtype)
    each = torch.arange(batch).repeat_interleave(k)
    many = Prompt(prompt.phi[each], raised.flatten(0, 1)[..., None], prompt.phi_query[each])
    outputs = answers(subject, prompt)
    moved = answers(subject, many).reshape(batch, k, -1)
    influence = (moved - outputs[:, None]) / step
    return Observations(
        prompt.phi[None], prompt.phi_query[None], y.double(), outputs, influence, seed
    )


def repeat_supports(
    subject: Subject,
    prompt: Prompt,
    slots: Int[Tensor, "batch c"],
    *,
    change: float | None = None,
) -> Copies:
    """The response per copy when copies of a support of each prompt stand in the given places, the first of which is its own.

    All copies are changed together.
    """
    check_one_output(prompt)
    step = size_of(prompt) if change is None else change

    def response(of: Prompt, places: Int[Tensor, "batch n"]) -> Float[Tensor, "batch q"]:
        changed = torch.nn.functional.one_hot(places, of.supports).sum(1)[..., None]
        raised = Prompt(of.phi, of.y + step * changed.to(of.y), of.phi_query)
        return (answers(subject, raised) - answers(subject, of)) / step

    repeated = response(with_copies(prompt, slots), slots) / slots.shape[1]
    return Copies(slots, response(prompt, slots[:, :1]), repeated)


def answers(subject: Subject, prompt: Prompt) -> Float[Tensor, "batch q"]:
    parts = [
        subject.predict(prompt[slice(start, start + AT_ONCE)])[..., 0].double()
        for start in range(0, len(prompt), AT_ONCE)
    ]
    return torch.cat(parts)


def size_of(prompt: Prompt) -> float:
    size = float(prompt.y.double().std())
    if not size > 0:
        raise Refusal("All targets are equal, so that no change suits them: say how large it is.")
    return size


def check_one_output(prompt: Prompt) -> None:
    if prompt.outputs != 1:
        raise Refusal(
            f"Influence is that of one target on one output; these prompts have {prompt.outputs}: choose one."
        )
