"""A table of bad input: one sentence, exit code 2, nothing lost, nothing half-written, in little time and memory."""

import re
import resource
import shutil
import sys

import pytest
from bad_input import FULL, content, table, world
from fork_server import cli as cli_apart
from tiny_models import cli

from conftest import without_checks

CASES = table()


def covering():
    """Cases in which each command and each damage comes at least once; the slow test has all of them."""
    commands, damages, chosen = set(), set(), []
    for name, case in CASES.items():
        command, damage = case.kind
        if command not in commands or damage not in damages:
            commands.add(command)
            damages.add(damage)
            chosen.append(name)
    return chosen


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with without_checks():
        world(folder)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "here")


def test_there_are_hundreds_of_cases():
    print(f"{len(CASES)} cases of bad input, {len(covering())} of them in the default tests")  # noqa: T201
    assert len(CASES) >= 100
    assert len(covering()) >= 100


def one_sentence(text):
    """What a command says of bad input; where words cannot be parsed, typer says it in a box."""
    said = text.strip()
    assert "Traceback" not in said, said
    assert "pickle" not in said, said
    if said.startswith(("Usage:", "╭─ Error")):
        assert len(re.findall("─ Error ─", said)) == 1, said
    else:
        assert said.startswith("Error: "), said
        assert len(said.splitlines()) == 1, said
        assert said.endswith((".", "?")), said


def damaged(case, folder):
    """What is in the folder after the damage."""
    if case.damage:
        case.damage(folder)
    return content(folder)


def left(folder, case):
    """What is there afterwards, without what a case is said to keep."""
    return {name: what for name, what in content(folder).items() if not name.startswith(case.kept)}


@pytest.mark.parametrize("name", covering())
def test_bad_input(name, folder):
    case = CASES[name]
    before = damaged(case, folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if case.full:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, hard))
    try:
        result = cli(*case.words, cwd=folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 2, result.output
    one_sentence(result.stderr)
    assert left(folder, case) == before


SECONDS, MEMORY = 5, 2**30


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bad_input_in_a_process(name, folder):
    """CPU seconds, since a busy machine takes longer; the process may not have more than the memory."""
    case = CASES[name]
    before = damaged(case, folder)
    room = MEMORY if sys.platform == "linux" else None
    limit = FULL if case.full else None
    result = cli_apart(*case.words, cwd=folder, file_size=limit, more_memory=room)
    assert result.returncode == 2, result.stdout + result.stderr
    one_sentence(result.stderr)
    assert left(folder, case) == before
    assert result.seconds < SECONDS
    assert result.peak < MEMORY
