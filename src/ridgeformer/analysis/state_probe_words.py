"""What probes for a candidate's state found, in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeformer.analysis.state_probes import CRITERION, Part, StateProbe, StateProbes, above

LETTERS = {"alpha": "α"}


def sentence(found: StateProbes, criterion: float = CRITERION) -> str:
    """What is found with a cosine above the criterion at some layer and what is not, and what controls reach."""
    return (
        f"At the supports of {found.subject}, the vectors of {found.candidate} with a mean cosine above "
        f"{criterion:g} are {said_of(found, 'whole', criterion)}. Of what is new in a step, "
        f"{said_of(found, 'new', criterion)}. {chance(found)}"
    )


def said_of(found: StateProbes, part: Part, criterion: float) -> str:
    probes = [p for p in found.probes if p.part == part and p.defined]
    there = [p for p in probes if p.found_at(criterion)]
    missing = [p for p in probes if not p.found_at(criterion)]
    easy = [p for p in there if above(p.untrained, criterion) or 0 in p.found_at(criterion)]
    if not there:
        return f"none of {named(missing)}" + (" are" if part == "new" else "")
    said = named(there)
    said += f" ({named(easy)} in the embedding or untrained weights too)" if easy else ""
    said += " are" if part == "new" else ""
    return said + (f", and not {named(missing)}" if missing else "")


def where(found: StateProbes, criterion: float = CRITERION) -> list[str]:
    """For each vector and its new part the layers at which it is found, or how near the nearest layer comes."""
    return [f"{name(p)}, {p.part}: {layers_of(p, criterion)}" for p in found.probes]


def layers_of(probe: StateProbe, criterion: float) -> str:
    layers = probe.found_at(criterion)
    if layers:
        return f"{'layer' if len(layers) == 1 else 'layers'} {ranges(layers)}"
    if probe.layer is None:
        return "there is none"
    most = probe.cosine[probe.layer]
    return f"no layer; at most {most.mean:.2f} [{most.low:.2f}, {most.high:.2f}], at layer {probe.layer}"


def chance(found: StateProbes) -> str:
    one = found.dealt
    if one.mean is None:
        return "No control with dealt targets could be had."
    said = f"Targets of other prompts have a mean cosine of {one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]"
    if found.leaks:
        return (
            f"{said}, which is above chance: the probes must have seen the prompts that score them."
        )
    return f"{said}, which is chance."


def letter(probe: StateProbe) -> str:
    return LETTERS.get(probe.quantity, probe.quantity)


def name(probe: StateProbe) -> str:
    return f"{letter(probe)}_{probe.step}"


def named(probes: Sequence[StateProbe]) -> str:
    """The vectors with their steps, such as "α_1–3, 5, r_2"."""
    letters = dict.fromkeys(map(letter, probes))
    steps = {one: [p.step for p in probes if letter(p) == one] for one in letters}
    return ", ".join(f"{one}_{ranges(numbers)}" for one, numbers in steps.items())


def ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1–3, 7"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
