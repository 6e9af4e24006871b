"""Kernels are positive semi-definite functions, and what they say of themselves is true."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import pairwise

from ridgeformer.kernels import (
    KERNELS,
    Exponential,
    FeatureMap,
    Gaussian,
    Kernel,
    Logits,
    Monomial,
    Polynomial,
    kernel_from,
)
from ridgeformer.types import Refusal

PEERS = {
    "linear": pairwise.linear_kernel,
    "gaussian": lambda a, b: pairwise.rbf_kernel(a, b, gamma=0.5),
    "polynomial": lambda a, b: pairwise.polynomial_kernel(a, b, degree=2, gamma=1, coef0=1),
    "exponential": lambda a, b: np.exp(a @ b.T),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_against_scikit_learn(name):
    g = np.random.default_rng(0)
    a, b = g.normal(size=(6, 3)), g.normal(size=(4, 3))
    kernel = KERNELS[name]()
    found = kernel(torch.from_numpy(a)[None], torch.from_numpy(b)[None])[0]
    np.testing.assert_allclose(found.numpy(), PEERS[name](a, b), rtol=1e-12)
    diagonal = kernel.diagonal(torch.from_numpy(a)[None])[0, :, 0]
    np.testing.assert_allclose(diagonal.numpy(), np.diag(PEERS[name](a, a)), rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@given(seed=st.integers(0, 1000), k=st.integers(1, 12), scale=st.floats(0.01, 2))
def test_kernels_are_positive_semi_definite(name, seed, k, scale):
    x = scale * torch.randn(
        1, k, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    gram = KERNELS[name]()(x, x)
    torch.testing.assert_close(gram, gram.mT)
    assert float(torch.linalg.eigvalsh(gram).min()) > -1e-10 * float(gram.abs().max())


def test_the_exponential_kernel_projects_and_cools():
    x = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    U = torch.randn(2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = Exponential(temperature=3.0, projection=U)(x, x)
    torch.testing.assert_close(found[0], torch.exp((x[0] @ U.T) @ (x[0] @ U.T).T / 3.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exponential(0.0),
        lambda: Gaussian(-1.0),
        lambda: Polynomial(0),
        lambda: Polynomial(2, -1.0),
    ],
)
def test_impossible_kernels_are_refused(make):
    with pytest.raises(Refusal):
        make()


EXAMPLES = [example for kind in KERNELS.values() for example in kind.examples()]
# Where scales and offsets are 1, an exponent that they should have cannot be seen.
EXAMPLES += [Gaussian(0.7), Exponential(1.7), Polynomial(3, 0.6)]


def points(batch=2, n=7, p=3, seed=0, radius=1.5):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, n, p, generator=generator, dtype=torch.float64)
    return radius * x / x.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("kernel", EXAMPLES, ids=lambda kernel: kernel.label)
def test_what_attention_is_told_is_the_kernel(kernel):
    """Values from `dot_product` or `logits` alone, by the formula, are those of `__call__`."""
    a, b = points(seed=1), points(seed=2)
    features, logits = kernel.dot_product(3), kernel.logits()
    assert (features is None) != (logits is None)
    if features is not None:
        values = features(a) @ features(b).mT
        assert features(a).shape[-1] == features.width(3)
    else:
        u, v = logits.features(a), logits.features(b)
        distances = u.square().sum(-1)[:, :, None] + v.square().sum(-1)[:, None, :]
        values = torch.exp(logits.scale * u @ v.mT - logits.norm * distances)
    torch.testing.assert_close(values, kernel(a, b))


@pytest.mark.parametrize("kernel", EXAMPLES, ids=lambda kernel: kernel.label)
def test_values_stay_in_the_range_that_is_stated(kernel):
    a = torch.cat([points(seed=1), -points(seed=1), 0.3 * points(seed=2)], 1)
    stated, values = kernel.range(1.5), kernel(a, a)
    assert stated.least - 1e-9 * abs(stated.least) <= float(values.min())
    assert float(values.max()) <= stated.most * (1 + 1e-9)
    assert float(kernel.diagonal(a).min()) >= stated.least_diagonal - 1e-9
    assert float(values.max()) > 0.9 * stated.most, "the range is not idle"


@pytest.mark.parametrize("kernel", EXAMPLES, ids=lambda kernel: kernel.label)
def test_kernels_survive_being_written_down(kernel):
    again = kernel_from(json.loads(json.dumps(kernel.to_dict())))
    x = points()
    assert torch.equal(again(x, x), kernel(x, x))


class Own(Kernel):
    """A kernel that is given by its exponent alone."""

    name = "own"

    def logits(self):
        weights = torch.tensor([[1.0, -1.0, 0.5], [0.2, 0.0, -2.0]], dtype=torch.float64)
        bias = torch.tensor([0.3, -0.1], dtype=torch.float64)
        monomials = (Monomial(2.0, (0,)), Monomial(0.5, (0, 1)), Monomial(1.0, ()))
        return Logits(FeatureMap(hidden=(weights, bias), monomials=monomials), 0.2, 0.05)


def test_a_kernel_of_ones_own_has_everything_from_its_exponent():
    a, b, kernel = points(seed=3), points(seed=4), Own()
    u, v = (torch.relu(x @ kernel.logits().features.hidden[0].T + torch.tensor([0.3, -0.1])) for x in (a, b))  # fmt: skip
    u, v = (torch.stack([2 * x[..., 0], 0.5 * x[..., 0] * x[..., 1], torch.ones_like(x[..., 0])], -1) for x in (u, v))  # fmt: skip
    squares = (u**2).sum(-1)[:, :, None] + (v**2).sum(-1)[:, None, :]
    torch.testing.assert_close(kernel(a, b), torch.exp(0.2 * u @ v.mT - 0.05 * squares))
    torch.testing.assert_close(
        kernel.diagonal(a)[..., 0], torch.diagonal(kernel(a, a), dim1=1, dim2=2)
    )
    stated = kernel.range(1.5)
    assert stated.least <= float(kernel(a, b).min())
    assert float(kernel(a, a).max()) <= stated.most


def test_features_of_another_number_are_refused():
    with pytest.raises(Refusal, match="reads 3 features, not 2"):
        Own()(points(p=2), points(p=2))


def test_a_kernel_that_says_nothing_is_refused():
    class Empty(Kernel):
        name = "empty"

    with pytest.raises(Refusal, match="does not say what its values are"):
        Empty()(points(), points())
