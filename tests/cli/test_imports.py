"""`ridgeformer --import FILE.py`: the user's own solvers, kernels and theorems."""

import numpy as np
import pytest
from fork_server import cli, refused

from ridgeformer.tasks import PrescribedSpectrum

SOLVER = """
from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import ridgeformer as rf
from steps import HALF


class State(NamedTuple):
    alpha: object


@rf.register
@dataclass(frozen=True)
class Damped(rf.Solver):
    damping: float = field(default=1.0, metadata={"help": "How much of each step is taken."})
    name = "damped"

    def init(self, m):
        return State(m.zeros())

    def step(self, m, s, t):
        lo, hi = m.interval("none")
        residual = m.target() - m.matvec(s.alpha)
        alpha = s.alpha + 2 * HALF * self.damping * 2 / (lo + hi) * residual
        return State(m.bound(alpha, lambda: 2 * m.solution_norm(), "the step is a contraction"))
"""

KERNEL = """
from __future__ import annotations

from dataclasses import dataclass

import torch
import ridgeformer as rf


@rf.register
@dataclass(frozen=True)
class Laplace(rf.Kernel):
    width: float = 1.0
    name = "laplace"

    def __post_init__(self):
        if self.width <= 0:
            raise rf.Refusal(f"`width` must be positive, got {self.width}.")

    def __call__(self, a, b):
        return (-torch.cdist(a, b, p=1.0) / self.width).exp()

    def diagonal(self, a):
        return torch.ones_like(a[..., :1])
"""

THEOREM = """
import numpy as np
import ridgeformer as rf
from ridgeformer.experiments.finding import Axes, Line
from ridgeformer.experiments.theorems.base import Outcome, Theorem


class Halves(Theorem):
    name = "halves"
    title = "Half of one is below one"
    statement = "1/2 ≤ 1."
    see = "One point."

    def measure(self, seed, fast):
        lines = [Line("half", [1], [0.5], "#000000")]
        return Outcome("one case", np.array([0.5]), lines, Axes("x", "y"))


rf.register(Halves())
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    directory = tmp_path_factory.mktemp("home")
    (directory / "my_solver.py").write_text(SOLVER)
    (directory / "my_kernel.py").write_text(KERNEL)
    (directory / "steps.py").write_text("HALF = 0.5\n")  # beside the file, and imported by it
    PrescribedSpectrum(features=3, condition=10).draw(4, seed=0).save(directory / "p.npz")
    return directory


def test_a_solver_from_a_file_solves_compiles_and_predicts(home, tmp_path):
    own = ["--import", home / "my_solver.py"]
    room = ["--steps", "3", "--ridge", "1"]
    runs = [
        [*own, "solve", "damped", home / "p.npz", *room, "--max-eigenvalue", "9", "--damping", "0.5",
         "--out", tmp_path / "solved.npz"],
        [*own, "compile", "damped", "--features", "3", *room, "--max-eigenvalue", "9", "--damping",
         "0.5", "--out", tmp_path / "model"],
        ["predict", tmp_path / "model", home / "p.npz", "--out", tmp_path / "predicted.npz"],
    ]  # fmt: skip
    for command in runs:
        result = cli(*command)
        assert result.returncode == 0, result.stderr
    solved, predicted = np.load(tmp_path / "solved.npz"), np.load(tmp_path / "predicted.npz")
    np.testing.assert_allclose(predicted["prediction"], solved["prediction"], rtol=1e-9, atol=1e-9)


def test_options_of_an_imported_solver_are_in_the_help_and_refused_elsewhere(home, tmp_path):
    own = ["--import", home / "my_solver.py"]
    text = " ".join(cli(*own, "solve", "--help").stdout.replace("│", " ").split())
    assert "--damping" in text
    assert "How much of each step is taken. (damped; 1.0 if left out)" in text
    assert "--damping" not in cli("solve", "--help").stdout
    command = ["solve", "cg", home / "p.npz", "--steps", "1", "--ridge", "1", "--damping", "1"]
    sentence = "--damping is not an option of cg: leave it out, or use damped."
    refused(cli(*own, *command, "--out", tmp_path / "o.npz"), sentence)


def test_a_kernel_from_a_file_solves_and_is_refused_where_it_cannot_be_compiled(home, tmp_path):
    own = ["--import", home / "my_kernel.py"]
    room = ["--steps", "40", "--ridge", "0.5", "--kernel", "laplace", "--width"]
    for solver in ("krr", "cg"):
        out = ["--out", tmp_path / f"{solver}.npz"]
        result = cli(*own, "solve", solver, home / "p.npz", *room, "2", *out)
        assert result.returncode == 0, result.stderr
    exact, solved = (np.load(tmp_path / f"{solver}.npz") for solver in ("krr", "cg"))
    np.testing.assert_allclose(solved["prediction"], exact["prediction"], atol=1e-9)
    target = ["--features", "3", "--max-eigenvalue", "9", "--out", tmp_path / "m"]
    refused(cli(*own, "compile", "cg", *room, "2", *target), "laplace")
    # The parameter of the kernel is named as its own option, although an MLP has a width too.
    refused(cli(*own, "compile", "cg", *room, "-1", *target), "--width must be positive, got -1.0.")


def test_a_theorem_from_a_file_is_verified(tmp_path):
    (tmp_path / "my_theorem.py").write_text(THEOREM)
    command = ["--import", tmp_path / "my_theorem.py", "verify", "--out", tmp_path / "v", "--only"]
    result = cli(*command, "halves")
    assert result.returncode == 0, result.stderr
    assert "halves" in result.stdout
    assert "Half of one is below one" in (tmp_path / "v/index.html").read_text()
    refused(cli(*command, "halvs"), "There is no theorem 'halvs': did you mean halves?")


def test_an_imported_name_is_suggested(home, tmp_path):
    command = ["solve", "dampd", home / "p.npz", "--steps", "1", "--ridge", "1"]
    result = cli("--import", home / "my_solver.py", *command, "--out", tmp_path / "o.npz")
    refused(result, "There is no solver 'dampd': did you mean damped?")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "x = 1\ny = x / 0\n",
            "cannot be imported: ZeroDivisionError in line 2: division by zero.",
        ),
        ("def f(:\n", "cannot be imported: SyntaxError in line 1"),
        ("import no_such_module\n", "No module named 'no_such_module'"),
        (
            "import ridgeformer as rf\nrf.register(3)\n",
            "cannot be imported: 3 cannot be registered",
        ),
        (
            "import ridgeformer as rf\nclass Mine(rf.Solver):\n    name = 'cg'\nrf.register(Mine)\n",
            "There is a solver 'cg' already: choose another name.",
        ),
    ],
)
def test_errors_in_a_file_are_one_sentence(tmp_path, text, sentence):
    (tmp_path / "mine.py").write_text(text)
    refused(cli("--import", tmp_path / "mine.py", "zoo", "path", "gp"), sentence, "mine.py")


def test_files_that_cannot_be_imported(tmp_path):
    refused(
        cli("--import", tmp_path / "none.py", "zoo", "path", "gp"), "There is no file", "none.py"
    )
    (tmp_path / "notes.txt").write_text("x = 1")
    refused(
        cli("--import", tmp_path / "notes.txt", "zoo", "path", "gp"), "its name must end in .py"
    )


def test_several_files_are_run_in_order(tmp_path):
    (tmp_path / "first.py").write_text("import sys\nsys.first = 1\n")
    (tmp_path / "second.py").write_text("import sys\nprint('second after', sys.first)\n")
    result = cli(
        "--import", tmp_path / "first.py", "--import", tmp_path / "second.py", "zoo", "path", "gp"
    )
    assert result.returncode == 0, result.stderr
    assert "second after 1" in result.stdout


OWN = """
from typing import Any, NamedTuple

