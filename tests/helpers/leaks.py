"""Whether what was fitted or chosen knows the prompts that score it."""

import torch

from ridgeformer.analysis.readouts import Regression, Split
from ridgeformer.tasks import Prompt


def with_other_scores(prompt, other):
    """The prompts, whose last quarter is that of others: no analysis fits or chooses by these."""
    kept = len(prompt) - len(prompt) // 4
    return Prompt(
        *(
            torch.cat([getattr(prompt, name)[:kept], getattr(other, name)[kept:]])
            for name in ("phi", "y", "phi_query")
        )
    )


def fitted_by(monkeypatch, run, prompt):
    """What the run returns, and the rows and targets of all regressions that it fitted."""
    seen = []
    with monkeypatch.context() as patch:
        start, weigh = Regression.__init__, Regression.weights

        def record_rows(self, rows, *options):
            seen.append(rows.double())
            start(self, rows, *options)

        def record_targets(self, targets):
            seen.append(targets.double())
            return weigh(self, targets)

        patch.setattr(Regression, "__init__", record_rows)
        patch.setattr(Regression, "weights", record_targets)
        found = run(prompt)
    return found, seen


def knows_the_scoring_prompts(monkeypatch, run, prompt, other):
    """Whether anything that is fitted or chosen changes with the prompts that only score."""
    found = [
        fitted_by(monkeypatch, run, given) for given in (prompt, with_other_scores(prompt, other))
    ]
    return not all(
        len(a) == len(b) and all(map(same, a, b))
        for a, b in zip(*(([chosen], seen) for chosen, seen in found), strict=True)
    )


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and torch.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    return a == b


def leaking_split(prompts, *, chooses=True):
    """A split whose scoring prompts fit and choose, too; the class itself would refuse it."""
    right = honest_split(prompts, chooses=chooses)
    split = object.__new__(Split)
    for name, part in (
        ("fit", slice(0, prompts)),
        ("choose", slice(0, prompts)),
        ("score", right.score),
    ):
        object.__setattr__(split, name, part)
    return split


honest_split = Split.of
