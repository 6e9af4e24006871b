"""Files of arrays: whatever is damaged is refused in one sentence, and memory is given to nobody who does not use it."""

import random
import tracemalloc

import numpy as np
import pytest
from damages import bomb, huge_header

import ridgeformer as rf
from ridgeformer.tasks import PrescribedSpectrum, Prompt, read_npy
from ridgeformer.types import Refusal


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.npz"
    PrescribedSpectrum(features=3, supports=5, condition=20).draw(2, seed=0).save(path)
    return path


def attempt(read, path):
    """What is read, or what is said instead."""
    try:
        return read(path), ""
    except Refusal as refusal:
        return None, str(refusal)


@pytest.mark.parametrize("kind", ["stored", "compressed", "npy"])
def test_whatever_byte_is_wrong(prompts, tmp_path, kind, recwarn):
    """It is refused, or it was a byte that says nothing of the numbers."""
    whole, read = dict(np.load(prompts)), Prompt.load
    if kind == "compressed":
        np.savez_compressed(prompts, **whole)
    if kind == "npy":
        prompts = tmp_path / "phi.npy"
        np.save(prompts, whole["phi"])
        read = lambda path: read_npy(path, "a matrix")  # noqa: E731
    content = prompts.read_bytes()
    rng, refused = random.Random(0), 0
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 2, 5))):
            damaged[rng.choice((rng.randrange(len(content)), rng.randrange(150)))] = rng.randrange(
                256
            )
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(content)) :]
        prompts.write_bytes(damaged)
        found, said = attempt(read, prompts)
        refused += found is None
        assert "pickle" not in said
        if found is not None and kind != "npy":  # an .npy file has no checksum
            np.testing.assert_array_equal(found.phi, whole["phi"])
    assert refused > 200


@pytest.mark.parametrize(("make", "words"), [(huge_header, "is damaged"), (bomb, "claims to hold")])
def test_sizes_are_checked_before_memory_is_given(prompts, make, words):
    make(prompts)
    tracemalloc.start()
    try:
        with pytest.raises(Refusal, match=words):
            Prompt.load(prompts)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


def test_compressed_and_old_files_are_read(prompts):
    whole = dict(np.load(prompts))
    np.savez_compressed(prompts, **{name: a.astype(np.float32) for name, a in whole.items()})
    assert str(Prompt.load(prompts).phi.dtype) == "torch.float32"
    np.savez(prompts, **{name: np.asfortranarray(a) for name, a in whole.items()})
    np.testing.assert_array_equal(Prompt.load(prompts).phi, whole["phi"])
    np.savez_compressed(prompts, **{name: 0 * a for name, a in whole.items()})  # few, but all alike
    assert not Prompt.load(prompts).phi.any()


def test_tensors_of_other_types_are_refused(prompts):
    p = Prompt.load(prompts)
    for phi in (p.phi.long(), p.phi.half(), p.phi.float()):
        with pytest.raises(Refusal, match="convert them"):
            rf.Prompt(phi, p.y, p.phi_query)
