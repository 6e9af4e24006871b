"""Arrays on disk: .npz archives and .npy files, of which nothing is believed that was not checked.

The headers are read first. Memory is given only for as many numbers as a file says and holds, and Python
objects are never made of it.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Collection
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from ridgeformer.types import Refusal, counted
from ridgeformer.whole import written_whole

MOST_COMPRESSED, SMALL = 100, 2**26
"""Numbers that were measured are compressed to a hundredth at best. An archive of more than `SMALL` bytes
that claims to be compressed further holds no data."""

UNREADABLE = (
    OSError, ValueError, TypeError, EOFError, NotImplementedError, struct.error, TokenError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip
"""What NumPy and zipfile raise for damaged files, by the place of the damage."""


def read_npz(path: str | Path, names: Collection[str], what: str) -> list[np.ndarray]:
    """The arrays of those names from an .npz file; `what` says which file it should be, and what is in it."""
    path = Path(path)
    try:
        with opened(path) as file:
            check_archive(file, path, what)
            with zipfile.ZipFile(file) as archive:
                members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                missing = sorted(set(names) - set(members))
                if missing:
                    raise Refusal(f"{path} lacks {', '.join(missing)}: {what}.")
                chosen = [members[name] for name in names]
                if any(info.flag_bits & 1 for info in chosen):
                    raise Refusal(f"{path} is encrypted: write it without a password.")
                size = sum(info.file_size for info in chosen)
                if size > max(SMALL, MOST_COMPRESSED * path.stat().st_size):
                    raise Refusal(
                        f"{path} claims to hold {size / 1e9:,.1f} GB in a file of {path.stat().st_size:,} bytes, "
                        "as no data are: write it again."
                    )
                arrays = []
                for name, info in zip(names, chosen, strict=True):
                    with archive.open(info) as member:
                        arrays.append(read_array(member, info.file_size, f"{path}: {name}"))
                return arrays
    except Refusal:
        raise
    except UNREADABLE as error:
        raise damaged(path, what) from error


def read_npy(path: str | Path, what: str) -> np.ndarray:
    """The array of an .npy file."""
    path = Path(path)
    try:
        with opened(path) as file:
            if file.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
                raise Refusal(f"{path} is no .npy file: {what}.")
            file.seek(0)
            return read_array(file, path.stat().st_size, str(path))
    except Refusal:
        raise
    except UNREADABLE as error:
        raise damaged(path, what) from error


def damaged(path: Path, what: str) -> Refusal:
    return Refusal(f"{path} is damaged or incomplete, write or copy it again: {what}.")


def opened(path: Path) -> IO[bytes]:
    """The file, if there is one that can be read."""
    try:
        if path.exists() and not path.is_file():
            kind = "a directory" if path.is_dir() else "not an ordinary file"
            raise Refusal(f"{path} is {kind}: name a file.")
        return open(path, "rb")
    except FileNotFoundError as error:
        raise Refusal(f"There is no file {path}: check its name.") from error
    except OSError as error:
        raise Refusal(f"{path} cannot be read: {error.strerror or error}.") from error


def check_archive(file: Any, path: Path, what: str) -> None:
    """Refuses what is no archive, by its first bytes."""
    start = file.read(len(npy.MAGIC_PREFIX))
    file.seek(0)
    if start == npy.MAGIC_PREFIX:
        raise Refusal(f"{path} is an .npy file, which holds one array: {what}.")
    if not start:
        raise Refusal(f"{path} is empty: {what}.")
    if not start.startswith(b"PK"):
        raise Refusal(f"{path} is no .npz file: {what}.")


def read_array(file: Any, size: int, name: str) -> np.ndarray:
    """One array of numbers; its header must say what a file of so many bytes holds."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.kind not in "fiu":
        kind = "Python objects" if dtype.hasobject else f"{dtype}"
        raise Refusal(f"{name} holds {kind}, and only real numbers are read: convert it first.")
    left = size - file.tell()
    if prod(shape) * dtype.itemsize != left:
        raise Refusal(
            f"{name} is damaged: its header says {list(shape)} of {dtype}, and {counted(left, 'byte')} follow."
        )
    file.seek(0)
    found: np.ndarray = npy.read_array(file, allow_pickle=False)
    return found


def write_arrays(path: str | Path, **arrays: Any) -> None:
    """Writes an .npz file whole or not at all, so that a failure never costs an existing file."""
    path = Path(path)
    try:
        with written_whole(path) as partial, open(partial, "wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from error
