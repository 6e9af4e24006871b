"""Parts of the evidence on the state of a candidate: where it is, whether it is a cause, and what else gives the answers."""

from __future__ import annotations

from typing import Any

from ridgeformer.analysis.candidates import Setting
from ridgeformer.analysis.ends import find_ends
from ridgeformer.analysis.interchange import find_interchanges
from ridgeformer.analysis.removal import effect_of_aggregator, remove_heads
from ridgeformer.analysis.state_probe_words import sentence
from ridgeformer.analysis.state_probes import find_state_probes
from ridgeformer.analysis.trajectories import Fit
from ridgeformer.analysis.verdict import FEW
from ridgeformer.experiments.finding import Collector
from ridgeformer.experiments.identification.inquiry import MODEL, Inquiry
from ridgeformer.models import TransformerSubject
from ridgeformer.tasks import generator_of
from ridgeformer.types import Refusal

PROBED_STEPS = 8
HEADS_PROMPTS = 64
MOST_HEADS = 64
"""Every head takes a forward pass; where there are more, this is left to `analysis.remove_heads`."""


def ends(q: Inquiry, out: Collector) -> dict[str, Any]:
    prompt = q.evidence.prompt
    around = Setting.around(prompt, q.guess.kernel, q.guess.ridge)
    control = q.subject.untrained(prompt, q.seed)
    found = find_ends(q.evidence.predictions, prompt, around, untrained=control, seed=q.seed)
    for end in found:
        out.add("left by a predictor", end.name, end.left, end.name != found[0].name)
    return {"fitted": {end.name: end.fitted for end in found}}


def probes(q: Inquiry, out: Collector) -> dict[str, Any]:
    found = find_state_probes(q.subject, q.law, q.prompt, steps=PROBED_STEPS, seed=q.seed)
    for probe in found.probes:
        rows = {
            "cosine": probe.cosine,
            "cosine, untrained": probe.untrained,
            "cosine, other prompts": probe.dealt,
            "cosine, control task": probe.control_task,
        }
        for measure, values in rows.items():
            for layer, value in enumerate(values):
                out.add(
                    measure, probe.quantity, value, measure != "cosine",
                    layer=layer, step=probe.step, part=probe.part,
                )  # fmt: skip
    return {"candidate": found.candidate, "sentence": sentence(found), "leaks": found.leaks}


def nearest_with_steps(q: Inquiry) -> Fit:
    """The nearest candidate that takes several steps, which is what an intervention needs."""
    found = next((f for f in q.fits if f.steps > FEW and not f.candidate.solver.smooths), None)
    if found is None:
        raise Refusal("No candidate takes several steps to come near this model.")
    return found


def interchange(q: Inquiry, out: Collector) -> dict[str, Any]:
    fit, prompt = nearest_with_steps(q), q.evidence.prompt
    other = q.task.relabel(prompt, generator_of(q.seed + 1))
    found = find_interchanges(
        q.subject, prompt, other, fit.candidate, fit.setting, fit.steps, seed=q.seed
    )
    if not found.steps:
        raise Refusal(
            f"{fit.candidate.name} keeps nothing at the supports that depends on y and that later steps use."
        )
    name = fit.candidate.name
    for one in found.steps:
        where: dict[str, float | str] = {"step": one.step, "layer": one.layer}
        out.add("effect", name, one.correlation, **where)
        out.add("slope of the effect", name, one.slope, **where)
        out.add("effect, random directions", name, one.random_direction, True, **where)
        out.add("effect, other layers", name, one.elsewhere, True, **where)
    quantities = sorted({quantity for one in found.steps for quantity in one.quantities})
    return {"candidate": name, "quantities": quantities, "without": list(found.left_out)}


def heads(q: Inquiry, out: Collector) -> dict[str, Any]:
    inner, fit = q.subject.inner, nearest_with_steps(q)
    if not isinstance(inner, TransformerSubject):
        raise Refusal("Heads are removed one by one in transformers of this package alone.")
    count = len(inner.sites) * inner.transformer.config.n_heads
    if count > MOST_HEADS:
        raise Refusal(f"It has {count} heads, of which each takes a forward pass; at most {MOST_HEADS} are tried here.")  # fmt: skip
    prompt = q.evidence.prompt[:HEADS_PROMPTS]
    found = remove_heads(
        inner, prompt, fit.candidate, fit.setting, fit.steps, where="supports", seed=q.seed
    )
    for one in found.heads:
        where: dict[str, float | str] = {"layer": one.layer, "head": one.head}
        out.exact("effect of a head", MODEL, one.size, **where)
        if (best := one.best) is not None:
            name = fit.candidate.name
            out.add("head like a step", name, best.correlation, step=best.step, **where)
            out.add("head like a step, other prompts", name, best.dealt, True, step=best.step, **where)  # fmt: skip
    aggregator = effect_of_aggregator(inner, prompt)
    if aggregator is not None:
        out.exact("effect of the aggregator", MODEL, aggregator)
    return {"candidate": fit.candidate.name, "aggregator": aggregator}
