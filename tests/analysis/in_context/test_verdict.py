"""Planted learners get their verdicts, a choice is refused on its own prompts, and errors in the instrument are noticed."""

import json
from dataclasses import replace
from math import inf

import pytest
import torch
from planted_learners import LINEAR, copied, drawn, observed

from ridgeformer.analysis.in_context import (
    BestRidge,
    Copies,
    FixedMetric,
    LastTarget,
    Ridge,
    Smoothing,
    View,
    choose,
    judge,
    neighbours,
    standard_views,
)
from ridgeformer.analysis.in_context import choice as choice_module
from ridgeformer.analysis.in_context import influence as influence_module
from ridgeformer.analysis.in_context import ridge_profile as profile_module
from ridgeformer.analysis.in_context import verdict as verdict_module
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.types import Refusal

METRIC = FixedMetric(1.0, Linear(), drawn(200, 6, seed=99) * torch.logspace(0.3, -0.6, 6).double(), 10)  # fmt: skip
LEARNERS = {
    "ridge": (Ridge(0.5, Linear()), "kernel ridge regression"),
    "ridge, large λ": (Ridge(30.0, Linear()), "kernel ridge regression"),
    "similarity": (Ridge(inf, Linear()), "similarity"),
    "smoothing": (Smoothing(2.0, Linear()), "similarity"),
    "metric": (METRIC, "similarity"),
    "nearest": (neighbours(1), "neighbours"),
    "three nearest": (neighbours(3), "neighbours"),
    "last": (LastTarget(), "recency"),
}


def verdict_on(predictor, *, noise=0.0, copies=True, view=LINEAR, prompts=16):
    first, second = (
        observed(predictor, view=view, seed=s, noise=noise, batch=prompts) for s in (1, 2)
    )
    repeated = copied(predictor, second, view=view, noise=noise, seed=2) if copies else None
    return judge(choose(first, [view]), second, repeated)


# With noise, a λ of several times the kernel's diagonal differs too little from similarity to be told.
CASES = [(name, noise) for name in LEARNERS for noise in (0.0, 1.0) if (name, noise) != ("ridge, large λ", 1.0)]  # fmt: skip


@pytest.mark.parametrize(("name", "noise"), CASES)
def test_planted_learners_get_their_verdicts(name, noise):
    predictor, kind = LEARNERS[name]
    verdict = verdict_on(predictor, noise=noise, prompts=24)
    assert verdict.kind == kind, verdict.sentence
    assert verdict.sentence.endswith(".")


def test_the_ridge_is_recovered_with_an_interval():
    verdict = verdict_on(Ridge(0.5, Linear()), noise=1.0, prompts=24)
    best = verdict.profile.best.times(verdict.unit)
    assert best.low < 0.5 < best.high
    assert best.high / best.low < 4
    assert verdict.agreement["control: supports in a wrong order"].high < 0.2


def test_a_verdict_is_written_as_plain_values():
    for predictor in (Ridge(0.5, Linear()), Ridge(inf, Linear()), LastTarget()):
        written = verdict_on(predictor, prompts=6).to_dict()
        again = json.loads(json.dumps(written, allow_nan=False))
        assert again["verdict"] in (
            "kernel ridge regression",
            "similarity",
            "recency",
            "cannot be told",
        )
        assert set(again["claims"]) == {
            "kernel ridge regression",
            "similarity",
            "neighbours",
            "recency",
        }
        assert len(again["profile"]) == 102


def test_another_kernel_is_judged_alike():
    view = View(Gaussian(2.0))
    assert verdict_on(Ridge(0.1, Gaussian(2.0)), view=view).kind == "kernel ridge regression"
    assert verdict_on(Smoothing(1.0, Gaussian(2.0)), view=view).kind == "similarity"


def test_what_has_nothing_to_do_with_features_cannot_be_told():
    first, second = (observed(Ridge(0.5, Linear()), seed=s) for s in (1, 2))
    second = replace(second, influence=drawn(*second.influence.shape, seed=8))
    verdict = judge(choose(first, [LINEAR]), second)
    assert verdict.kind == "cannot be told"
    assert "no comparison of features" in verdict.why


