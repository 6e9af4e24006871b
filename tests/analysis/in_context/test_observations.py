"""Observations: prompts are known again, and what does not fit together is refused in one sentence."""

import pytest
import torch
from planted_learners import observed

from ridgeformer.analysis.in_context import Copies, Observations, Ridge
from ridgeformer.kernels import Linear
from ridgeformer.types import Refusal

# Shapes that do not fit would be found by the checks of the tests first.
pytestmark = pytest.mark.usefixtures("unchecked")


def test_prompts_are_known_again_in_any_order_and_others_are_not():
    found = observed(Ridge(0.5, Linear()))
    assert len(found.fingerprints()) == len(found) == 16
    assert found[4:7].fingerprints() < found.fingerprints()
    assert not found.fingerprints() & observed(Ridge(0.5, Linear()), seed=1).fingerprints()


def test_observations_that_do_not_fit_are_refused():
    good = vars(observed(Ridge(0.5, Linear())))
    for name, value, words in (
        ("supports", good["supports"][0], "supports .layers"),
        ("queries", good["queries"][:, :, :, :3], "need queries of shape"),
        ("influence", good["influence"].mT.contiguous(), "need influence of shape"),
        ("outputs", good["outputs"][:5], "need outputs of shape"),
        ("truth", good["outputs"][:, :2], "need truth of shape"),
        ("attention", good["influence"][None, :3], "need attention of shape"),
        (
            "targets",
            good["targets"] * torch.nan,
            "targets of these observations are not all finite",
        ),
    ):
        with pytest.raises(Refusal, match=words):
            Observations(**{**good, name: value})
    few = {**good, "queries": good["queries"][:, :, :1], "outputs": good["outputs"][:, :1], "influence": good["influence"][..., :1]}  # fmt: skip
    with pytest.raises(Refusal, match="at least 3 supports and 2 queries"):
        Observations(**few)


def test_copies_of_other_shapes_are_refused():
    values = torch.zeros(4, 5).double()
    for once, repeated, which in ((values, values[:, :2], 4), (values, values, 3)):
        with pytest.raises(Refusal, match="responses of one shape"):
            Copies(torch.arange(3).expand(which, -1), once, repeated)
