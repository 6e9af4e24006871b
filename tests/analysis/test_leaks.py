"""Nothing that is fitted or chosen knows the prompts that score it; a planted leak is noticed, in every split."""

from dataclasses import replace

import pytest
import torch
from leaks import fitted_by, knows_the_scoring_prompts, leaking_split
from planted_learners import drawn, joined, observed
from subjects import SMALL, compiled, compiled_subject

from ridgeformer.analysis import (
    find_additivity,
    find_degrees,
    find_effective_ridge,
    find_ends,
    find_filters,
    find_interchanges,
    find_state_probes,
    probe_vectors,
)
from ridgeformer.analysis import probes as probes_module
from ridgeformer.analysis import state_probes as state_probes_module
from ridgeformer.analysis.candidates import Candidate, Setting, candidates
from ridgeformer.analysis.degree import best_polynomials
from ridgeformer.analysis.directions import Directions
from ridgeformer.analysis.in_context import (
    Ridge,
    View,
    choose,
    find_frozen_subspace,
    find_ridge_profile,
    judge,
)
from ridgeformer.analysis.layer_readouts import fit_readouts, halves
from ridgeformer.analysis.readouts import Readouts, Split
from ridgeformer.analysis.search import fit_all
from ridgeformer.analysis.trajectories import Evidence
from ridgeformer.kernels import Linear
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import generator_of
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

PROMPT = SMALL.draw(48, seed=3)
OTHER = SMALL.relabel(PROMPT, generator_of(4, 1))
"""The same features with other targets: where a search begins is a matter of the features of all prompts, as
docs/identification.md says, and of no target."""
LAW = SMALL.law()
AROUND = Setting(Linear(), LAW.ridge, LAW.ridge, LAW.ridge + 100.0)


def filters(prompt):
    found = find_filters(compiled_subject("gd"), LAW, prompt, knots=5, seed=0)
    return [list(found.knots), [[e.mean for e in curve] for curve in found.curves]]


