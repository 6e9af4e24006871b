"""Tasks for tests of jobs, which leave traces of every run and can be told to misbehave.

Workers import this file, so it needs nothing of pytest.
"""

import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import torch


def wait_for(condition, seconds=120):
    """Waits until the condition holds; only a machine that has come to a halt takes so long."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


@dataclass(frozen=True)
class Sum:
    """Sums whose last bits tell how they were computed."""

    seed: int
    traces: str

    def describe(self):
        return {"task": "sum", "seed": self.seed}

    def run(self):
        leave_trace(self.traces, self.seed)
        generator = torch.Generator().manual_seed(self.seed)
        a = torch.randn(120, 120, generator=generator)
        b = np.random.default_rng(self.seed).normal(size=(90, 90))
        return {
            "torch": torch.linalg.inv(a).sum().item(),
            "numpy": float(np.linalg.inv(b).sum()),
            "threads": torch.get_num_threads(),
        }


@dataclass(frozen=True)
class Held:
    """Waits, when it is run, until a file is there; the file `running-SEED` says that it waits."""

    seed: int
    traces: str
    released: str

    def describe(self):
        return {"task": "held", "seed": self.seed}

    def run(self):
        leave_trace(self.traces, self.seed)
        note = Path(self.traces) / f"running-{self.seed}"
        note.write_text(str(os.getpid()))
        wait_for(Path(self.released).exists)
        note.unlink(missing_ok=True)
        return {"seed": self.seed}


@dataclass(frozen=True)
class Deadly:
    """Ends its own process as the system does when memory runs out."""

    name: str = "deadly"

    def describe(self):
        return asdict(self)

    def run(self):
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Wrong:
    def describe(self):
        return {"task": "wrong"}

    def run(self):
        raise ZeroDivisionError("planted")


def leave_trace(directory, seed):
    (Path(directory) / f"ran-{seed}-{uuid4().hex}").touch()


def runs(directory):
    """How often each seed was run."""
    names = [path.name.split("-")[1] for path in Path(directory).glob("ran-*")]
    return {int(seed): names.count(seed) for seed in sorted(set(names))}


def running(directory):
    """The processes that run a held task, by seed."""
    found = {}
    for note in Path(directory).glob("running-*"):
        text = note.read_text()
        if text:
            found[int(note.name.split("-")[1])] = int(text)
    return found


def alive(process):
    """Whether the process of that number still runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def three_and_one_held(traces, released):
    return [*(Sum(seed, traces) for seed in range(3)), Held(3, traces, released)]


def main(store, traces, released, workers):
    """A job of three quick tasks and one that is held, as a program; workers 0 stands for no Dask."""
    from ridgeformer.experiments.cluster import where_of
    from ridgeformer.experiments.jobs import Store, run_all

    # Whatever started the tests may ignore Ctrl-C, as a shell does for what runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tasks = three_and_one_held(traces, released)
    run_all(tasks, Store(store), where_of(int(workers) or None))
