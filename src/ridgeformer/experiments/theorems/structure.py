"""What the weights must look like: masks that let nothing through."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import torch

from ridgeformer.compiler import compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory import context_leak
from ridgeformer.transformer import Transformer, TransformerConfig


class Masking(Theorem):
    name = "masking"
    title = "No support or aggregator state depends on a query"
    statement = (
        "At every layer the states of supports and aggregator are, bit by bit, the same whatever the "
        "queries are, for any weights: the Jacobian from query to context is 0."
    )
    see = "With other queries no entry of the context differs at any layer; at the queries many do."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = PrescribedSpectrum(features=4, supports=12, condition=30).draw(
            4 if fast else 32, seed
        )
        other = Prompt(prompt.phi, prompt.y, 3 * prompt.phi_query.flip(1) + 1)
        found, control = [], []
        for transformer in masked_models(prompt, seed).values():
            inside, outside = (
                leak.sum((1, 2, 3)).double().numpy()
                for leak in context_leak(transformer, prompt, other)
            )
            found.append(inside)
            control.append(outside)
        layers = list(range(max(map(len, found))))
        most = [max(x[layer] for x in found if len(x) > layer) for layer in layers]
        fewest = [min(x[layer] for x in control if len(x) > layer) for layer in layers]
        lines = [
            Line("in the context, most of any model", layers, most),
            Line("at the queries, fewest of any model (control)", layers, fewest),
        ]
        settings = f"{len(found)} models, {len(prompt.phi)} prompts, every sublayer"
        axes = Axes("sublayer", "entries that differ", log_y=False)
        # One entry that differs is a violation: twice their number is the ratio.
        return Outcome(settings, 2 * np.concatenate(found), lines, axes)


def masked_models(prompt: Prompt, seed: int) -> dict[str, Transformer]:
    """Compiled models, and random weights, which have no zeros that could hide a leak."""
    largest = float(torch.linalg.matrix_norm(prompt.phi, 2).square().max())
    cg = partial(compile, make_solver("cg"), features=4, steps=4, ridge=1.0)
    softmax = cg(
        kernel=Exponential(20.0),
        attention="softmax",
        mlp="reglu",
        max_norm=20.0,
        max_supports=16,
    )
    models = {
        "cg, linear attention": cg(max_eigenvalue=largest).transformer,
        "cg, causal": cg(max_eigenvalue=largest, causal=True).transformer,
        "cg, softmax": softmax.transformer,
    }
    for attention, mask in product(("linear", "softmax"), ("prefix", "causal")):
        shape = {"d_model": 16, "d_head": 8, "n_layers": 4, "n_heads": 2, "d_mlp": 32}
        kind = {"attention": attention, "mask": mask, "dtype": "float64"}
        tokens = {"d_in": prompt.tokens().shape[-1], "d_out": 1}
        config = TransformerConfig.from_dict(shape | kind | tokens)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            models[f"random weights, {attention}, {mask}"] = Transformer(config)
    return models
