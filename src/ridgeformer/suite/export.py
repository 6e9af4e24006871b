"""Writes a suite: cases that a tool may see, interventions that it is asked about afterwards, and the answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from ridgeformer import __version__
from ridgeformer.suite.cases import PROMPTS, Case, Tensors, compiled_cases, control_case
from ridgeformer.suite.controls import controls
from ridgeformer.suite.planned import Drawer, planned
from ridgeformer.transformer import save, whole_directory
from ridgeformer.transformer.storage import file_hash

FORMAT = "ridgeformer-suite/1"
MANIFEST = "MANIFEST.json"


def export(directory: str | Path, *, seed: int = 0, force: bool = False) -> dict[str, int]:
    """Writes the suite of a seed, whole or not at all, and returns how many cases it has of each group.

    Seed 0 is the public suite. Any other has models with other parameters, other prompts, other bases, and its cases
    under other numbers: one whose seed is not told is a held-out suite.
    """
    with whole_directory(directory, force, (MANIFEST, "a suite")) as partial:
        drawer = Drawer(seed)
        plans = planned(drawer)
        cases = [case for plan in plans for case in compiled_cases(plan, drawer)]
        cases += [control_case(control) for control in controls(drawer, plans, PROMPTS)]
        groups: dict[str, int] = {}
        for number, index in enumerate(drawer.shuffled(len(cases)), start=1):
            write_case(cases[index], partial, f"case-{number:02d}")
            groups[cases[index].group] = groups.get(cases[index].group, 0) + 1
        write_json(partial / "answers" / "suite.json", {"format": FORMAT, "seed": seed})
        hashes = {
            path.relative_to(partial).as_posix(): file_hash(path)
            for path in sorted(partial.rglob("*"))
            if path.is_file()
        }
        manifest = {"format": FORMAT, "ridgeformer": __version__, "sha256": hashes}
        write_json(partial / MANIFEST, manifest)
    return groups


def write_case(case: Case, suite: Path, name: str) -> None:
    cases, interventions, answers = (
        suite / part / name for part in ("cases", "interventions", "answers")
    )
    save(case.transformer, cases)
    write_json(cases / "case.json", {"format": FORMAT, "case": name, **case.seen})
    write_tensors(cases / "prompts.safetensors", case.prompts)
    write_json(interventions / "questions.json", case.questions)
    write_json(answers / "labels.json", {"case": name, **case.labels})
    for path, tensors in (
        (interventions / "pairs.safetensors", case.pairs),
        (answers / "subspaces.safetensors", case.subspaces),
        (answers / "interventions.safetensors", case.answers),
    ):
        if tensors:
            write_tensors(path, tensors)


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tensors(path: Path, tensors: Tensors) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Base and source share their features, and a file has room of its own for each.
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, path)
