"""ridgeformer: solvers compiled to transformers, and transformers read back as solvers.

The names of the package load on first use, so that importing it costs nothing. They are listed once, in
`__init__.pyi`, where type checkers read them too.
"""

from ast import ImportFrom, parse
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

_HOME_OF = {
    name.name: str(line.module)
    for line in parse(Path(__file__).with_name("__init__.pyi").read_text("utf-8")).body
    if isinstance(line, ImportFrom)
    for name in line.names
}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'ridgeformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
