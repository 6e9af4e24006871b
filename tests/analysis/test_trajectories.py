"""Compiled models are found to run their solvers, with their numbers, and other subjects are not."""

from math import inf
from types import SimpleNamespace

import pytest
import torch

import ridgeformer as rf
from ridgeformer.analysis.candidates import Candidate, Setting, candidates
from ridgeformer.analysis.search import fit_all
from ridgeformer.analysis.trajectories import Evidence, Fit, choices
from ridgeformer.analysis.verdict import Account, Findings, Limits, accepts, judge, worse
from ridgeformer.experiments.identification.planted import (
    Ensemble,
    Neighbours,
    Noisy,
    Relayered,
    Rotated,
)
from ridgeformer.kernels import Linear
from ridgeformer.models import Reading, subject
from ridgeformer.solvers import make_solver
from ridgeformer.tasks.linear_regression import LinearRegression

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = LinearRegression(features=4, supports=14, queries=6, condition=20.0)
PROMPT = TASK.draw(48, seed=3)
TOP = 1.4 * float(torch.linalg.eigvalsh(PROMPT.phi.mT @ PROMPT.phi).max())
LIMITS = Limits(interior=0.05, unexplained=0.03, systematic=1e-3)
RIDGE = 1.3 * TASK.ridge


def compiled(name, precondition=None, steps=5):
    products = rf.Exact() if precondition else None
    return subject(
        rf.compile(
            make_solver(name, precondition), features=4, steps=steps, ridge=RIDGE,
            to=rf.LinearAttention(TOP, products),
        )
    )  # fmt: skip


def fits_of(one, only):
    evidence = Evidence.of(one.read(PROMPT), PROMPT)
    around = Setting.around(evidence.prompt, Linear(), TASK.ridge)
    return fit_all(evidence, candidates(evidence.prompt, around, only), around, 8), evidence


def verdict(one, only=("gd", "chebyshev", "cg")):
    fits, evidence = fits_of(one, only)
    return judge(Findings.of(fits, evidence), LIMITS)


def test_the_solver_is_found_with_its_ridge_and_its_number_of_steps():
    fits, evidence = fits_of(Rotated(compiled("cg")), ["cg"])
    plain, jacobi = fits
    assert [f.candidate.name for f in fits] == ["cg", "cg, jacobi"]
    assert plain.steps == 5
    assert plain.setting.ridge == pytest.approx(RIDGE, rel=1e-3)
    assert plain.misfit < 1e-8
    assert jacobi.misfit > 1e-2
    assert list(plain.layers) == sorted(plain.layers)
    assert judge(Findings.of(fits, evidence), LIMITS).names == ("cg",)


def test_a_step_size_is_found():
    fits, _ = fits_of(compiled("gd"), ["gd"])
    assert fits[0].freedom == 2, "λ and the step size"
    # A search ends when 1e-5 of the trajectory is left, to which other nearby numbers come as well.
    assert fits[0].setting.lo + fits[0].setting.hi == pytest.approx(2 * RIDGE + TOP, rel=0.05)


def test_a_doubling_method_is_found_in_the_images_of_features():
    fits, evidence = fits_of(Rotated(compiled("newton", steps=4)), ["newton"])
    assert fits[0].misfit < 1e-5
    assert "images under inverse" in fits[0].signals
    assert judge(Findings.of(fits, evidence), LIMITS).names == ("newton",)


@pytest.mark.parametrize(
    "disguise",
    [
        pytest.param(lambda x: Noisy(x, 0.01), marks=pytest.mark.slow),
        lambda x: Relayered(x, every=2),
        pytest.param(lambda x: Relayered(x, copies=2), marks=pytest.mark.slow),
    ],
    ids=["noise", "merged layers", "idle layers"],
)
def test_a_disguised_solver_is_found(disguise):
    found = verdict(disguise(compiled("cg")), ["gd", "cg"])
    assert found.kind == "solver"
    assert found.names[0] == "cg"


def test_a_mixture_is_named_where_both_trajectories_are_there():
    evidence = Evidence.of(Ensemble(compiled("chebyshev"), compiled("cg")).read(PROMPT), PROMPT)
    true = Setting(Linear(), RIDGE, RIDGE, RIDGE + TOP)
    fits = [
        choices(evidence, Candidate(make_solver(name)), true, 1, [5])[0].scored(evidence)
        for name in ("chebyshev", "cg")
    ]
    found = Findings.of(fits, evidence)
    verdict = judge(found, LIMITS)
    assert (verdict.kind, verdict.names) == ("mixture", ("chebyshev", "cg"))
    assert found.together < 1e-9
    alone = Findings.of(fits[:1], evidence)
    assert judge(alone, LIMITS).kind == "none", "one of them does not explain the prediction"


def test_a_nearest_candidate_is_the_same_in_fits_and_accounts():
    fits, evidence = fits_of(compiled("chebyshev"), ["gd", "cg"])
    found = Findings.of(fits, evidence)
    for fit, one in zip(fits, found.accounts, strict=True):
        assert one.misfit == pytest.approx(fit.misfit, rel=1e-9)


