"""Prompts at the edges of a domain |φ| ≤ R, where errors of products are largest, or K is singular."""

import numpy as np
import torch

from ridgeformer.tasks import Prompt

KINDS = ("collinear", "duplicated", "clustered", "zero", "rim", "ball")


def edge_prompts(kind, rng, *, batch, supports, features, radius, outputs=1, queries=4):
    """Supports on a line through 0, in one place, nearly so, at 0, on the rim, or anywhere in the ball."""

    def normal(*shape):
        return rng.standard_normal((batch, *shape))

    phi, query = normal(supports, features), normal(queries, features)
    if kind == "collinear":
        phi = normal(1, features) * normal(supports, 1)
    elif kind == "duplicated":
        phi = np.repeat(normal(1, features), supports, axis=1)
    elif kind == "clustered":
        phi = normal(1, features) + 10.0 ** rng.uniform(-6, -1) * phi
    elif kind == "zero":
        phi[:, ::2] = 0.0
    elif kind == "rim":
        phi *= radius / np.linalg.norm(phi, axis=-1, keepdims=True)
    query[:, 0] = phi[:, 0]

    def inside(x):
        length = np.linalg.norm(x, axis=-1, keepdims=True)
        return x * np.minimum(1.0, radius * (1 - 1e-12) / np.maximum(length, 1e-300))

    y = normal(supports, outputs) * 10.0 ** rng.uniform(-3, 3, (batch, 1, 1))
    return Prompt(*map(torch.from_numpy, (inside(phi), y, inside(query))))
