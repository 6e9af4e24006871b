"""Files and directories that are there whole or as they were before, whenever their writer is ended.

They are written under a hidden name beside their place, `.NAME.HOST-PID-….part`, and renamed when they are
complete. An exception, also that of Ctrl-C, deletes what was written. A process that is killed leaves the
hidden name behind, which nothing takes for a result, and whoever next writes to the same directory deletes it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

PART, OLD = "part", "old"
"""The ends of hidden names: what is being written, and what is about to be replaced."""

LARGEST_TEXT = 2**28
"""The bytes that a text may have, before memory is given for it."""

HOST = sha256(socket.gethostname().encode()).hexdigest()[:4]
"""Tells machines apart that share a file system: each can only know which of its own processes have ended."""


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path to write a file or a directory at; at the end it takes the place of `target`, or nothing changes."""
    target = replaceable(target)
    clear_leftovers(target.parent)
    partial = hidden(target, PART)
    try:
        yield partial
        put_in_place(partial, target)
    finally:
        remove(partial)


def replaceable(target: Path) -> Path:
    """What is written in place of `target`: a link stays, and what it leads to is replaced.

    A device or a pipe is refused. A rename would put a file where it was: for root, in place of /dev/null itself.
    """
    real = Path(os.path.realpath(target)) if target.is_symlink() else target
    if real.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(target))
    if real.exists() and not (real.is_file() or real.is_dir()):
        raise FileExistsError(
            errno.EEXIST, "it is a device or a pipe, no ordinary file", str(target)
        )
    return real


def write_whole(target: Path, content: bytes) -> None:
    """Writes a file, which is there with all of its content, or as it was before."""
    with written_whole(target) as partial:
        partial.write_bytes(content)


def read_text(path: Path) -> str:
    """The text of a file; a pipe, which may never end, and what is too large for a text are errors of the file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is a device or a pipe, no ordinary file", str(path))
    if path.is_file() and path.stat().st_size > LARGEST_TEXT:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_TEXT:,} bytes", str(path))
    return path.read_text(encoding="utf-8")


def reason(error: Exception) -> str:
    """What is wrong with a file, without the system's number and the name, which a message says already."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def remove_whole(directory: Path) -> None:
    """Deletes a directory, which is there with all of its files, or not at all."""
    aside = hidden(directory, PART)
    try:
        directory.rename(aside)
    finally:
        remove(aside)


def hidden(target: Path, end: str) -> Path:
    return target.with_name(f".{target.name}.{HOST}-{os.getpid()}-{uuid4().hex[:6]}.{end}")


def put_in_place(partial: Path, target: Path) -> None:
    """Renames; a directory that is there is first set aside, and comes back if it cannot be replaced."""
    if not (partial.is_dir() and target.is_dir()):
        os.replace(partial, target)
        return
    old = hidden(target, OLD)
    try:
        target.rename(old)
        partial.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        remove(old)


def clear_leftovers(directory: Path) -> None:
    """Deletes what processes of this machine that were killed left there."""
    left = re.compile(rf"\.(.+)\.{HOST}-(\d+)-[0-9a-f]{{6}}\.({PART}|{OLD})")
    for entry in os.listdir(directory) if directory.is_dir() else ():
        found = left.fullmatch(entry)
        if found is None or alive(int(found[2])):
            continue
        path, target = directory / entry, directory / found[1]
        if found[3] == OLD and not target.exists():  # It was killed between two renames.
            path.rename(target)
        else:
            remove(path)


def alive(process: int) -> bool:
    """Whether a process of this machine may still run; where that cannot be asked, it may."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # Another user's process has that number.
    return True


def remove(path: Path) -> None:
    """Deletes a file or a directory, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
