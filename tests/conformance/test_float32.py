"""Everything that compiles with dtype float32 keeps the promise of its certificate, on every CPU."""

import numpy as np
import pytest
import torch
from promise import excess_of

from ridgeformer.compiler import catalogue
from ridgeformer.compiler.catalogue import FEATURES, MAX_NORM, MAX_SUPPORTS, MAX_TARGET
from ridgeformer.models import trajectory
from ridgeformer.tasks import Prompt
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
            if "float32 would round" not in str(refusal):
                raise
        else:
            yield found.entry.label, model


def prompts(supports, outputs):
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


@pytest.mark.parametrize(("outputs", "steps"), [(1, 4), (2, 6)])
def test_every_float32_certificate_holds(outputs, steps, record_property):
    used = {}
    for label, model in models(outputs, steps):
        for supports in (1, 5, MAX_SUPPORTS):
            prompt = prompts(supports, outputs)
            found = trajectory(model, prompt).predictions.numpy()
            assert found.dtype == np.float32
            used[f"{label}, k = {supports}"] = excess_of(model, prompt, found).max()
    worst = max(used, key=used.__getitem__)
    record_property("largest error over what is allowed", f"{used[worst]:.2g} ({worst})")
    assert len(used) > 200, "most of the catalogue compiles in float32"
    assert not {case: share for case, share in used.items() if not share <= 1}
