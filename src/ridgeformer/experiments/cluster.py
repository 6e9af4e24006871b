"""Tasks on several workers, with Dask: processes of this machine, or those of a scheduler elsewhere.

Workers send their results back, and the process that asked writes them down. So nothing but a connection
is shared with a scheduler elsewhere, no file system in particular.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from ridgeformer.experiments.jobs import HERE, Result, Task, Where, code, named, run_alone
from ridgeformer.types import Refusal

Setup = Callable[[], None]
"""What every worker does once before its first task; equal setups are one. It can be sent there."""

CONNECT = 5.0
"""Seconds until an address counts as one where nobody answers."""
PATIENCE = 60.0
"""Seconds to wait for a worker where there is none."""
ALLOWED_FAILURES = 1
"""How many workers of this machine a task may lose before it is set aside."""
TRANSFER = 30.0
"""Seconds until a result that was ready counts as lost with its worker."""
ENVIRONMENT = {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1}
"""Of workers. Dask would also set a threshold at which memory is given back, with which the system is asked for every tensor anew:
language models spent a third of their time there."""
TICK = 1.0
"""Seconds between looks at whether the scheduler and workers are still there."""


MOST_WORKERS = 1024
"""More processes than any machine runs well; for far more, Dask waits and says nothing."""


def where_of(
    workers: int | None = None, scheduler: str | None = None, setups: Sequence[Setup] = ()
) -> Where:
    """Where tasks run: in this process unless workers or a scheduler are asked for."""
    if workers is not None and scheduler is not None:
        raise Refusal("Give `workers` or `scheduler`, not both: a scheduler has its own workers.")
    if scheduler is not None:
        return Scheduler(scheduler, tuple(setups))
    return HERE if workers is None else LocalWorkers(workers, tuple(setups))


def all_cores(setups: Sequence[Setup] = ()) -> Where:
    """A process for every core that this one may use; this process alone without Dask, or on one core."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if cores == 1 or find_spec("distributed") is None:
        return HERE
    return LocalWorkers(cores, tuple(setups))