def degrees(prompt):
    find_degrees(compiled_subject("gd"), LAW, prompt, degrees=(1, 2), seed=0)
    # What the polynomials say of the scoring prompts that stay the same.
    return best_polynomials(LAW, prompt, "none", (1, 2))[:, : len(prompt) // 4]


def effective_ridge(prompt):
    find_effective_ridge(compiled_subject("gd"), LAW, prompt, seed=0)


class Drawn:
    """The task, which draws these prompts."""

    def __init__(self, prompt):
        self.prompt = prompt

    def draw(self, prompts, seed):
        return self.prompt

    def __getattr__(self, name):
        return getattr(SMALL, name)


def additivity(prompt):
    find_additivity(compiled_subject("gd"), Drawn(prompt), prompts=len(prompt), seed=0)


def ends(prompt):
    one = compiled_subject("gd")
    predictions = one.read(prompt).predictions
    found = find_ends(predictions, prompt, AROUND, untrained=one, seed=0)
    return [(end.name, sorted(end.fitted.items())) for end in found]


def trajectories(prompt):
    evidence = Evidence.of(compiled_subject("gd").read(prompt), prompt)
    fits = fit_all(evidence, candidates(evidence.prompt, AROUND, ["gd"]), AROUND, 4)
    return [
        (fit.steps, fit.stride, fit.layers, fit.signals, fit.setting.ridge, fit.setting.lo, fit.setting.hi)
        for fit in fits
    ]  # fmt: skip


def dealt_within_parts(batch, seed):
    """The control deals targets to any prompts; here not between parts, so that it shows no leak either."""
    quarter = batch // 4
    parts = torch.arange(batch).split([2 * quarter, quarter, batch - 3 * quarter])
    return torch.cat([part.roll(1) for part in parts])


@pytest.fixture(autouse=True)
def control_within_parts(monkeypatch):
    for module in (probes_module, state_probes_module):
        monkeypatch.setattr(module, "deal", dealt_within_parts)


def state_probes(prompt):
    found = find_state_probes(compiled_subject("cg"), LAW, prompt, steps=3, seed=0)
    return [(p.quantity, p.step, p.part, p.layer) for p in found.probes]


def probes(prompt):
    return [p.found.site for p in probe_vectors(compiled("cg"), prompt, seed=0)]


def interchange(prompt):
    other = SMALL.relabel(prompt, generator_of(3, 1))
    candidate = Candidate(make_solver("gd"))
    found = find_interchanges(compiled_subject("gd"), prompt, other, candidate, AROUND, 3, seed=0)
    return [(one.step, one.layer, one.read_error) for one in found.steps]


ANALYSES = [
    filters, degrees, effective_ridge, additivity, ends, trajectories, state_probes, probes, interchange,
]  # fmt: skip


@pytest.mark.parametrize("run", ANALYSES, ids=lambda run: run.__name__)
def test_what_is_fitted_and_chosen_does_not_know_the_prompts_that_score(monkeypatch, run):
    assert not knows_the_scoring_prompts(monkeypatch, run, PROMPT, OTHER)
    monkeypatch.setattr(Split, "of", leaking_split)
    try:
        noticed = knows_the_scoring_prompts(monkeypatch, run, PROMPT, OTHER)
    except Refusal as refusal:  # probes refuse to be judged by the prompts that fitted them
        noticed = "fit" in str(refusal)
    assert noticed, "a planted leak"


def noise(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


BATCH, TOKENS, WIDTH = 64, 2, 120
"""As many columns as rows: everything can be fitted, and only other prompts tell."""


def explained(said, goal):
    return 1 - float((said - goal).square().sum() / goal.square().sum())


def by_readouts(streams, goal):
    split = Split.of(BATCH)
    readouts = Readouts(streams, split.fit)
    said = (readouts.columns @ readouts.weights(goal[None])[:, None])[0]
    return explained(said[split.score], goal[split.score])


def by_directions(streams, goal):
    split = Split.of(BATCH)
    found = Directions(streams, split).fitted(goal).cosines(goal, split.score)
    return float(found.mean())


def by_layer_readouts(streams, goal):
    split = Split.of(BATCH, chooses=False)
    readouts = fit_readouts(streams[:, split.fit], goal[split.fit])
    return explained(readouts(streams[:, split.score])[0], goal[split.score])


@pytest.mark.parametrize("fit", [by_readouts, by_layer_readouts])
def test_noise_is_explained_by_a_leak_alone(monkeypatch, fit):
    streams, goal = noise(0, 1, BATCH, TOKENS, WIDTH), noise(1, BATCH, TOKENS, 1)
    assert fit(streams, goal) < 0.2
    monkeypatch.setattr(Split, "of", leaking_split)
    assert fit(streams, goal) > 0.7


def test_directions_find_no_noise_and_refuse_a_leak(monkeypatch):
    streams, goal = noise(0, 1, BATCH, TOKENS, WIDTH), noise(1, BATCH, TOKENS, 1)
    assert abs(by_directions(streams, goal)) < 4 * (TOKENS * BATCH / 4) ** -0.5
    monkeypatch.setattr(Split, "of", leaking_split)
    with pytest.raises(Refusal, match="judged by the prompts that fitted it"):
        by_directions(streams, goal)


def test_halves_share_no_prompt():
    fitted, scored = halves(PROMPT)
    rows = [{tuple(row) for row in part.y.flatten(1).tolist()} for part in (fitted, scored)]
    assert not rows[0] & rows[1]
    assert len(rows[0]) + len(rows[1]) == len(PROMPT)


def test_the_ridge_of_the_first_half_does_not_know_the_second():
    view = View(Linear())
    one, other = (observed(Ridge(ridge, Linear()), view=view) for ridge in (0.3, 3.0))
    half = len(one) // 2
    mixed = replace(one, influence=torch.cat([one.influence[:half], other.influence[half:]]))
    found = [find_ridge_profile(given, view, seed=0) for given in (one, mixed)]
    assert found[0].first_half == found[1].first_half
    assert found[0].best.value != pytest.approx(found[1].best.value, rel=0.1), (
        "chosen by all prompts"
    )


VIEWS = [View(Linear(), layer) for layer in range(16)]


def noisy(seed):
    """Influence that is noise, and 16 random layers: only those who know the prompts find anything."""
    one = observed(Ridge(0.5, Linear()), seed=seed, layers=len(VIEWS), batch=12)
    return replace(one, influence=drawn(12, 10, 5, seed=50 + seed))


def best_agreement(choice, observations):
    return max(value.mean for value in judge(choice, observations).agreement.values())


def test_a_choice_does_not_know_the_prompts_that_are_judged():
    """`choose` divides by seeds: whoever hands it the prompts of both finds more, and is refused."""
    first, second, third = (noisy(seed) for seed in (1, 2, 3))
    choice = choose(first, VIEWS)
    assert best_agreement(choice, second) != best_agreement(choice, third)
    assert best_agreement(choice, second) < 0.1
    leaks = {seen.seed: choose(joined(first, seen), VIEWS) for seen in (second, third)}
    assert leaks[2].to_dict() != leaks[3].to_dict(), "the leak is in what was chosen"
    for seen in (second, third):
        with pytest.raises(Refusal, match="made on 12 prompts of these 12"):
            judge(leaks[seen.seed], seen)
    own = choose(second, VIEWS)
    with pytest.raises(Refusal, match="of the same seed"):
        judge(own, second)
    unchecked = replace(own, seed=-1, fingerprints=frozenset())
    assert best_agreement(unchecked, second) > best_agreement(choice, second) + 0.05


def test_a_frozen_subspace_does_not_know_the_prompts_and_inputs_that_score(monkeypatch):
    states, others = noise(2, 12, 16, 6), noise(3, 12, 16, 6)
    mixed = others.clone()
    mixed[:6, :8] = states[:6, :8]
    bases = [find_frozen_subspace(given, 2, seed=0).basis for given in (states, mixed)]
    torch.testing.assert_close(*bases)
    assert float(find_frozen_subspace(others, 2, seed=0).basis.sub(bases[0]).abs().max()) > 0.1


def test_the_record_of_fits_is_not_empty(monkeypatch):
    """What compares nothing would notice nothing."""
    for run in (filters, effective_ridge, additivity, ends, trajectories, state_probes, probes):
        _, seen = fitted_by(monkeypatch, run, PROMPT)
        assert seen, run.__name__
