"""Is a candidate's state at the supports, layer by layer: α_t, r_t and p_t, and what is new in them?

Every vector that the candidate keeps at the supports is looked for after every layer, by linear probes that are
fitted on one part of the prompts (see `directions`). The score is the mean cosine within each prompt, on prompts that
fitted nothing, with a 95 % bootstrap interval over prompts. A vector counts as found at a layer where the lower end of
the interval is above 0.9.

**What is new.** α_t and p_t point partly along y, which every stream holds, and near the solution they hardly change
from step to step: a high cosine with the whole vector says little. The new part of a vector of step t is what lies
outside the span of y and of all the candidate's vectors of earlier steps. For CG, whose r and p of step s span
y, Ky, …, K^s y, the new part of r_t and of p_t is the direction of r_t. α_t takes its step along p_{t−1}, so that it
is compared with the steps before that, and its new part is the direction of r_{t−1}. The known span is projected
out of streams and vectors, within each prompt, before a probe is fitted. α_1 is a multiple of y and has no new part.

**Controls**, all read by the same probes:

    embedding      layer 0, which holds the tokens alone
    untrained      a subject of the same shape with random weights
    dealt          every prompt has the vectors of another prompt; a cosine of 0 is chance, and a probe that saw the
                   prompts that score it is above it
    control task   the vectors after a random rotation of the prompt's space that leaves y (or the known span)
                   where it is: the states of the same solver for the same y and a system Q A Qᵀ, which has the same
                   spectrum, the same coefficients and the same angles with y. They are as complex as the true
                   ones, and say nothing of this prompt's system. Selectivity is the cosine less that of the
                   control task: what is left of a score that y alone cannot give.

A decoder's token sees the tokens before it alone, so that the state of the whole prompt's system can be at its last
supports only; a low cosine there says nothing about what it computes for each prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.directions import (
    DEPENDENT,
    Directions,
    deal,
    orthonormal,
    outside,
    refuse_shared_prompts,
    turned,
    unit,
)
from ridgeformer.analysis.readouts import Split
from ridgeformer.models import Subject
from ridgeformer.solvers import ConjugateGradient
from ridgeformer.statistics import UNDEFINED, Estimate, estimate, estimates_of
from ridgeformer.tasks import GaussianLaw, Prompt
from ridgeformer.types import Refusal

CRITERION = 0.9
SOLVED = 1e-8
"""Where the residual is below this part of y, what a solver keeps besides α is round-off."""
STANDARD_ERRORS = 4.0
"""A mean cosine is at chance if it is within so many standard errors of 0."""

Part = Literal["whole", "new"]
Target = tuple[str, int]
"""The name of a vector and its step."""


@dataclass(frozen=True)
class StateProbe:
    """One vector at one step: mean cosines over held-out prompts. Entries are the layers; 0 is the embedding."""

    quantity: str
    step: int
    part: Part
    cosine: tuple[Estimate, ...]
    """Undefined where a layer is not finite, and where the step has no such vector."""
    untrained: tuple[Estimate, ...]
    """Undefined throughout where no subject of the same shape could be had."""
    dealt: tuple[Estimate, ...]
    control_task: tuple[Estimate, ...]
    selectivity: tuple[Estimate, ...]
    """The cosine less that of the control task, paired over prompts."""
    layer: int | None
    """Where the cosine is largest on other prompts than those that score."""

    def found_at(self, criterion: float = CRITERION) -> tuple[int, ...]:
        """The layers where the lower end of the interval is above the criterion."""
        return above(self.cosine, criterion)

    @property
    def defined(self) -> bool:
        return any(one.mean is not None for one in self.cosine)


@dataclass(frozen=True)
class StateProbes:
    """The probes of all vectors and steps, whole and new."""

    subject: str
    candidate: str
    kernel: str
    ridge: float
    fitted: int
    chose: int
    scored: int
    """How many prompts fitted the probes, chose the layers, and scored."""
    seed: int
    probes: tuple[StateProbe, ...]
    dealt: Estimate
    """The mean cosine of dealt targets over all vectors, steps and layers, which must be at chance."""

    def of(self, quantity: str, step: int, part: Part = "whole") -> StateProbe:
        wanted = (quantity, step, part)
        return next(p for p in self.probes if (p.quantity, p.step, p.part) == wanted)

    @property
    def leaks(self) -> bool:
        """Whether dealt targets are found, so that the prompts that score must have been seen."""
        if self.dealt.mean is None or self.dealt.low is None or self.dealt.high is None:
            return False
        return self.dealt.mean > STANDARD_ERRORS * (self.dealt.high - self.dealt.low) / (2 * 1.96)


def find_state_probes(
    subject: Subject,
    law: GaussianLaw,
    prompt: Prompt,
    *,
    candidate: Candidate | None = None,
    setting: Setting | None = None,
    steps: int = 8,
    untrained: Subject | None = None,
    seed: int,
) -> StateProbes:
    """Looks for the vectors of a candidate in the streams of a subject, on these prompts.

    The candidate is CG, and its setting the kernel and λ of the law, unless told otherwise. Half of the prompts fit,
    a quarter chooses a layer, and a quarter scores. `untrained` is the control with random weights; left out, it is
    made where the subject can make one.
    """
    if prompt.outputs != 1:
        raise Refusal(
            f"Probes look for the vectors of one output; these prompts have {prompt.outputs}: give one of them."
        )
    candidate = candidate or Candidate(ConjugateGradient())
    split = Split.of(len(prompt))
    refuse_shared_prompts(prompt, split)
    exact = prompt.to(torch.float64)
    if setting is None:
        setting = Setting.around(exact, law.kernel, law.ridge, candidate.solver.precondition)
    control = untrained or subject.untrained(prompt, seed)
    streams = [subject.read(prompt).supports.double()]
    if control is not None:
        streams.append(control.read(prompt).supports.double())

    states = State.of(candidate, exact, setting, steps)
    other = deal(len(prompt), seed)
    y = unit(exact.y)
    measured = [measure(streams, split, states.whole(), y, states.whole(), other, "whole", seed)]
    for targets, basis in states.new_parts():
        free = [outside(x, basis) for x in streams]
        measured.append(measure(free, split, targets, basis, states.whole(), other, "new", seed))
    found = {(p.part, p.quantity, p.step): p for m in measured for p in m.probes}
    probes = [
        found.get((part, *target)) or nothing(*target, part, len(streams[0]))
        for part in ("whole", "new")
        for target in states.targets
    ]
    chance = torch.cat([m.dealt for m in measured], dim=-1).nanmean(dim=(0, 2))
    return StateProbes(
        subject.name, candidate.name, repr(setting.kernel), setting.ridge,
        len(prompt.y[split.fit]), len(prompt.y[split.choose]), len(prompt.y[split.score]),
        seed, tuple(probes), estimate(chance, seed),
    )  # fmt: skip


@dataclass(frozen=True)
class State:
    """The vectors that a candidate keeps at the supports, of length 1, before the first step and after each."""

    y: Float[Tensor, "batch k 1"]
    vectors: Mapping[str, Float[Tensor, "steps1 batch k"]]
    solved: int
    """The first step after which some prompt's system is solved, or one more than there are steps."""

    @staticmethod
    def of(candidate: Candidate, prompt: Prompt, setting: Setting, steps: int) -> State:
        machine = candidate.machine(prompt, setting)
        states = candidate.states(machine, steps)
        vectors = {}
        for name in states[0]._fields:
            values = [getattr(s, name) for s in states]
            if all(isinstance(v, Tensor) and v.shape == prompt.y.shape for v in values):
                stack = torch.stack(values)[..., 0]
                if len(stack) > 1 and not torch.equal(stack[0], stack[-1]):  # not a preconditioner
                    vectors[name] = unit(stack.mT).mT
        left = [(prompt.y - machine.matvec(s.alpha)).norm(dim=1) for s in states]
        done = [bool((x <= SOLVED * left[0]).any()) for x in left[1:]]
        return State(prompt.y, vectors, done.index(True) + 1 if True in done else len(states))

    @property
    def steps(self) -> int:
        return len(next(iter(self.vectors.values()))) - 1

    @property
    def targets(self) -> list[Target]:
        return [(name, t) for name in self.vectors for t in range(1, self.steps + 1)]

    def exists(self, target: Target) -> bool:
        """Whether the vector is more than round-off: α always is, and others until the system is solved."""
        name, step = target
        return name == "alpha" or step < self.solved

    def whole(self) -> dict[Target, Float[Tensor, "batch k"]]:
        return {
            (name, t): self.vectors[name][t] for name, t in self.targets if self.exists((name, t))
        }

    def known(self, step: int) -> Float[Tensor, "batch k m"]:
        """A basis of y and of all vectors up to that step."""
        columns = [v[t] for t in range(step + 1) for v in self.vectors.values()]
        return orthonormal(torch.cat([self.y, torch.stack(columns, dim=-1)], dim=-1))

    def new_parts(self) -> list[tuple[dict[Target, Tensor], Tensor]]:
        """The new parts of vectors, of length 1, grouped by the basis of what was known before them."""
        found: list[tuple[dict[Target, Tensor], Tensor]] = []
        waiting: list[Target] = []
        whole = self.whole()
        for before in range(self.steps - 1, -2, -1):
            # What is made of the vectors of the step before alone is compared with the steps before that.
            asked = waiting + [target for target in whole if target[1] == before + 1]
            waiting = []
            if before < 0 or not asked:
                continue
            basis, group = self.known(before), {}
            for target in asked:
                left = outside(whole[target][..., None], basis)[..., 0]
                if bool((left.norm(dim=1) > DEPENDENT).all()):
                    group[target] = left / left.norm(dim=1, keepdim=True)
                elif target[1] == before + 1:
                    waiting.append(target)
            if group:
                found.append((group, basis))
        return found[::-1]


