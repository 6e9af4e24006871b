"""Controls: models of which nobody can say that they run a solver, or which certainly run none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ridgeformer.kernels import Kernel
from ridgeformer.models import zoo
from ridgeformer.models.untrained import untrained_for
from ridgeformer.suite.planned import Drawer, Planned
from ridgeformer.suite.tokens import Tokens
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer

TRAINED = (
    "It was trained on prompts and targets alone. Nobody stated which algorithm it runs, and `ridgeformer identify` "
    "accepts none of its candidates. So a tool should answer none; another answer is a claim without support, and "
    "not one that is known to be wrong."
)
UNTRAINED = (
    "Its weights are random, so it runs no solver, holds no state, and multiplies nothing by K."
)
SHUFFLED = (
    "The entries of each weight matrix of a compiled model are in a random order, so it runs no solver, holds no "
    "state, and multiplies nothing by K."
)


@dataclass(frozen=True)
class Control:
    kind: str
    group: str
    """trained, untrained or shuffled."""
    why: str
    """Why the right answer is none."""
    transformer: Transformer
    kernel: Kernel
    ridge: float
    prompt: Prompt
    tokens: Tokens


def controls(drawer: Drawer, plans: Sequence[Planned], prompts: int) -> list[Control]:
    by_kind = {plan.kind: plan for plan in plans}
    found = [trained(name, drawer, prompts) for name in ("linear", "linear-attention", "gp")]
    for kind in ("chebyshev-linear", "gd++-linear", "richardson-gaussian"):
        plan = by_kind[kind]
        like = plan.model.transformer
        random = untrained_for(like, plan.draw(1, 0).supports, drawer.seed())
        found.append(of_a_plan(plan, random, f"untrained {kind}", "untrained", drawer, prompts))
    for kind in ("newton-linear", "chebyshev-decoder"):
        plan = by_kind[kind]
        mixed = shuffled(plan.model.transformer, drawer.seed())
        found.append(of_a_plan(plan, mixed, f"shuffled {kind}", "shuffled", drawer, prompts))
    return found


def trained(name: str, drawer: Drawer, prompts: int) -> Control:
    model = zoo.load(name)
    task, law = model.recipe.task, model.recipe.task.law()
    drawn = task.draw(prompts, drawer.seed())
    prompt = Prompt(drawn.phi, drawn.y, drawn.phi_query[:, :4])
    tokens = Tokens.of(model, prompt)
    transformer = model.transformer
    return Control(
        f"trained {name}", "trained", TRAINED, transformer, law.kernel, law.ridge, prompt, tokens
    )


def of_a_plan(
    plan: Planned, transformer: Transformer, kind: str, group: str, drawer: Drawer, prompts: int
) -> Control:
    prompt = plan.draw(prompts, drawer.seed())
    why = UNTRAINED if group == "untrained" else SHUFFLED
    tokens, law = Tokens.of(plan.model, prompt), plan.law
    return Control(kind, group, why, transformer, law.kernel, law.ridge, prompt, tokens)


def shuffled(transformer: Transformer, seed: int) -> Transformer:
    """The transformer with the entries of each of its tensors in a random order."""
    generator = torch.Generator().manual_seed(seed)
    mixed = Transformer(transformer.config, init="zero").requires_grad_(False)
    own = dict(transformer.named_parameters())
    for name, weight in mixed.named_parameters():
        order = torch.randperm(weight.numel(), generator=generator)
        weight.copy_(own[name].flatten()[order].view_as(weight))
    return mixed
