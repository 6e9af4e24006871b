"""What the weights must look like: masks that let nothing through."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

from ridgeformer.experiments.theorems.base import Axes, Line, Outcome
from ridgeformer.experiments.theorems.cases import Case, registered_solvers
from ridgeformer.experiments.theorems.general import GeneralTheorem
from ridgeformer.tasks import Prompt
from ridgeformer.theory import context_leak
from ridgeformer.transformer import Transformer, TransformerConfig


class Masking(GeneralTheorem):
    name = "masking"
    title = "No support or aggregator state depends on a query"
    states = ("masking",)
    measured = (
        "Two prompts that differ in their queries alone are run through compiled models and through random "
        "weights, which have no zeros that could hide a leak. One entry that differs is a violation."
    )
    see = "With other queries no entry of the context differs at any sublayer; at the queries many do."

    def measure(self, seed: int, fast: bool) -> Outcome:
        cases = self.cases(fast)
        leaks = [leaked(case, seed, fast) for case in cases]
        prompt = Case(next(iter(registered_solvers()))).prompts(4, seed)
        other = Prompt(prompt.phi, prompt.y, 3 * prompt.phi_query.flip(1) + 1)
        leaks += [
            entries(context_leak(model, prompt, other)) for model in random_models(prompt, seed)
        ]
        return leak_outcome(f"{len(leaks)} models, every sublayer", leaks)

    def measure_on(self, case: Case, seed: int, fast: bool) -> Outcome:
        return leak_outcome(case.label, [leaked(case, seed, fast)])


Leak = tuple[np.ndarray, np.ndarray]
"""For each sublayer how many entries differ, in the context and at the queries."""


def leaked(case: Case, seed: int, fast: bool) -> Leak:
    prompt = case.prompts(2 if fast else 16, seed)
    other = Prompt(prompt.phi, prompt.y, 0.9 * prompt.phi_query.flip(1))
    return entries(context_leak(case.model().transformer, prompt, other))


def entries(leak: tuple[torch.Tensor, torch.Tensor]) -> Leak:
    inside, outside = (part.sum((1, 2, 3)).double().numpy() for part in leak)
    return inside, outside


def leak_outcome(settings: str, leaks: list[Leak]) -> Outcome:
    layers = list(range(max(len(inside) for inside, _ in leaks)))
    most = [max(i[at] for i, _ in leaks if len(i) > at) for at in layers]
    fewest = [min(o[at] for _, o in leaks if len(o) > at) for at in layers]
    lines = [
        Line("in the context, most of any model", layers, most),
        Line("at the queries, fewest of any model (control)", layers, fewest),
    ]
    axes = Axes("sublayer", "entries that differ", log_y=False)
    # Twice the number of entries is the ratio, so that a single one exceeds 1.
    return Outcome(settings, 2 * np.concatenate([inside for inside, _ in leaks]), lines, axes)


def random_models(prompt: Prompt, seed: int) -> list[Transformer]:
    """Transformers of both kinds of attention and of mask, with random weights."""
    models = []
    for attention, mask in product(("linear", "softmax"), ("prefix", "causal")):
        shape = {"d_model": 16, "d_head": 8, "n_layers": 4, "n_heads": 2, "d_mlp": 32}
        kind = {"attention": attention, "mask": mask, "dtype": "float64"}
        tokens = {"d_in": prompt.tokens().shape[-1], "d_out": 1}
        config = TransformerConfig.from_dict(shape | kind | tokens)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            models.append(Transformer(config))
    return models
