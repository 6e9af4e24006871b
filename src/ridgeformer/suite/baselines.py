"""Three simple tools, whose scores say what a suite asks of better ones.

`random` guesses. `pca` takes the principal directions of the stream, the head with the largest output in every layer,
and the solver whose iterates make the most similar errors. `probes` fit ridge regressions from the stream to the
states that a solver has on the prompts, silence heads, and take the solver whose coefficients are read best.

Of a compiled model, the baselines are told which states it keeps, at which tokens, and of which dimension, and probes
are told the solver whose states they fit: so they are references for where a state is, and not for what is there. Of
a control they are told nothing, and look for what a model of conjugate gradients would keep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solvers import SOLVERS
from ridgeformer.suite.cases import NONE
from ridgeformer.suite.nearest import nearest_by_errors
from ridgeformer.suite.probing import nearest_by_probes, probed
from ridgeformer.suite.reading import StoredCase, Suite
from ridgeformer.suite.submission import FORMAT
from ridgeformer.suite.watched import Asked, Found, Watched
from ridgeformer.transformer import Edit, ablate_head

FEW = 8
"""So many prompts tell what a head is good for."""


class SuiteBaseline(ABC):
    """A tool that answers for one case after the other."""

    name: str

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    @abstractmethod
    def subspace(self, watched: Watched, asked: Asked) -> Found | None:
        """Where it takes a state to be; None if it takes it to be nowhere."""

    @abstractmethod
    def heads(self, watched: Watched) -> list[tuple[int, int]]: ...

    @abstractmethod
    def solver(self, watched: Watched) -> str: ...

    def answer(self, case: StoredCase) -> dict[str, Any]:
        """What it says of a case, as it stands in PREDICTIONS.json."""
        watched = Watched(case)
        places = {(one.state, one.step): self.subspace(watched, one) for one in watched.asked}
        claims = [
            {"state": state, "step": step, "site": found.site, "basis": found.basis.tolist()}
            for (state, step), found in places.items()
            if found is not None
        ]
        return {
            "subspaces": claims,
            "matvec": [list(head) for head in self.heads(watched)],
            "solver": self.solver(watched),
            "interventions": {
                question["id"]: intervene(watched, question, places).tolist()
                for question in case.questions
            },
        }

    def answers(self, suite: Suite) -> dict[str, Any]:
        """The whole of PREDICTIONS.json."""
        cases = {name: self.answer(case) for name, case in suite.cases.items()}
        return {"format": FORMAT, "cases": cases}


def intervene(
    watched: Watched, question: Mapping[str, Any], places: Mapping[tuple[str, int], Found | None]
) -> Float[Tensor, "batch q r"]:
    """The predictions if the source's coordinates take the place of the base's, where the states are thought to be."""
    rows, edits = question["rows"], []
    for state in question["states"]:
        found = places.get((state, question["step"]))
        if found is None:
            continue
        theirs = watched.recorded("source", [found.site])[found.site][:, rows]

        def put(stream: Tensor, theirs: Tensor = theirs, basis: Tensor = found.basis) -> Tensor:
            stream = stream.clone()
            basis = basis.to(stream)
            stream[:, rows] += (theirs.to(stream) - stream[:, rows]) @ basis @ basis.mT
            return stream

        edits.append(Edit(found.site, put))
    # A wrong place may send a model to where numbers end.
    return watched.predicted("base", edits).double().nan_to_num(posinf=1e100, neginf=-1e100)


class RandomGuess(SuiteBaseline):
    """A random direction at a random site, one random head in every layer, and a random name."""

    name = "random"

    def subspace(self, watched: Watched, asked: Asked) -> Found:
        d = watched.case.config.d_model
        normal = torch.randn(d, asked.dimension, generator=self.generator, dtype=torch.float64)
        return Found(watched.sites[self.below(len(watched.sites))], torch.linalg.qr(normal).Q)

    def heads(self, watched: Watched) -> list[tuple[int, int]]:
        config = watched.case.config
        return [(layer, self.below(config.n_heads)) for layer in range(config.n_layers)]

    def solver(self, watched: Watched) -> str:
        names = [*SOLVERS, NONE]
        return names[self.below(len(names))]

    def below(self, count: int) -> int:
        return int(torch.randint(count, (), generator=self.generator))


class Principal(SuiteBaseline):
    """Principal directions of the stream, t/T of the way through the layers."""

    name = "pca"

    def subspace(self, watched: Watched, asked: Asked) -> Found:
        site = watched.sites[round(asked.step / asked.of * (len(watched.sites) - 1))]
        rows = watched.stream[site][:, asked.rows].flatten(0, 1)
        directions = torch.linalg.svd(rows - rows.mean(0), full_matrices=False).Vh
        return Found(site, directions[: asked.dimension].mT)

    def heads(self, watched: Watched) -> list[tuple[int, int]]:
        """The head of each layer whose output at the supports is largest."""
        transformer = watched.case.transformer
        weights = dict(transformer.named_parameters())
        sites = [f"blocks.{layer}.attn.z" for layer in range(watched.case.config.n_layers)]
        supports = list(watched.rows["supports"])
        found = []
        for layer, z in enumerate(watched.recorded("prompts", sites).values()):
            W_O = weights[f"blocks.{layer}.attn.W_O"].double()
            written = torch.einsum("bnhe,hed->bnhd", z[:, supports], W_O)
            found.append((layer, int(written.square().sum((0, 1, 3)).argmax())))
        return found

    def solver(self, watched: Watched) -> str:
        return nearest_by_errors(watched)


class Probes(SuiteBaseline):
    """Ridge regressions from the stream to states, and heads without which predictions change."""

    name = "probes"

    def subspace(self, watched: Watched, asked: Asked) -> Found | None:
        return probed(watched, asked)

    def heads(self, watched: Watched) -> list[tuple[int, int]]:
        """The heads without which predictions change by more than a tenth of their size."""
        config = watched.case.config
        plain = watched.predicted("prompts", [], FEW)
        found = []
        blocks: Any = watched.case.transformer.blocks
        for layer in range(config.n_layers):
            for head in range(config.n_heads):
                if not blocks[layer].attn.writes(head):
                    continue  # It is silent already.
                silent = [ablate_head(layer, head)]
                change = watched.predicted("prompts", silent, FEW) - plain
                if not change.square().mean() <= 0.01 * plain.square().mean():
                    found.append((layer, head))
        return found

    def solver(self, watched: Watched) -> str:
        return nearest_by_probes(watched)


BASELINES: tuple[type[SuiteBaseline], ...] = (RandomGuess, Principal, Probes)
