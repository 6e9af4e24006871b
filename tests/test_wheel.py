"""The package stands alone: the wheel, in an empty environment and an empty folder, does what the README says.

`make test-wheel` runs this, which takes minutes. Nothing in here imports the package: what is tested is what is
installed.
"""

import os
import signal
import subprocess
import sys
import time
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from readme import README, ROOT, commands, snippets

pytestmark = pytest.mark.wheel

SOURCES = ROOT / "src"
EXTRAS = ("export", "lm")  # which the README's commands need, and says so

SHORT = {
    "ridgeformer evaluate gp": "ridgeformer evaluate gp --prompts 16 --baseline ridge --baseline knn",
    "ridgeformer identify linear": "ridgeformer identify linear --prompts 48",
    "ridgeformer lm study": "ridgeformer lm study even-odd linear --prompts 4",
}
"""Commands of minutes, on fewer prompts, with fewer baselines and tasks."""

BEGUN = {
    "ridgeformer train gp --out runs/gp": "runs/gp",
    "ridgeformer zoo rebuild linear-attention --out runs/again": "runs/again",
}
"""Runs of an hour, or of minutes, which are stopped when their folder is there; short ones are run to their end by
`test_a_recipe_of_ones_own`."""


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """The sdist, and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    done([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT], ROOT)
    return out


@pytest.fixture(scope="session")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """The variables of a shell in which an environment is active that has the wheel and what it asks for."""
    home = tmp_path_factory.mktemp("environment")
    done([sys.executable, "-m", "venv", home], ROOT)
    wanted = f"{wheel}[{','.join(EXTRAS)}]"
    done(
        [home / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "mypy", wanted,
         "-c", ROOT / "constraints.txt"],
        home,
    )  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "HERE": str(home)}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Empty, and far from the sources."""
    return tmp_path_factory.mktemp("folder")


def done(command, cwd, env=None, code=0):
    """What the command prints; it must end with that code."""
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == code, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


def test_it_holds_every_file_of_the_sources_and_no_other(wheel):
    with zipfile.ZipFile(wheel) as file:
        found = {name for name in file.namelist() if ".dist-info/" not in name}
    files = (path for path in SOURCES.rglob("*") if path.is_file())
    known = {str(path.relative_to(SOURCES)) for path in files}
    built = ("__pycache__", ".egg-info")
    assert found == {name for name in known if not any(part in name for part in built)}
    for name in ("py.typed", "__init__.pyi", "training/recipes/published/ahn.toml"):
        assert f"ridgeformer/{name}" in found


