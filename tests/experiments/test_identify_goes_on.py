"""An interrupted `identify` keeps what it found, and the same command goes on from there."""

import re

import pytest
from fork_server import cli, refused
from rich.console import Console
from tiny_models import LINEAR, train

from ridgeformer.experiments.identification import answer, inquiry
from ridgeformer.experiments.identification.parts import PARTS, Part
from ridgeformer.experiments.identification.run import identify_model
from ridgeformer.experiments.jobs import Store
from ridgeformer.experiments.kept import kept_in
from ridgeformer.types import Interrupted

pytestmark = pytest.mark.usefixtures("unchecked")

PROMPTS = 96


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train(tmp_path_factory.mktemp("trained"), "pairs", LINEAR)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """The directory of an identification that was not interrupted."""
    out = tmp_path_factory.mktemp("whole")
    identified(model, out)
    return out


def identified(model, out, seed=0):
    store = Store(out / "tasks", "this code")
    quiet = Console(quiet=True)
    return identify_model(model, out, prompts=PROMPTS, seed=seed, console=quiet, store=store)


def fails(*arguments):
    raise AssertionError("this was found before")


def test_what_was_found_before_an_interruption_is_not_found_again(
    model, whole, tmp_path, monkeypatch
):
    last = PARTS[3]

    def interrupt(q, out):
        raise KeyboardInterrupt

    cut = tuple(Part(p.name, interrupt, p.measures) if p is last else p for p in PARTS)
    kept = f"what was found is kept in {tmp_path / 'tasks'}; the same command goes on from there."
    with monkeypatch.context() as during:
        during.setattr(answer, "PARTS", cut)
        with pytest.raises(Interrupted, match=re.escape(kept)):
            identified(model, tmp_path)
    assert not (tmp_path / "findings.json").exists()
    before = PARTS[: PARTS.index(last)]
    after = tuple(Part(p.name, fails, p.measures) if p in before else p for p in PARTS)
    with monkeypatch.context() as during:
        during.setattr(answer, "PARTS", after)
        during.setattr(inquiry, "search_all", fails)
        identified(model, tmp_path)
    assert (tmp_path / "findings.json").read_text() == (whole / "findings.json").read_text()


def test_another_seed_is_found_anew(model, whole, monkeypatch):
    monkeypatch.setattr(inquiry, "search_all", fails)
    with pytest.raises(AssertionError, match="found before"):
        identified(model, whole, seed=1)


def test_what_is_refused_leaves_no_directory(model, tmp_path):
    """And a store is made with its first result."""
    out, other = tmp_path / "page", tmp_path / "other.json"
    other.write_text("{}")
    refused(cli("identify", model, "--calibration", other, "--out", out), "This is no calibration")
    refused(cli("calibrate", "--fast", "--seed", "-1", "--out", out), "seed must be at least 0")
    assert not out.exists()


def test_a_store_is_made_with_its_first_result(tmp_path):
    store = Store(tmp_path / "a/b", "this code")
    assert not list(tmp_path.iterdir())
    assert store.empty
    with kept_in(store, {}) as keep:
        assert keep("piece", lambda: 3) == 3
    assert not store.empty
