"""What is written: the same bytes for a seed, nothing pickled, and no answer among what a tool may see."""

import filecmp
import hashlib
import json

import pytest
from fork_server import cli, refused

from ridgeformer.solvers import SOLVERS
from ridgeformer.suite import Suite, cases, export
from ridgeformer.suite.export import MANIFEST
from ridgeformer.types import Refusal


def files_of(directory):
    return sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())


def test_a_seed_always_gives_the_same_bytes(exported, tmp_path, unchecked):
    export(tmp_path / "again")
    names = files_of(exported)
    assert files_of(tmp_path / "again") == names
    _, different, unread = filecmp.cmpfiles(exported, tmp_path / "again", names, shallow=False)
    assert (different, unread) == ([], [])


def test_the_manifest_has_the_hash_of_every_file(exported):
    hashes = json.loads((exported / MANIFEST).read_text())["sha256"]
    assert sorted([*hashes, MANIFEST]) == files_of(exported)
    for name, expected in hashes.items():
        assert hashlib.sha256((exported / name).read_bytes()).hexdigest() == expected
        assert name.endswith((".json", ".safetensors"))
    assert sum((exported / name).stat().st_size for name in hashes) < 2e7


def test_what_a_tool_may_see_tells_no_answer(suite):
    """Every case has the same entries, and no text has the name of a solver, of a group, or of a state."""
    seen, configs = ([set(one) for one in many] for many in (
        [case.seen for case in suite.cases.values()],
        [json.loads((case.path / "config.json").read_text()) for case in suite.cases.values()],
    ))  # fmt: skip
    assert all(one == seen[0] for one in seen)
    assert all(one == configs[0] for one in configs)
    words = [*SOLVERS, "rotated", "trained", "shuffled", "alpha", "certificate", "sites", "recipe"]
    for path in (suite.path / "cases").rglob("*.json"):
        for word in words:
            assert f'"{word}' not in path.read_text(), path


def test_the_numbers_of_cases_follow_no_order(suite):
    groups = [case.labels["group"] for case in suite.cases.values()]
    assert groups != sorted(groups)
    assert {g: groups.count(g) for g in groups} == {
        "channels": 12, "rotated": 12, "trained": 3, "untrained": 3, "shuffled": 2,
    }  # fmt: skip


def test_a_suite_without_answers_is_read_by_those_who_have_none(suite, exported, tmp_path):
    import shutil

    shutil.copytree(exported, tmp_path / "blind")
    shutil.rmtree(tmp_path / "blind" / "answers")
    blind = Suite.load(tmp_path / "blind", answers=False)
    assert blind.cases.keys() == suite.cases.keys()
    with pytest.raises(Refusal, match="is incomplete: answers/"):
        Suite.load(tmp_path / "blind")


def test_an_altered_file_is_refused(exported, tmp_path):
    import shutil

    shutil.copytree(exported, tmp_path / "altered")
    path = tmp_path / "altered" / "answers" / "case-01" / "labels.json"
    path.write_text(path.read_text().replace('"', "'", 2))
    with pytest.raises(Refusal, match=r"labels\.json is damaged or was altered"):
        Suite.load(tmp_path / "altered")


def test_a_directory_with_something_else_is_left_alone(exported, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    refused(cli("suite", "export", tmp_path / "mine"), "is not empty", "--force")
    refused(
        cli("suite", "export", tmp_path / "mine", "--force"), "does not hold a suite", "--force"
    )
    refused(cli("suite", "export", tmp_path / "new", "--seed", "-1"), "seed")
    assert files_of(tmp_path / "mine") == ["notes.txt"]
    assert not (tmp_path / "new").exists()


def test_a_failure_leaves_the_old_suite_as_it_was(tmp_path, monkeypatch):
    target = tmp_path / "suite"
    target.mkdir()
    (target / MANIFEST).write_text("old")
    monkeypatch.setattr(cases, "TOLERANCE", 1e-300)
    with pytest.raises(Refusal, match="from the answer of"):
        export(target, force=True)
    assert files_of(tmp_path) == [f"suite/{MANIFEST}"]
    assert (target / MANIFEST).read_text() == "old"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_every_seed_has_a_suite_of_its_own(exported, tmp_path, seed):
    """Each is checked while it is written: every state is where it is said to be, every control predicts finite
    numbers, and every answer is what the model gives."""
    export(tmp_path / "held", seed=seed)
    names = [n for n in files_of(tmp_path / "held") if n.startswith("cases/")]
    assert names == [n for n in files_of(exported) if n.startswith("cases/")]
    same, _, _ = filecmp.cmpfiles(exported, tmp_path / "held", names, shallow=False)
    assert not [name for name in same if name.endswith("prompts.safetensors")]
