"""Cases before they are written: a model, its prompts, questions about interventions, and the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.kernels import Kernel
from ridgeformer.solvers import SOLVERS
from ridgeformer.suite.controls import Control
from ridgeformer.suite.interventions import Intervention, edit_of, find_interventions, run
from ridgeformer.suite.numerics import Numerics
from ridgeformer.suite.planned import Drawer, Planned
from ridgeformer.suite.states import EVERY_SOLVER, MEANINGS, Held, Observed, find_held
from ridgeformer.suite.tokens import Tokens
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer
from ridgeformer.transformer.rotation import random_basis, rotated
from ridgeformer.types import Refusal

PROMPTS, PAIRS = 48, 8

TOLERANCE = 1e-6
"""A model agrees with an intervention's answer if it differs by at most this part of the answer's largest entry."""

NONE = "none"
"""The answer that a model runs no solver, or none that anything is known of."""

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """What becomes the files of one case; tensors and tables by the names of their files."""

    group: str
    """channels, rotated, trained, untrained or shuffled."""
    transformer: Transformer
    seen: dict[str, Any]
    """What a tool may see: the layout of tokens, and the kernel system that the prompts are about."""
    prompts: Tensors
    labels: dict[str, Any]
    questions: list[dict[str, Any]] = field(default_factory=list)
    pairs: Tensors = field(default_factory=dict)
    subspaces: Tensors = field(default_factory=dict)
    answers: Tensors = field(default_factory=dict)


def compiled_cases(plan: Planned, drawer: Drawer) -> list[Case]:
    """The model as it is, and in a rotated basis."""
    model = plan.model
    base = plan.draw(PAIRS, drawer.seed())
    source = plan.source(base, drawer.seed())
    seen, other = (Observed.of(Numerics.of(model, prompt)) for prompt in (base, source))
    held = find_held(seen)
    interventions = find_interventions(seen, other, held)
    prompt = plan.draw(PROMPTS, drawer.seed())
    ordinary = torch.eye(model.transformer.config.d_model, dtype=torch.float64)
    cases = []
    for group, basis in (("channels", ordinary), ("rotated", turned_basis(model, drawer.seed()))):
        transformer = (
            model.transformer if group == "channels" else rotated(model.transformer, basis)
        )
        measured = [
            check_answer(plan.kind, intervention, transformer, seen.tokens, basis)
            for intervention in interventions
        ]
        places = {place.key: place for place in held}
        cases.append(
            Case(
                group,
                transformer,
                visible(seen.tokens, plan.law.kernel, plan.law.ridge),
                prompt_tensors(Tokens.of(model, prompt), prompt),
                {
                    "kind": plan.kind,
                    "group": group,
                    **compiled_labels(seen, held),
                    "interventions": [
                        {
                            "id": one.name,
                            "tolerance": TOLERANCE,
                            "measured error": error,
                            "writes": [
                                {
                                    "site": write.site,
                                    "rows": list(write.rows),
                                    "basis": f"{one.name}.{i}.basis",
                                    "values": f"{one.name}.{i}.values",
                                }
                                for i, write in enumerate(one.writes)
                            ],
                        }
                        for one, error in zip(interventions, measured, strict=True)
                    ],
                    "certificate": model.certificate.to_dict(),
                    "sites": model.sites if group == "channels" else None,
                },
                [question(one) for one in interventions],
                {
                    f"{name}.{key}": value
                    for name, part in (("base", seen), ("source", other))
                    for key, value in prompt_tensors(part.tokens, part.numerics.prompt).items()
                },
                {key: subspace(basis, place.columns) for key, place in places.items()},
                answer_tensors(interventions, seen.numerics.final, basis),
            )
        )
    return cases


def control_case(control: Control) -> Case:
    predictions = run(control.transformer, control.tokens.values, control.tokens.context, [])
    if not torch.isfinite(predictions).all():
        raise Refusal(f"The control {control.kind} predicts numbers that are not finite.")
    labels = {
        "kind": control.kind,
        "group": control.group,
        "solver": {"right": [NONE], "why": control.why},
        "states": [],
        "not scored": [],
        "heads": {},
        "matvec": [],
        "interventions": [],
    }
    seen = visible(control.tokens, control.kernel, control.ridge)
    prompts = prompt_tensors(control.tokens, control.prompt)
    return Case(control.group, control.transformer, seen, prompts, labels)


def turned_basis(model: CompiledModel, seed: int) -> Float[Tensor, "d d"]:
    """A random basis of all of the stream but the channels of the tokens' flags.

    Compiled models silence neurons by a flag times a number of up to 1e31, and are exact only if a flag is. Flags say
    which token is of which kind, which everybody knows of the input.
    """
    d = model.transformer.config.d_model
    flags = {
        column
        for place in model.sites["channels"].values()
        for column, names in enumerate(place)
        if any(name.startswith("is_") for name in names)
    }
    free = torch.tensor([column for column in range(d) if column not in flags])
    basis = torch.eye(d, dtype=torch.float64)
    basis[free[:, None], free] = random_basis(len(free), seed)
    return basis


def subspace(basis: Float[Tensor, "d d"], columns: Sequence[int]) -> Float[Tensor, "d m"]:
    """An orthonormal basis of where these columns of the ordinary stream are."""
    return basis[list(columns)].mT


def visible(tokens: Tokens, kernel: Kernel, ridge: float) -> dict[str, Any]:
    return {
        "context": tokens.context,
        "registers": tokens.registers,
        "rows": {"supports": list(tokens.supports), "queries": list(tokens.queries)},
        "kernel": kernel.to_dict(),
        "ridge": ridge,
    }


def prompt_tensors(tokens: Tokens, prompt: Prompt) -> Tensors:
    return {
        "tokens": tokens.values,
        "phi": prompt.phi,
        "y": prompt.y,
        "phi_query": prompt.phi_query,
    }


def compiled_labels(seen: Observed, held: Sequence[Held]) -> dict[str, Any]:
    model, numerics = seen.numerics.model, seen.numerics
    scored = [place for place in held if seen.scored(place)]
    dual = seen.space == "dual" and not numerics.solver.smooths
    return {
        "solver": {
            "right": same_iterates(numerics),
            "why": model.certificate.summary(),
        },
        "steps": numerics.steps,
        "states": [
            {
                "state": place.state,
                "step": place.step,
                "meaning": MEANINGS[place.state],
                "rows": place.rows,
                "sites": list(place.sites),
                "scale": place.scale,
                "basis": place.key,
            }
            for place in scored
        ],
        "not scored": sorted(EVERY_SOLVER | {place.state for place in held}),
        "heads": {
            role: [[head.layer, head.head] for head in model.heads(role)]
            for role in dict.fromkeys(r for head in model.heads() for r in head.roles)
        },
        "matvec": [[h.layer, h.head] for h in model.heads("matvec")]
        if dual or seen.space == "feature"
        else None,
    }


def same_iterates(numerics: Numerics) -> list[str]:
    """The solvers that predict the same after every step, with the same preconditioner: each name is right."""
    model, own = numerics.model, numerics.solver
    expected = torch.stack([numerics.predictions(state) for state in numerics.states])
    found = [own.name]
    for name, kind in SOLVERS.items():
        if own.precondition not in kind.preconditioners or kind.smooths != own.smooths:
            continue
        if name == own.name:
            continue
        try:
            certificate = replace(model.certificate, solver=name, interval=None, options={})
            other = Numerics.of(replace(model, certificate=certificate), numerics.prompt)
        except Refusal:
            continue
        predicted = torch.stack([other.predictions(state) for state in other.states])
        if float((predicted - expected).abs().max()) <= 1e-9 * float(expected.abs().max()):
            found.append(name)
    return found


def question(intervention: Intervention) -> dict[str, Any]:
    return {
        "id": intervention.name,
        "states": list(intervention.states),
        "step": intervention.step,
        "how": intervention.how,
        "rows": list(intervention.writes[0].rows),
    }


def answer_tensors(
    interventions: Sequence[Intervention], unchanged: Tensor, basis: Tensor
) -> Tensors:
    found: Tensors = {"unchanged": unchanged} if interventions else {}
    for one in interventions:
        found[f"{one.name}.expected"] = one.expected
        for i, write in enumerate(one.writes):
            found[f"{one.name}.{i}.basis"] = subspace(basis, write.columns)
            found[f"{one.name}.{i}.values"] = write.values
    return found


def check_answer(
    kind: str, intervention: Intervention, transformer: Transformer, tokens: Tokens, basis: Tensor
) -> float:
    """How far the model is from the answer, relative to its largest entry; too far is refused."""
    edits = [edit_of(write, subspace(basis, write.columns)) for write in intervention.writes]
    found = run(transformer, tokens.values, tokens.context, edits)
    expected = intervention.expected
    error = float((found - expected).abs().max() / expected.abs().max())
    if not error <= TOLERANCE:
        raise Refusal(f"{kind} is {error:.1e} from the answer of {intervention.name}.")
    return error
