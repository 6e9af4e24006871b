"""The record of a model that was fetched: where its files come from, and the hash of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ridgeformer.transformer.storage import file_hash
from ridgeformer.types import Refusal

RECORD = "fetched.json"


def write_record(folder: Path, **provenance: Any) -> None:
    """Writes where the files of a directory come from, beside their hashes."""
    hashes = {path.name: file_hash(path) for path in sorted(folder.iterdir())}
    record = {**provenance, "sha256": hashes}
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")


def read_record(folder: Path) -> dict[str, Any] | None:
    """The record of a directory; a model of the user's own need not have one."""
    path = folder / RECORD
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text())
        hashes = record["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refusal(f"{path} is damaged: fetch the model again, with `force=True`.") from error
    if not isinstance(hashes, dict) or not hashes:
        raise Refusal(f"{path} is damaged: fetch the model again, with `force=True`.")
    return dict(record)


def check_record(folder: Path) -> dict[str, Any] | None:
    """The record of a directory; files that are missing or altered are refused."""
    record = read_record(folder)
    for name, expected in (record or {"sha256": {}})["sha256"].items():
        path = folder / name
        if not path.is_file():
            raise Refusal(
                f"{folder} is incomplete: {name} is gone. Fetch it again, with `force=True`."
            )
        if file_hash(path) != expected:
            raise Refusal(
                f"{path} is damaged or was altered: its hash is not the one in {RECORD}. "
                "Fetch the model again, with `force=True`."
            )
    return record
