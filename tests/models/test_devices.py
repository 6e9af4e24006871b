"""Models, prompts and solvers on another device than the CPU give the numbers that they give there."""

import copy
from dataclasses import replace

import pytest
import torch
from other_device import THERE, Elsewhere, OtherDevice
from tiny_models import cli, refused

import ridgeformer as rf
from ridgeformer.models import zoo
from ridgeformer.tasks import generator_of
from ridgeformer.training import Held, predictions, recipes
from ridgeformer.training.loop import Loss
from ridgeformer.transformer import device_named
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

PROMPT = rf.PrescribedSpectrum(features=4, supports=6, condition=20.0).draw(3, seed=0)
INSIDE = PROMPT.inside(1.0, 2.0)
SOFTMAX = rf.SoftmaxAttention(max_norm=1.0, max_supports=8)


def compiled(solver="cg", **options):
    settings = {"features": 4, "steps": 3, "ridge": 1.0, "to": rf.LinearAttention(19.0)} | options
    return rf.compile(rf.solvers.make_solver(solver), **settings)


def every_prefix():
    return rf.LinearAttention(19.0, rf.Exact(), causal=True, every_prefix=True)


MODELS = {
    "linear": (compiled, PROMPT),
    "decoder": (lambda: compiled(to=every_prefix()), PROMPT),
    "softmax": (lambda: compiled(kernel=rf.Exponential(), to=SOFTMAX), INSIDE),
    "interpolated": (
        lambda: compiled(
            "richardson",
            kernel=rf.Gaussian(),
            to=replace(SOFTMAX, products=rf.Interpolated(2.0, tolerance=1e-2)),
        ),
        INSIDE,
    ),
    "heads": (lambda: compiled("chebyshev", to=SOFTMAX), INSIDE),
    "trained": (lambda: zoo.load("linear"), None),
    "trained causal": (lambda: zoo.load("gp-causal"), None),
}


def case(name):
    """A model with a copy on the other device, and prompts on both."""
    make, prompt = MODELS[name]
    model = make()
    prompt = prompt or model.recipe.task.draw(3, seed=0).to(torch.float32)
    moved = copy.deepcopy(model)
    assert moved.to(THERE) is moved
    return model, moved, prompt, prompt.to(THERE)


@pytest.fixture
def other_device():
    with OtherDevice():
        yield


