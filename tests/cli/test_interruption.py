"""Commands that are interrupted, terminated or killed: nothing is half written, and the same command goes on."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from fork_server import begin, cli
from job_cases import alive
from safetensors.numpy import load_file
from tiny_models import LINEAR, train
from tiny_recipe import recipe_file

from ridgeformer.cli.interruption import GRACE, Interruption
from ridgeformer.training import checkpoint
from ridgeformer.transformer import load
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

LINUX = sys.platform == "linux"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
WORDS = {signal.SIGINT: "Interrupted: ", signal.SIGTERM: "Terminated: "}
HIDDEN = re.compile(r"\..+\.[0-9a-f]{4}-\d+-[0-9a-f]{6}\.(part|old)")
"""What a process that was killed may leave."""


@dataclass(frozen=True)
class Command:
    """A command that writes into OUT, and what is added to go on after an interruption."""

    words: list[str]
    resume: list[str] = field(default_factory=list)
    goes_on: str = "the same command goes on from there."
    """How it says so, if something is kept."""

    def arguments(self, out, again=False):
        resume = self.resume if again and any(Path(out).glob("*")) else []
        return [*map(str, self.words), "--out", str(out), *resume]


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    home = tmp_path_factory.mktemp("commands")
    recipe, model = recipe_file(home, steps=100), train(home, "pairs", LINEAR)
    return {
        "train": Command(["train", recipe, "--threads", 1], ["--resume"], "--resume"),
        "compile": Command(
            [
                "compile",
                "cg",
                "--features",
                20,
                "--steps",
                20,
                "--ridge",
                1,
                "--max-eigenvalue",
                99,
            ],
            ["--force"],  # if a kill came between its last word and its end
        ),
        "verify": Command(
            [
                "verify",
                "--fast",
                "--only",
                "sizes",
                "--only",
                "communication",
                "--only",
                "query-error",
            ]
        ),
        "evaluate": Command(["evaluate", model, "--prompts", 16, "--baseline", "none"]),
        "study": Command(["study", "cg-variants", "--prompts", 4]),
        "identify": Command(["identify", model, "--prompts", 96]),
        "calibrate": Command(["calibrate", "--fast"]),
    }


def check_complete(folder, hidden=False):
    """Every file can be read whole, and nothing is hidden but what a kill may leave."""
    for path in folder.rglob("*"):
        parts = [part for part in path.relative_to(folder).parts if part.startswith(".")]
        if parts:
            assert hidden, path
            assert all(HIDDEN.fullmatch(part) for part in parts), path
            continue
        match path.suffix:
            case ".json":
                json.loads(path.read_text())
            case ".npz":
                with np.load(path, allow_pickle=False) as file:
                    assert [file[name] for name in file.files]
            case ".safetensors":
                load_file(path)
            case ".html":
                assert path.read_text().rstrip().endswith("</html>"), path
            case ".png":
                assert path.read_bytes().endswith(b"IEND\xaeB\x60\x82"), path
            case "":
                check_directory(path)
            case _:
                assert path.name == "log.jsonl", path


def check_directory(path):
    """Checkpoints have the files of their hashes, and models can be loaded."""
    assert path.is_dir(), path
    if path.name.startswith("step-"):
        checkpoint.read_state(path)
    elif (path / "model.safetensors").exists() or (path / "config.json").exists():
        load(path)


def findings(out):
    """All that a command has written, without what is different each time: speeds and CPU seconds."""
    found = {}
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        name, content = str(path.relative_to(out)), path.read_bytes()
        if name.startswith("tasks/") or path.name == "state.json":
            continue
        if path.name == "log.jsonl":
            lines = [json.loads(line) for line in content.splitlines()]
            content = [{k: v for k, v in line.items() if k != "cpu_seconds"} for line in lines]
        if path.suffix == ".json":
            content = json.loads(content)
            content.get("scores", {}).pop("cpu minutes", None)
            content.pop("config_sha256", None)
            content.pop("weights_sha256", None)
            numbers = content.get("numbers", ())
            content["numbers"] = [n for n in numbers if n["measure"] != "prompts per second"]
        if path.suffix == ".safetensors":
            content = {key: value.tobytes() for key, value in load_file(path).items()}
        if not (path.suffix == ".html" and b"prompts per second" in content):
            found[name] = content
    return found


def interrupted(command, out, number, seconds, begin=begin):
    """Sends a signal after so many seconds; None if the command has ended before."""
    running = begin(*command.arguments(out, again=True))
    moment = time.monotonic() + seconds
    while (left := moment - time.monotonic()) > 0 and (alive(running.number) or not LINUX):
        time.sleep(min(left, 0.02))
    os.kill(
        running.number, number
    )  # Nobody has waited for it, so that the number is still its own.
    ended = running.wait()
    written = any(words in ended.stdout for words in ("The page:", " parameters"))
    finished = (not ended.stderr and written) or "The model:" in ended.stdout
    if ended.returncode == 0 or (finished and ended.returncode == -number != CODES[number]):
        return None  # Python itself was about to end, and there was nothing left to say.
    assert ended.returncode == CODES[number], ended.stderr
    assert "Traceback" not in ended.stderr + ended.stdout
    assert "KeyboardInterrupt" not in ended.stderr + ended.stdout
    return ended


def results(out):
    """The files that an interrupted command goes on from."""
    return {p for p in out.rglob("*") if p.is_file() and p.name != "log.jsonl"}


def check_said(command, new, ended, number):
    """One sentence, which says how to go on from what is new."""
    if number == signal.SIGKILL:
        return
    (line, *rest) = [x for x in ended.stderr.splitlines() if x.startswith(WORDS[number])]
    assert not rest
    if new:
        assert command.goes_on in ended.stderr, ended.stderr
    else:
        assert command.goes_on in ended.stderr or "run the same command again" in line, ended.stderr


def check_all(command, folder, signals, begin=begin):
    """Ends a command early by one signal after the other, and compares its end with that of one that never was.

    Where it comes to its end before all signals were sent, another one is begun.
    """
    before = time.monotonic()
    done = begin(*command.arguments(folder / "whole")).wait()
    assert done.returncode == 0, done.stderr
    length = time.monotonic() - before
    moments, left, attempt = random.Random(0), list(signals), 0
    while left:
        out, attempt = folder / f"attempt-{attempt}", attempt + 1
        assert attempt <= 6 * len(signals), f"the command ended before {left} could be sent"
        ended, killed = True, False
        while ended and left:
            killed = killed or left[0] == signal.SIGKILL
            moment, before, had = moments.uniform(0, length), time.monotonic(), results(out)
            ended = interrupted(command, out, left[0], moment, begin)
            if ended is None:
                length = min(length, time.monotonic() - before)
            check_complete(folder, hidden=killed and ended is not None)
            if ended:
                check_said(command, results(out) - had, ended, left.pop(0))
        if ended:
            done = begin(*command.arguments(out, again=True)).wait()
            assert done.returncode == 0, done.stderr
            check_complete(folder)
        assert findings(out) == findings(folder / "whole")


@pytest.mark.parametrize("name", ["train", "verify", "evaluate"])
def test_a_command_that_is_ended_early_leaves_nothing_half_and_goes_on(commands, tmp_path, name):
    check_all(commands[name], tmp_path, CODES)


class Started:
    """A process of its own, Python's start and all imports included."""

    def __init__(self, *arguments):
        # Whatever started the tests may ignore Ctrl-C, as a shell does for what runs in the background.
        allow = "import signal, sys; signal.signal(2, signal.default_int_handler); "
        code = f"sys.argv = ['ridgeformer', *{arguments!r}]; from ridgeformer.cli import app; app()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", allow + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.number = self.process.pid
        # Before a command begins, a signal ends Python as it ends any program.
        while self.process.poll() is None and not catches(self.number, signal.SIGTERM):
            time.sleep(0.01)

    def wait(self):
        output, errors = self.process.communicate()
        return subprocess.CompletedProcess([], self.process.returncode, output, errors)