@dataclass(frozen=True)
class Measured:
    probes: list[StateProbe]
    dealt: Float[Tensor, "layers score targets"]


def measure(
    streams: list[Float[Tensor, "layers batch k d"]],
    split: Split,
    targets: Mapping[Target, Float[Tensor, "batch k"]],
    fixed: Float[Tensor, "batch k m"],
    whole: Mapping[Target, Float[Tensor, "batch k"]],
    other: Tensor,
    part: Part,
    seed: int,
) -> Measured:
    """Probes for some vectors in the streams of a subject and of its control.

    `fixed` is what the control task leaves where it is, and what new parts are free of; targets are dealt before
    the new part is taken.
    """
    goal = torch.stack(list(targets.values()), dim=-1)
    given = torch.stack([whole[target] for target in targets], dim=-1)[other]
    given = unit(given if part == "whole" else outside(given, fixed))
    mine, *control = (Directions(x, split) for x in streams)
    turn = turned(goal, fixed, seed)
    found_here, scoring = mine.fitted(goal), split.score
    score = {
        "cosine": found_here.cosines(goal, scoring),
        "dealt": mine.fitted(given).cosines(given, scoring),
        "control task": mine.fitted(turn).cosines(turn, scoring),
    }
    score["selectivity"] = score["cosine"] - score["control task"]
    score["untrained"] = (
        control[0].fitted(goal).cosines(goal, scoring)
        if control
        else torch.full_like(score["cosine"], torch.nan)
    )
    elsewhere = found_here.cosines(goal, split.choose).mean(1).nan_to_num(nan=-1.0)
    best: list[int] = elsewhere.argmax(0).tolist()
    found = {name: by_target(values, seed) for name, values in score.items()}
    probes = [
        StateProbe(
            quantity,
            step,
            part,
            cosine=found["cosine"][i],
            untrained=found["untrained"][i],
            dealt=found["dealt"][i],
            control_task=found["control task"][i],
            selectivity=found["selectivity"][i],
            layer=best[i],
        )
        for i, (quantity, step) in enumerate(targets)
    ]
    return Measured(probes, score["dealt"])


def by_target(
    values: Float[Tensor, "layers score targets"], seed: int
) -> list[tuple[Estimate, ...]]:
    """For each target, the mean of every layer over prompts."""
    layers, _, targets = values.shape
    flat = estimates_of(values.permute(1, 2, 0), lambda means: means.flatten(1), seed)
    return [flat[i * layers : (i + 1) * layers] for i in range(targets)]


def nothing(quantity: str, step: int, part: Part, layers: int) -> StateProbe:
    """A vector that the step does not have."""
    none = (UNDEFINED,) * layers
    return StateProbe(quantity, step, part, none, none, none, none, none, None)


def above(scores: tuple[Estimate, ...], criterion: float) -> tuple[int, ...]:
    return tuple(n for n, one in enumerate(scores) if one.low is not None and one.low > criterion)
