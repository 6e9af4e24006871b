"""What the weights must look like: sizes that a formula predicts, and masks that let nothing through."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import torch

from ridgeformer.compiler import CompiledModel, compile
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.theory import context_leak
from ridgeformer.transformer import Transformer, TransformerConfig
from ridgeformer.verification.base import Axes, Line, Outcome, Theorem


class Sizes(Theorem):
    name = "sizes"
    title = "Depth, width and heads are what the formulas say"
    statement = (
        "CG with linear attention takes 7T + 1 layers, p + 10r + 3 channels and per step one mat-vec head "
        "for all r outputs; Chebyshev takes T + 1 layers and, for one output, p + 7 channels; behind softmax CG "
        "takes 10T + 6 layers. Every count is exact, for T ≥ 3; shorter programs may be narrower."
    )
    see = "Layers of compiled models against the formula: every ratio is exactly 1."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        found: list[float] = []
        counted: dict[str, list[float]] = {"cg": [], "chebyshev": [], "cg, softmax": []}
        steps_tried = (3, 5, 8) if fast else (3, 5, 8, 13, 21)
        for steps in steps_tried:
            for p, r in ((3, 1), (6, 1), (4, 2), (5, 3)):
                model = linear("cg", p, r, steps)
                cg = model.transformer.config
                found += same(cg.n_layers, 7 * steps + 1) + same(cg.d_model, p + 10 * r + 3)
                found += same(len(matvec_widths(model)), steps)
                found += [ratio for width in matvec_widths(model) for ratio in same(width, r)]
                fixed = linear("chebyshev", p, r, steps).transformer.config
                found += same(fixed.n_layers, steps + 1)
                if r == 1:
                    found += same(fixed.d_model, p + 7)
            counted["cg"].append(cg.n_layers)
            counted["chebyshev"].append(fixed.n_layers)
            soft = compile(
                make_solver("cg"),
                features=3,
                steps=steps,
                ridge=1.0,
                kernel=Exponential(),
                attention="softmax",
                mlp="reglu",
                max_norm=1.0,
                max_supports=16,
            ).transformer.config
            found += same(soft.n_layers, 10 * steps + 6)
            counted["cg, softmax"].append(soft.n_layers)
        lines = [Line(name, steps_tried, values) for name, values in counted.items()]
        settings = f"{len(steps_tried)} depths, 4 combinations of features and outputs"
        return Outcome(settings, np.array(found), lines, Axes("steps T", "layers", log_y=False))


def linear(name: str, features: int, outputs: int, steps: int) -> CompiledModel:
    return compile(
        make_solver(name),
        features=features,
        outputs=outputs,
        steps=steps,
        ridge=1.0,
        max_eigenvalue=50.0,
    )


def matvec_widths(model: CompiledModel) -> list[int]:
    """How many outputs each mat-vec head writes."""
    heads = [head for layer in model.sites["layers"] for head in layer["attention"]]
    return [len(head["writes"]) for head in heads if head["does"].startswith("K")]


def same(counted: int, predicted: int) -> list[float]:
    """The larger over the smaller: 1 if they agree, more than 1 if they do not."""
    return [max(counted / predicted, predicted / counted)]


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
