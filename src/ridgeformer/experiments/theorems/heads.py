"""Which outputs a head serves, and which tokens read from which."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from ridgeformer.analysis import communication, head_effects, matvec_heads
from ridgeformer.compiler import CompiledModel
from ridgeformer.experiments.theorems.base import SIZES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.mechanism import TASK, model_of
from ridgeformer.experiments.theorems.sizes import same
from ridgeformer.models import trajectory
from ridgeformer.tasks import Prompt

INTO, WITHIN, BACK, ACROSS = (
    "data → aggregator",
    "aggregator → aggregator",
    "aggregator → data",
    "data → data",
)


def predicted_heads(steps: int, outputs: int) -> dict[str, int]:
    """Heads of CG with T ≥ 2 steps by what they connect: one mat-vec a step, the rest per output."""
    return {
        ACROSS: steps,
        INTO: outputs * (3 * steps - 1),
        BACK: outputs * (5 * steps - 1),
        WITHIN: outputs * (11 * steps - 2),
    }


class SharedHeads(Theorem):
    name = "shared-heads"
    group = SIZES
    title = "All outputs share one mat-vec head a step, and nothing else"
    states = ("shared-outputs",)
    measured = (
        "Silenced alone, each of the T mat-vec heads must move all r outputs and every other head "
        "exactly one, but for the rT that write α, which move none. Moved is by more than 1e-6 of the "
        "prediction, and T ≤ rank K: in a step after CG has converged, heads that refine a reciprocal "
        "matter less than that. Within the aggregator r(11T − 2) heads are counted. r models of one "
        "output predict the same to 1e-8."
    )
    see = "Only the T mat-vec heads move all r outputs; r models of one output need rT of them."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        cases = [(2, 2), (2, 3)] if fast else [(2, 2), (3, 2), (4, 2), (2, 3), (3, 3), (2, 4)]
        m = Measurement()
        for steps, outputs in cases:
            model, alone = (model_of("cg", steps=steps, outputs=r) for r in (outputs, 1))
            prompt = replace(TASK, outputs=outputs).draw(4, seed)
            effects = head_effects(model, prompt)
            for connection, predicted in predicted_heads(steps, outputs).items():
                counted = sum(f"{e.source} → {e.to}" == connection for e in effects)
                m.count(same(counted + 1, predicted + 1))
            shared = matvec_heads(model)
            for effect in effects:
                apart = 0 if effect.does == "alpha" else 1
                expected = outputs if (effect.layer, effect.head) in shared else apart
                m.count(same(len(effect.serves()) + 1, expected + 1))
            m.count(same(len(effects) + (outputs - 1) * steps, outputs * len(alone.heads())))
            m.count(1 + apart_from_dedicated(model, alone, prompt))
            moved = [len(effect.serves()) for effect in effects]
            dedicated = outputs * len(matvec_heads(alone))
            here = (moved.count(outputs), moved.count(1), moved.count(0), dedicated)
            for name, count in zip(MOVED, here, strict=True):
                m.draw(name, f"r = {outputs}, T = {steps}", count)
        settings = f"{len(cases)} pairs of T and r, every head silenced alone, 4 prompts"
        return m.outcome(settings, Axes("", "heads", bars="beside"))


MOVED = ("move all outputs", "move one", "move none", "mat-vec heads of r models of one output")


def apart_from_dedicated(model: CompiledModel, alone: CompiledModel, prompt: Prompt) -> float:
    """Of all outputs at once to one model run on each, over the largest prediction."""
    ours = trajectory(model, prompt).predictions
    each = [
        trajectory(alone, replace(prompt, y=prompt.y[..., [output]])).predictions
        for output in range(prompt.outputs)
    ]
    return float((ours - torch.cat(each, dim=-1)).abs().max() / ours.abs().max())


def predicted_connections(steps: int) -> list[set[str]]:
    """By layer, who hears whom in CG: once yᵀy and the first unit, then seven layers a step."""
    step = [
        {ACROSS, WITHIN},  # Kp
        {INTO, WITHIN},  # pᵀAp
        {WITHIN},  # its reciprocal
        {WITHIN},
        {BACK, WITHIN},  # r
        {INTO, BACK, WITHIN},  # rᵀr; α and f
        {BACK, WITHIN},  # p, and the unit
    ]
    last = [*step[:4], {WITHIN}, {BACK}]  # α and f, but no residual and no direction
    return [{INTO}, {BACK, WITHIN}, *(steps - 1) * step, *last]


class Communication(Theorem):
    name = "communication"
    group = SIZES
    title = "Tokens hear each other in a pattern of seven layers a step"
    states = ("shared-outputs",)
    measured = (
        "In each step of a compiled CG but the last, supports read supports in layer 1 (Kp), the "
        "aggregator reads them in layers 2 (pᵀAp) and 6 (rᵀr), and they read it in layers 5 (r), 6 (α, "
        "f) and 7 (p); it works alone in layers 3 and 4. The last step, of six layers, needs neither "
        "rᵀr nor r nor p. No head writes anything, to the last bit, at other tokens, or because of "
        "other tokens, than these."
    )
    see = "Heads by layer: one data → data head every seven layers, and the same pattern around it."
    equality = True

    def measure(self, seed: int, fast: bool) -> Outcome:
        m = Measurement()
        cases = [(4, 2)] if fast else [(2, 1), (3, 3), (6, 1), (4, 2)]
        for steps, outputs in cases:
            model = model_of("cg", steps=steps, outputs=outputs)
            prompt = replace(TASK, outputs=outputs).draw(4, seed)
            table = communication(model, prompt)
            expected = predicted_connections(steps)
            heads: list[Counter[str]] = [Counter() for _ in model.transformer.blocks]
            for c in table:
                heads[c.layer][f"{c.source} → {c.to}"] += c.heads
            m.count(same(len(heads), len(expected)))
            for seen, wanted in zip(heads, expected, strict=False):
                m.count(1.0 + len(set(seen) ^ wanted))
            # Exact zeros are asked for, so that anything else counts as one case too many.
            m.count(*(1.0 + (c.outside != 0) + (c.overheard != 0) for c in table))
        for connection in (ACROSS, INTO, BACK, WITHIN):
            for layer, seen in enumerate(heads):
                m.draw(connection, str(layer), seen[connection])
        settings = f"(T, r) = {', '.join(map(str, cases))}, the last drawn; every head, 4 prompts"
        return m.outcome(settings, Axes("layer", "heads", log_y=False, bars="stacked"))
