"""`reference` is what a model computes, whichever kind of model it is."""

import numpy as np
import pytest
import torch
from catalogue_cases import prompts
from promise import over_allowed, own_round_off
from textbook import dual_predictions, feature_predictions

from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, catalogue, compile
from ridgeformer.kernels import Gaussian, Polynomial
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import IterativeNewton, make_solver
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

TOP = 16.0
KINDS = {
    "dual": ("cg", {}, LinearAttention(TOP)),
    "dual, tuned": ("chebyshev", {}, LinearAttention(TOP)),
    "feature space": ("cg", {}, LinearAttention(TOP, causal=True)),
    "feature space, predicted": ("cg-predicted", {}, LinearAttention(TOP, causal=True)),
    "feature space, tuned": ("heavy-ball", {}, LinearAttention(TOP, causal=True)),
    "feature space, degree 2": (
        "cg", {"kernel": Polynomial(2)}, LinearAttention(4 * TOP, Exact(), causal=True),
    ),
    "every prefix": ("cg", {}, LinearAttention(TOP, Exact(), causal=True, every_prefix=True)),
    "every prefix, degree 2": (
        "chebyshev", {"kernel": Polynomial(2)},
        LinearAttention(4 * TOP, Exact(), causal=True, every_prefix=True),
    ),
    "registers": ("newton", {}, LinearAttention(TOP)),
    "looped": ("cg", {"looped": True}, LinearAttention(TOP)),
    "looped in feature space": ("cg", {"looped": True}, LinearAttention(TOP, causal=True)),
    "looped registers": ("plain newton", {"looped": True}, LinearAttention(TOP)),
    "softmax": ("cg", {"kernel": Gaussian(1.0)}, SoftmaxAttention(1.0, 16)),
    "softmax heads": ("chebyshev", {}, SoftmaxAttention(1.0, 16)),
    "softmax heads, CG": ("cg", {}, SoftmaxAttention(1.0, 16)),
}  # fmt: skip


def made(name, options, to):
    solver = IterativeNewton(plain=True) if name == "plain newton" else make_solver(name)
    return compile(solver, features=catalogue.FEATURES, steps=4, ridge=1.0, to=to, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_computes_its_reference(kind):
    model, prompt = made(*KINDS[kind]), prompts(9, 1)
    steps = 3 if model.certificate.looped else None
    ways = [False, True] if model.certificate.every_prefix else [False]
    for prefixes in ways:
        found = trajectory(model, prompt, steps=steps, prefixes=prefixes).predictions
        exact = reference(model, prompt, steps=steps, prefixes=prefixes).predictions
        assert found.shape == exact.shape
        relative, factor = model.certificate.relative_error, model.certificate.round_off_factor
        own = own_round_off(
            lambda p, same=prefixes: reference(model, p, steps=steps, prefixes=same).predictions.numpy(),
            prompt, exact.numpy(),
        ) if not prefixes else 0.0  # fmt: skip
        used = over_allowed(found.numpy(), exact.numpy(), own, min(relative, 1e-8), factor)
        assert used.max() < 1


def test_it_is_the_textbook_in_either_space():
    prompt = prompts(9, 2)
    dual, feature = (
        made("cg", {"outputs": 2}, LinearAttention(TOP, causal=c)) for c in (False, True)
    )
    ours, other = (reference(model, prompt).predictions.numpy() for model in (dual, feature))
    np.testing.assert_allclose(ours, dual_predictions(prompt, 1.0, 4), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(other, feature_predictions(prompt, 1.0, 4), rtol=1e-9, atol=1e-11)
    assert np.abs(ours - other)[1:3].max() > 1e-3, "the iterates are others"


def test_states_are_those_of_the_space():
    prompt = prompts(9, 1)
    for causal, size in ((False, 9), (True, catalogue.FEATURES)):
        model = made("cg", {}, LinearAttention(TOP, causal=causal))
        assert reference(model, prompt, states=True).states["alpha"].shape == (5, 3, size, 1)


def test_prefixes_are_those_of_a_decoder_that_solves_them():
    model = made("cg", {}, LinearAttention(TOP, causal=True))
    with pytest.raises(Refusal, match="every_prefix=True"):
        reference(model, prompts(5, 1), prefixes=True)
    single = prompts(5, 1).to(torch.float32)
    assert reference(model, single).predictions.dtype == torch.float32
