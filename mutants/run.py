"""Plants every mutant in turn, in copies of the sources, and keeps what noticed it."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from threading import Lock

from mutants.catchers import MORE_PATIENCE, Caught, by_statements, by_tests
from mutants.mutant import Mutant, Unfit

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "results", "build", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis"
)
SHARED_TESTS = ("tests/conftest.py", "tests/helpers")


def fingerprint(root: Path, names: Iterable[str]) -> str:
    """A hash of the named files and of all files in the named directories."""
    found = hashlib.sha256()
    for name in names:
        path = root / name.partition("::")[0]
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                found.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


@dataclass
class Campaign:
    """Runs of mutants on the sources at `root`; what they found is kept in `kept` and not found twice."""

    root: Path
    kept: Path
    workers: int = 2
    say: Callable[[str], None] = print
    wider: bool = True
    """Whether a mutant that its own catchers miss meets all statements and the tests of its room."""
    lock: Lock = field(default_factory=Lock)
    sources: str = ""
    tests: str = ""

    def __post_init__(self) -> None:
        self.sources = fingerprint(self.root, ["src", "pyproject.toml", *SHARED_TESTS])
        self.tests = fingerprint(self.root, ["tests"])

    def run(self, mutants: Sequence[Mutant]) -> dict[str, Caught | None]:
        """What caught each mutant; None if nothing did."""
        for mutant in mutants:
            mutant.planted((self.root / "src/ridgeformer" / mutant.file).read_text())
        found = {m.name: self.read(m) for m in mutants}
        left = [m for m in mutants if found[m.name] is None]
        caught = {name: outcome[0] for name, outcome in found.items() if outcome is not None}
        if not left:
            return caught
        with self.copies(self.workers) as copies, ThreadPoolExecutor(self.workers) as pool:
            self.check_baseline(left, pool, copies)
            started = time.monotonic()
            jobs = {pool.submit(self.outcome, mutant, copies): mutant for mutant in left}
            try:
                for done, job in enumerate(as_completed(jobs), 1):
                    mutant, result = jobs[job], job.result()
                    caught[mutant.name] = result
                    rest = (time.monotonic() - started) / done * (len(left) - done)
                    by = f"{result.by}: {result.which} {result.how}" if result else "SURVIVES"
                    self.say(f"{done}/{len(left)}, {rest / 60:.0f} min left  {mutant.name}: {by}")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return {m.name: caught[m.name] for m in mutants}

    @contextmanager
    def copies(self, count: int):
        """Copies of the sources, in a queue; whoever takes one puts it back as it was."""
        queue: SimpleQueue[Path] = SimpleQueue()
        with TemporaryDirectory(prefix="mutants-") as directory:
            for i in range(count):
                copy = Path(directory) / str(i)
                shutil.copytree(self.root, copy, ignore=LEFT_OUT)
                queue.put(copy)
            yield queue

    def check_baseline(
        self, mutants: Sequence[Mutant], pool: ThreadPoolExecutor, copies: SimpleQueue[Path]
    ) -> None:
        """Without any error nothing may be noticed, else what is noticed would say nothing."""
        statements = sorted({name for m in mutants for name in m.statements})
        tests = sorted({name for m in mutants for name in m.tests})
        unknown = [name for name in statements if not self.without((name,), ()).exists()]
        self.say(
            f"without errors: {len(statements)} statements, {len(tests)} tests or files of them"
        )
        shares = [tuple(unknown[i :: self.workers]) for i in range(self.workers)]
        jobs = [pool.submit(self.passes, copies, share, ()) for share in shares if share]
        jobs += [pool.submit(self.passes, copies, (), (name,)) for name in tests]
        for job in jobs:
            job.result()

    def without(self, statements: tuple[str, ...], tests: tuple[str, ...]) -> Path:
        """The file that says that these pass without any error."""
        words = (*statements, "", *tests, fingerprint(self.root, tests))
        key = hashlib.sha256("\0".join(words).encode()).hexdigest()
        return self.kept / f"{self.sources}/without-{key}.json"

    def passes(
        self, copies: SimpleQueue[Path], statements: tuple[str, ...], tests: tuple[str, ...]
    ) -> None:
        if self.without(statements, tests).exists():
            return
        copy = copies.get()
        try:
            noticed = by_statements(statements, copy, MORE_PATIENCE) if statements else None
            noticed = noticed or (by_tests(tests, copy, MORE_PATIENCE) if tests else None)
        finally:
            copies.put(copy)
        if noticed is not None:
            raise Unfit(
                f"{noticed.by}: {noticed.which} {noticed.how} without any planted error: mend that first."
            )
        for one in [((name,), ()) for name in statements] + [((), (name,)) for name in tests]:
            self.write(self.without(*one), None)

    def outcome(self, mutant: Mutant, copies: SimpleQueue[Path]) -> Caught | None:
        copy = copies.get()
        try:
            with mutant.within(copy):
                caught = self.narrow(mutant, copy)
                if caught is None and self.wider:
                    caught = self.wide(mutant, copy)
        finally:
            copies.put(copy)
        if caught is not None and caught.by == "tests" and caught.which not in mutant.tests:
            self.passes(copies, (), (caught.which,))
        self.write(self.path(mutant, caught), caught)
        return caught

    def narrow(self, mutant: Mutant, copy: Path) -> Caught | None:
        """By what should notice."""
        caught = by_statements(mutant.statements, copy) if mutant.statements else None
        return caught or (by_tests(mutant.tests, copy) if mutant.tests else None)

    def wide(self, mutant: Mutant, copy: Path) -> Caught | None:
        """By all statements, and by the tests that mirror the room."""
        caught = by_statements((), copy, MORE_PATIENCE)
        for name in (f"tests/{mutant.room}", f"tests/test_{mutant.room}.py"):
            if caught is None and (copy / name).exists():
                caught = by_tests((name,), copy, MORE_PATIENCE)
        return caught

    def path(self, mutant: Mutant, caught: Caught | None) -> Path:
        """Where the outcome is kept. That nothing noticed holds for as long as no test changes at all."""
        tests = fingerprint(self.root, mutant.tests) if caught else self.tests
        state = "caught" if caught else "survives" if self.wider else "missed"
        key = hashlib.sha256((mutant.fingerprint() + tests).encode()).hexdigest()
        return self.kept / f"{self.sources}/{mutant.name}-{state}-{key}.json"

    def read(self, mutant: Mutant) -> tuple[Caught | None] | None:
        """The outcome that is kept, in a tuple; None if there is none."""
        for example in (Caught("", ""), None):
            path = self.path(mutant, example)
            if path.exists():
                values = json.loads(path.read_text())
                return (None if values is None else Caught(**values),)
        return None

    def write(self, path: Path, caught: Caught | None) -> None:
        with self.lock:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(None if caught is None else caught.plain()))
            partial.rename(path)
