"""Lower bounds on the width: narrower models fail, and what a support holds is needed."""

import pytest
import torch

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.experiments.theorems import THEOREMS, Verdict, least_width
from ridgeformer.experiments.theorems.least_width import drawn, indistinct
from ridgeformer.solvers import Chebyshev, ConjugateGradient, GradientDescent, HeavyBall, krr
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]


@pytest.mark.parametrize(("p", "r"), [(1, 1), (3, 1), (2, 3)])
def test_a_narrow_embedding_confuses_two_prompts(p, r):
    weights = torch.randn(
        p + r, p + r - 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    change = theory.unseen_direction(weights)
    assert float((change @ weights).abs().max()) < 1e-12
    assert float(change.norm()) == pytest.approx(1)
    prompt = drawn(p, r, 3, seed=1)
    other = indistinct(weights, prompt)
    assert float(theory.indistinct_error(prompt, other, ridge=1.0).max()) > 1e-3
    with pytest.raises(Refusal, match="need not lose any"):
        theory.unseen_direction(torch.ones(p + r, p + r))


@pytest.mark.parametrize("p", [1, 2, 5])
@pytest.mark.parametrize("r", [1, 2])
@pytest.mark.parametrize("supports", [1, 4])
def test_what_a_support_holds_is_needed(p, r, supports):
    prompt = drawn(p, r, supports, seed=3)
    options = {"ridge": 1.0, "interval": (1.0, 15.0), "seed": 2}
    for solver, remembers in ((GradientDescent(), False), (Chebyshev(), True), (HeavyBall(), True)):
        least = theory.semi_iteration_least_width(p, r, remembers=remembers)
        assert theory.future_rank(solver, prompt, **options) == least
    with pytest.raises(Refusal, match="not fixed"):
        theory.future_rank(ConjugateGradient(), prompt, **options)


def test_a_support_without_features_holds_less():
    """Where the assumption fails the rank does: features 0 and no iterate to see."""
    prompt = drawn(3, 1, 1, seed=3)
    nothing = Prompt(0 * prompt.phi, prompt.y, prompt.phi_query)
    options = {"ridge": 1.0, "interval": (1.0, 15.0), "seed": 2}
    assert theory.future_rank(GradientDescent(), nothing, **options) < 5


@pytest.mark.parametrize("lost", [0, 3])
def test_a_model_without_room_fails(lost):
    """A compiled model whose embedding loses a feature, or the target, is off as the theorem says."""
    solver = Chebyshev()
    model = compile(solver, features=3, steps=40, ridge=1.0, to=LinearAttention(20.0))
    prompt = drawn(3, 1, 4, seed=0)
    assert float((model.predict(prompt) - krr(prompt, ridge=1.0)).abs().max()) < 1e-6
    with torch.no_grad():
        model.transformer.embed.W[lost] = 0
    change = torch.zeros(4, dtype=torch.float64)
    change[lost] = 0.5
    phi, y = prompt.phi.clone(), prompt.y.clone()
    phi[:, 0] += change[:3]
    y[:, 0] += change[3:]
    other = Prompt(phi, y, prompt.phi_query)
    tokens = [given.tokens() for given in (prompt, other)]
    with torch.no_grad():
        found = [model.transformer(given, 5) for given in tokens]
    assert torch.equal(*found)
    errors = [
        (f - krr(given, ridge=1.0)).abs() for f, given in zip(found, (prompt, other), strict=True)
    ]
    least = theory.indistinct_error(prompt, other, ridge=1.0)
    assert (torch.maximum(*errors) >= least * (1 - 1e-9)).all()
    assert float(least.max()) > 0.01


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("indistinct_error", lambda f: lambda *a, **k: 1.01 * f(*a, **k)),
        ("indistinct_error", lambda f: lambda *a, **k: 0.9 * f(*a, **k)),
        ("semi_iteration_least_width", lambda f: lambda *a, **k: f(*a, **k) + 1),
        ("semi_iteration_least_width", lambda f: lambda *a, **k: f(*a, **k) - 1),
        ("unseen_direction", lambda f: lambda w: f(w).roll(1)),
    ],
)
def test_a_planted_error_is_noticed(name, wrong, monkeypatch):
    monkeypatch.setattr(least_width.theory, name, wrong(getattr(theory, name)))
    theorem = THEOREMS["least-width"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds
