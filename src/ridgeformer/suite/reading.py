"""A suite on the disk, read back: what a tool may see of a case, and what the scorer compares with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ridgeformer.suite.export import FORMAT, MANIFEST
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer, TransformerConfig, load, read_config
from ridgeformer.transformer.storage import file_hash
from ridgeformer.types import Refusal
from ridgeformer.whole import read_text, reason


@dataclass(frozen=True)
class StoredCase:
    """One case of a suite. The answers are read only where they are asked for."""

    suite: Path
    name: str

    @property
    def path(self) -> Path:
        """The directory that a tool may see, a saved model with two more files."""
        return self.suite / "cases" / self.name

    @property
    def answers(self) -> Path:
        return self.suite / "answers" / self.name

    @cached_property
    def config(self) -> TransformerConfig:
        return TransformerConfig.from_dict(read_config(self.path))

    @cached_property
    def transformer(self) -> Transformer:
        return load(self.path)[0]

    @cached_property
    def seen(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.path / "case.json")
        return found

    @cached_property
    def prompts(self) -> Mapping[str, Tensor]:
        return read_tensors(self.path / "prompts.safetensors")

    @property
    def prompt(self) -> Prompt:
        return Prompt(*(self.prompts[name] for name in ("phi", "y", "phi_query")))

    @cached_property
    def questions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read_json(
            self.suite / "interventions" / self.name / "questions.json"
        )
        return found

    @cached_property
    def pairs(self) -> Mapping[str, Tensor]:
        return read_tensors(self.suite / "interventions" / self.name / "pairs.safetensors")

    @cached_property
    def labels(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.answers / "labels.json")
        return found

    @cached_property
    def subspaces(self) -> Mapping[str, Tensor]:
        return read_tensors(self.answers / "subspaces.safetensors") if self.labels["states"] else {}

    @cached_property
    def intervened(self) -> Mapping[str, Tensor]:
        """What each intervention writes, and what must come out of it."""
        path = self.answers / "interventions.safetensors"
        return read_tensors(path) if self.labels["interventions"] else {}


@dataclass(frozen=True)
class Suite:
    """A suite on the disk: its cases, and their answers where they are there."""

    path: Path
    cases: Mapping[str, StoredCase]

    @staticmethod
    def load(directory: str | Path, *, answers: bool = True) -> Suite:
        """A suite whose files are those that were written; `answers=False` takes one without answers, too."""
        path = Path(directory)
        if not (path / MANIFEST).is_file():
            raise Refusal(
                f"{path} holds no suite, as there is no {MANIFEST} in it: write one with `ridgeformer suite export DIR`."
            )
        manifest = read_json(path / MANIFEST)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise Refusal(
                f"{path / MANIFEST} does not say format {FORMAT!r}: it is no suite of this version."
            )
        hashes = manifest.get("sha256")
        if not isinstance(hashes, dict):
            raise Refusal(f"{path / MANIFEST} is damaged: it has no table of hashes.")
        for name, expected in hashes.items():
            file = path / name
            if not file.is_file():
                if not answers and not name.startswith("cases/"):
                    continue
                raise Refusal(f"{path} is incomplete: {name} is missing; export the suite again.")
            if file_hash(file) != expected:
                raise Refusal(f"{file} is damaged or was altered: export the suite again.")
        names = sorted({Path(name).parts[1] for name in hashes if name.startswith("cases/")})
        return Suite(path, {name: StoredCase(path, name) for name in names})


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except FileNotFoundError as error:
        raise Refusal(f"There is no file {path}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(f"{path} cannot be read as JSON: {reason(error)}.") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise Refusal(f"There is no file {path}.") from error
    except (SafetensorError, OSError) as error:
        raise Refusal(f"{path} is damaged: {reason(error)}.") from error
