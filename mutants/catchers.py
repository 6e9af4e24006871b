"""What may notice an error: statements of `verify --fast`, and tests, each run in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from mutants.mutant import Unfit

SCRIPT = Path(__file__).with_name("statements.py")
PATIENCE = 300.0
"""Seconds after which a few statements or tests count as hanging."""
MORE_PATIENCE = 1800.0
"""The same for all statements, or for all tests of a room."""


@dataclass(frozen=True)
class Caught:
    by: str
    """`verify --fast` or `tests`."""
    which: str
    """The statement, or the first test that failed."""
    how: str = ""

    def plain(self) -> dict[str, str]:
        return asdict(self)


def run(command: list[str], root: Path, patience: float) -> tuple[int | None, str]:
    """The exit code and output of a command in the copy at `root`; None after too long a time."""
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    return process.returncode, said


def environment(root: Path) -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return os.environ | one | {"PYTHONPATH": str(root / "src")}


def by_statements(names: tuple[str, ...], root: Path, patience: float = PATIENCE) -> Caught | None:
    """The first of the statements that does not hold; without names, of all statements."""
    said = "verify --fast"
    code, output = run([sys.executable, str(SCRIPT), *names], root, patience)
    if code is None:
        return Caught(said, ", ".join(names), "hangs")
    if code != 0:
        raise Unfit(f"The statements {', '.join(names)} cannot be run:\n{output[-2000:]}")
    found = json.loads(output.splitlines()[-1])
    return None if found is None else Caught(said, *found)


def by_tests(names: tuple[str, ...], root: Path, patience: float = PATIENCE) -> Caught | None:
    """The first of the tests that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-rfE", "-p", "no:cacheprovider", *names]
    code, output = run(command, root, patience)
    match code:
        case None:
            return Caught("tests", ", ".join(names), "hangs")
        case 0:
            return None
        case 1 | 2:
            return Caught("tests", first_failure(output))
        case _:
            raise Unfit(f"The tests {', '.join(names)} cannot be run:\n{output[-2000:]}")


def first_failure(output: str) -> str:
    """The name of the test, without its parameters."""
    found = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", output, re.M)
    if found is None:
        raise Unfit(f"Tests fail, and it is not said which:\n{output[-2000:]}")
    return found[1]
