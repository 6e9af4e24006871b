"""`verify` and `study` on workers and with a store: the same numbers, measured once."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from fork_server import cli, refused

from ridgeformer.experiments.finding import Axes, Finding, Line, Number, Page, Table
from ridgeformer.experiments.jobs import Store
from ridgeformer.experiments.plain import to_plain
from ridgeformer.experiments.studies import STUDIES, Study, run_study
from ridgeformer.experiments.studies.base import StudyInParts
from ridgeformer.experiments.theorems import Outcome, Theorem, verify
from ridgeformer.types import Refusal


def test_the_options_of_the_commands_are_checked(tmp_path):
    for command in (["verify"], ["study", "smoother"]):
        refused(cli(*command, "--workers", 0, cwd=tmp_path), "--workers must be at least 1, got 0")
        both = cli(*command, "--workers", 1, "--scheduler", "tcp://h:1", cwd=tmp_path)
        refused(both, "Give --workers or --scheduler, not both")
    assert not list(tmp_path.iterdir())


class Counted(Theorem):
    """A theorem that is measured in no time, and notes how often."""

    name, title, see, statement = "counted", "A title", "A figure.", "x < y & y < z"

    def __init__(self):
        self.times = 0

    def measure(self, seed, fast):
        self.times += 1
        line = Line("a", range(3), [seed + 0.1, 1 / 3, 1e-17], low=(0.0,) * 3, high=[1.0] * 3)
        table = Table(["h"], [["1"]])
        return Outcome("one case", np.array([0.5, 1 / 3]), [line], Axes("x", "y"), [table])


def test_a_store_changes_nothing_of_verify_and_is_used_again(tmp_path, monkeypatch):
    counted = Counted()
    with pytest.raises(Refusal, match="'counted' is not registered"):
        verify([counted], tmp_path / "refused", store=Store(tmp_path / "store"))
    monkeypatch.setitem(Theorem.registry.members, "counted", counted)
    plain, kept = verify([counted], tmp_path / "plain"), Store(tmp_path / "store")
    first, again = (verify([counted], tmp_path / out, store=kept) for out in ("first", "again"))
    assert counted.times == 2
    assert to_plain(plain) == to_plain(first) == to_plain(again)
    assert contents(tmp_path, "results.json") == 1
    verify([counted], tmp_path / "other", seed=1, store=kept)
    assert counted.times == 3


class Whole(Study):
    """A study of the user's own, which is not divided."""

    name, summary, prompts = "whole", "", 2

    def measure(self, prompts, seed, progress):
        numbers = [
            Number("m", f"g{i}", {"a": i}, (seed + i) / 3, 0.1, 5.0, prompts) for i in range(3)
        ]
        return Finding(self.name, seed, prompts, {"a": (1, 2)}, {"m": "what"}, numbers)

    def page(self, finding):
        return Page("title", "lead", [], "foot")


class Divided(StudyInParts):
    name, summary, prompts, measures = "divided", "", 2, {"m": "what"}

    def parts(self, prompts):
        return [partial(self.part, i) for i in range(3)]

    def part(self, i, out):
        values = torch.rand(out.prompts, generator=torch.Generator().manual_seed(out.seed + i))
        out.within(a=i).add("m", f"g{i}", values.double())

    def settings(self, prompts):
        return {"prompts": prompts}

    def page(self, finding):
        return Page("title", "lead", [], "foot")


@pytest.mark.parametrize(("study", "tasks"), [(Whole(), 1), (Divided(), 3)])
def test_a_store_changes_nothing_of_a_study(tmp_path, monkeypatch, study, tasks):
    with pytest.raises(Refusal, match="is not registered"):
        run_study(study, tmp_path / "refused", store=Store(tmp_path / "store"))
    monkeypatch.setitem(Study.registry.members, study.name, study)
    run_study(study, tmp_path / "plain", 3, 4)
    for out in ("first", "again"):
        run_study(study, tmp_path / out, 3, 4, store=Store(tmp_path / "store"))
    assert contents(tmp_path, "findings.json") == 1
    assert len(list((tmp_path / "store").iterdir())) == tasks
    assert study.measure(4, 3, list).to_dict() != study.measure(4, 4, list).to_dict()


def contents(directory, file):
    """How many different contents the files of that name have."""
    return len({path.read_text() for path in directory.glob(f"*/{file}")})


@pytest.mark.parametrize("name", STUDIES)
def test_the_tasks_of_a_study_are_described_apart(name):
    tasks = STUDIES[name].tasks(6, 3)
    assert len(tasks) > 2
    assert len({json.dumps(task.describe()) for task in tasks}) == len(tasks)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_on_workers_gives_the_same_numbers(tmp_path, name):
    for out, options in {"here": [], "there": ["--workers", 2]}.items():
        done = cli("study", name, "--prompts", 8, "--out", out, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "here", "findings.json") == numbers(
        tmp_path / "there", "findings.json"
    )
    assert list((tmp_path / "there/tasks").glob("*.json"))


OWN = """
from ridgeformer import register
from ridgeformer.experiments.theorems.structure import Masking

class Own(Masking):
    name = "own"

register(Own())
"""


@pytest.mark.slow
def test_workers_know_the_users_own_theorem(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    command = ["--import", "own.py", "verify", "--only", "own", "--fast", "--out", "v"]
    done = cli(*command, "--workers", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "own.py").write_text(OWN + "# changed\n")
    again = cli(*command, "--store", "v/tasks", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "already" not in again.stderr
    assert len(list((tmp_path / "v/tasks").glob("*.json"))) == 2