def catches(process, number):
    """Whether a process has a handler for a signal, as Linux knows it."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    (mask,) = re.findall(r"SigCgt:\s*([0-9a-f]+)", status) or ["0"]
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.slow
@pytest.mark.skipif(not LINUX, reason="asks /proc when the command has begun")
@pytest.mark.parametrize(
    "name", ["train", "compile", "verify", "evaluate", "study", "identify", "calibrate"]
)
def test_any_command_may_be_ended_at_any_moment(commands, tmp_path, name):
    signals = 5 * list(CODES)
    random.Random(name).shuffle(signals)
    check_all(commands[name], tmp_path, signals, begin=Started)


def test_what_checks_for_half_files_finds_them(commands, tmp_path):
    assert cli(*commands["train"].arguments(tmp_path / "run")).returncode == 0
    check_complete(tmp_path)
    damaged = 0
    for path in [p for p in tmp_path.rglob("*") if p.suffix in (".json", ".safetensors")]:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises((ValueError, Refusal, OSError, Exception)):
            check_complete(tmp_path)
        path.write_bytes(content)
        damaged += 1
    check_complete(tmp_path)
    assert damaged == 8  # two checkpoints of three files, and a model of two
    (tmp_path / "run/.model.0000-1-abcdef.part").mkdir()
    check_complete(tmp_path, hidden=True)
    with pytest.raises(AssertionError):
        check_complete(tmp_path)


def test_a_second_signal_is_heard_again_after_a_while(monkeypatch):
    clock, one = [100.0], Interruption()
    monkeypatch.setattr("ridgeformer.cli.interruption.monotonic", lambda: clock[0])
    with pytest.raises(KeyboardInterrupt):
        one.handle(signal.SIGINT, None)
    clock[0] += GRACE / 2
    one.handle(signal.SIGINT, None)  # what was begun is being cleared away
    clock[0] += GRACE
    with pytest.raises(KeyboardInterrupt):
        one.handle(signal.SIGINT, None)
    assert one.code == 130


LOST = """
import os, signal, sys, time
from ridgeformer.cli import interruption

class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

with interruption.handled(), interruption.in_one_sentence():
    Deleted()
    time.sleep(30)
"""


def test_an_interruption_that_python_drops_comes_again():
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, check=False, timeout=25
    )
    assert (
        done.stderr.splitlines()[0]
        == "Terminated: nothing new was written; run the same command again."
    )
    assert "in __del__" not in done.stderr