def test_a_number_more_to_fit_must_explain_twice_as_much():
    def account(error, freedom):
        return Account("", 4, freedom, 0.1, 0.1, 0.0, 1.0, (error,) * 8, (0.1,) * 8)

    simple = account(0.3, 1)
    assert not worse(simple, account(0.2, 2), seed=0)
    assert worse(simple, account(0.1, 2), seed=0)
    assert worse(simple, account(0.2, 1), seed=0)
    assert worse(account(0.3, 2), account(0.2, 1), seed=0)


def test_what_is_left_inside_is_compared_with_what_the_ends_tell():
    def interior(left, ends, layers=(1, 2)):
        errors, null = (torch.full((len(layers), 3), x).double() for x in (left, ends))
        return Fit.interior.fget(SimpleNamespace(layers=layers, errors=errors, null=null))

    assert interior(0.02, 0.08) == pytest.approx(0.25)
    assert interior(0.02, 0.0) == inf
    assert interior(0.0, 0.0) == interior(0.5, 0.5, layers=(1,)) == 0.0


def test_of_several_alike_the_one_with_the_least_product_comes_first():
    """Both are there; one has a readout that is a little worse, and an end that is much better."""

    def account(name, inside, away):
        # One prompt alone tells them apart, which may be chance.
        return Account(name, 6, 3, inside, away, 0.0, 1.0, (inside, 0.0, 0.0), (0.0, 0.0, away))

    found = Findings(
        (account("chebyshev", 3e-4, 1e-5), account("heavy-ball", 9e-4, 0.0)), True, inf, ()
    )
    assert judge(found, LIMITS).names == ("heavy-ball", "chebyshev")


def test_noise_is_not_systematic_and_another_end_is():
    """Readouts tell a little of any noise by chance, which does not count."""
    inner = Rotated(compiled("gd"))
    true = Setting(Linear(), RIDGE, RIDGE, RIDGE + TOP)
    noisy = Evidence.of(Noisy(inner, 0.01).read(PROMPT), PROMPT)
    right = choices(noisy, Candidate(make_solver("gd")), true, 1, [5])[0].scored(noisy)
    assert 0.005 < right.unexplained < 0.02
    assert right.systematic == 0
    short = choices(noisy, Candidate(make_solver("gd")), true, 1, [2])[0].scored(noisy)
    assert short.systematic > 0.5 * (short.unexplained - right.unexplained) > 0


def test_two_steps_of_a_method_with_two_numbers_are_no_evidence():
    def account(steps, freedom):
        return Account("gd", steps, freedom, 0.0, 0.0, 0.0, 1.0, (0.0,) * 3, (0.0,) * 3)

    assert accepts(account(3, 2), LIMITS)
    assert accepts(account(2, 1), LIMITS)
    assert not accepts(account(2, 2), LIMITS)


def test_an_average_of_two_solvers_is_neither():
    """Each trajectory is there, and the prediction is that of neither, which noise would not explain."""
    fits, evidence = fits_of(Ensemble(compiled("gd"), compiled("cg")), ["gd", "cg"])
    found = Findings.of(fits, evidence)
    assert judge(found, LIMITS).kind != "solver"
    lenient = Limits(LIMITS.interior, LIMITS.unexplained, systematic=1.0)
    assert judge(found, lenient).kind == "solver"


class Nowhere(rf.Subject):
    """Predicts as CG does, and holds nothing of how it got there."""

    name = "nowhere"

    def read(self, prompt):
        inner = compiled("cg").read(prompt)
        first = (x[:1].expand(4, -1, -1, -1) for x in (inner.queries, inner.supports))
        return Reading(inner.predictions, *first)


@pytest.mark.parametrize(
    "one",
    [pytest.param(Neighbours(), marks=pytest.mark.slow), Nowhere()],
    ids=["neighbours", "nowhere"],
)
def test_what_runs_no_solver_is_none_of_these(one):
    found = verdict(one, ["cg"])
    assert found.kind == "none"
    assert found.sentence.startswith("None of these: the nearest candidate")


def test_every_registered_solver_is_a_candidate_and_copies_are_not():
    around = Setting.around(PROMPT, Linear(), TASK.ridge)
    names = [c.name for c in candidates(PROMPT, around)]
    assert {"gd", "heavy-ball", "chebyshev", "cg", "cg, jacobi", "newton", "gd++"} <= set(names)
    assert "richardson" not in names, "it has the iterates of gd"
    assert "cg-predicted" not in names, "it has those of cg"


def test_what_is_free():
    around = Setting.around(PROMPT, Linear(), TASK.ridge)
    free = {c.name: c.free(PROMPT, around) for c in candidates(PROMPT, around)}
    assert free["gd"] == ["ridge", "hi"]
    assert free["chebyshev"] == ["ridge", "hi", "lo"]
    assert free["cg"] == ["ridge"]


def test_signals_are_those_of_the_solver():
    around = Setting.around(PROMPT, Linear(), TASK.ridge)
    found = Candidate(make_solver("cg")).signals(PROMPT, around, 3)
    expected = rf.solve(make_solver("cg"), PROMPT, steps=3, ridge=TASK.ridge, states=True)
    torch.testing.assert_close(found["predictions"][1], expected.predictions)
    torch.testing.assert_close(found["coefficients"][1], expected.states["alpha"])
