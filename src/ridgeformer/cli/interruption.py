"""Ctrl-C and SIGTERM: a command ends with one sentence that says how to go on, and with 130 or 143, as shells expect.

A signal raises KeyboardInterrupt wherever the command is, but in a `waiting` part, which looks for it when it suits.
Whoever keeps something raises `Interrupted` from there, with what is kept and how to go on.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any

import typer

CAUGHT = (signal.SIGINT, signal.SIGTERM)
GRACE = 3.0
"""Seconds after a signal in which further ones change nothing, so that what was begun is cleared away."""
AGAIN = 0.05
"""Seconds until an interruption that was lost comes again."""
NOTHING_KEPT = "nothing new was written; run the same command again."


class Interruption:
    """Whether a signal has come, and which."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self.at = 0.0
        self.waiting = False
        self.said = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.caught is None:
            self.caught, self.at = number, monotonic()
            if self.waiting:
                return
        elif monotonic() - self.at < GRACE:
            return
        raise KeyboardInterrupt

    def lost(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Python drops what is raised while it deletes an object; an interruption must not be dropped."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        number, self.caught = self.caught or signal.SIGINT, None
        main = threading.main_thread().ident
        threading.Timer(AGAIN, signal.pthread_kill, [main, number]).start()

    @property
    def code(self) -> int:
        return 128 + (self.caught or signal.SIGINT)

    def say(self, kept: str) -> None:
        """Says once that the command has ended early, and what is kept."""
        if not self.said:
            word = "Terminated" if self.caught == signal.SIGTERM else "Interrupted"
            typer.echo(f"{word}: {kept or NOTHING_KEPT}", err=True)
        self.said = True


NOW = Interruption()
"""Of the command that runs; a process runs one at a time."""


@contextmanager
def handled() -> Iterator[None]:
    """Handles both signals, unless whoever started the command has them ignored, until it ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    NOW.__init__()  # type: ignore[misc]
    before: dict[int, Any] = {n: signal.getsignal(n) for n in CAUGHT}
    hook, sys.unraisablehook = sys.unraisablehook, NOW.lost
    for number in CAUGHT:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, NOW.handle)
    try:
        yield
    except SystemExit as end:
        if NOW.caught is None or end.code != 130:
            raise
        NOW.say("")  # It came before the command began, and Typer knows no signal but Ctrl-C.
        raise SystemExit(NOW.code) from None
    finally:
        sys.unraisablehook = hook
        for number in CAUGHT:
            signal.signal(number, before[number])
        # When Python ends there is nothing to lose any more, and nothing to say.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Ends an interrupted command with what is kept and how to go on."""
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt as interrupt:
        NOW.say(str(interrupt))
        raise typer.Exit(NOW.code) from None
    except Exception:
        if NOW.caught is None:
            raise
        # A library has turned the interruption into an error of its own.
        NOW.say("")
        raise typer.Exit(NOW.code) from None


@contextmanager
def waiting() -> Iterator[Callable[[], bool]]:
    """Inside, the first signal raises nothing: the function that is given says whether it has come."""
    NOW.waiting = True
    try:
        yield lambda: NOW.caught is not None
    finally:
        NOW.waiting = False
