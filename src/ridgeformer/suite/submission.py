"""PREDICTIONS.json: what a tool says about the cases of a suite, checked before anything is scored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solvers import SOLVERS
from ridgeformer.suite.cases import NONE
from ridgeformer.suite.reading import StoredCase, Suite, read_json
from ridgeformer.suite.states import MEANINGS, key_of
from ridgeformer.transformer.edits import SITES
from ridgeformer.types import Refusal

FORMAT = "ridgeformer-suite-predictions/1"
COMPONENTS = ("subspaces", "matvec", "solver", "interventions")


@dataclass(frozen=True)
class Claim:
    """That a state is held in a subspace of the stream at a site."""

    state: str
    step: int
    site: str
    basis: Float[Tensor, "d m"]
    """Orthonormal."""

    @property
    def key(self) -> str:
        return key_of(self.state, self.step)


@dataclass(frozen=True)
class Answer:
    """What a tool says of one case; None where it says nothing of any case."""

    subspaces: tuple[Claim, ...] | None
    matvec: frozenset[tuple[int, int]] | None
    solver: frozenset[str] | None
    interventions: Mapping[str, Float[Tensor, "batch q r"]] | None


def read_predictions(path: str | Path, suite: Suite) -> dict[str, Answer]:
    """The answers in a file, by case; a fault is refused with where it is and what is expected."""
    return check_predictions(read_json(Path(path)), suite, str(path))


def check_predictions(said: Any, suite: Suite, where: str = "predictions") -> dict[str, Answer]:
    """The answers of a tool, case by case; what does not have the format of docs/suite.md is refused."""
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise Refusal(f"{where} does not say format {FORMAT!r}: docs/suite.md has the format.")
    cases = said.get("cases")
    if not isinstance(cases, dict) or set(said) != {"format", "cases"}:
        raise Refusal(
            f"{where} must have `format` and `cases`, a table by name of case, and no more."
        )
    for name in cases:
        if name not in suite.cases:
            raise Refusal(f"{where} has {name!r}, which is no case of {suite.path}.")
    missing = [name for name in suite.cases if name not in cases]
    if missing:
        raise Refusal(
            f"{where} lacks {missing[0]}: say something of every case, be it an empty list or {NONE!r}."
        )
    for name, entry in cases.items():
        if not isinstance(entry, dict):
            raise Refusal(f"{where}, {name}: expected a table, got {shown(entry)}.")
        for part in sorted(set(entry) - set(COMPONENTS)):
            raise Refusal(f"{where}, {name}: {part!r} is none of {', '.join(COMPONENTS)}.")
    present = {part for entry in cases.values() for part in entry}
    for name, entry in cases.items():
        for part in sorted(present - set(entry)):
            raise Refusal(f"{where}, {name}: {part!r} is missing, which other cases have.")
    if not present:
        raise Refusal(f"{where} says nothing: give at least one of {', '.join(COMPONENTS)}.")
    return {
        name: answer(entry, suite.cases[name], f"{where}, {name}") for name, entry in cases.items()
    }


def answer(entry: Mapping[str, Any], case: StoredCase, where: str) -> Answer:
    read = {
        "subspaces": claims,
        "matvec": heads,
        "solver": solvers,
        "interventions": predictions,
    }
    found = {
        part: check(entry[part], case, f"{where}, {part}") if part in entry else None
        for part, check in read.items()
    }
    return Answer(**found)  # type: ignore[arg-type]


def claims(said: Any, case: StoredCase, where: str) -> tuple[Claim, ...]:
    found = {}
    for number, one in enumerate(a_list(said, where)):
        here = f"{where}[{number}]"
        keys = {"state", "step", "site"}
        if not isinstance(one, dict) or set(one) not in ({*keys, "basis"}, {*keys, "indices"}):
            raise Refusal(
                f"{here} must have state, step, site and either basis or indices, and no more; got {shown(one)}."
            )
        if one["state"] not in list(MEANINGS):
            raise Refusal(
                f"{here}: state must be one of {', '.join(MEANINGS)}; got {shown(one['state'])}."
            )
        step = a_number(one["step"], f"{here}, step", 0, None)
        site = a_site(one["site"], case, f"{here}, site")
        basis = (
            from_indices(one["indices"], case, f"{here}, indices")
            if "indices" in one
            else orthonormal(one["basis"], case, f"{here}, basis")
        )
        claim = Claim(one["state"], step, site, basis)
        if claim.key in found:
            raise Refusal(f"{here}: {claim.state} after step {step} is claimed twice.")
        found[claim.key] = claim
    return tuple(found.values())


def a_site(said: Any, case: StoredCase, where: str) -> str:
    layers = case.config.n_layers
    known = {"embed"} | {
        f"blocks.{layer}.{name}" for layer in range(layers) for name in SITES if "resid" in name
    }
    if not isinstance(said, str) or said not in known:
        raise Refusal(
            f"{where} must be embed, blocks.L.resid_mid or blocks.L.resid_post with L below {layers}; got {shown(said)}."
        )
    return said


def from_indices(said: Any, case: StoredCase, where: str) -> Tensor:
    d = case.config.d_model
    indices = [a_number(i, where, 0, d - 1) for i in a_list(said, where)]
    if not indices or len(set(indices)) < len(indices):
        raise Refusal(f"{where} must be at least one column, and none of them twice.")
    return torch.eye(d, dtype=torch.float64)[:, indices]


def orthonormal(said: Any, case: StoredCase, where: str) -> Tensor:
    """An orthonormal basis of the space that the columns span."""
    d = case.config.d_model
    matrix = numbers(said, where, f"a matrix [{d}, m]")
    if matrix.ndim != 2 or matrix.shape[0] != d or not 1 <= matrix.shape[1] <= d:
        raise Refusal(
            f"{where} must be a matrix [{d}, m] with 1 ≤ m ≤ {d}; got {list(matrix.shape)}."
        )
    largest = matrix.abs().max()
    if largest == 0:
        raise Refusal(f"{where} must not be zero.")
    left, values, _ = torch.linalg.svd(matrix / largest, full_matrices=False)
    basis: Tensor = left[:, values > 1e-10 * values[0]]
    return basis


def heads(said: Any, case: StoredCase, where: str) -> frozenset[tuple[int, int]]:
    config = case.config
    found = []
    for number, one in enumerate(a_list(said, where)):
        here = f"{where}[{number}]"
        pair = a_list(one, here)
        if len(pair) != 2:
            raise Refusal(f"{here} must be [layer, head]; got {shown(one)}.")
        layer = a_number(pair[0], f"{here}, layer", 0, config.n_layers - 1)
        found.append((layer, a_number(pair[1], f"{here}, head", 0, config.n_heads - 1)))
    if len(set(found)) < len(found):
        raise Refusal(f"{where} has a head twice.")
    return frozenset(found)


def solvers(said: Any, case: StoredCase, where: str) -> frozenset[str]:
    names = [said] if isinstance(said, str) else a_list(said, where)
    known = [*SOLVERS, NONE]
    for name in names:
        if name not in known:
            raise Refusal(f"{where} must be among {', '.join(known)}; got {shown(name)}.")
    if not names:
        raise Refusal(f"{where} must be a name or a list of at least one; {NONE!r} is one of them.")
    return frozenset(names)


def predictions(said: Any, case: StoredCase, where: str) -> dict[str, Tensor]:
    asked = {question["id"] for question in case.questions}
    if not isinstance(said, dict):
        raise Refusal(f"{where} must be a table by id of question; got {shown(said)}.")
    for name in sorted(asked ^ set(said)):
        what = "is missing" if name in asked else "is no question of this case"
        raise Refusal(f"{where}: {name!r} {what}.")
    found = {}
    for name, values in said.items():
        queries = case.pairs["base.phi_query"].shape
        shape = [queries[0], queries[1], case.config.d_out]
        array = numbers(values, f"{where}, {name}", f"an array {shape}")
        if list(array.shape) != shape:
            raise Refusal(f"{where}, {name} must be an array {shape}; got {list(array.shape)}.")
        found[name] = array
    return found


def numbers(said: Any, where: str, expected: str) -> Tensor:
    try:
        array = torch.tensor(a_list(said, where), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise Refusal(f"{where} must be {expected} of numbers, all rows of one length.") from error
    if not torch.isfinite(array).all():
        raise Refusal(f"{where} has NaN or infinite entries.")
    return array


def a_list(said: Any, where: str) -> list[Any]:
    if not isinstance(said, list):
        raise Refusal(f"{where} must be a list; got {shown(said)}.")
    return said


def a_number(said: Any, where: str, lo: int, hi: int | None) -> int:
    top = math.inf if hi is None else hi
    if isinstance(said, bool) or not isinstance(said, int) or not lo <= said <= top:
        between = f"≥ {lo}" if hi is None else f"from {lo} to {hi}"
        raise Refusal(f"{where} must be a whole number {between}; got {shown(said)}.")
    return said


def shown(value: Any) -> str:
    """A value as it was written, if it is short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
