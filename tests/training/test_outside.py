"""A trained model says when prompts are unlike those of its training, and is silent about its own."""

import warnings

import pytest
import torch
from tiny_models import cli

import ridgeformer as rf
from ridgeformer.models import predict, zoo
from ridgeformer.tasks import LEARNABLE, Prompt
from ridgeformer.training import LAYOUTS, OutsideTraining
from ridgeformer.training.outside import DRAWN, Seen

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def model():
    return zoo.load("linear")


def scaled(prompt, phi=1.0, y=1.0):
    return Prompt(prompt.phi * phi, prompt.y * y, prompt.phi_query * phi)


def complaints(model, prompt):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(prompt)
    assert all(w.category is OutsideTraining for w in caught)
    return [str(w.message) for w in caught]


def test_inputs_a_thousand_times_too_large_are_said_with_both_figures(model):
    prompt = model.recipe.task.draw(16, seed=0).to(torch.float32)
    reached = 1000 * max(float(x.abs().max()) for x in (prompt.phi, prompt.phi_query))
    (said,) = complaints(model, scaled(prompt, phi=1000))
    assert (
        f"|φ| reaches {reached:,.3g}, and at most {model.seen.features.high:.3g} in {DRAWN}" in said
    )
    assert "|y|" not in said
    (said,) = complaints(model, scaled(prompt, y=100))
    assert "|y| reaches" in said
    assert "|φ|" not in said
    (said,) = complaints(model, scaled(prompt, phi=1e-3, y=1e-3))
    assert "|φ| reaches only" in said
    assert "|y| reaches only" in said


def test_the_number_of_supports_is_said(model):
    prompt = model.recipe.task.draw(4, seed=0).to(torch.float32)
    twice = Prompt(*(torch.cat([x, x], dim=1) for x in (prompt.phi, prompt.y)), prompt.phi_query)
    assert complaints(model, twice) == [
        "The model was not trained on prompts like these: there are 64 supports, and training had 1 to 32 of "
        "them. Nothing is known of its predictions there."
    ]
    few = Prompt(prompt.phi[:, :1], prompt.y[:, :1], prompt.phi_query)
    assert complaints(model, few) == []
    fixed = zoo.load("linear-attention")  # It was trained with all supports alone.
    assert "1 support, and training had 32 of them" in complaints(fixed, few)[0]


@pytest.mark.parametrize("name", LEARNABLE)
def test_prompts_of_the_training_are_not_complained_of(name):
    """Nor are those with fewer supports and queries, many prompts or one."""
    task = LEARNABLE[name]()
    seen = Seen.of(task, 1, task.supports)
    for seed in range(4):
        many = task.sample(256, torch.Generator().manual_seed(seed)).prompt
        cut = [Prompt(many.phi[:, :k], many.y[:, :k], many.phi_query[:, :k]) for k in (1, 2, 7)]
        for prompt in (many, *cut, *(one[i] for one in (many, *cut) for i in range(32))):
            assert seen.complaints(prompt) == []


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_say_with_how_many_supports_they_train(layout):
    task = LEARNABLE["linear"](features=2, supports=5, queries=3)
    assert 1 <= layout.fewest(task) <= layout.longest(task) <= 7


def test_every_door_warns_once(model):
    prompt = scaled(model.recipe.task.draw(4, seed=0).to(torch.float32), phi=1000)
    for door in (model.predict, lambda p: predict(model, p), lambda p: rf.trajectory(model, p)):
        with pytest.warns(OutsideTraining) as caught:
            door(prompt)
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rf.subject(model).predict(prompt)
        model.run(prompt)


def test_predict_warns_on_stderr_in_one_line(model, tmp_path):
    prompt = scaled(model.recipe.task.draw(2100, seed=0).to(torch.float32), phi=1000)
    for size, more in ((2100, []), (8, ["--trajectory"])):  # in two batches, and in one
        prompt[:size].save(tmp_path / "prompts.npz")
        done = cli(
            "predict", zoo.path_of("linear"), "prompts.npz", "--out", "out.npz", *more, cwd=tmp_path
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        (line,) = done.stderr.splitlines()
        assert line.startswith(
            "Warning: The model was not trained on prompts like these: |φ| reaches"
        )
