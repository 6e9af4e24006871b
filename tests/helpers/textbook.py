"""Conjugate gradients straight from the textbook, in any NumPy precision. The tests' own reference."""

import numpy as np


def cg(system, target, steps):
    """All iterates, [steps + 1, …]; `system` maps a batch of vectors [batch, n, r] to A times them."""
    x, r = np.zeros_like(target), target.copy()
    p, rho = r.copy(), (r * r).sum(1, keepdims=True)
    iterates = [x]
    for _ in range(steps):
        Ap = system(p)
        gamma = safe_divide(rho, (p * Ap).sum(1, keepdims=True))
        x, r = x + gamma * p, r - gamma * Ap
        new = (r * r).sum(1, keepdims=True)
        p, rho = r + safe_divide(new, rho) * p, new
        iterates.append(x)
    return np.stack(iterates)


def safe_divide(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def arrays(prompt, dtype):
    return (np.asarray(t.numpy(), dtype) for t in (prompt.phi, prompt.y, prompt.phi_query))


def dual_predictions(prompt, ridge, steps, dtype=np.float64):
    """Predictions of CG on (ΦΦᵀ + λI) α = y."""
    phi, y, query = arrays(prompt, dtype)
    transposed, ridge = phi.swapaxes(1, 2), dtype(ridge)
    alpha = cg(lambda v: phi @ (transposed @ v) + ridge * v, y, steps)
    return query @ (transposed @ alpha)


def feature_predictions(prompt, ridge, steps, dtype=np.float64):
    """Predictions of CG on (ΦᵀΦ + λI) w = Φᵀy."""
    phi, y, query = arrays(prompt, dtype)
    transposed, ridge = phi.swapaxes(1, 2), dtype(ridge)
    w = cg(lambda v: transposed @ (phi @ v) + ridge * v, transposed @ y, steps)
    return query @ w
