"""The instrument on compiled models: it names them, recovers λ, and copies agree with influence."""

import pytest
import torch
from subjects import Predictor

from ridgeformer.experiments.language.known import COMPILED, KNOWN, OTHERS, SMOOTHERS, TRAINED, ask
from ridgeformer.experiments.language.responses import observe, repeat_supports
from ridgeformer.kernels import Linear
from ridgeformer.solvers import krr
from ridgeformer.tasks import LinearRegression, Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = LinearRegression(features=3, supports=6, queries=4)
QUICK = [COMPILED[0], COMPILED[2], COMPILED[5], COMPILED[7], *SMOOTHERS[:2], *OTHERS]


def assert_answered(answer):
    verdict, known = answer.verdict, answer.known
    assert verdict.kind == known.kind, verdict.sentence
    if known.kind == "kernel ridge regression":
        for found in (answer.ridge, answer.ridge_of_copies):
            assert found.value == pytest.approx(known.ridge, rel=0.2)
            assert found.finite
        rivals = verdict.claims["kernel ridge regression"].parts[1:]
        assert all(part.value.low > 0 for part in rivals)
    if known in (*COMPILED, *SMOOTHERS):
        assert answer.copies_say == known.kind


@pytest.mark.parametrize("known", QUICK, ids=lambda known: known.name)
def test_known_models_are_named(known):
    assert_answered(ask(known, prompts=16, seed=5))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 10])
@pytest.mark.parametrize("known", [k for k in KNOWN if k.kind], ids=lambda known: known.name)
def test_every_known_model_is_named(known, seed):
    assert_answered(ask(known, seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize("known", TRAINED, ids=lambda known: known.name)
def test_trained_models_are_reported(known):
    """Nobody made them ridge regression; on prompts like those of their training they are near that of their task."""
    answer = ask(known, seed=0)
    assert answer.verdict.kind == "kernel ridge regression"
    assert 0.5 < answer.ridge.value / known.ridge < 2


def test_responses_are_those_of_ridge_regression_whatever_the_change():
    """A predictor read as a model: its influence is A⁻¹k, and that of copies is A⁻¹k with more supports."""
    model = Predictor(lambda prompt: krr(prompt, ridge=0.7))
    prompt = TASK.draw(5, seed=0)
    phi, query = prompt.phi, prompt.phi_query
    eye = torch.eye(6).double()
    expected = torch.linalg.solve(phi @ phi.mT + 0.7 * eye, phi @ query.mT)
    for change in (None, -3.0):
        torch.testing.assert_close(
            observe(model, prompt, seed=0, change=change).influence, expected
        )
    slots = torch.tensor([[0, 3, 1], [5, 0, 2], [2, 4, 5], [2, 1, 0], [1, 0, 5]])
    copies = repeat_supports(model, prompt, slots)
    torch.testing.assert_close(copies.once, expected[torch.arange(5), slots[:, 0]])
    # Three copies are one support with a third of the ridge, whose influence they share.
    for b, (own, *replaced) in enumerate(slots.tolist()):
        kept = [i for i in range(6) if i not in replaced]
        ridge = torch.tensor([0.7 / 3 if i == own else 0.7 for i in kept]).double()
        left = phi[b, kept]
        third = torch.linalg.solve(left @ left.mT + ridge.diag(), left @ query[b].mT)
        torch.testing.assert_close(copies.repeated[b], third[kept.index(own)] / 3)


def test_many_problems_are_run_in_parts():
    asked = []

    def predict(prompt):
        asked.append(len(prompt))
        return krr(prompt, ridge=0.7)

    whole = observe(Predictor(predict), TASK.draw(200, seed=0), seed=0)
    assert max(asked) <= 512
    assert sum(asked) == 200 * 7
    few = observe(Predictor(predict), TASK.draw(200, seed=0)[:3], seed=0, change=1.0)
    torch.testing.assert_close(whole.influence[:3], few.influence)


def test_prompts_that_do_not_suit_are_refused():
    model = Predictor(lambda prompt: krr(prompt, ridge=0.7, kernel=Linear()))
    prompt = TASK.draw(4, seed=0)
    with pytest.raises(Refusal, match="All targets are equal"):
        observe(model, Prompt(prompt.phi, 0 * prompt.y, prompt.phi_query), seed=0)
    two = Prompt(prompt.phi, torch.cat([prompt.y, prompt.y], -1), prompt.phi_query)
    with pytest.raises(Refusal, match="these prompts have 2"):
        observe(model, two, seed=0)
