"""Solvers with one thing wrong are not taken for the right ones, and prompts that score choose nothing."""

import pytest
import torch
from wrong_solvers import ConstantLength, WrongWeight

import ridgeformer as rf
from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.readouts import Split
from ridgeformer.analysis.search import fit_all
from ridgeformer.analysis.trajectories import Evidence, choices
from ridgeformer.analysis.verdict import Findings, judge
from ridgeformer.experiments.identification.calibration import shipped
from ridgeformer.experiments.identification.planted import Rotated
from ridgeformer.kernels import Linear
from ridgeformer.models import subject
from ridgeformer.solvers import Chebyshev, ConjugateGradient
from ridgeformer.solvers.oracle import kernel_eigenvalues
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.linear_regression import LinearRegression
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = LinearRegression(features=6, supports=20, queries=6, condition=30.0)
PROMPT = TASK.draw(64, seed=5)
TOP = 1.3 * float(kernel_eigenvalues(PROMPT).max())
LARGE = LinearRegression(features=12, supports=36, queries=8, condition=100.0)


def verdict_on(solver, *candidates):
    """On more features than steps, so that little can be made good by blending what is there."""
    prompt = LARGE.draw(96, seed=5)
    to = rf.LinearAttention(1.3 * float(kernel_eigenvalues(prompt).max()))
    model = rf.compile(solver, features=12, steps=8, ridge=1.2 * LARGE.ridge, to=to)
    evidence = Evidence.of(Rotated(subject(model)).read(prompt), prompt)
    around = Setting.around(evidence.prompt, Linear(), LARGE.ridge)
    fits = fit_all(evidence, [Candidate(one) for one in candidates], around, 10)
    return judge(Findings.of(fits, evidence), shipped().limits)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [(WrongWeight(), Chebyshev()), (ConstantLength(), ConjugateGradient())],
    ids=["a wrong weight of Chebyshev", "CG with a constant length"],
)
def test_a_wrong_solver_is_not_the_right_one(wrong, right):
    assert verdict_on(wrong, right).kind != "solver"
    assert verdict_on(wrong, right, wrong).names == (wrong.name,)
    assert verdict_on(right, right, wrong).names == (right.name,)


def test_prompts_that_score_choose_no_layers():
    """A choice of layers and quantities that was made on prompts knows nothing of the prompts that score."""
    model = rf.compile(
        Chebyshev(), features=6, steps=5, ridge=TASK.ridge, to=rf.LinearAttention(TOP)
    )
    changed = PROMPT[Split.of(len(PROMPT)).score]
    other = Prompt(
        *(
            part.clone().index_copy_(0, rows(), value)
            for part, value in zip(
                (PROMPT.phi, PROMPT.y, PROMPT.phi_query),
                (changed.phi.flip(0), 9 * changed.y, changed.phi_query),
                strict=True,
            )
        )
    )
    candidate = Candidate(Chebyshev())
    setting = Setting(Linear(), TASK.ridge, TASK.ridge, TASK.ridge + TOP)
    found = []
    for prompt in (PROMPT, other):
        evidence = Evidence.of(subject(model).read(prompt), prompt)
        found.append(choices(evidence, candidate, setting, 1, [5])[0])
    assert found[0].layers == found[1].layers
    assert found[0].names == found[1].names
    assert found[0].cost == pytest.approx(found[1].cost, rel=1e-6, abs=1e-12)


def rows():
    return torch.arange(len(PROMPT))[Split.of(len(PROMPT)).score]


def test_an_alignment_on_prompts_that_score_is_refused():
    with pytest.raises(Refusal, match="two parts"):
        Split(slice(0, 32), slice(32, 64), slice(48, 64))
