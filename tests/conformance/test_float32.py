"""Everything that compiles with dtype float32 keeps the promise of its certificate, on every CPU."""

import numpy as np
import pytest
from catalogue_cases import hard_prompts
from promise import excess_of

from ridgeformer.compiler import catalogue
from ridgeformer.compiler.catalogue import MAX_SUPPORTS
from ridgeformer.models import trajectory
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


def models(outputs, steps):
    """Each entry of the catalogue that compiles in float32, with its model."""
    for found in catalogue.attempts():
        if found.model is None:
            continue
        try:
            model = found.entry.compile(outputs=outputs, steps=steps, dtype="float32")
        except Refusal as refusal:
            heads = found.model.certificate.from_heads and "can be promised" in str(refusal)
            if not heads and "float32 would round" not in str(refusal):
                raise
        else:
            yield found.entry.label, model


@pytest.mark.parametrize(
    ("outputs", "steps", "numbers"),
    [
        (1, 4, (1, 5, MAX_SUPPORTS)),
        pytest.param(2, 6, (1, 5, MAX_SUPPORTS), marks=pytest.mark.slow),
    ],
)
def test_every_float32_certificate_holds(outputs, steps, numbers, record_property):
    """For each of these numbers of supports."""
    used = {}
    for label, model in models(outputs, steps):
        for supports in numbers:
            prompt = hard_prompts(supports, outputs)
            found = trajectory(model, prompt).predictions.numpy()
            assert found.dtype == np.float32
            used[f"{label}, k = {supports}"] = excess_of(model, prompt, found).max()
    worst = max(used, key=used.__getitem__)
    record_property("largest error over what is allowed", f"{used[worst]:.2g} ({worst})")
    assert len(used) > 66 * len(numbers), "most of the catalogue compiles in float32"
    assert not {case: share for case, share in used.items() if not share <= 1}
