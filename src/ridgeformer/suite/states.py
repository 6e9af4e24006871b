"""Which state of a solver is held where in the residual stream of a compiled model, as measured on its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.models.compiled import streams
from ridgeformer.suite.numerics import Numerics
from ridgeformer.suite.tokens import Tokens
from ridgeformer.types import Refusal

MEANINGS = {
    "alpha": "the coefficients α_t; in a decoder the weights w_t, with predictions φᵀw_t",
    "r": "the residual y − Aα_t, in a unit of its own in each prompt",
    "p": "the direction of step t + 1, in a unit of its own in each prompt",
    "previous": "the coefficients α_{t−1}",
    "inverse": "X_t ≈ A⁻¹, as the image of each token's features under it",
    "features": "H_t, as the image of each token's features under it",
    "unexplained": "y − Kα_t, what the fit leaves over at each support",
}
"""The vocabulary of claims."""

EVERY_SOLVER = frozenset({"alpha", "previous", "r", "unexplained"})
"""What every linear iteration has, whether or not it stores it. A claim about one that is not stored is neither
right nor wrong, since sums of y, α and Kα have it."""

AGREES = 1e-6
"""A reading is the state if it differs by less than this part of the state's largest entry."""

Stream = Mapping[str, Float[Tensor, "batch rows d"]]
"""The residual stream by site, in the order of the layers."""


@dataclass(frozen=True)
class Held:
    """A state after one step, and where the stream holds it."""

    state: str
    step: int
    rows: str
    """The tokens: supports, queries, or `images`, which are registers and supports."""
    sites: tuple[str, ...]
    """The first is where it is written, and in all of them these columns hold it unchanged."""
    columns: tuple[int, ...]
    scale: float = 1.0
    """The number by which the columns are still to be multiplied."""

    @property
    def key(self) -> str:
        return key_of(self.state, self.step)


def key_of(state: str, step: int) -> str:
    return f"{state}@{step}"


@dataclass(frozen=True)
class Observed:
    """The solver's numerics on some prompts, beside the model's tokens and stream on the same."""

    numerics: Numerics
    tokens: Tokens
    stream: Stream

    @staticmethod
    def of(numerics: Numerics) -> Observed:
        tokens = Tokens.of(numerics.model, numerics.prompt)
        transformer = numerics.model.transformer
        return Observed(numerics, tokens, streams(transformer, (tokens.values, tokens.context)))

    @property
    def space(self) -> str:
        return self.numerics.model.certificate.space

    def read(self, place: Held, site: str | None = None) -> Float[Tensor, "batch rows m"]:
        """What the stream holds at a place, or in the same columns at another site."""
        rows = self.stream[site or place.sites[0]][:, self.tokens.rows(place.rows)]
        return rows[..., list(place.columns)] * place.scale

    def content(self, place: Held) -> Float[Tensor, "batch rows m"]:
        """What it must hold there, by the solver's numerics and in the model's unit."""
        value = self.value(place)
        return value * self.unit(place) if self.numerics.renews_units else value

    def value(self, place: Held) -> Float[Tensor, "batch rows m"]:
        """The same in the solver's own unit."""
        numerics, t = self.numerics, place.step
        if place.state == "unexplained":
            return residual_of_tokens(numerics, numerics.value("alpha", t))["supports"]
        value = numerics.value(place.state, t)
        match self.space:
            case "dual":
                return value
            case "feature":  # every query holds the whole vector
                return value.mT.expand(-1, len(self.tokens.queries), -1)
            case _:
                return images(numerics, value)

    def unit(self, place: Held) -> Float[Tensor, "batch 1 r"]:
        """By what the model multiplies a vector of the solver.

        Solvers that renew the units of their vectors leave them open: the numerics take powers of two, and compiled
        models what their tables say. That is one number in each prompt, which is read off the stream.
        """
        own, seen = self.numerics.value(place.state, place.step), self.read(place)
        found: Tensor = (seen * own).sum(1, keepdim=True) / (own * own).sum(1, keepdim=True)
        return found

    def holds(self, place: Held, site: str | None = None) -> bool:
        expected = self.content(place)
        apart = (self.read(place, site) - expected).abs().max()
        return bool(apart <= AGREES * expected.abs().max())

    def followed(self, place: Held) -> Held | None:
        """The place with all sites, from its own on, at which the columns are unchanged; None if they never
        hold the state."""
        names = list(self.stream)
        sites = []
        for site in names[names.index(place.sites[0]) :]:
            if not self.holds(place, site):
                break
            sites.append(site)
        return replace(place, sites=tuple(sites)) if sites else None

    def scored(self, place: Held) -> bool:
        """Whether it is more than a multiple of what the prompt has anyway, its targets or its features."""
        value = self.content(place)
        if place.rows == "images":
            own = images(self.numerics, torch.eye(value.shape[-1], dtype=value.dtype))
        elif self.space == "feature":
            return True
        else:
            own = self.numerics.prompt.y
        cosines = torch.cosine_similarity(value.flatten(1), own.flatten(1)).abs()
        return bool(value.any()) and float(cosines.min()) < 1 - 1e-9


