"""What the weights must look like: masks that let nothing through."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ridgeformer.experiments.theorems.base import COMPILED, Axes, Line, Outcome
from ridgeformer.experiments.theorems.cases import Case
from ridgeformer.experiments.theorems.general import GeneralTheorem
from ridgeformer.experiments.theorems.kinds import kinds
from ridgeformer.theory import state_leak
from ridgeformer.transformer import Edit, Transformer, TransformerConfig


class Masking(GeneralTheorem):
    name = "masking"
    group = COMPILED
    title = "No state depends on a token that the mask keeps from it"
    states = ("masking",)
    measured = (
        "Two sequences that differ in some tokens, all queries, one query or one token of the context, are run "
        "through compiled models of every kind and through random weights, which have no zeros that could hide a leak. One "
        "entry that differs where none may is a violation. So is a planted leak that goes unnoticed: from the "
        "queries into each row of the context, registers and the aggregator among them."
    )
    see = "With other tokens no entry differs, at any sublayer, in the rows that they do not reach; in those that they reach many do."

    def cases(self, fast: bool) -> list[Case]:
        return [*kinds().values(), *super().cases(fast)]

    def measure(self, seed: int, fast: bool) -> Outcome:
        leaks = [leak for case in self.cases(fast) for leak in compiled_leaks(case, seed, fast)]
        models = list(tried_models(seed))
        for model, supports in models:
            leaks += random_leaks(model, supports, seed)
        missed = [unnoticed(model, 6, seed) for model, supports in models if supports < 100]
        settings = f"{len(leaks)} pairs of sequences, every sublayer; {len(missed)} models with planted leaks"
        return leak_outcome(settings, leaks, np.concatenate(missed))

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        return leak_outcome(case.label, compiled_leaks(case, seed, fast))


Leak = tuple[np.ndarray, np.ndarray]
"""For each site how many entries differ, in the rows that no changed token reaches and in the others."""


def compiled_leaks(case: Case, seed: int, fast: bool) -> list[Leak]:
    model, prompt = case.model(), case.prompts(2 if fast else 4, seed)
    tokens, context = model.sequence(prompt)
    leaks = leaks_of(model.transformer, tokens, context)
    if model.certificate.every_prefix:
        leaks.append(unread_query(model.transformer, tokens, context))
    return leaks


def leaks_of(transformer: Transformer, tokens: Tensor, context: int) -> list[Leak]:
    """What other queries, another first query and, under a causal mask, other tokens of the context change."""
    n = tokens.shape[1]
    changes = [range(context, n), range(context, context + 1)]
    if transformer.config.mask == "causal":
        # A compiled model's aggregator is a token of zeros, which stays: then the last support moves.
        last = context - 1 if tokens[:, context - 1, :-3].any() else context - 2
        changes += [range(at, at + 1) for at in (context // 2, last)]
    return [
        entries(state_leak(transformer, tokens, moved(tokens, change), context))
        for change in changes
    ]


def unread_query(transformer: Transformer, tokens: Tensor, context: int) -> Leak:
    """What another x among the pairs changes: under the mask what comes after it, here itself alone."""
    other = moved(tokens, range(2, 3))
    before, after = state_leak(transformer, tokens, other, context)
    return entries((torch.cat([before, after[:, :, 1:]], dim=2), after[:, :, :1]))


def moved(tokens: Tensor, positions: range) -> Tensor:
    """The sequence with shorter features and targets at these positions, which leaves no domain."""
    other = tokens.clone()
    other[:, positions.start : positions.stop, :-3] *= 0.9
    return other


def entries(leak: tuple[Tensor, Tensor]) -> Leak:
    inside, outside = (part.sum((1, 2, 3)).double().numpy() for part in leak)
    return inside, outside


def leak_outcome(settings: str, leaks: list[Leak], missed: np.ndarray | None = None) -> Outcome:
    """Twice the number of entries is the ratio, so that a single one exceeds 1, and so does a missed leak."""
    layers = list(range(max(len(inside) for inside, _ in leaks)))
    most = [max(i[at] for i, _ in leaks if len(i) > at) for at in layers]
    fewest = [min(o[at] for _, o in leaks if len(o) > at) for at in layers]
    lines = [
        Line("where none may, most of any pair", layers, most),
        Line("where they may, fewest of any pair (control)", layers, fewest),
    ]
    axes = Axes("sublayer", "entries that differ", log_y=False)
    counts = [inside for inside, _ in leaks] + ([] if missed is None else [missed])
    return Outcome(settings, 2 * np.concatenate(counts), lines, axes)


FEATURES = 4
GPT2: dict[str, Any] = {
    "attention": "softmax", "mask": "causal", "norm": "layernorm", "mlp": "gelu", "positional": "learned",
    "max_tokens": 100, "n_registers": 0,
}  # fmt: skip
"""A decoder as others are trained and imported."""


SHAPE = {"d_model": 16, "d_head": 8, "n_layers": 3, "n_heads": 2, "d_mlp": 32, "d_out": 1}


def random_models(inputs: int, seed: int, registers: int = 0) -> list[Transformer]:
    """Transformers of both kinds of attention and of mask, with random weights."""
    return [
        random_model(inputs, seed, {"attention": attention, "mask": mask, "n_registers": registers})
        for attention, mask in product(("linear", "softmax"), ("prefix", "causal"))
    ]


def random_model(inputs: int, seed: int, kind: dict[str, Any]) -> Transformer:
    config = TransformerConfig.from_dict(SHAPE | {"d_in": inputs, "dtype": "float64"} | kind)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Transformer(config)


def tried_models(seed: int) -> Iterator[tuple[Transformer, int]]:
    """Random transformers, each with numbers of supports.

    There are both kinds of attention and all masks, registers or none, sums of one chunk and of several, softmax
    with and without its matrix of weights.
    """
    for registers, supports in product((0, 3), (70, 300)):
        for model in random_models(FEATURES + 4, seed, registers):
            yield model, supports
    for attention, supports in product(("linear", "softmax"), (70, 300)):
        kind = {"attention": attention, "mask": "context", "n_registers": 3}
        yield random_model(FEATURES + 4, seed, kind), supports
    yield random_model(FEATURES + 4, seed, GPT2), 70


def random_tokens(supports: int, seed: int) -> Tensor:
    """Supports, the aggregator and four queries, of normal entries."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, supports + 5, FEATURES + 4, generator=generator, dtype=torch.float64)


def random_leaks(transformer: Transformer, supports: int, seed: int) -> list[Leak]:
    return leaks_of(transformer, random_tokens(supports, seed), supports + 1)


def unnoticed(transformer: Transformer, supports: int, seed: int) -> np.ndarray:
    """For each row of the context 1 if a leak from the queries to this row is not counted, else 0."""
    tokens, context = random_tokens(supports, seed), supports + 1
    other = moved(tokens, range(context, tokens.shape[1]))
    rows = transformer.config.n_registers + context
    site = f"blocks.{transformer.config.n_layers - 1}.resid_post"
    found = [
        entries(state_leak(transformer, tokens, other, context, (planted(site, row, rows),)))[
            0
        ].any()
        for row in range(rows)
    ]
    return 1.0 - np.array(found, dtype=float)


def planted(site: str, row: int, context: int) -> Edit:
    """Adds to one row of the context what the queries hold; after the last block, where none reads it on."""

    def leaking(x: Tensor, at: int) -> Tensor:
        x = x.clone()
        x[:, at] += x[:, context:].mean(1)
        return x

    return Edit(site, partial(leaking, at=row))
