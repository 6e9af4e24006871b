"""The verdict: the candidates that the evidence cannot tell apart, a mixture, or none of these.

A candidate is **accepted** if its steps are in the layers (`interior` is small), if its last step is the subject's
prediction (`unexplained` is small), and if what is left of the prediction is noise rather than something that
the last layer knows of (`systematic` is small). Of the accepted ones those stay that are not worse than the
best by more than chance, prompt by prompt; the one with the fewest numbers that were fitted is named first,
because a method with more numbers may contain it. If no candidate is accepted, but the trajectories of
several are there, and a combination of their ends is the prediction, the subject is a **mixture**. The limits
come from models whose answer is known; a subject that keeps within none of them runs **none of these**.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from ridgeformer.analysis.trajectories import Evidence, Fit
from ridgeformer.statistics import estimate

Kind = Literal["solver", "mixture", "none"]


@dataclass(frozen=True)
class Limits:
    """What still counts as the candidate itself."""

    interior: float
    unexplained: float
    systematic: float


@dataclass(frozen=True)
class Verdict:
    kind: Kind
    names: tuple[str, ...]
    """Those that cannot be told apart, or the parts of the mixture; the simplest first."""
    why: str

    @property
    def sentence(self) -> str:
        if self.kind == "none":
            return f"None of these: {self.why}."
        if self.kind == "mixture":
            return f"A mixture of {' and '.join(self.names)}: {self.why}."
        others = ""
        if self.names[1:]:
            others = f", which {' and '.join(self.names[1:])} cannot be told from"
        return f"It runs {self.names[0]}{others}: {self.why}."


def judge(fits: Sequence[Fit], evidence: Evidence, limits: Limits, seed: int = 0) -> Verdict:
    """The verdict on a subject from the fits of all candidates."""
    if not torch.isfinite(evidence.predictions).all():
        return Verdict("none", (), "its predictions are not finite")
    inside = [f for f in fits if f.interior <= limits.interior]
    accepted = [f for f in inside if accepts(f, limits)]
    if accepted:
        best = min(accepted, key=lambda f: f.misfit)
        alike = [f for f in accepted if not worse(f, best, seed)]
        alike.sort(key=lambda f: (f.freedom, f.misfit))
        first = alike[0]
        return Verdict(
            "solver",
            tuple(f.candidate.name for f in alike),
            f"{first.steps} steps of it are found in the layers, of which {first.interior:.2g} is left "
            f"unexplained, and its last step is the prediction up to {first.unexplained:.2g} of the variance",
        )
    several = [f for f in inside if len(f.layers) > 1]
    if len(several) > 1:
        left, parts = combined(several, evidence)
        if left <= limits.systematic:
            return Verdict(
                "mixture",
                tuple(f.candidate.name for f in parts),
                f"each of these trajectories is there, and a combination of their ends leaves {left:.2g} of "
                "the prediction's variance unexplained",
            )
    nearest = min(fits, key=lambda f: f.misfit)
    return Verdict(
        "none",
        (),
        f"the nearest candidate, {nearest.candidate.name}, leaves {nearest.interior:.2g} of what is between "
        f"the first and the last layer unexplained (at most {limits.interior:.2g} may be), and "
        f"{nearest.systematic:.2g} of the prediction ({limits.systematic:.2g})",
    )


def accepts(fit: Fit, limits: Limits) -> bool:
    """Whether the subject's prediction is the candidate's, but for noise."""
    return fit.unexplained <= limits.unexplained and fit.systematic <= limits.systematic


def worse(fit: Fit, best: Fit, seed: int) -> bool:
    """Whether a fit is worse than the best by more than chance, over the same prompts."""
    if fit is best:
        return False
    low = estimate(fit.by_prompt - best.by_prompt, seed).low
    return low is not None and low > 0


def combined(fits: Sequence[Fit], evidence: Evidence) -> tuple[float, list[Fit]]:
    """How much of the prediction a combination of the candidates' ends leaves, and those with a part in it.

    The weights are fitted on the prompts that fit, and the rest is measured on those that score.
    """
    ends = torch.stack(
        [
            f.candidate.signals(evidence.prompt, f.setting, f.steps)["predictions"][1][-1]
            for f in fits
        ],
        dim=-1,
    )
    fitted, scored = evidence.split.fit, evidence.split.score
    wanted = evidence.predictions
    weights = torch.linalg.lstsq(
        ends[fitted].flatten(0, -2), wanted[fitted].flatten()[:, None]
    ).solution[:, 0]
    rest = wanted[scored] - ends[scored] @ weights
    left = float(rest.square().mean() / wanted[scored].square().mean())
    share = weights.abs() / weights.abs().sum()
    return left, [f for f, part in zip(fits, share.tolist(), strict=True) if part > 0.1]
