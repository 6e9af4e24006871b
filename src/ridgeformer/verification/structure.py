"""What the weights must look like: masks that let nothing through."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import torch

from ridgeformer.compiler import compile
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.transformer import Record, Transformer, TransformerConfig
from ridgeformer.verification.base import Axes, Line, Outcome, Theorem


class Masking(Theorem):
    name = "masking"
    title = "No support or aggregator state depends on a query"
    statement = (
        "At every layer the states of supports and aggregator are, bit by bit, the same whatever the "
        "queries are, for any weights: the Jacobian from query to context is 0."
    )
    see = "Bits that differ in the context, layer by layer, with other queries: none; at the queries, many."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        prompt = PrescribedSpectrum(features=4, supports=12, condition=30).draw(
            4 if fast else 32, seed
        )
        other = Prompt(prompt.phi, prompt.y, 3 * prompt.phi_query.flip(1) + 1)
        found, lines = [], []
        for name, transformer in masked_models(prompt, seed).items():
            inside, outside = differing_entries(transformer, prompt, other)
            found.append(inside)
            layers = list(range(len(inside)))
            lines.append(Line(name, layers, inside.tolist()))
            lines.append(Line(f"{name}, at the queries", layers, outside.tolist(), bound=True))
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


def differing_entries(
    transformer: Transformer, prompt: Prompt, other: Prompt
) -> tuple[np.ndarray, np.ndarray]:
    names = ["embed"]
    for layer in range(transformer.config.n_layers):
        names += [f"blocks.{layer}.resid_mid", f"blocks.{layer}.resid_post"]
    context = prompt.supports + 1
    streams = []
    for given in (prompt, other):
        record = Record.of(names)
        with torch.inference_mode():
            transformer.residual_stream(given.tokens(), context, [record])
        streams.append(torch.stack([record.values[name] for name in names]))
    apart = streams[0] != streams[1]
    return (
        apart[:, :, :context].sum((1, 2, 3)).double().numpy(),
        apart[:, :, context:].sum((1, 2, 3)).double().numpy(),
    )
