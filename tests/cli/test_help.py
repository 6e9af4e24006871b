"""The help: fast, complete, and with every bracket that was written."""

import subprocess
import sys

import pytest
from fork_server import cli

from ridgeformer.kernels import KERNELS
from ridgeformer.solvers import SOLVERS

COMMANDS = ("compile", "prompts", "predict", "solve", "inspect", "export", "import", "evaluate", "identify", "demo", "study", "verify", "train", "zoo")  # fmt: skip


def words(*arguments):
    """The rendered help as one line of words."""
    result = cli(*arguments, "--help")
    assert result.returncode == 0, result.stderr
    return " ".join(result.stdout.replace("│", " ").split())


def test_all_commands_are_listed():
    text = words()
    for command in COMMANDS:
        assert f" {command} " in text
        assert "Usage" in words(command)


def test_asking_for_help_imports_nothing_heavy():
    code = (
        "import sys; from ridgeformer.cli import app; sys.argv = ['ridgeformer', '--help']\n"
        "try:\n    app()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'plotly', 'scipy', 'sklearn', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        ("predict", "prediction [B,q,r]"),
        ("predict", "trajectory [T+1,B,q,r]"),
        ("predict", "phi [B,k,p], y [B,k,r], phi_query [B,q,p]"),
        ("solve", "phi_query [B,q,p]"),
    ],
)
def test_shapes_in_brackets_are_shown(command, shape):
    assert shape in words(command)
    if command == "predict" and "prediction" in shape:
        assert shape in words()


def test_help_of_fields_may_have_brackets_too(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass, field\n"
        "import ridgeformer as rf\n"
        "@rf.register\n@dataclass(frozen=True)\n"
        "class Mine(rf.Richardson):\n"
        "    size: float = field(default=2.0, metadata={'help': 'Of U [m, p], or [bold].'})\n"
        "    name = 'mine'\n"
    )
    assert "Of U [m, p], or [bold]. (mine; 2.0 if left out)" in words(
        "--import", tmp_path / "mine.py", "compile"
    )


def test_options_stand_with_what_they_belong_to():
    text = words("compile")
    for said in (
        "--max-eigenvalue",
        "A bound on |φ|. (softmax)",
        "Neurons per layer, instead of a tolerance. (softmax with relu)",
        "A bound on |y|. (linear with reglu, softmax with relu or softmax with reglu)",
        "Options of the kernel",
        "Options of the solver",
    ):
        assert said in text


def test_solvers_and_kernels_are_named_by_what_is_registered(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import ridgeformer as rf\n@rf.register\nclass Mine(rf.Richardson):\n    name = 'mine'\n"
    )
    text = words("--import", tmp_path / "mine.py", "compile")
    assert f"The solver: {', '.join(SOLVERS)}, mine." in text
    assert f"The kernel: {', '.join(KERNELS)}." in text
