"""The solver whose iterates make errors most similar to those that a model's layers make."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.candidates import Candidate, Setting, candidates
from ridgeformer.solvers import krr
from ridgeformer.suite.cases import NONE
from ridgeformer.suite.watched import Watched

STEPS = 8
"""So many iterates of each candidate are compared."""

ALIKE = 0.99
"""Errors must be as similar as this on average, as a cosine, for a solver to be named."""


def settings(watched: Watched) -> list[tuple[Candidate, Setting]]:
    """Every solver that runs on the prompts, tuned to their spectrum."""
    prompt = watched.case.prompt.to(torch.float64)
    kernel, ridge = watched.kernel, float(watched.case.seen["ridge"])
    plain = Setting.around(prompt, kernel, ridge)
    return [
        (candidate, Setting.around(prompt, kernel, ridge, candidate.solver.precondition))
        for candidate in candidates(prompt, plain)
    ]


def nearest_by_errors(watched: Watched) -> str:
    """The candidate with the largest similarity of errors: the mean over layers of the cosine of a layer's errors
    with those of the iterate that they resemble most (SimE, Fu et al. 2023).

    Errors are differences from closed-form ridge regression, and layers are read by the unembedding. A layer that
    leaves the prediction as it is, or at 0, has no part in it.
    """
    prompt = watched.case.prompt.to(torch.float64)
    exact = krr(prompt, ridge=float(watched.case.seen["ridge"]), kernel=watched.kernel)
    layers = read_layers(watched)
    if not len(layers):
        return NONE
    found = {}
    for candidate, setting in settings(watched):
        iterates = candidate.signals(prompt, setting, STEPS)["predictions"][1][1:]
        cosines = cosine(layers[:, None] - exact, iterates[None] - exact)
        found[candidate.solver.name] = float(cosines.amax(1).mean())
    best = max(found, key=lambda name: found[name])
    return best if found[best] >= ALIKE else NONE


def read_layers(watched: Watched) -> Float[Tensor, "layers batch q r"]:
    """The predictions that sublayers change, as the unembedding reads them."""
    transformer, queries = watched.case.transformer, list(watched.rows["queries"])
    with torch.inference_mode():
        read = [
            transformer.readout(stream[:, queries].to(transformer.unembed.W)).double()
            for stream in watched.stream.values()
        ]
    room = 1e-6 * float(read[-1].abs().max())
    changed = [
        now
        for before, now in pairwise(read)
        if float((now - before).abs().max()) > room and float(now.abs().max()) > room
    ]
    return torch.stack(changed) if changed else read[0][None][:0]


def cosine(
    a: Float[Tensor, "layers 1 batch q r"], b: Float[Tensor, "1 steps batch q r"]
) -> Float[Tensor, "layers steps"]:
    """The mean over prompts of the cosine over queries and outputs; 0 where a side is not finite."""
    found = torch.cosine_similarity(a.flatten(3), b.flatten(3), dim=-1)
    return found.nan_to_num(nan=0.0).mean(-1)
