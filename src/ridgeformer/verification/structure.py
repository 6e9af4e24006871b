"""What the weights must look like: sizes that a formula predicts, and masks that let nothing through."""

from __future__ import annotations

import numpy as np
import torch

from ridgeformer.compiler import CompiledModel, compile
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.transformer import Record
from ridgeformer.verification.base import Axes, Line, Outcome, Theorem


class Sizes(Theorem):
    name = "sizes"
    title = "Depth, width and heads are what the formulas say"
    statement = (
        "CG with linear attention takes 7T + 1 layers, p + 10r + 3 channels and one mat-vec head for all "
        "r outputs; fixed coefficients take T + 1 layers and p + 7 channels at most; behind softmax CG "
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
                cg = linear("cg", p, r, steps).transformer.config
                found += same(cg.n_layers, 7 * steps + 1) + same(cg.d_model, p + 10 * r + 3)
                fixed = linear("chebyshev", p, r, steps).transformer.config
                found += same(fixed.n_layers, steps + 1)
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


def same(counted: int, predicted: int) -> list[float]:
    """The larger over the smaller: 1 if they agree, more than 1 if they do not."""
    return [max(counted / predicted, predicted / counted)]


class Masking(Theorem):
    name = "masking"
    title = "No support or aggregator state depends on a query"
    statement = (
        "At every layer the states of supports and aggregator are, bit by bit, the same whatever the "
        "queries are: the Jacobian from query to context is 0."
    )
    see = "Bits that differ in the context, layer by layer, with other queries: none; at the queries, many."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        task = PrescribedSpectrum(features=4, supports=12, condition=30)
        prompt = task.draw(4 if fast else 32, seed)
        other = Prompt(prompt.phi, prompt.y, 3 * prompt.phi_query.flip(1) + 1)
        models = {
            "cg, linear attention": linear("cg", 4, 1, 4),
            "cg, causal": compile(
                make_solver("cg"),
                features=4,
                steps=4,
                ridge=1.0,
                max_eigenvalue=task.max_eigenvalue,
                causal=True,
            ),
            "cg, softmax": compile(
                make_solver("cg"),
                features=4,
                steps=4,
                ridge=1.0,
                kernel=Exponential(20.0),
                attention="softmax",
                mlp="reglu",
                max_norm=20.0,
                max_supports=16,
            ),
        }
        found, lines = [], []
        for name, model in models.items():
            inside, outside = differing_entries(model, prompt, other)
            found.append(inside)
            layers = list(range(len(inside)))
            lines.append(Line(name, layers, inside.tolist()))
            lines.append(Line(f"{name}, at the queries", layers, outside.tolist(), bound=True))
        settings = f"3 models, {len(prompt.phi)} prompts, every sublayer"
        axes = Axes("sublayer", "entries that differ", log_y=False)
        # One entry that differs is a violation: the number of them is the ratio, plus what 0 would be.
        return Outcome(settings, 2 * np.concatenate(found), lines, axes)


def differing_entries(
    model: CompiledModel, prompt: Prompt, other: Prompt
) -> tuple[np.ndarray, np.ndarray]:
    names = ["embed"]
    for layer in range(model.transformer.config.n_layers):
        names += [f"blocks.{layer}.resid_mid", f"blocks.{layer}.resid_post"]
    context = prompt.supports + 1
    streams = []
    for given in (prompt, other):
        record = Record.of(names)
        with torch.inference_mode():
            model.transformer.residual_stream(given.tokens(), context, [record])
        streams.append(torch.stack([record.values[name] for name in names]))
    apart = streams[0] != streams[1]
    return (
        apart[:, :, :context].sum((1, 2, 3)).double().numpy(),
        apart[:, :, context:].sum((1, 2, 3)).double().numpy(),
    )