@dataclass(frozen=True)
class LocalWorkers:
    """Processes of this machine with one thread each; one that is killed is started again."""

    number: int
    setups: tuple[Setup, ...] = ()

    def __post_init__(self) -> None:
        if self.number < 1:
            raise Refusal(f"`workers` must be at least 1, got {self.number}.")
        if self.number > MOST_WORKERS:
            raise Refusal(f"`workers` must be at most {MOST_WORKERS:,}, got {self.number:,}.")

    def finished(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Result]]:
        distributed = dask_distributed()
        import dask

        with (
            quiet(),
            dask.config.set({"distributed.nanny.pre-spawn-environ": ENVIRONMENT}),
            distributed.LocalCluster(
                n_workers=min(self.number, len(tasks)),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # any port, or a second job would warn of the first
                # Dask would suspend a worker that holds much memory until it gives some back, which may
                # be never. The system's own limit ends such a worker, and that is noticed.
                memory_limit=0,
                silence_logs=logging.CRITICAL,
                scheduler_kwargs={"allowed_failures": ALLOWED_FAILURES},
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield from Dispatch(client, "of this machine", self.setups).finished(tasks)


@dataclass(frozen=True)
class Scheduler:
    """The workers of a scheduler that somebody started, at an address such as tcp://10.0.0.5:8786."""

    address: str
    setups: tuple[Setup, ...] = ()

    def finished(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Result]]:
        distributed = dask_distributed()
        with quiet():
            try:
                client = distributed.Client(
                    self.address, timeout=CONNECT, set_as_default=False, direct_to_workers=False
                )
            except (OSError, ValueError) as error:
                raise Refusal(
                    f"Nobody answers at {self.address}: give the address that a running "
                    "`dask scheduler` prints, such as tcp://10.0.0.5:8786."
                ) from error
            with client:
                yield from Dispatch(client, f"at {self.address}", self.setups).finished(tasks)


@dataclass(frozen=True)
class Dispatch:
    """Keeps every thread of the workers busy with one task, and watches that somebody is there."""

    client: Any
    place: str
    setups: tuple[Setup, ...]
    job: str = field(default_factory=lambda: uuid4().hex)
    """Part of every key, so that no two jobs of one scheduler share a task."""

    def finished(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Result]]:
        suspects: list[Task] = []
        yield from self.side_by_side(tasks, suspects)
        # Whatever waits on a worker that is killed is suspected by Dask too. Alone, the innocent finish.
        guilty: list[Task] = []
        for task in suspects:
            yield from self.side_by_side([task], guilty)
        if guilty:
            raise Refusal(
                f"The workers were ended from outside again and again while running "
                f"{'; '.join(map(named, guilty))}: the likely cause is too little memory, so use fewer "
                "workers or a machine with more; everything else is done."
            )

    def side_by_side(
        self, tasks: Sequence[Task], killed: list[Task]
    ) -> Generator[tuple[Task, Result]]:
        """Tasks and results as they finish; those that ended their workers join `killed`."""
        from distributed import KilledWorker

        waiting, running = deque(tasks), dict[Any, Task]()
        nobody_since: float | None = None
        while waiting or running:
            with self.connected():
                threads = sum(self.client.nthreads().values())
                while waiting and len(running) < threads:
                    task = waiting.popleft()
                    running[self.submit(task)] = task
                ended = self.wait(list(running))
            nobody_since = None if threads else nobody_since or monotonic()
            if nobody_since is not None and monotonic() - nobody_since > PATIENCE:
                raise Refusal(
                    f"The scheduler {self.place} has had no worker for {PATIENCE:.0f} seconds: start "
                    "some with `dask worker`, with one thread each."
                )
            for future, result, error in ended:
                task = running.pop(future)
                if isinstance(error, KilledWorker):
                    killed.append(task)
                elif isinstance(error, ModuleNotFoundError) and error.name == "ridgeformer":
                    raise Refusal(
                        f'A worker {self.place} has no ridgeformer: pip install "ridgeformer[cluster]" '
                        "there, in the same version."
                    ) from error
                elif error is not None:
                    raise error
                else:
                    yield task, result

    def submit(self, task: Task) -> Any:
        return self.client.submit(
            run_on_worker, task, code(), self.setups, key=f"{named(task)}, {self.job}", pure=False
        )

    def wait(self, futures: list[Any]) -> list[tuple[Any, Result, BaseException | None]]:
        """Those that have ended, with a result or an error; after a while none."""
        from distributed import wait

        if not futures:
            sleep(TICK)
            return []
        try:
            with self.client.as_current():
                done = wait(futures, timeout=TICK, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            return []
        ended: list[tuple[Any, Result, BaseException | None]] = []
        for future in done:
            if future.status == "error":
                ended.append((future, {}, future.exception()))
            elif future.status == "finished":
                try:
                    ended.append((future, future.result(timeout=TRANSFER), None))
                except TimeoutError:
                    continue  # Its worker was killed before it could send it: another computes it again.
        return ended

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Turns a lost scheduler into one sentence."""
        from concurrent.futures import CancelledError

        lost = f"The scheduler {self.place} is gone, with what was running there: start it again."
        try:
            yield
        except (OSError, CancelledError) as error:
            raise Refusal(lost) from error
        if self.client.status != "running":
            raise Refusal(lost)


def run_on_worker(task: Task, expected: str, setups: tuple[Setup, ...]) -> Result:
    """What a worker does with a task: the same that is done here, by the same code."""
    if code() != expected:
        raise Refusal(
            f"A worker has other code: {code()} there, {expected} here: install the same on both sides."
        )
    for setup in setups:
        once(setup)
    return run_alone(task)


@cache
def once(setup: Setup) -> None:
    setup()


def dask_distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise Refusal(
            'Workers and schedulers need Dask: pip install "ridgeformer[cluster]".'
        ) from error
    return distributed


@contextmanager
def quiet() -> Iterator[None]:
    """Dask logs a traceback for much that is answered here in one sentence."""
    names = [n for n in logging.root.manager.loggerDict if n.startswith(("distributed", "tornado"))]
    loggers = [logging.getLogger(name) for name in (*names, "asyncio")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
