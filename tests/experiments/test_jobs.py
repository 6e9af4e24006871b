"""Jobs of many tasks: the same bits wherever they run, and nothing that is done is lost or done again."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from job_cases import (
    Deadly,
    Held,
    Sum,
    Wrong,
    alive,
    running,
    runs,
    three_and_one_held,
    wait_for,
)
from markupsafe import Markup

from ridgeformer.experiments import cluster
from ridgeformer.experiments.cluster import LocalWorkers, Scheduler, run_on_worker, where_of
from ridgeformer.experiments.finding import (
    Axes,
    Figure,
    Finding,
    Heatmap,
    Line,
    Number,
    Stream,
    Table,
)
from ridgeformer.experiments.jobs import HERE, Store, code, run_all
from ridgeformer.experiments.plain import from_plain, to_plain
from ridgeformer.types import Refusal

HELPERS = Path(__file__).parent.parent / "helpers"
SOURCES = Path(cluster.__file__).parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{SOURCES}{os.pathsep}{HELPERS}"}


@pytest.fixture
def traces(tmp_path):
    (tmp_path / "traces").mkdir()
    return str(tmp_path / "traces")


@pytest.fixture
def store(tmp_path):
    """A store whose sentences are in `store.said`."""
    said = []
    made = Store(tmp_path / "store", say=said.append)
    made.said = said
    return made


def sums(traces, count=6):
    return [Sum(seed, traces) for seed in range(count)]


# What is kept on disk


class Odd:
    def __init__(self, **description):
        self.description = description

    def describe(self):
        return self.description

    def run(self):
        return {"value": 0.1 + 0.2, "nan": math.nan, "inf": -math.inf, "none": None, "é": [1, "x"]}


def test_results_come_back_bit_by_bit(store):
    (result,) = run_all([Odd(name="a")], store)
    assert math.isnan(result.pop("nan"))
    assert result == {"value": 0.1 + 0.2, "inf": -math.inf, "none": None, "é": [1, "x"]}
    assert math.isnan(store.get(Odd(name="a"))["nan"])


def test_what_is_described_alike_is_one_result(store, tmp_path):
    store.put(Odd(a=1, b=2), {"is": "first"})
    assert Odd(b=2, a=1) in store
    assert Odd(a=1, b=3) not in store
    assert Odd(a=1, b=2) not in Store(store.directory, made_by="other code")
    with pytest.raises(LookupError, match="no result of a 1, b 3"):
        store.get(Odd(a=1, b=3))


def test_what_is_there_is_not_run_again(store, traces):
    first = run_all(sums(traces, 2), store)
    again = run_all([*sums(traces, 4), Sum(3, traces)], store)
    assert again[:2] == first
    assert again[3] == again[4]
    assert runs(traces) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert store.said == [f"2 of 4 results are kept in {store.directory} already."]


def spoil_bits(text):
    return text.replace('"threads": 1', '"threads": 2')


@pytest.mark.parametrize(
    "spoil", [lambda t: t[: len(t) // 2], lambda t: "", spoil_bits, lambda t: "[3]"]
)
def test_a_damaged_file_is_said_and_run_again(store, traces, spoil):
    before = run_all(sums(traces, 2), store)
    path = store.path(Sum(1, traces))
    path.write_text(spoil(path.read_text()))
    assert run_all(sums(traces, 2), store) == before
    assert runs(traces) == {0: 1, 1: 2}
    assert store.said[0] == f"{path} is damaged: what it held is run again (task sum, seed 1)."


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refusal, match="cannot be written"):
        Store(tmp_path / "file")


def test_the_code_has_a_name_of_its_own():
    assert code().startswith("ridgeformer ")
    assert f"torch {torch.__version__.partition('+')[0]}" in code()


def test_a_task_runs_in_one_thread_wherever_it_is(store, traces):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (result,) = run_all(sums(traces, 1), store)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert result["threads"] == 1


def test_an_error_of_a_task_is_its_own_and_what_was_done_stays(store, traces):
    with pytest.raises(ZeroDivisionError, match="planted"):
        run_all([*sums(traces, 2), Wrong()], store)
    assert all(task in store for task in sums(traces, 2))


def test_findings_are_data_and_back():
    line = Line("a", [1, 2.5], [0.1, math.inf], low=(1.0, 2.0), high=None)
    stream = Stream("s", np.arange(6.0).reshape(2, 3) / 7, ["c"])
    whole = Finding(
        "name", 3, 4, {"k": (1, "x"), "d": {2: None}}, {"m": "what"},
        [Number("m", "g", {"s": 0.1}, 1 / 3, None, 2.0, 4, True)],
        statement=Markup("<i>x</i>"),
        figures=[Figure.of([line], Axes("x", "y"), guide=(0.5, "g")), Heatmap([stream], [0.5], {0.5: "m"})],
        tables=[Table(["h"], [["1"]])],
    )  # fmt: skip
    back = from_plain(json.loads(json.dumps(to_plain(whole))))
    np.testing.assert_array_equal(back.figures[1].streams[0].values, stream.values)
    assert isinstance(back.statement, Markup)
    assert to_plain(back) == to_plain(whole)
    assert back.numbers == whole.numbers
    assert back.settings == whole.settings
    assert back.figures[0] == whole.figures[0]
    with pytest.raises(Refusal, match="A Thread cannot be kept on disk"):
        to_plain([type("Thread", (), {})()])


# Where tasks run


def test_options_say_where():
    assert where_of() is HERE
    assert where_of(2) == LocalWorkers(2)
    assert where_of(scheduler="tcp://h:1") == Scheduler("tcp://h:1")
    with pytest.raises(Refusal, match="not both"):
        where_of(2, "tcp://h:1")
    with pytest.raises(Refusal, match="at least 1, got 0"):
        where_of(0)


@pytest.mark.parametrize("where", [LocalWorkers(2), Scheduler("tcp://127.0.0.1:8786")])
def test_without_dask_the_refusal_says_how_to_install_it(where, store, traces, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(Refusal, match=r'pip install "ridgeformer\[cluster\]"'):
        run_all(sums(traces), store, where)
    run_all(sums(traces, 1), store)
    run_all(sums(traces, 1), store, where)  # all is there


def test_nobody_at_the_address(store, traces, monkeypatch):
    pytest.importorskip("distributed", reason="Dask is in the extra [cluster]")
    monkeypatch.setattr(cluster, "CONNECT", 0.5)
    run_all(sums(traces, 1), store)
    with socket.socket() as taken:  # bound, so that nobody else answers there
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Refusal, match=f"Nobody answers at {address}.* 1 of 6 results are kept"):
            run_all(sums(traces), store, Scheduler(address))
    with pytest.raises(Refusal, match="Nobody answers at nonsense://x"):
        run_all(sums(traces), store, Scheduler("nonsense://x"))


def test_a_scheduler_without_workers(store, traces, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="Dask is in the extra [cluster]")
    monkeypatch.setattr(cluster, "PATIENCE", 0.1)
    monkeypatch.setattr(cluster, "TICK", 0.1)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(Refusal, match="has had no worker for 0 seconds"),
    ):
        run_all(sums(traces), store, Scheduler(empty.scheduler_address))


def test_a_worker_with_other_code_is_refused(traces):
    with pytest.raises(Refusal, match=r"A worker has other code: ridgeformer .* nonsense here"):
        run_on_worker(Sum(0, traces), "nonsense", ())
    assert not runs(traces)


def test_a_worker_sets_up_once(traces):
    setups = (Setup(traces + "/set-up"), Setup(traces + "/set-up"))
    for seed in range(2):
        run_on_worker(Sum(seed, traces), code(), setups)
    assert Path(traces + "/set-up").read_text() == "x"


class Setup:
    def __init__(self, path):
        self.path = path

    def __eq__(self, other):
        return self.path == other.path

    def __hash__(self):
        return hash(self.path)

    def __call__(self):
        with Path(self.path).open("a") as file:
            file.write("x")


def test_two_workers_give_the_same_bits_though_one_is_killed(store, traces, tmp_path):
    """The task of the killed worker is run again; no other is."""
    pytest.importorskip("distributed", reason="Dask is in the extra [cluster]")
    released = tmp_path / "released"
    held = [Held(seed, traces, str(released)) for seed in (100, 101)]

    def kill():
        wait_for(lambda: set(running(traces)) == {100, 101})
        first = running(traces)[100]
        (Path(traces) / "running-100").unlink()
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: 100 in running(traces))
        assert running(traces)[100] != first
        released.touch()

    with ThreadPoolExecutor(1) as aside:
        killed = aside.submit(kill)
        results = run_all([*held, *sums(traces)], store, LocalWorkers(2))
        killed.result()
    assert results[:2] == [{"seed": 100}, {"seed": 101}]
    assert runs(traces) == dict.fromkeys(range(6), 1) | {100: 2, 101: 1}
    assert results[2:] == run_all(sums(traces), Store(tmp_path / "here"))


@pytest.mark.slow
def test_one_two_and_four_workers_give_the_same_bits(traces, tmp_path):
    found = [
        run_all(sums(traces, 12), Store(tmp_path / str(workers)), LocalWorkers(workers))
        for workers in (1, 2, 4)
    ]
    assert found[0] == found[1] == found[2] == run_all(sums(traces, 12), Store(tmp_path / "here"))


@pytest.mark.slow
def test_a_task_that_ends_its_workers_is_named_and_the_others_are_done(store, traces):
    with pytest.raises(Refusal, match=r"again and again while running name deadly: .*6 of 7"):
        run_all([Deadly(), *sums(traces)], store, LocalWorkers(2))
    assert all(task in store for task in sums(traces))


# Ends of all kinds: in this process by default, on workers as long tests


WORKERS = [0, pytest.param(2, marks=pytest.mark.slow)]


def start(store, traces, released, workers):
    """The job as a program, up to where three tasks are done and the fourth is held."""
    code = "import job_cases, sys; job_cases.main(*sys.argv[1:])"
    arguments = [str(a) for a in (store.directory, traces, released, workers)]
    job = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    done = three_and_one_held(traces, "")[:3]
    wait_for(
        lambda: job.poll() is not None or (3 in running(traces) and all(t in store for t in done))
    )
    assert job.poll() is None, job.stderr.read()
    return job, running(traces)[3]


def finish(store, traces, released):
    """Goes on after the end of a job: only what was running is run again."""
    released.touch()
    assert len(run_all(three_and_one_held(traces, str(released)), store)) == 4
    assert runs(traces) == {0: 1, 1: 1, 2: 1, 3: 2}


@pytest.mark.parametrize("workers", WORKERS)
def test_a_job_killed_goes_on_where_it_was(store, traces, tmp_path, workers):
    job, worker = start(store, traces, tmp_path / "released", workers)
    job.kill()
    job.wait()
    wait_for(lambda: not alive(worker))
    finish(store, traces, tmp_path / "released")


@pytest.mark.parametrize("workers", WORKERS)
def test_control_c_ends_the_workers_and_says_how_to_go_on(store, traces, tmp_path, workers):
    job, worker = start(store, traces, tmp_path / "released", workers)
    os.killpg(job.pid, signal.SIGINT)  # as a terminal does
    _, errors = job.communicate(timeout=120)
    assert job.returncode != 0
    kept = f"3 of 4 results are kept in {store.directory}; the same command goes on from there."
    assert errors.splitlines()[-1] == f"ridgeformer.types.Interrupted: {kept}"
    wait_for(lambda: not alive(worker))
    finish(store, traces, tmp_path / "released")


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler with two workers, as users start them: its address and process."""
    address_file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": ENVIRONMENT}
    dask = [sys.executable, "-m", "dask"]
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    head = subprocess.Popen(
        [*dask, "scheduler", *options, "--scheduler-file", str(address_file)], **quiet
    )
    wait_for(lambda: address_file.exists() and address_file.read_text().strip().endswith("}"))
    address = json.loads(address_file.read_text())["address"]
    options = ["--nthreads", "1", "--nworkers", "2", "--no-dashboard"]
    workers = subprocess.Popen([*dask, "worker", address, *options], **quiet)
    yield address, head
    for process in (workers, head):
        process.terminate()
        process.wait()


@pytest.mark.slow
def test_a_scheduler_elsewhere_that_is_killed_is_one_sentence(store, traces, tmp_path, scheduler):
    address, head = scheduler
    tasks = three_and_one_held(traces, str(tmp_path / "released"))

    def kill():
        wait_for(lambda: 3 in running(traces) and all(task in store for task in tasks[:3]))
        head.kill()

    with ThreadPoolExecutor(1) as aside:
        killed = aside.submit(kill)
        with pytest.raises(Refusal, match=f"The scheduler at {address} is gone.* 3 of 4 results"):
            run_all(tasks, store, Scheduler(address))
        killed.result()
    finish(store, traces, tmp_path / "released")
