"""What language models need besides, the extra `lm`, and how it is kept from talking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ridgeformer.types import Refusal


def check_installed(*packages: str) -> None:
    """Refuses to go on without packages of the extra."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise Refusal(
            f"Language models need {' and '.join(missing)}: pip install 'ridgeformer[lm]'."
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Within this, transformers draws no bars and reports no loading: what matters is refused here."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def first_line(error: Exception) -> str:
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if line.endswith(".") else f"{line}."