def same(there, here, rtol=1e-9):
    """Passes on other devices keep the zeros of the weights, and thus sum in another order."""
    assert isinstance(there, Elsewhere)
    torch.testing.assert_close(there.cpu(), here, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_and_trajectories(name, other_device):
    model, moved, prompt, away = case(name)
    rtol = 1e-4 if prompt.phi.dtype == torch.float32 else 1e-9
    same(moved.predict(away), model.predict(prompt), rtol)
    found, known = rf.trajectory(moved, away), rf.trajectory(model, prompt)
    same(found.predictions, known.predictions, rtol)
    silenced = [rf.ablate_head(0, 0), rf.ablate("blocks.1.mlp_out", [0])]
    found, known = (rf.trajectory(*m, edits=silenced) for m in ((moved, away), (model, prompt)))
    same(found.predictions, known.predictions, rtol)


def test_what_only_some_models_have(other_device):
    model, moved, prompt, away = case("decoder")
    same(moved.predict_prefixes(away), model.predict_prefixes(prompt))
    loop = compiled(looped=True)
    here = loop.predict(prompt, steps=2)
    same(loop.to(THERE).predict(away, steps=2), here)
    model, moved, prompt, away = case("linear")
    found, known = (rf.trajectory(*m, states=True) for m in ((moved, away), (model, prompt)))
    same(found.states["alpha"], known.states["alpha"])
    same(rf.residual_stream(moved, away), rf.residual_stream(model, prompt))


@pytest.mark.parametrize("name", ["linear", "softmax"])
def test_the_domain_is_checked_wherever_the_prompt_is(name, other_device):
    _, moved, prompt, _ = case(name)
    far = rf.Prompt(9 * prompt.phi, prompt.y, prompt.phi_query).to(THERE)
    with pytest.raises(Refusal, match="outside the domain"):
        moved.predict(far)


@pytest.mark.parametrize("name", ["linear", "trained causal"])
def test_subjects_take_prompts_of_the_cpu_and_answer_there(name, other_device):
    model, moved, prompt, _ = case(name)
    here, there = rf.subject(model), rf.subject(moved)
    for found, known in zip(
        (
            there.predict(prompt),
            *vars(there.read(prompt)).values(),
            there.changed(prompt, 1, halved),
        ),
        (here.predict(prompt), *vars(here.read(prompt)).values(), here.changed(prompt, 1, halved)),
        strict=True,
    ):
        assert type(found) is torch.Tensor
        torch.testing.assert_close(found, known, rtol=1e-4, atol=1e-4)
    control = there.untrained(prompt, seed=0)
    assert control.transformer.device == THERE
    assert type(control.predict(prompt)) is torch.Tensor


def halved(supports, queries):
    return supports / 2, queries * torch.full((1,), 0.5)


@pytest.mark.parametrize("name", rf.solvers.SOLVERS)
def test_solvers_and_the_closed_form(name, other_device):
    options = {"steps": 3, "ridge": 1.0, "kernel": rf.Gaussian()}
    solver = rf.solvers.make_solver(name)
    away = PROMPT.to(THERE)
    same(
        rf.solve(solver, away, **options).predictions,
        rf.solve(solver, PROMPT, **options).predictions,
    )
    for kernel in (rf.Linear(), rf.Gaussian(), rf.Polynomial()):
        same(rf.krr(away, ridge=1.0, kernel=kernel), rf.krr(PROMPT, ridge=1.0, kernel=kernel))


@pytest.mark.parametrize("name", ["linear", "gp-causal", "cotrained"])
def test_losses_and_gradients_of_training(name, other_device):
    recipe = recipes.load(name)
    model = rf.Transformer(recipe.config())
    moved = copy.deepcopy(model).to(THERE)
    held = Held.draw(recipe.task, 4, seed=0)
    layout = zoo.load("gp-causal").layout if name == "gp-causal" else zoo.load("linear").layout
    found = predictions(layout, moved, held.sample.prompt)
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, predictions(layout, model, held.sample.prompt))
    sample = recipe.task.sample(4, generator_of(0)).to(torch.float32)
    for one, batch in ((model, sample), (moved, sample.to(THERE))):
        Loss(layout, one, recipe.training)(batch).backward()
    for (_, mine), (_, theirs) in zip(
        moved.named_parameters(), model.named_parameters(), strict=True
    ):
        assert (mine.grad is None) == (theirs.grad is None)
        if mine.grad is not None:
            same(mine.grad, theirs.grad, 1e-4)


def test_mixed_devices_are_noticed_by_this_test_and_refused_by_the_model(other_device):
    _, moved, prompt, away = case("linear")
    with pytest.raises(RuntimeError, match="same device"):
        away.phi + prompt.phi
    with pytest.raises(Refusal, match=r"The model is on meta and its input on cpu: move one"):
        moved.predict(prompt)


def test_mps_has_no_float64():
    """The refusal comes before PyTorch is asked, which need not have MPS."""
    mps = torch.device("mps")
    with pytest.raises(Refusal, match="MPS devices have no float64: compile with `dtype"):
        compiled().to(mps)
    with pytest.raises(Refusal, match="MPS devices have no float64: take the prompt there"):
        PROMPT.to("mps")
    trained = zoo.load("linear-attention")
    trained.transformer.config = replace(trained.transformer.config, dtype="float64")
    with pytest.raises(Refusal, match="MPS devices have no float64: keep"):
        trained.to(mps)


def test_devices_by_name(monkeypatch):
    assert device_named("cpu") == torch.device("cpu")
    for name in ("gpu", "cuda:x", "", "meta", "xpu"):
        with pytest.raises(Refusal, match=r"`device` is cpu, cuda, cuda:1, … or mps"):
            device_named(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Refusal, match="no device 'cuda' on this machine, it has no cuda"):
        device_named("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_named("cuda:1") == torch.device("cuda:1")
    with pytest.raises(Refusal, match="no device 'cuda:2' on this machine, the last is cuda:1"):
        device_named("cuda:2")


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "model", "prompts.npz", "--out", "p.npz"],
        ["evaluate", "linear"],
        ["identify", "linear"],
        ["train", "gp"],
    ],
    ids=lambda words: words[0],
)
def test_commands_refuse_a_device_that_is_not_there(words, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    compiled().save(tmp_path / "model")
    PROMPT.save(tmp_path / "prompts.npz")
    before = files_in(tmp_path)
    refused(cli(*words, "--device", "cuda", cwd=tmp_path), "no device 'cuda'", "leave --device out")
    assert files_in(tmp_path) == before


def files_in(folder):
    return {path for path in folder.rglob("*") if path.is_file()}
