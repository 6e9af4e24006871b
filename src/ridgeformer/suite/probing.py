"""Ridge regressions from the stream to a solver's states."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.solvers import ConjugateGradient, solve
from ridgeformer.suite.cases import NONE
from ridgeformer.suite.nearest import settings
from ridgeformer.suite.numerics import Numerics
from ridgeformer.suite.states import Held, Observed
from ridgeformer.suite.tokens import Tokens
from ridgeformer.suite.watched import Asked, Found, Watched

PENALTY = 1e-9
"""The penalty of the regressions, as a part of the largest eigenvalue of the stream's second moment."""

DECODED = 0.1
"""A state is claimed if readouts miss less than this part of its mean square on prompts that were not fitted."""

AS_WELL = 10.0
"""Of sites from which a state is read about as well, within this factor of the least error, the first is taken."""

ROUND_OFF = 1e-12

NAMED = 1e-3
"""A solver is named if readouts miss less than this part of its coefficients."""


def probed(watched: Watched, asked: Asked) -> Found | None:
    """The directions that read the state best, at the first site where they do; None if nothing reads it."""
    target = state_target(watched, asked)
    read = {site: fitted(watched.stream[site][:, asked.rows], target) for site in watched.sites}
    errors = {site: missed_part(missed, target) for site, (missed, _) in read.items()}
    least = min(errors.values())
    if not least <= DECODED:
        return None
    site = next(s for s, error in errors.items() if error <= max(AS_WELL * least, ROUND_OFF))
    return Found(site, torch.linalg.qr(read[site][1]).Q)


def state_target(watched: Watched, asked: Asked) -> Float[Tensor, "batch rows m"]:
    """What is to be read: the state by the solver's numerics, of length 1 in every prompt where its unit is free."""
    prompt = watched.case.prompt.to(torch.float64)
    if not watched.compiled:
        kernel, ridge = watched.kernel, float(watched.case.seen["ridge"])
        found = solve(
            ConjugateGradient(), prompt, steps=asked.of, ridge=ridge, kernel=kernel, states=True
        )
        return found.states[asked.state][asked.step]
    certificate = Certificate.from_dict(watched.case.labels["certificate"])
    model = CompiledModel(watched.case.transformer, certificate, {})
    numerics = Numerics.of(model, prompt)
    place = next(
        p
        for p in watched.case.labels["states"]
        if (p["state"], p["step"]) == (asked.state, asked.step)
    )
    held = Held(asked.state, asked.step, place["rows"], tuple(place["sites"]), ())
    value = Observed(numerics, Tokens.of(model, prompt), {}).value(held)
    if numerics.renews_units:
        value = value / value.norm(dim=1, keepdim=True)
    return value


def missed_part(missed: Float[Tensor, " m"], target: Float[Tensor, "batch rows m"]) -> float:
    """What readouts of a state miss on the second half of the prompts, as a part of its mean square."""
    return float(missed.sum() / target[len(target) // 2 :].square().sum())


def fitted(
    stream: Float[Tensor, "batch rows d"], target: Float[Tensor, "batch rows m"]
) -> tuple[Float[Tensor, " m"], Float[Tensor, "d m"]]:
    """The sum of squares that a regression on the first half of the prompts misses on the second, for each column
    of the target, and its weights."""
    if not torch.isfinite(stream).all():
        missed = stream.new_full(target.shape[-1:], torch.inf)
        return missed, stream.new_zeros(stream.shape[-1], target.shape[-1])
    half = len(stream) // 2
    x, y = stream[:half].flatten(0, 1), target[:half].flatten(0, 1)
    middle, level = x.mean(0), y.mean(0)
    x, y = x - middle, y - level
    moment = x.mT @ x
    top = torch.linalg.eigvalsh(moment)[-1].clamp(min=1e-300)
    eye = torch.eye(len(moment), dtype=moment.dtype)
    weights = torch.linalg.solve(moment + PENALTY * top * eye, x.mT @ y)
    missed = (stream[half:] - middle) @ weights + level - target[half:]
    return missed.square().sum((0, 1)), weights


def nearest_by_probes(watched: Watched) -> str:
    """The candidate whose coefficients after steps 2 to 4 are read best from the supports' stream, on average over
    steps, of all candidates at once."""
    prompt, supports = watched.case.prompt.to(torch.float64), list(watched.rows["supports"])
    names, targets = [], []
    for candidate, setting in settings(watched):
        signals = candidate.signals(prompt, setting, 4)
        for target in signals["coefficients"][1][2:] if "coefficients" in signals else ():
            names.append(candidate.solver.name)
            targets.append(target)
    target = torch.cat(targets, dim=-1)
    missed = torch.stack([fitted(s[:, supports], target)[0] for s in watched.stream.values()])
    parts = missed.amin(0) / target[len(target) // 2 :].square().sum((0, 1))
    found: dict[str, list[float]] = {}
    for name, part in zip(names, parts.tolist(), strict=True):
        found.setdefault(name, []).append(part)
    errors = {name: sum(each) / len(each) for name, each in found.items()}
    best = min(errors, key=lambda name: errors[name])
    return best if errors[best] <= NAMED else NONE
