"""`ridgeformer prompts`: any task's prompts, as the task draws them, with the bounds that models ask for."""

import re

import numpy as np
import pytest
import torch
from fork_server import cli as cli_apart
from tiny_models import cli, refused

from ridgeformer.tasks import TASKS, GaussianProcess, PrescribedSpectrum, Prompt, ReLUNetwork


def number_after(words, text):
    return float(re.search(rf"{re.escape(words)} up to ([\d.e+-]+\d)", text)[1])


def same(prompt, path):
    found = Prompt.load(path)
    return all(
        torch.equal(getattr(prompt, part), getattr(found, part))
        for part in ("phi", "y", "phi_query")
    )


def test_every_task_writes_what_it_draws(tmp_path):
    for name, task in TASKS.items():
        done = cli("prompts", name, "--batch", 3, "--seed", 5, "--out", tmp_path / "p.npz")
        assert done.exit_code == 0, done.output
        assert same(task().draw(3, seed=5), tmp_path / "p.npz"), name


@pytest.mark.parametrize(
    ("words", "task"),
    [
        (["spectrum", "--condition", 20, "--outputs", 2], PrescribedSpectrum(condition=20, outputs=2)),
        (["gp", "--features", 3, "--supports", 5], GaussianProcess(features=3, supports=5)),
        (["relu-network", "--network-width", 7], ReLUNetwork(width=7)),
    ],
)  # fmt: skip
def test_options_are_the_fields_of_the_task(words, task, tmp_path):
    done = cli("prompts", *words, "--out", tmp_path / "p.npz")
    assert done.exit_code == 0, done.output
    assert same(task.draw(16, seed=0), tmp_path / "p.npz")


def test_it_says_how_large_they_are(tmp_path):
    done = cli("prompts", "linear", "--batch", 4, "--out", tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as file:
        phi, y, query = (file[name] for name in ("phi", "y", "phi_query"))
    longest = np.sqrt((np.concatenate([phi, query], axis=1) ** 2).sum(-1).max())
    for words, value in (
        ("λ_max(K)", np.linalg.norm(phi, 2, axis=(1, 2)).max() ** 2),
        ("|φ|", longest),
        ("|y|", abs(y).max()),
    ):
        assert number_after(words, done.stdout) == pytest.approx(value, rel=1e-3)


def test_a_task_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nimport ridgeformer as rf\n"
        "@rf.register\n@dataclass(frozen=True)\n"
        "class Mine(rf.PrescribedSpectrum):\n    times: int = 1\n    name = 'mine'\n"
    )
    own = ["--import", tmp_path / "mine.py"]
    assert "mine" in cli_apart(*own, "prompts", "--help").stdout
    done = cli_apart(*own, "prompts", "mine", "--times", 2, "--out", tmp_path / "p.npz")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gpp"], "There is no task 'gpp': did you mean gp?"),
        (["gp", "--condition", 3], "--condition is not an option of the gp task"),
        (["spectrum", "--supports", 0], "needs supports ≥ 1; got supports 0"),
        (["spectrum", "--features", -1], "needs features ≥ 1; got features -1"),
        (["spectrum", "--condition", "nan"], "needs a finite condition"),
        (["spectrum", "--noise", "inf"], "needs a finite noise"),
        (["kernel", "--queries", 0], "needs queries ≥ 1"),
        (["kernel", "--scale", "nan"], "needs a finite scale"),
        (["spectrum", "--batch", 10**11], "not enough memory"),
        (["spectrum", "--batch", 0], "Invalid value for '--batch'"),
    ],
)
def test_refusals_write_nothing(words, said, tmp_path):
    refused(cli("prompts", *words, "--out", tmp_path / "p.npz"), said)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path):
    refused(cli("prompts", "gp", "--out", tmp_path / "no/p.npz"), "its directory does not exist")
    refused(cli("prompts", "gp", "--out", tmp_path), "is a directory")