def test_a_tie_cannot_be_told():
    """Half ridge regression, half neighbours: both agree, and none better than the other by more than chance."""
    found = []
    for seed in (1, 2):
        ridge, near = (observed(p, seed=seed) for p in (Ridge(0.5, Linear()), neighbours(2)))
        sizes = [influence_module.interactions(o.influence).std() for o in (ridge, near)]
        both = ridge.influence / sizes[0] + near.influence / sizes[1]
        found.append(replace(ridge, influence=both))
    verdict = judge(choose(found[0], [LINEAR]), found[1])
    assert verdict.kind == "cannot be told"
    assert "none better than all its rivals" in verdict.why


def test_a_ridge_that_may_be_infinite_is_not_named():
    first, second = (observed(Ridge(0.5, Linear()), seed=s) for s in (1, 2))
    choice = choose(first, [LINEAR])
    verdict = judge(choice, second)
    assert verdict.claims["kernel ridge regression"].holds
    wide = replace(verdict.profile, best=BestRidge(0.1, 0.05, inf))
    kind, why = verdict_module.ruled(choice, verdict.claims, {}, wide)
    assert kind == "cannot be told"
    assert "may be infinite" in why
    assert verdict_module.ruled(choice, verdict.claims, {}, verdict.profile)[0] == verdict.kind


def test_copies_have_a_veto():
    """Influence like ridge regression, but copies that count in full: the tests disagree."""
    first, second = (observed(Ridge(0.5, Linear()), seed=s) for s in (1, 2))
    choice = choose(first, [LINEAR])
    assert judge(choice, second).kind == "kernel ridge regression"
    exact = copied(Ridge(0.5, Linear()), second)
    assert judge(choice, second, exact).kind == "kernel ridge regression"
    undiminished = Copies(exact.slots, exact.once, exact.once)
    verdict = judge(choice, second, undiminished)
    assert verdict.kind == "cannot be told"
    assert "influence says kernel ridge regression, but" in verdict.why


def test_a_head_that_agrees_better_is_not_overlooked():
    """Noisy ridge regression, and a head that attends with exactly these weights."""
    first, second = (observed(Ridge(0.5, Linear()), seed=s, noise=0.7) for s in (1, 2))
    heads = [
        torch.stack([drawn(16, 10, 5, seed=5).exp(), 9 + o.influence]) for o in (first, second)
    ]
    first, second = (replace(o, attention=h) for o, h in zip((first, second), heads, strict=True))
    choice = choose(first, [LINEAR])
    assert choice.head == 1
    verdict = judge(choice, second)
    assert verdict.kind == "cannot be told"
    assert "attention of one head" in verdict.why
    assert verdict.agreement["attention of one head"].mean > 0.99


def test_a_choice_is_refused_on_the_prompts_that_made_it():
    found = observed(Ridge(0.5, Linear()), seed=1)
    choice = choose(found, [LINEAR])
    with pytest.raises(Refusal, match="same seed"):
        judge(choice, found)
    with pytest.raises(Refusal, match="made on 16 prompts of these 16"):
        judge(choice, replace(found, seed=2))
    other = observed(Ridge(0.5, Linear()), seed=3)
    some = replace(other, **{
        name: torch.cat([getattr(other, name)[:12], getattr(found, name)[:4].flip(0)])
        for name in ("targets", "outputs", "influence")
    } | {
        name: torch.cat([getattr(other, name)[:, :12], getattr(found, name)[:, :4].flip(1)], 1)
        for name in ("supports", "queries")
    })  # fmt: skip
    with pytest.raises(Refusal, match="made on 4 prompts of these 16"):
        choice.predictors(some)
    judge(choice, other)


