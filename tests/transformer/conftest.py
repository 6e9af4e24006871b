"""What the tests of packing share."""

import pytest

from ridgeformer.transformer import packing


@pytest.fixture
def pack_always(monkeypatch):
    """Small models and batches are packed too, and two prompts are enough for two threads."""
    monkeypatch.setattr(packing, "LEAST_NUMBERS", 0)
    monkeypatch.setattr(packing, "WORTHWHILE", 2.0)
    monkeypatch.setattr(packing, "LEAST_SHARE", 1)
