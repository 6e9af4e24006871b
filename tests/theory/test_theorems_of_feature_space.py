"""CG in feature space: its own bound is met, the dual one fails, and why supports cannot do it."""

from math import cos, pi, prod, sqrt

import numpy as np
import pytest
import torch
from textbook import feature_predictions
from theorem_cases import largest_ratio

from ridgeformer import theory
from ridgeformer.experiments.theorems.feature_space import (
    beyond_the_dual_bound,
    readout_errors,
    two_prompts,
)
from ridgeformer.kernels import Exponential, Polynomial
from ridgeformer.solvers import Chebyshev, ConjugateGradient, GradientDescent, krr
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt
from ridgeformer.transformer import Transformer, TransformerConfig
from ridgeformer.types import Refusal


def modes(values, y, query):
    """Φ diagonal, such that these are the eigenvalues of K and G; y and φ(x) by their modes."""
    root = torch.as_tensor(values, dtype=torch.float64).sqrt()
    y, query = (torch.as_tensor(v, dtype=torch.float64) for v in (y, query))
    return Prompt(root.diag()[None], y[None, :, None], query[None, None])


def errors(prompt, ridge, steps):
    found = feature_predictions(prompt, ridge, steps, np.longdouble)
    return torch.from_numpy(np.abs(found - krr(prompt, ridge=ridge).numpy()).astype(float))


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_feature_cg_can_be_as_slow_as_chebyshev(steps):
    lo, hi = 2.0, 20.0
    values = [(hi + lo) / 2 + (hi - lo) / 2 * cos(pi * i / steps) for i in range(steps + 1)]
    b = [1.0 if 0 < i < steps else sqrt(0.5) for i in range(steps + 1)]
    values = [value - 1 for value in values]  # the ridge
    y = [v / sqrt(value) for v, value in zip(b, values, strict=True)]
    prompt = modes(values, y, [(-1) ** i * v for i, v in enumerate(b)])
    bound = theory.feature_cg_prediction_bound(prompt, ridge=1.0, steps=steps)
    ratio = largest_ratio(errors(prompt, 1.0, steps)[steps], bound[steps])
    assert ratio == pytest.approx(1 / (1 + theory.cg_rate(hi / lo) ** (2 * steps)))


@pytest.mark.parametrize("supports", [3, 20])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_bound_holds_at_every_prefix(supports, outputs):
    task = PrescribedSpectrum(features=6, supports=supports, outputs=outputs, condition=200)
    prefixes = theory.prefix_prompts(task.draw(10, seed=1))
    assert prefixes.phi.shape == (10 * (supports + 1), supports, 6)
    bound = theory.feature_cg_prediction_bound(prefixes, ridge=1.0, steps=6)
    assert (
        largest_ratio(errors(prefixes, 1.0, 6), bound, krr(prefixes, ridge=1.0).abs().max()) > 0.1
    )


def test_prefixes_are_what_they_say():
    prompt = KernelDraw(Polynomial(2), features=2, supports=4, queries=3).draw(2, seed=0)
    prefixes, mapped = (
        theory.prefix_prompts(prompt, Polynomial(2)),
        theory.in_features(prompt, Polynomial(2)),
    )
    torch.testing.assert_close(
        mapped.phi @ mapped.phi.mT, Polynomial(2)(prompt.phi, prompt.phi), rtol=1e-12, atol=1e-12
    )
    xs = torch.cat([prompt.phi, prompt.phi_query], dim=1)
    exact = krr(prefixes, ridge=0.5).reshape(2, 5)
    assert (exact[:, 0] == 0).all()
    for i in range(1, 5):
        before = Prompt(prompt.phi[:, :i], prompt.y[:, :i], xs[:, i : i + 1])
        one = krr(before, ridge=0.5, kernel=Polynomial(2))[:, 0, 0]
        torch.testing.assert_close(exact[:, i], one, rtol=1e-9, atol=1e-9)
    with pytest.raises(Refusal, match="no feature space"):
        theory.in_features(prompt, Exponential())


def test_the_dual_bound_fails_in_feature_space():
    prompt, ridge, step = beyond_the_dual_bound()
    error = float(errors(prompt, ridge, step)[step])
    dual = float(theory.cg_prediction_bound(prompt, ridge=ridge, steps=step)[step])
    own = float(theory.feature_cg_prediction_bound(prompt, ridge=ridge, steps=step)[step])
    assert (error / dual, error / own) == pytest.approx((1.347, 0.379), abs=1e-3)


@pytest.mark.parametrize(("steps", "condition"), [(1, 1.5), (1, 5.0), (1, 9.0), (2, 4.0), (4, 2.0)])
def test_by_how_much_the_dual_bound_fails(steps, condition):
    """All eigenvalues but the least near the largest, the least hardly a feature at all."""
    upper = [condition * (1 - 0.02 * j) for j in range(steps)]
    y = [1e-3] * steps + [1.0]
    prompt = modes([value - 1 for value in upper] + [1e-24], y, [0.0] * steps + [1.0])
    error = float(errors(prompt, 1.0, steps)[steps])
    dual = float(theory.cg_prediction_bound(prompt, ridge=1.0, steps=steps)[steps])
    factor = 2 * theory.cg_rate(condition) ** steps
    assert error / dual == pytest.approx(prod(1 - 1 / v for v in upper) / factor, rel=1e-3)
    claimed = 0.5 * ((sqrt(condition) + 1) ** 2 / condition) ** steps
    assert error / dual == pytest.approx(claimed, rel=0.05 * steps)
    own = float(theory.feature_cg_prediction_bound(prompt, ridge=1.0, steps=steps)[steps])
    assert error <= own


def test_the_least_error_of_a_causal_support():
    prompt, other = two_prompts()
    options = {"ridge": 1.0, "steps": 4}
    cg = theory.causal_support_error(ConjugateGradient(), prompt, other, **options)
    assert cg.shape == (5, 1, 1, 1), "one support is shared"
    assert cg.ravel().tolist() == pytest.approx([0, 1 / 12, 1 / 6, 1 / 6, 1 / 6])
    fixed = theory.causal_support_error(
        GradientDescent(interval=(1.0, 4.0)), prompt, other, **options
    )
    assert fixed[:3].ravel().tolist() == pytest.approx([0, 0, 0.4**2 / 2])
    with pytest.raises(Refusal, match="first support"):
        theory.causal_support_error(
            Chebyshev(), prompt, Prompt(-prompt.phi, prompt.y, prompt.phi), **options
        )


@pytest.mark.parametrize("mask", ["causal", "prefix"])
@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_no_causal_support_can_hold_the_dual_iterate(attention, mask):
    """The best readout of everything that the support ever holds; without the mask it is exact."""
    prompt, other = two_prompts()
    config = TransformerConfig(
        d_in=5, d_out=1, d_model=12, n_layers=3, n_heads=2, d_head=6, d_mlp=24, attention=attention,
        mask=mask, dtype="float64",
    )  # fmt: skip
    torch.manual_seed(0)
    sequences = [(given.tokens(), 3) for given in (prompt, other)]
    entries = np.array([[1 / 2, 2 / 3], [1 / 3, 1 / 3]])
    found = readout_errors(Transformer(config), sequences, 0, entries)
    expected = [1 / 12, 1 / 6] if mask == "causal" else [0, 0]
    np.testing.assert_allclose(found, expected, atol=1e-9)