def find_held(seen: Observed) -> list[Held]:
    """Every state after step 1 or a later one, at the model's own sites and where it follows from them.

    A model is refused if one of its sites does not hold what the solver's numerics say.
    """
    found = []
    for name, entries in seen.numerics.model.sites["states"].items():
        for entry in entries:
            if entry["step"] == 0:
                continue
            rows = {"dual": "supports", "feature": "queries"}.get(seen.space, "images")
            columns, scale = tuple(entry["columns"]), entry.get("scale", 1.0)
            place = Held(name, entry["step"], rows, (entry["site"],), columns, scale)
            kept = seen.followed(place)
            if kept is None:
                raise Refusal(f"{name} after step {place.step} is not at {entry['site']}.")
            found.append(kept)
    more = [seen.followed(place) for place in implied(seen, found)]
    found += [place for place in more if place is not None]
    return sorted(found, key=lambda held: (held.step, held.state))


def implied(seen: Observed, named: list[Held]) -> list[Held]:
    """Further places where a state may be: the last α, if it is kept, and what operators leave unexplained."""
    alphas = {held.step: held for held in named if held.state == "alpha"}
    known = {held.key for held in named}
    guesses = [
        Held("previous", t, held.rows, held.sites[:1], alphas[t - 1].columns)
        for t, held in alphas.items()
        if t - 1 in alphas
        and "previous" in seen.numerics.states[0]._fields
        and key_of("previous", t) not in known
    ]
    if seen.space == "operator":
        guesses += [
            Held(
                "unexplained", entry["step"], "supports", (entry["site"],), tuple(entry["columns"])
            )
            for entry in seen.numerics.model.sites["predictions"]
            if entry["step"] > 0 and "through" not in entry
        ]
    return guesses


def images(numerics: Numerics, operator: Float[Tensor, "*batch p p"]) -> Tensor:
    """The images of features under an operator, at registers and supports."""
    phi = numerics.prompt.phi
    eye = torch.eye(phi.shape[2], dtype=phi.dtype)
    registers = (numerics.machine.ridge**0.5 * eye).expand(len(phi), -1, -1)
    return torch.cat([registers, phi], dim=1) @ operator.mT


def residual_of_tokens(
    numerics: Numerics, weights: Float[Tensor, "batch p r"]
) -> dict[str, Tensor]:
    """y − xᵀw at every kind of token; registers are √λ·e_i with target 0, and a query has none."""
    prompt = numerics.prompt
    return {
        "registers": -(numerics.machine.ridge**0.5) * weights,
        "supports": prompt.y - prompt.phi @ weights,
        "queries": -prompt.phi_query @ weights,
    }