def test_choosing_on_the_prompts_that_are_scored_would_find_something_everywhere():
    """Influence that is noise, and 60 random layers: the chosen view agrees where it was chosen, and nowhere else."""
    found = []
    for seed in (1, 2):
        one = observed(Ridge(0.5, Linear()), seed=seed, layers=60, batch=12)
        found.append(replace(one, influence=drawn(12, 10, 5, seed=50 + seed)))
    choice = choose(found[0], [View(Linear(), layer) for layer in range(60)])
    assert choice.views_tried == 60
    cheated = judge(replace(choice, seed=-1, fingerprints=frozenset()), found[0])
    honest = judge(choice, found[1])
    best = max(cheated.agreement, key=lambda name: cheated.agreement[name].mean)
    assert cheated.agreement[best].low > 0.02
    assert honest.agreement[best].low < 0.02
    assert honest.kind == "cannot be told"


def test_the_layer_and_the_normalisation_that_were_planted_are_chosen():
    view = View(Linear(), layer=3, centre="prompt", unit=True)
    first, second = (observed(Ridge(0.1, Linear()), view=view, seed=s, layers=5) for s in (1, 2))
    choice = choose(first, standard_views(first))
    assert choice.view == view or (choice.view.layer, choice.view.unit, choice.view.centre) == (3, True, "prompt")  # fmt: skip
    assert judge(choice, second).kind == "kernel ridge regression"
    written = choice.to_dict()
    assert (written["layer"], written["centre"], written["unit length"]) == (3, "prompt", True)


def transposed(monkeypatch):
    """The instrument takes queries for supports, in prompts that have as many of both."""
    right = influence_module.influence_agreement
    wrong = lambda found, predicted: right(found.mT.contiguous(), predicted)  # noqa: E731
    for module in (choice_module, verdict_module, profile_module):
        monkeypatch.setattr(module, "influence_agreement", wrong)


def doubled(monkeypatch):
    """λ is added twice to K."""
    right = profile_module.ridge_influence
    wrong = lambda prompt, kernel, ridges: right(prompt, kernel, [2 * r for r in ridges])  # noqa: E731
    for module in (choice_module, profile_module):
        monkeypatch.setattr(module, "ridge_influence", wrong)


def not_centred(monkeypatch):
    """Means over supports and queries stay, and those of a planted bias with them."""
    for module in (influence_module, profile_module):
        monkeypatch.setattr(module, "interactions", lambda influence: influence.double())


def right_about_ridge():
    """Whether a biased ridge learner is named, with its λ up to a fifth."""
    found = []
    for seed in (1, 2):
        one = observed(Ridge(0.5, Linear()), seed=seed, k=8, q=8)
        bias = 3 * drawn(16, 8, 1, seed=60 + seed) + 3 * drawn(16, 1, 8, seed=70 + seed)
        found.append(replace(one, influence=one.influence + bias))
    verdict = judge(choose(found[0], [LINEAR]), found[1])
    ridge = verdict.profile.best.value * verdict.unit
    return verdict.kind == "kernel ridge regression" and abs(ridge / 0.5 - 1) < 0.2


@pytest.mark.parametrize("error", [transposed, doubled, not_centred], ids=lambda e: e.__name__)
def test_errors_in_the_instrument_are_noticed(error, monkeypatch):
    assert right_about_ridge()
    error(monkeypatch)
    assert not right_about_ridge()


def test_what_cannot_be_chosen_or_judged_is_refused():
    found = observed(Ridge(0.5, Linear()), seed=1)
    with pytest.raises(Refusal, match="no layer 3"):
        View(Linear(), layer=3).prompt(found)
    with pytest.raises(Refusal, match="no view"):
        choose(found, [])
    with pytest.raises(Refusal, match="at least 4"):
        judge(choose(found, [LINEAR]), observed(Ridge(0.5, Linear()), seed=2, batch=3))
    constant = replace(found, supports=torch.ones_like(found.supports), queries=torch.ones_like(found.queries))  # fmt: skip
    with pytest.raises(Refusal, match="0 in every view"):
        choose(constant, [View(Linear(), centre="prompt", unit=True)])
