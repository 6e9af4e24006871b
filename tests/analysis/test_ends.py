"""Predictors without steps are told from their own predictions, and from each other."""

import pytest
import torch

from ridgeformer.analysis.candidates import Setting
from ridgeformer.analysis.ends import find_ends
from ridgeformer.baselines import NearestNeighbours
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.models import TransformerSubject
from ridgeformer.solvers import krr
from ridgeformer.tasks import GaussianProcess, LinearRegression
from ridgeformer.training import Architecture
from ridgeformer.training.layouts import LAYOUTS
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal

TASK = LinearRegression(features=4, supports=16, queries=6)
PROMPT = TASK.draw(96, seed=0)


def ends(predictions, prompt=PROMPT, kernel=None, **more):
    around = Setting.around(prompt, kernel or Linear(), 1.0)
    return {end.name: end for end in find_ends(predictions, prompt, around, seed=0, **more)}


def nearest(found):
    return min(found, key=lambda name: found[name].left.mean)


@pytest.mark.parametrize("ridge", [0.05, 0.7, 20.0])
def test_the_ridge_of_ridge_regression_is_found(ridge):
    found = ends(krr(PROMPT, ridge=ridge))
    assert nearest(found) == "closed-form ridge"
    assert found["closed-form ridge"].left.high < 1e-6
    assert found["closed-form ridge"].fitted["λ"] == pytest.approx(ridge, rel=1e-2)
    assert found["nearest neighbours"].left.low > 0.01


def test_a_kernels_width_is_found_with_it():
    prompt = GaussianProcess(supports=16, queries=6).draw(96, seed=1)
    found = ends(krr(prompt, ridge=0.2, kernel=Gaussian(0.8)), prompt, Gaussian(0.5))
    assert found["closed-form ridge"].fitted["lengthscale"] == pytest.approx(0.8, rel=1e-2)
    assert found["closed-form ridge"].fitted["λ"] == pytest.approx(0.2, rel=2e-2)


def test_the_number_of_neighbours_is_found():
    found = ends(NearestNeighbours(5).predict(PROMPT))
    assert nearest(found) == "nearest neighbours"
    assert found["nearest neighbours"].fitted == {"neighbours": 5}
    assert found["nearest neighbours"].left.high == 0
    assert found["closed-form ridge"].left.low > 0.05


def test_noise_ends_in_nothing():
    noise = torch.randn(
        (*PROMPT.phi_query.shape[:2], 1), generator=torch.Generator().manual_seed(3)
    )
    found = ends(1.0 + 0.1 * noise)
    assert nearest(found) == "nothing"
    assert found["nothing"].left.mean == pytest.approx(0.01, rel=0.2)


def test_what_random_weights_say_is_told_from_what_they_do_not():
    layout = LAYOUTS["pairs"]
    shape = Architecture(n_layers=2, d_model=16, n_heads=2, d_head=8, d_mlp=32)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformer = Transformer(layout.config(TASK, vars(shape))).requires_grad_(False)
    random = TransformerSubject(
        "random",
        transformer,
        lambda p: (*layout.sequences(p.to(torch.float32)), torch.arange(p.supports)),
    )
    own = ends(random.predict(PROMPT), untrained=random)
    assert own["untrained"].left.high < 0.1
    other = ends(krr(PROMPT, ridge=1.0), untrained=random)
    assert other["untrained"].left.low > 0.3


def test_predictions_that_are_not_finite_are_refused():
    with pytest.raises(Refusal, match="not finite"):
        ends(torch.full((96, 6, 1), float("nan")))
