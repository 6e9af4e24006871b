"""The study of CG variants: its simulations are CG, and its references have digits to spare."""

import numpy as np
import pytest
import torch

from ridgeformer.experiments.studies.cg_variants import CGVariants, draw
from ridgeformer.experiments.studies.cg_variants_solvers import (
    ChronopoulosGear,
    extended_cg,
    own_round_off,
    refined_krr,
)
from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.solvers.machine import EagerMachine

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize(("updated", "products"), [(False, 9), (True, 5)])
def test_the_variants_of_cg_are_cg(updated, products, monkeypatch):
    """Equal to the textbook in exact arithmetic, with one product in a step where A p is updated."""
    prompt, counted = draw("float64", 30.0, 4, seed=1), []
    exact = extended_cg(prompt, 1.0, 5)
    plain = EagerMachine.kernel_product
    monkeypatch.setattr(
        EagerMachine, "kernel_product", lambda m, v: counted.append(v) or plain(m, v)
    )
    found = solve(ChronopoulosGear(updated), prompt, steps=5, ridge=1.0).predictions
    assert len(counted) == products
    np.testing.assert_allclose(found.numpy(), exact.astype(float), rtol=0, atol=1e-10)


def test_the_references_of_the_cg_study_have_more_digits_than_float64():
    prompt = draw("float64", 1e4, 4, seed=1)
    direct = krr(prompt, ridge=1.0).numpy()
    refined = refined_krr(prompt, 1.0)
    np.testing.assert_allclose(refined.astype(float), direct, rtol=0, atol=1e-9)
    again = extended_cg(prompt, 1.0, 40)[-1]  # far past convergence, by another way
    assert np.abs(again - refined).max() < 0.1 * np.abs(direct - refined).max()

    def textbook(p):
        return solve(ConjugateGradient(), p, steps=12, ridge=1.0).predictions

    exact = extended_cg(prompt, 1.0, 12)
    own = own_round_off(textbook, prompt, exact, seed=0)
    one = torch.from_numpy(np.abs(textbook(prompt).numpy() - exact).max(axis=(2, 3)).astype(float))
    assert (own >= one).all()
    assert (own[1:] >= own[:-1]).all()
    assert (own[-1] > one[-1]).any()


@pytest.mark.slow
def test_what_the_orders_of_a_cg_step_cost():
    found = CGVariants().measure(6, 3, list)
    for name, layers, channels, neurons in (("cg", 7, 13, 76), ("cg-predicted", 5, 20, 188)):
        where = {"dtype": "float64", "condition": 100.0}
        assert found.get("layers", name, **where).mean == layers
        assert found.get("channels", name, **where).mean == channels
        assert found.get("neurons", name, **where).mean == neurons
        assert found.get("ratio", name, **where).mean < 1.1
    shares = [n.value for n in found.numbers if n.measure == "share"]
    assert len(shares) == 3 * 6
    assert 0 < min(shares) <= max(shares) < 1
    for dtype, condition in (("float64", 1e2), ("float64", 1e4), ("float32", 1e2)):
        where = {"dtype": dtype, "condition": condition}
        same = found.get("ratio", "cg-predicted, not compiled", **where)
        assert same.mean == pytest.approx(1, abs=0.2)
        errors = found.get("error", "textbook", **where)
        assert 0.1 < errors.mean / torch.finfo(getattr(torch, dtype)).eps < 100 * condition**0.5
