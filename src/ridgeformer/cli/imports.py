"""`ridgeformer --import FILE.py`: solvers, kernels, theorems and more from the user's own files."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb

import typer

from ridgeformer.types import Refusal


def run_file(path: Path) -> None:
    """Runs a Python file, which registers its members; its own directory is searched for imports."""
    if not path.is_file():
        raise Refusal(f"There is no file {path} to import: give a Python file that registers.")
    # A name of its own, so that the file hides no module; classes look up their annotations there.
    name = f"imported_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refusal(f"{path} cannot be imported: its name must end in .py.")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except Refusal as refusal:
        raise Refusal(f"{path} cannot be imported: {refusal}") from refusal
    except SystemExit as error:
        raise Refusal(
            f"{path} cannot be imported: it ends Python, where it should register; leave the call of exit out."
        ) from error
    except Exception as error:
        line = line_of(error, path) or getattr(error, "lineno", None)
        where = f" in line {line}" if line else ""
        raise Refusal(
            f"{path} cannot be imported: {type(error).__name__}{where}: {error}."
        ) from error


def line_of(error: BaseException, path: Path) -> int | None:
    """The last line of the file through which the error came, if it did."""
    here = path.absolute()
    lines = [f.lineno for f in extract_tb(error.__traceback__) if Path(f.filename) == here]
    return lines[-1] if lines else None


@contextmanager
def blamed(paths: Sequence[Path]) -> Iterator[None]:
    """An error in the user's own files, which a command has called, is told with its line."""
    try:
        yield
    except (Refusal, OSError, MemoryError, typer.Exit):
        raise
    except Exception as error:
        for path in paths:
            if line := line_of(error, path):
                raise Refusal(
                    f"{path} fails in line {line}: {type(error).__name__}: {error}."
                ) from error
        raise


@dataclass(frozen=True)
class UserFile:
    """A file that was run here, to be run by workers too; they must find the same content at its path."""

    path: str
    content: str
    """The hash of what is in it."""

    @staticmethod
    def of(path: Path) -> UserFile:
        return UserFile(str(path.absolute()), hashlib.sha256(path.read_bytes()).hexdigest())

    def __call__(self) -> None:
        path = Path(self.path)
        if not path.is_file() or UserFile.of(path) != self:
            raise Refusal(
                f"A worker does not find {path} as it is here: put the same file there, or run on this "
                "machine with `workers`."
            )
        run_file(path)
