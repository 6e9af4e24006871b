"""Jobs of many independent tasks: run here or on workers, with every result kept on disk at once.

A task is a value that says all that its result depends on. Its result is kept under a name made of just
that, so that a job which was ended in any way goes on where it was: what is there is not run again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console

from ridgeformer import __version__
from ridgeformer.experiments.run import check_writable
from ridgeformer.types import Interrupted, Refusal
from ridgeformer.whole import clear_leftovers, remove_whole, write_whole

Result = dict[str, Any]
"""Plain data that JSON can hold; NaN and infinities are allowed, and tuples become lists."""

Progress = Callable[[Collection[Any]], Iterable[Any]]
"""Wraps what is finished one after the other, and shows how far a job is."""


@runtime_checkable
class Task(Protocol):
    """A frozen dataclass of a few values, which can be sent to another process."""

    def describe(self) -> Mapping[str, Any]:
        """All that the result depends on, as plain data: kind, version of the method, parameters, seed."""
        ...

    def run(self) -> Result:
        """The same result wherever it runs: it draws from its own seeds and touches nothing else."""
        ...


@runtime_checkable
class Where(Protocol):
    """What runs tasks."""

    def finished(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Result]]:
        """The tasks with their results, in the order in which they finish."""
        ...


@dataclass(frozen=True)
class Here:
    """Runs tasks in this process, one after the other."""

    def finished(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Result]]:
        for task in tasks:
            yield task, run_alone(task)


HERE = Here()


def run_alone(task: Task) -> Result:
    """Runs a task in one thread: sums that threads share come out differently with their number."""
    with one_thread():
        return task.run()


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch and every other library for linear algebra in this process work in one thread."""
    from threadpoolctl import threadpool_limits

    from ridgeformer.transformer.threads import one_thread_each

    with one_thread_each, threadpool_limits(1):
        yield


def say_to_stderr(sentence: str) -> None:
    Console(stderr=True).print(sentence, soft_wrap=True, markup=False, highlight=False)


class Store:
    """Results by task in a directory, a file for each; a file is there whole or not at all.

    `made_by` joins the names: with `made_by=code()` results of other code are not found.
    """

    def __init__(
        self,
        directory: str | Path,
        made_by: str = "",
        say: Callable[[str], None] = say_to_stderr,
    ) -> None:
        self.directory = Path(directory)
        self.made_by = made_by
        self.say = say
        self.prepare()

    def prepare(self) -> None:
        """Refuses a directory that cannot be written, before any work is done, and leaves no empty one."""
        absent = [path for path in (self.directory, *self.directory.parents) if not path.exists()]
        check_writable(self.directory / "result.json")
        clear_leftovers(self.directory)
        with suppress(OSError):  # Another process writes there by now.
            for path in absent:
                path.rmdir()

    def key(self, task: Task) -> str:
        """Two tasks have the same key if they are described alike."""
        text = json.dumps([self.made_by, task.describe()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def path(self, task: Task) -> Path:
        return self.directory / f"{self.key(task)}.json"

    def put(self, task: Task, result: Result) -> None:
        values = {"task": task.describe(), "check": checksum(result), "result": result}
        path = self.path(task)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(values).encode())
        except OSError as error:
            raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from error

    def find(self, task: Task) -> Result | None:
        """The result as it was put; None if there is none, or if its file was damaged since."""
        path = self.path(task)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refusal(f"{path} cannot be read: {error.strerror or error}.") from error
        try:
            values = json.loads(content)
            result, check = values["result"], values["check"]
        except (ValueError, KeyError, TypeError, RecursionError):
            result = check = None
        if not isinstance(result, dict) or check != checksum(result):
            self.say(f"{path} is damaged: what it held is run again ({named(task)}).")
            return None
        return result

    def get(self, task: Task) -> Result:
        """The result of a task that is known to be there."""
        result = self.find(task)
        if result is None:
            raise LookupError(f"{self.directory} has no result of {named(task)}.")
        return result

    def __contains__(self, task: Task) -> bool:
        return self.find(task) is not None

    @property
    def empty(self) -> bool:
        return not any(self.directory.glob("*.json"))

    def done(self) -> None:
        """The job has ended well; results stay, so that another one finds them."""


class Unfinished(Store):
    """Results that are kept until the job has ended well, in a directory that is there as long as there are any."""

    def prepare(self) -> None:
        """The directory is made for the first result."""

    def put(self, task: Task, result: Result) -> None:
        check_writable(self.path(task))
        super().put(task, result)

    def done(self) -> None:
        if self.directory.is_dir():
            remove_whole(self.directory)


@contextmanager
def going_on(store: Store | None) -> Iterator[None]:
    """A job whose results a store keeps: an interruption says so, and where the job ends well, the store is told."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        if store is None or store.empty:
            raise
        raise Interrupted(
            f"what was found is kept in {store.directory}; the same command goes on from there."
        ) from None
    if store is not None:
        store.done()


def checksum(result: Any) -> str:
    return hashlib.sha256(json.dumps(result).encode()).hexdigest()


def named(task: Task) -> str:
    """The task as a message names it."""
    return ", ".join(f"{name} {value}" for name, value in task.describe().items())


@dataclass(frozen=True)
class Finishing(Collection[tuple[Task, Result]]):
    """What is still to finish, to be gone through once; its length is known from the start."""

    results: Iterator[tuple[Task, Result]]
    count: int

    def __iter__(self) -> Iterator[tuple[Task, Result]]:
        return self.results

    def __len__(self) -> int:
        return self.count

    def __contains__(self, item: object) -> bool:
        return any(item == one for one in self.results)


def run_all(
    tasks: Sequence[Task], store: Store, where: Where = HERE, progress: Progress = iter
) -> list[Result]:
    """The results of all tasks, in their order; only those that the store does not have are run.

    Every result is kept as soon as it is there. Results are the same bits wherever they were computed,
    on CPUs of one kind and with the same versions of all libraries.
    """
    keys = [store.key(task) for task in tasks]
    wanted = dict(zip(keys, tasks, strict=True))
    found = {
        key: result for key, task in wanted.items() if (result := store.find(task)) is not None
    }
    missing = [task for key, task in wanted.items() if key not in found]

    def kept() -> str:
        return f"{len(found)} of {len(wanted)} results are kept in {store.directory}"

    if found:
        store.say(f"{kept()} already.")
    try:
        if missing:
            with closing(where.finished(missing)) as results:
                for task, result in progress(Finishing(results, len(missing))):
                    store.put(task, result)
                    found[store.key(task)] = store.get(task)
    except KeyboardInterrupt:
        if not found:
            raise
        raise Interrupted(f"{kept()}; the same command goes on from there.") from None
    except Refusal as refusal:
        if not found:
            raise
        raise Refusal(f"{refusal} {kept()}; the same command goes on from there.") from refusal
    return [found[key] for key in keys]


@cache
def code() -> str:
    """Names what runs: version and files of the package, shipped models too, and the libraries below."""
    import ridgeformer

    home = Path(ridgeformer.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(home.rglob("*")):
        if path.suffix in (".py", ".json", ".safetensors"):
            digest.update(str(path.relative_to(home)).encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy", "scipy"))
    return f"ridgeformer {__version__} ({digest.hexdigest()[:16]}), {libraries}"
