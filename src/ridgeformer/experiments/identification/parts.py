"""The evidence, one part after the other: what is measured of a subject, and of the candidates as a control.

A part is one entry of `PARTS`, and its section on the page one entry of `SECTIONS` in `page`. A part adds its numbers to the
finding and returns what is not a number. Where it refuses, as for a task with several laws, the page says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, get_args

import torch

from ridgeformer.analysis.additivity import defects
from ridgeformer.analysis.degree import Degrees, degrees_of
from ridgeformer.analysis.effective_ridge import ridge_by_noise, ridge_of
from ridgeformer.analysis.filters import Filters, filters_of
from ridgeformer.analysis.layer_readouts import halves, support_reader
from ridgeformer.analysis.symmetries import find_symmetries
from ridgeformer.analysis.trajectories import NOTHING, Evidence, Fit, errors_of
from ridgeformer.experiments.finding import Collector, Setting
from ridgeformer.experiments.identification import state_parts
from ridgeformer.experiments.identification.inquiry import (
    MODEL,
    Inquiry,
    Reader,
    plain_fit,
    reader_of,
)
from ridgeformer.solvers import EagerMachine, Precondition
from ridgeformer.statistics import UNDEFINED, Estimate, estimate_of, estimates_of
from ridgeformer.types import Refusal

BASES: tuple[Precondition, ...] = get_args(Precondition)
AT_SUPPORTS = 32
"""The residuals at the supports take a query at each of them, and are read on at most so many prompts."""
CHANGED = 48
"""Changed prompts are many, and each change is tried on at most so many of them."""

Words = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    name: str
    measure: Callable[[Inquiry, Collector], Words]
    measures: Mapping[str, str]
    """The meaning of its numbers."""


def add_all(
    out: Collector, measure: str, reader: Reader, values: Sequence[Estimate], **setting: Any
) -> None:
    """Adds a number for each layer or step; those of candidates are controls."""
    for place, value in zip(reader.places, values, strict=True):
        out.add(measure, reader.method, value, reader.method != MODEL, **place, **setting)


def add_exact(out: Collector, measure: str, method: str, value: float) -> None:
    if isfinite(value):
        out.exact(measure, method, value)
    else:
        out.add(measure, method, UNDEFINED)


def candidates(q: Inquiry, out: Collector) -> Words:
    for fit in q.fits:
        name = fit.candidate.name
        out.add("misfit", name, fit.by_prompt)
        out.add("unexplained", name, fit.away)
        out.add("interior", name, interior(fit, q.seed))
        add_exact(out, "systematic", name, fit.systematic)
    return {"fits": {f.candidate.name: plain_fit(f, q.evidence.prompt) for f in q.fits}}


def interior(fit: Fit, seed: int) -> Estimate:
    """The interior with its interval over prompts; where nothing is between the ends, as it is."""
    if float(fit.null.mean()) <= NOTHING:
        value = fit.interior
        count = fit.null.shape[1]
        return Estimate(value, value, value, count) if isfinite(value) else UNDEFINED
    both = torch.stack([fit.errors.mean(0), fit.null.mean(0)], 1)
    return estimate_of(both, lambda means: means[:, 0] / means[:, 1], seed)


def alignment(q: Inquiry, out: Collector) -> Words:
    for fit in q.compared:
        add_alignment(fit, q.evidence, q.seed, out)
    return {}


def add_alignment(fit: Fit, evidence: Evidence, seed: int, out: Collector) -> None:
    """The error of every step from every layer, by the quantity that was chosen for the step."""
    signals = fit.candidate.signals(evidence.prompt, fit.setting, fit.steps)
    spaced = {n: (place, values[:: fit.stride]) for n, (place, values) in signals.items()}
    part = evidence.split.score
    errors = {name: errors_of(evidence, spaced[name], part) for name in set(fit.signals)}
    for number, name in enumerate(fit.signals):
        found = estimates_of(errors[name][:, number].T, lambda means: means, seed)
        for layer, value in zip(evidence.layers, found, strict=True):
            step = fit.stride * (number + 1)
            out.add("error of a step", fit.candidate.name, value, layer=layer, step=step)


def bases(q: Inquiry) -> tuple[list[Precondition], dict[str, str]]:
    """The preconditioned systems that differ from A, and why the others are left out."""
    machine = EagerMachine(q.evidence.prompt, q.law.kernel, q.law.ridge)
    used: list[Precondition] = []
    left_out: dict[str, str] = {}
    for basis in BASES:
        try:
            scale = machine.inverse_preconditioner(basis)
        except Refusal as refusal:
            left_out[basis] = str(refusal)
            continue
        if scale is not None and torch.allclose(scale, scale[:, :1].expand_as(scale), rtol=1e-9):
            left_out[basis] = "Its entries are all equal, so that it changes no eigenvector."
        else:
            used.append(basis)
    return used, left_out


def filters(q: Inquiry, out: Collector) -> Words:
    law = q.law
    used, left_out = bases(q)
    for basis in used:
        found = filters_of(q.model.read, law, q.prompt, precondition=basis, seed=q.seed)
        add_filters(out, q.model, found, curves=basis == "none")
    for reader in q.readers[1:]:
        found = filters_of(reader.read, law, q.prompt, seed=q.seed)
        add_filters(out, reader, found, curves=True)
    some = q.prompt[:AT_SUPPORTS]
    read = support_reader(q.subject, halves(some)[0])
    residuals = filters_of(read, law, some, at="supports", seed=q.seed)
    add_all(out, "R² of a filter", q.model, residuals.r_squared, basis="none", of="supports")
    return {"bases left out": left_out}


def add_filters(out: Collector, reader: Reader, found: Filters, curves: bool) -> None:
    add_all(out, "R² of a filter", reader, found.r_squared, basis=found.precondition, of="queries")
    if curves:
        for number, knot in enumerate(found.knots):
            column = [curve[number] for curve in found.curves]
            add_all(out, "filter", reader, column, eigenvalue=knot)


def additivity(q: Inquiry, out: Collector) -> Words:
    """All candidates are measured, so that one with coefficients that depend on y is among the controls."""
    scored = halves(q.prompt)[1]
    for reader in (q.model, *map(reader_of, q.fits)):
        found = defects(reader.read, q.task, scored, seed=q.seed)
        add_all(out, "additivity", reader, found.additivity)
        for factor, values in found.homogeneity.items():
            add_all(out, "homogeneity", reader, values, factor=factor)
        out.add("own error", reader.method, found.error)
        out.add("resolution", reader.method, found.resolution)
    return {}


def degree(q: Inquiry, out: Collector) -> Words:
    law = q.law
    used, left_out = bases(q)
    paces = {}
    for basis in used:
        found = degrees_of(q.model.read, law, q.prompt, precondition=basis, seed=q.seed)
        for number, value in zip(found.degrees, found.best, strict=True):
            out.add("best error", "polynomial", value, True, degree=number, basis=basis)
        paces[basis] = add_degrees(out, q.model, found)
    others = {}
    for fit, reader in zip(q.compared, q.readers[1:], strict=True):
        basis = fit.candidate.solver.precondition
        if basis in paces:
            found = degrees_of(reader.read, law, q.prompt, precondition=basis, seed=q.seed)
            others[reader.method] = add_degrees(out, reader, found)
    return {"bases left out": left_out, "pace": paces, "pace of candidates": others}


def add_degrees(out: Collector, reader: Reader, found: Degrees) -> str:
    basis = found.precondition
    add_all(out, "error", reader, found.errors, basis=basis)
    add_all(out, "degree", reader, found.needed, basis=basis)
    grown = found.growth
    for measure, value in {
        "products a layer": grown.products,
        "doublings a layer": grown.doublings,
        "R² of products": grown.r_squared_products,
        "R² of doublings": grown.r_squared_doublings,
    }.items():
        out.add(measure, reader.method, value, reader.method != MODEL, basis=basis)
    return grown.pace


def effective_ridge(q: Inquiry, out: Collector) -> Words:
    process = q.task.gaussian_process()
    several = process is not None and len(set(process.noise_variances)) > 1
    words: dict[str, Any] = {}
    if process is not None and several:
        try:
            found = ridge_by_noise(q.subject, process, prompts=len(q.prompt) // 2, seed=q.seed)
        except Refusal as refusal:
            words["not by noise"] = str(refusal)
        else:
            for level, own, best in zip(found.levels, found.found, found.best, strict=True):
                out.add("effective ridge by noise", MODEL, own, noise=level)
                out.add("effective ridge by noise", "best", best, True, noise=level)
            out.add("follows the noise", MODEL, found.follows)
            out.add("follows the noise", "best", found.best_follows, True)
            words["by noise"] = True
    try:
        law = q.law
    except Refusal as refusal:
        return words | {"no single λ": str(refusal)}
    for reader in q.readers:
        read = ridge_of(reader.read, law, halves(q.prompt)[1], seed=q.seed)
        add_all(out, "effective ridge", reader, read.found)
        add_all(out, "left at the effective ridge", reader, read.left)
    return words | {"ridge": law.ridge}


def symmetries(q: Inquiry, out: Collector) -> Words:
    few = min(CHANGED, len(q.prompt))
    found = find_symmetries(q.subject, q.task, prompts=few, seed=q.seed)
    for one in found.symmetries:
        out.add("symmetry", MODEL, one.change, change=one.name)
        out.add("broken symmetry", MODEL, one.control, True, change=one.name)
        out.add("broken symmetry", "best", one.best_control, True, change=one.name)
    for grown in found.out_of_range:
        rows: Iterator[tuple[float, Estimate, Estimate]] = zip(
            grown.factors, grown.errors, grown.best_change, strict=True
        )
        for factor, error, move in rows:
            where: Setting = {"grows": grown.name, "factor": factor}
            out.add("error out of range", MODEL, error, **where)
            out.add("error out of range", "ignoring it", move, True, **where)
    return {}


PARTS = (
    Part(
        "candidates",
        candidates,
        {
            "misfit": "interior errors of the steps and distance of the end, relative to what is new and to the prediction",
            "unexplained": "the part of the prediction's mean square that the candidate's last step leaves",
            "interior": "errors of the steps over those of readouts that know the first and the last step alone",
            "systematic": "the part of the prediction that is not the candidate's, and that is no noise",
        },
    ),
    Part(
        "alignment",
        alignment,
        {"error of a step": "squared error of its readout, in units of what is new in a step"},
    ),
    Part(
        "ends",
        state_parts.ends,
        {
            "left by a predictor": "the part of the prediction's mean square that a predictor without steps leaves"
        },
    ),
    Part(
        "filters",
        filters,
        {
            "filter": "g(σ), how much of an eigendirection of K + λI is learned",
            "R² of a filter": "how much of a readout any spectral filter explains, on held-out prompts",
        },
    ),
    Part(
        "additivity",
        additivity,
        {
            "additivity": "E(f(y₃) − (f(y₁) + f(y₂))/√2)²/Var f*, y₃ = (y₁ + y₂)/√2",
            "homogeneity": "E(f(cy) − c·f(y))²/(c²·Var f*), c the factor",
            "own error": "ε, the distance from the best predictor, over its mean square",
            "resolution": "2ε, the defect that this error allows",
        },
    ),
    Part(
        "degree",
        degree,
        {
            "best error": "the error of the best fixed polynomial of that degree, over E f*²",
            "error": "the error of a readout, over E f*²",
            "degree": "the least degree that this error needs",
            "products a layer": "the slope of the degree over the layers",
            "doublings a layer": "the slope of log₂ of the degree over the layers",
            "R² of products": "how straight the degree is over the layers",
            "R² of doublings": "how straight log₂ of the degree is",
        },
    ),
    Part(
        "effective ridge",
        effective_ridge,
        {
            "effective ridge": "the λ whose exact solution is nearest to a readout",
            "left at the effective ridge": "what is left of the readout's mean square there",
            "effective ridge by noise": "the same of predictions, for prompts of one noise level",
            "follows the noise": "the slope of log λ̂ against the log of the noise level",
        },
    ),
    Part(
        "probes",
        state_parts.probes,
        {
            "cosine": "mean cosine within a prompt of a probe with a vector of the candidate's state",
            "cosine, untrained": "the same for random weights",
            "cosine, other prompts": "the same for targets that were dealt to other prompts",
            "cosine, control task": "the same for the states of a system that is turned at random",
        },
    ),
    Part(
        "interchange",
        state_parts.interchange,
        {
            "effect": "correlation of predicted and actual effect of exchanging the state after a step",
            "slope of the effect": "the slope of the actual effect on the predicted one",
            "effect, random directions": "the same correlation for a change in random directions",
            "effect, other layers": "what a change at the layer of another step has of the effect of this one alone",
        },
    ),
    Part(
        "heads",
        state_parts.heads,
        {
            "effect of a head": "change of the prediction if a head is silenced at the supports, over the prediction",
            "head like a step": "correlation of that change with the candidate's, if a step goes without its product",
            "head like a step, other prompts": "the same with the candidate's change in other prompts",
            "effect of the aggregator": "change of the prediction if no head reads at the aggregator, over the prediction",
        },
    ),
    Part(
        "symmetries",
        symmetries,
        {
            "symmetry": "how far predictions move under a change that should not move them, over E f²",
            "broken symmetry": "the same under a change that should move them",
            "error out of range": "distance from the best predictor, over its mean square, as inputs grow",
        },
    ),
)