def test_its_metadata(wheel):
    with zipfile.ZipFile(wheel) as file:
        (about,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        text = file.read(about).decode()
        licence = file.read(about.replace("METADATA", "licenses/LICENSE")).decode()
    metadata = message_from_string(text)
    assert licence == (ROOT / "LICENSE").read_text()
    assert f"ridgeformer-{metadata['Version']}-" in wheel.name
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_payload().strip() == README.strip()


def test_it_is_installed_away_from_the_sources(environment, folder):
    place = done(["python", "-c", "import ridgeformer; print(ridgeformer.__file__)"], folder, environment)  # fmt: skip
    assert Path(place.strip()).is_relative_to(environment["HERE"])
    version = done(["ridgeformer", "--version"], "/", environment)
    assert version == done(["python", "-m", "ridgeformer", "--version"], folder, environment)
    assert version.strip() == done(
        ["python", "-c", "import ridgeformer as rf; print('ridgeformer', rf.__version__)"],
        folder, environment,
    ).strip()  # fmt: skip


def test_every_command_of_the_readme(environment, folder):
    """In the order of the README, in one folder, which is empty at first."""
    lines = commands("sh", "")
    assert len(lines) > 25
    assert set(SHORT) | set(BEGUN) <= set(lines)
    for line in lines:
        if line in BEGUN:
            begin(line.split(), folder / BEGUN[line], environment)
        else:
            done(["bash", "-c", SHORT.get(line, line)], folder, environment)
    for made in ("curve.npz", "cg-model/config.json", "results/demo/index.html", "richardson-gpt2",
                 "results/verify/index.html", "results/evaluate-gp", "results/identify-linear"):  # fmt: skip
        assert (folder / made).exists(), made


def begin(command, made, environment):
    """Begins what would take long, and stops it when it has made its folder."""
    process = subprocess.Popen(
        command, cwd=made.parents[1], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    while not made.exists():
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.communicate()


@pytest.mark.parametrize("code", snippets("python"), ids=lambda code: code.strip().splitlines()[0])
def test_the_python_of_the_readme(code, environment, folder):
    done(["python", "-c", code], folder, environment)


RECIPE = """
from pathlib import Path
from ridgeformer.training import recipes

text = recipes.files()["von-oswald"].read_text()
for name, value in (("steps", 20), ("warmup", 5), ("evaluate_every", 10), ("checkpoint_every", 10)):
    lines = [line for line in text.splitlines() if not line.startswith(name + " ")]
    lines.insert(lines.index("[training]") + 1, f"{name} = {value}")
    text = "\\n".join(lines)
Path("short.toml").write_text(text)
"""


def test_a_recipe_of_ones_own(environment, folder):
    """One that is shipped, with fewer steps, is trained to its end, gone on with, and evaluated."""
    done(["python", "-c", RECIPE], folder, environment)
    done(["ridgeformer", "train", "short.toml", "--out", "runs/short"], folder, environment)
    done(["ridgeformer", "train", "short.toml", "--out", "runs/short", "--resume"], folder, environment)  # fmt: skip
    done(["ridgeformer", "inspect", "runs/short/model"], folder, environment)


TYPED = """
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

import ridgeformer as rf
from ridgeformer.analysis import probe
from ridgeformer.models import zoo
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import LinearRegression
from ridgeformer.training import Held


class State(NamedTuple):
    alpha: Tensor


@rf.register
@dataclass(frozen=True)
class Mine(rf.Solver):
    name = "mine"

    def init(self, m: rf.Machine) -> State:
        return State(m.zeros())


task = rf.PrescribedSpectrum(features=8)
prompt: rf.Prompt = task.draw(16, seed=0)
model: rf.CompiledModel = rf.compile(
    make_solver("cg"), features=8, steps=8, ridge=1.0, to=rf.LinearAttention(task.max_eigenvalue)
)
apart: Tensor = rf.trajectory(model, prompt).distance(model(prompt))
trained: rf.TrainedModel = zoo.load("linear").to("cpu")
best: Tensor = Held.draw(LinearRegression(), 4, 0).best
print(probe, apart, best)
"""

MISTAKES = {
    "model: rf.CompiledModel": "model: rf.TrainedModel",
    "features=8, steps=8": 'features="8", steps=8',
    "prompt: rf.Prompt": "prompt: str",
    "rf.LinearAttention(": "rf.LinearAttentoin(",
    "import LinearRegression": "import LinearRegresion",
}


def test_types_are_seen_by_scripts_that_are_checked_strictly(environment, folder):
    script = folder / "script.py"
    script.write_text(TYPED)
    check = ["mypy", "--strict", script]
    done(check, folder, environment)
    wrong = TYPED
    for right, mistake in MISTAKES.items():
        assert TYPED.count(right) == 1, right
        wrong = wrong.replace(right, mistake)
    script.write_text(wrong)
    said = done(check, folder, environment, code=1)
    pairs = zip(wrong.splitlines(), TYPED.splitlines(), strict=True)
    changed = [number for number, (line, before) in enumerate(pairs, start=1) if line != before]
    assert len(changed) == len(MISTAKES) - 1  # two are on one line
    for number in changed:
        assert f"script.py:{number}: error:" in said, said