import ridgeformer as rf


class State(NamedTuple):
    alpha: Any


@rf.register
class Own(rf.Solver):
    name = "own"

    def init(self, m):
        return State(m.zeros())

    def step(self, m, s, t):
        return s
"""
END = "\n"


@pytest.mark.parametrize(
    ("line", "wrong", "said"),
    [
        ("        return s", "        return 1 / 0", "own.py fails in line 19: ZeroDivisionError: division by zero."),
        ("        return s", "        return s.beta", "own.py fails in line 19: AttributeError: "),
        ("        return s", "        return (s.alpha,)", "must return a NamedTuple with a field alpha; got tuple."),
        ("        return State(m.zeros())", "        return None", "with a field alpha; got NoneType."),
        ("    def step(self, m, s, t):", "    def stp(self, m, s, t):", "cannot be registered: it has no step."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["compile", "solve"])
def test_a_method_of_ones_own_that_fails_is_told_in_one_sentence(
    tmp_path, command, line, wrong, said
):
    assert OWN.count(line + END) == 1
    (tmp_path / "own.py").write_text(OWN.replace(line + END, wrong + END))
    PrescribedSpectrum(features=3, supports=8, condition=10).draw(2, seed=0).save(
        tmp_path / "p.npz"
    )
    rest = {
        "compile": ["--features", "3", "--max-eigenvalue", "9", "--out", "m"],
        "solve": ["p.npz", "--out", "found.npz"],
    }  # fmt: skip
    words = ["--import", "own.py", command, "own", "--steps", "2", "--ridge", "1", *rest[command]]
    result = cli(*words, cwd=tmp_path)
    refused(result, said)
    assert len(result.stderr.splitlines()) == 1
