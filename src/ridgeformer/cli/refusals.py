"""Refusals as users of the command line meet them: one sentence that names flags.

The library names its parameters and calls in backticks, `max_eigenvalue` or `products=Exact()`; here
they become --max-eigenvalue and --mlp reglu. Words in backticks that are no flags stay as they are.
"""

from __future__ import annotations

import ast
import errno
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from ridgeformer.types import Refusal

OPTION_OF = {
    "width": "mlp_width",
    "products": "mlp",
    "dot_products": "heads",
    "directory": "out",
    "folder": "out",
    "tasks": "task",
    "baselines": "baseline",
}
"""Parameters whose option has another name."""


@contextmanager
def one_sentence(flags: Callable[[], set[str]]) -> Iterator[None]:
    """Turns a refusal into one sentence and exit code 2, and never shows a traceback for it."""
    try:
        with warnings.catch_warnings():
            # Commands say it themselves where a model promises nothing, `compile` in its summary.
            warnings.filterwarnings("ignore", "The model (has no|is too narrow)", UserWarning)
            yield
    except Refusal as refusal:
        message = str(refusal)
        if "`" in message:
            message = with_flags(message, flags())
        typer.echo(f"Error: {' '.join(message.splitlines())}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever read the output has gone
            raise
        typer.echo(f"Error: {about_files(error)}", err=True)
        raise typer.Exit(2) from None
    except (MemoryError, RuntimeError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, MemoryError) or re.search(NO_MEMORY, str(error)):
            said = TOO_LARGE
        elif re.search(NO_INTEGER, str(error)):
            said = TOO_MANY_DIGITS
        else:
            raise
        typer.echo(f"Error: {said}", err=True)
        raise typer.Exit(2) from None


NO_MEMORY = "can't allocate memory|bad_alloc|not enough memory|Storage size calculation overflowed"
"""What PyTorch says where Python has a MemoryError."""

NO_INTEGER = "Overflow when unpacking long|int too (large|big) to convert"
"""What PyTorch and Python say, as errors of four kinds, of a number that a machine's integers do not hold."""

TOO_MANY_DIGITS = "A number is too large for any machine's integers: use one of fewer digits."
TOO_LARGE = "There is not enough memory for this size: use fewer prompts, supports or steps, or a smaller model."


def about_files(error: OSError) -> str:
    """What the system says of a file, or of writing where it names none."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename} cannot be read or written: {reason}."
    return f"A file cannot be read or written: {reason}. Make room, or choose another directory."


def with_flags(message: str, flags: set[str]) -> str:
    """The message with its code in backticks written as options of the command line."""
    return re.sub("`([^`]+)`", lambda code: translated(code[1], flags) or code[0], message)


def translated(code: str, flags: set[str]) -> str | None:
    """Code such as `dtype="float64"` or `to=SoftmaxAttention(…)` as options; None if it is neither."""
    try:
        call = ast.parse(f"_({code.replace('…', '...')})", mode="eval").body
    except SyntaxError:
        return None
    assert isinstance(call, ast.Call)
    try:
        return " ".join(Words(flags, chosen_by_class()).of_arguments(call)) or None
    except KeyError:  # a name that the command line does not have
        return None


def chosen_by_class() -> dict[str, list[str]]:
    """What chooses a class on the command line, by the name of the class."""
    from ridgeformer.kernels import KERNELS
    from ridgeformer.solvers import SOLVERS

    words = {cls.__name__: [name] for name, cls in SOLVERS.items()}
    words |= {cls.__name__: ["--kernel", name] for name, cls in KERNELS.items()}
    return words | {
        "LinearAttention": ["--attention", "linear"],
        "SoftmaxAttention": ["--attention", "softmax"],
        "Exact": ["--mlp", "reglu"],
        "Interpolated": ["--mlp", "relu"],
        "HeadPairs": [],
    }


class Words:
    """Python expressions as words of the command line; a KeyError for what cannot be said there."""

    def __init__(self, flags: set[str], classes: dict[str, list[str]]) -> None:
        self.flags = flags
        self.classes = classes

    def of_arguments(self, call: ast.Call) -> list[str]:
        words = [word for value in call.args for word in self.of_expression(value)]
        return words + [w for k in call.keywords for w in self.of_keyword(str(k.arg), k.value)]

    def of_expression(self, value: ast.expr) -> list[str]:
        match value:
            case ast.Constant(value=v) if v is ...:
                return []
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return self.classes[name] if name in self.classes else [self.flag(name)]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return [*self.classes[name], *self.of_arguments(value)]
        raise KeyError

    def of_keyword(self, name: str, value: ast.expr) -> list[str]:
        match value:
            case ast.Call() | ast.Name() | ast.Attribute():
                return self.of_expression(value)
            case ast.Constant(value=None) if name == "products":
                return ["--mlp", "relu"]
            case ast.Constant(value=None | False):
                raise KeyError(name)
            case ast.Constant(value=v) if v is True or v is ...:
                return [self.flag(name)]
            case ast.Constant(value=str(v)):
                return [self.flag(name), v]
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [self.flag(name), *map(ast.unparse, parts)]
            case ast.Constant(value=int() | float()) | ast.UnaryOp():
                return [self.flag(name), ast.unparse(value)]
        raise KeyError(name)

    def flag(self, name: str) -> str:
        option = name if name in self.flags else OPTION_OF[name]
        if option not in self.flags:
            raise KeyError(name)
        return "--" + option.replace("_", "-")
