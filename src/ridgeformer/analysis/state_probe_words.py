"""What probes for a candidate's state found, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ridgeformer.analysis.state_probes import CRITERION, Part, StateProbe, StateProbes, above

LETTERS = {"alpha": "α"}


def sentence(found: StateProbes, criterion: float = CRITERION) -> str:
    """Where the cosine is above the criterion and where it is not, and what the controls reach."""
    whole, new = (describe(found, part, criterion) for part in ("whole", "new"))
    return (
        f"At the supports of {found.subject}, the vectors of {found.candidate} with a mean cosine above "
        f"{criterion:g} are {whole}. Of what is new in each step, {new}. {chance(found)}"
    )


def describe(found: StateProbes, part: Part, criterion: float) -> str:
    probes = [p for p in found.probes if p.part == part and p.defined]
    there = [p for p in probes if p.found_at(criterion)]
    missing = [p for p in probes if not p.found_at(criterion)]
    places = listed(placed(p, criterion) for p in there)
    yes = places or "none" if part == "whole" else f"this holds for {places or 'nothing'}"
    no = f"; not so {listed(map(name, missing))}" if missing else ""
    easy = [p for p in there if above(p.untrained, criterion) or 0 in p.found_at(criterion)]
    cheap = (
        f" ({listed(map(name, easy))} in untrained weights or the embedding too)" if easy else ""
    )
    return yes + cheap + no


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


def name(probe: StateProbe) -> str:
    return f"{LETTERS.get(probe.quantity, probe.quantity)}_{probe.step}"


def placed(probe: StateProbe, criterion: float) -> str:
    layers = probe.found_at(criterion)
    return f"{name(probe)} ({'layer' if len(layers) == 1 else 'layers'} {ranges(layers)})"


def ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1–3, 7"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)
