"""Prompts in the domain of the catalogue, and what a solver makes of them."""

from math import sqrt

import numpy as np
import torch
from textbook import feature_predictions

from ridgeformer.compiler.catalogue import FEATURES, MAX_NORM, MAX_SUPPORTS, MAX_TARGET, RIDGE
from ridgeformer.compiler.domain import Domain
from ridgeformer.kernels import Polynomial
from ridgeformer.solvers import certified_interval, solve
from ridgeformer.tasks import Prompt


def prompts(supports, outputs, seed=0, batch=3, queries=3):
    """Points anywhere in the ball, the first on its surface; the first target at its bound."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((batch, supports + queries, FEATURES))
    points *= MAX_NORM * rng.uniform(size=points.shape[:2])[..., None] / np.linalg.norm(
        points, axis=-1, keepdims=True
    )  # fmt: skip
    points[:, 0] *= MAX_NORM / np.linalg.norm(points[:, 0], axis=-1, keepdims=True)
    y = rng.uniform(-MAX_TARGET, MAX_TARGET, (batch, supports, outputs))
    y[:, 0] = MAX_TARGET
    phi, query = points[:, :supports], points[:, supports:]
    return Prompt(*map(torch.from_numpy, (phi, y, query)))


def tensor_features(phi, kernel):
    """(⟨a, b⟩ + c)^d = ⟨ã⊗…⊗ã, b̃⊗…⊗b̃⟩ with ã = (a, √c): every product of d entries."""
    extended = torch.cat([phi, torch.full_like(phi[..., :1], sqrt(kernel.offset))], dim=-1)
    out = extended
    for _ in range(kernel.degree - 1):
        out = (out[..., :, None] * extended[..., None, :]).flatten(-2)
    return out


def reference(entry, prompt, steps):
    """The solver's run that the model must repeat, tuned as the model is."""
    kernel = entry.kernel
    steps = 1 if entry.solver.smooths else steps
    domain = Domain(kernel, MAX_NORM, MAX_SUPPORTS, MAX_TARGET)
    interval = certified_interval(
        entry.solver.precondition, RIDGE, domain.max_eigenvalue, domain.row_sums
    )  # fmt: skip
    found = solve(
        entry.solver, prompt, steps=steps, ridge=RIDGE, kernel=kernel, interval=interval,
        states=True,
    )  # fmt: skip
    if entry.causal and entry.solver.name in ("cg", "cg-predicted"):
        # In feature space CG has iterates of its own.
        if isinstance(kernel, Polynomial):
            phi, query = (tensor_features(x, kernel) for x in (prompt.phi, prompt.phi_query))
            prompt = Prompt(phi, prompt.y, query)
        return torch.from_numpy(feature_predictions(prompt, RIDGE, steps)), None
    return found.predictions, found.states["alpha"]


def hard_prompts(supports, outputs):
    """Eighteen in float32: points anywhere in the ball, on its surface, nearly equal, equal, small, or
    in opposite pairs; for each of these, targets anywhere, at their bound, and tiny."""
    rng = np.random.default_rng(supports)
    points = rng.standard_normal((6, 3, supports + 3, FEATURES))
    points *= MAX_NORM / np.linalg.norm(points, axis=-1, keepdims=True)
    phi, query = points[:, :, :supports], points[:, :, supports:]
    phi[0] *= rng.uniform(size=(3, supports, 1))
    phi[2] = 0.9 * phi[2, :, :1] + 1e-3 * phi[2]
    phi[3] = phi[3, :, :1]
    phi[4] *= 1e-3
    phi[5] = phi[5, :, :1] * (-1.0) ** np.arange(supports)[:, None]
    query[:, :, 0] = phi[:, :, 0]
    y = rng.uniform(-MAX_TARGET, MAX_TARGET, (6, 3, supports, outputs))
    y[:, 1] = MAX_TARGET
    y[:, 2] *= 1e-4
    arrays = (x.reshape(18, *x.shape[2:]).astype(np.float32) for x in (phi, y, query))
    return Prompt(*map(torch.from_numpy, arrays))
