"""What a certificate promises on given prompts, and how much of that a model uses up.

The one place that says what the solver's own round-off is; docs/format.md says it in words.
"""

import numpy as np
import torch
from textbook import feature_predictions

from ridgeformer.kernels import kernel_from
from ridgeformer.models import reference
from ridgeformer.models.reference import interval_of, ridge_of, solver_of
from ridgeformer.solvers import solve
from ridgeformer.tasks import Prompt

RUNS = 32

NUMBERS = 2**21
"""Runs on prompts with so many numbers are taken together."""


def excess(found, textbook, prompt, ridge, dtype=np.float64, relative=1e-9, factor=100):
    """Distance of predictions to the textbook's in extended precision, over what is allowed, per step
    and prompt; `textbook(prompt, ridge, steps, dtype)` computes in that precision."""
    steps = len(found) - 1
    exact = textbook(prompt, ridge, steps, np.longdouble)
    own = own_round_off(lambda p: textbook(p, ridge, steps, dtype), prompt, exact)
    return over_allowed(found, exact, own, relative, factor)


def excess_of(model, prompt, found):
    """The same against the solver itself, over what the model's certificate allows.

    The solver runs in the model's precision for its round-off, and in float64 on the same numbers
    for comparison.
    """
    certificate = model.certificate
    exact = solution(model, prompt.to(torch.float64))
    if certificate.absolute_error is not None:
        return largest(found - exact) / certificate.absolute_error
    own = own_round_off(lambda p: on_features(model, p), prompt, exact)
    relative, factor = certificate.relative_error, certificate.round_off_factor
    return over_allowed(found, exact, own, relative, factor, largest_terms(model, prompt))


def solution(model, prompt):
    """The solver's predictions, in the precision of the prompt."""
    certificate = model.certificate
    if certificate.space == "feature" and certificate.solver in ("cg", "cg-predicted"):
        # In feature space CG has iterates of its own.
        features = kernel_from(certificate.kernel).dot_product(prompt.features)
        prompt = Prompt(features(prompt.phi), prompt.y, features(prompt.phi_query))
        dtype = prompt.phi.numpy().dtype.type
        return feature_predictions(prompt, certificate.ridge, certificate.steps, dtype)
    return reference(model, prompt).predictions.numpy()


def on_features(model, prompt):
    """The solver as its own round-off is defined: a polynomial kernel is the dot product of its monomials,
    which may cancel where (⟨a, b⟩ + c)^d is computed without a loss."""
    certificate = model.certificate
    if certificate.attention == "softmax" or certificate.space == "feature":
        return solution(model, prompt)
    features = kernel_from(certificate.kernel).dot_product(prompt.features)
    if features is None or not features.monomials:
        return solution(model, prompt)
    given = Prompt(features(prompt.phi), prompt.y, features(prompt.phi_query))
    run = solve(
        solver_of(model), given, steps=certificate.steps, ridge=ridge_of(model),
        interval=interval_of(model),
    )  # fmt: skip
    return run.predictions.numpy()


def largest_terms(model, prompt):
    """What pairs of softmax heads round dot products to: the domain's largest, times Σ|α_i|."""
    certificate = model.certificate
    kernel = kernel_from(certificate.kernel)
    if certificate.attention != "softmax" or kernel.dot_product(prompt.features) is None:
        return 0.0
    alpha = reference(model, prompt.to(torch.float64), states=True).states["alpha"]
    sums = alpha.abs().sum(2).amax((0, 2))
    return kernel.range(certificate.max_norm).most * sums.numpy()


def over_allowed(found, exact, own, relative, factor, least_scale=0.0):
    """Distance over what is allowed: `relative` times the largest prediction, or `factor` times the
    solver's own round-off, whichever is larger."""
    distance = largest(found - exact).astype(float)
    scale = np.maximum(np.abs(exact).max(axis=(0, 2, 3)), least_scale)
    allowed = np.maximum(relative * scale, factor * own).astype(float)
    no_room = np.where(distance > 0, np.inf, 0.0)  # what is exactly 0 must be so in the model
    return np.divide(distance, allowed, out=no_room, where=allowed > 0)


def own_round_off(run, prompt, exact):
    """How far the solver, in the precision of the prompt, strays from exact arithmetic up to each step.

    One run can be exact by luck, and a CPU that adds in another order has other luck: where one target is
    not 0, an entry of CG's second residual cancels without any round-off in four runs of ten. So this is the
    largest distance of 32 runs, which rounding alone tells apart: on the prompt, and on 31 that have the
    supports in another order and every number kept or moved to one of its two neighbours in the same
    precision.
    """
    rng = np.random.default_rng(0)
    others = [jittered(prompt, rng) for _ in range(RUNS - 1)]
    distances = [largest(run(prompt) - exact)]
    together = max(1, NUMBERS // prompt.phi.numel())
    for first in range(0, len(others), together):
        group = others[first : first + together]
        found = run(
            Prompt(*(torch.cat([getattr(p, n) for p in group]) for n in ("phi", "y", "phi_query")))
        )
        distances += [largest(part - exact) for part in np.split(found, len(group), axis=1)]
    return np.maximum.accumulate(np.max(distances, axis=0))


def jittered(prompt, rng):
    order = rng.permutation(prompt.supports)

    def moved(x):
        x = x.numpy()
        towards = np.choose(rng.integers(3, size=x.shape), [-np.inf, x, np.inf]).astype(x.dtype)
        return torch.from_numpy(np.nextafter(x, towards))

    return Prompt(moved(prompt.phi[:, order]), moved(prompt.y[:, order]), moved(prompt.phi_query))


def largest(difference):
    """By step and prompt, over queries and outputs."""
    return np.abs(difference).max(axis=(2, 3))
