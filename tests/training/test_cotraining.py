"""Co-training: the closed form, its gradients, what it reads, and that a weight of 0 changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from tiny_recipe import recipe_file

from ridgeformer.tasks import Prompt, Sample
from ridgeformer.training import LAYOUTS, Group, Recipe, started
from ridgeformer.training.cotraining import cotraining_loss, normalised, ridge_predictions
from ridgeformer.training.loop import Loss, batch_at
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal

SHAPES = [(3, 7), (7, 3), (5, 5), (1, 4)]
"""Supports and features: the system is solved in both spaces."""


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def drawn(k, d):
    return normal(4, k, d), normal(4, k, 2, seed=1), normal(4, 6, d, seed=2)


def recipe_with(tmp_path, layout="pairs", **training):
    recipe = Recipe.load(recipe_file(tmp_path, layout=layout))
    return replace(recipe, training=replace(recipe.training, **training))


@pytest.fixture
def exact(tmp_path):
    """A small model in float64, and prompts for it."""
    recipe = Recipe.load(recipe_file(tmp_path))
    torch.manual_seed(0)
    model = Transformer(replace(recipe.config(), dtype="float64"))
    return model, recipe.task.sample(5, torch.Generator().manual_seed(0))


def reference(model, prompt, layer, ridge):
    """Predictions of scikit-learn from the states of a model that ends after the layer, prompt by prompt."""
    shallow = Transformer(replace(model.config, n_layers=layer))
    shallow.load_state_dict(
        {name: w for name, w in model.state_dict().items() if name in shallow.state_dict()}
    )
    with torch.no_grad():
        stream = shallow.residual_stream(prompt.tokens(), prompt.supports + 1).numpy()
    centred = stream - stream.mean(-1, keepdims=True)
    phi = centred / np.sqrt(centred.shape[-1] * (centred.var(-1, keepdims=True) + 1e-5))
    k = prompt.supports
    return np.stack(
        [
            KernelRidge(alpha=ridge, kernel="linear").fit(f[:k], y).predict(f[k + 1 :])
            for f, y in zip(phi, prompt.y.numpy(), strict=True)
        ]
    )


@pytest.mark.parametrize(("k", "d"), SHAPES)
@pytest.mark.parametrize("ridge", [1e-3, 0.5])
def test_the_closed_form_is_scikit_learns(k, d, ridge):
    phi, y, queries = drawn(k, d)
    found = ridge_predictions(phi, y, queries, ridge)
    for i in range(len(phi)):
        for peer in (
            Ridge(alpha=ridge, fit_intercept=False),
            KernelRidge(alpha=ridge, kernel="linear"),
        ):
            wanted = peer.fit(phi[i].numpy(), y[i].numpy()).predict(queries[i].numpy())
            np.testing.assert_allclose(found[i].numpy(), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("k", "d"), SHAPES)
def test_its_gradients_are_those_of_finite_differences(k, d):
    values = [t.requires_grad_() for t in drawn(k, d)]
    assert torch.autograd.gradcheck(lambda *t: ridge_predictions(*t, 0.1), values)


def test_features_have_mean_0_and_length_1():
    features = normalised(100 * normal(3, 4, 8) + 7)
    torch.testing.assert_close(features.mean(-1), torch.zeros(3, 4).double())
    torch.testing.assert_close(features.square().sum(-1), torch.ones(3, 4).double())


def test_states_that_are_not_finite_give_predictions_that_are_not(exact):
    phi, y, queries = drawn(3, 7)
    phi[1, 2] = torch.nan
    found = ridge_predictions(phi, y, queries, 0.1)
    assert found[1].isnan().all()
    assert found[[0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("layers", [(1,), (2,), (1, 2)])
def test_the_loss_is_the_models_error_and_that_of_ridge_on_its_states(exact, layers):
    model, sample = exact
    own = LAYOUTS["pairs"].loss(model, sample)
    targets = sample.targets.numpy()
    errors = [
        ((reference(model, sample.prompt, layer, 0.01) - targets) ** 2).mean() for layer in layers
    ]
    found = cotraining_loss(model, sample, 0.7, layers, 0.01)
    assert found.item() == pytest.approx(own.item() + 0.7 * np.mean(errors), rel=1e-8)


def test_the_losss_gradients_are_those_of_finite_differences(exact):
    """Along one random direction of each weight that the states depend on."""
    model, sample = exact
    own = torch.autograd.grad(LAYOUTS["pairs"].loss(model, sample), list(model.parameters()))
    whole = torch.autograd.grad(
        cotraining_loss(model, sample, 1.0, (1,), 0.01), list(model.parameters())
    )
    for (name, weight), without, slope in zip(model.named_parameters(), own, whole, strict=True):
        direction = normal(*weight.shape, seed=3)
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                weight.add_(direction, alpha=step)
                values.append(cotraining_loss(model, sample, 1.0, (1,), 0.01).item())
                weight.sub_(direction, alpha=step)
        expected = (values[0] - values[1]) / 2e-5
        assert float((slope * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-8), name
        reaches = name.startswith(("embed", "blocks.0"))
        # Keys' biases shift all scores of a row alike, which softmax does not see.
        if not name.endswith("b_K"):
            assert torch.allclose(slope, without, rtol=0, atol=1e-12) != reaches, name


def test_targets_of_queries_enter_the_error_alone(exact):
    """The loss is a sum of squares of f − y in which no f depends on y."""
    model, sample = exact
    targets = sample.targets.clone().requires_grad_()
    loss = cotraining_loss(model, Sample(sample.prompt, targets), 0.5, (2,), 0.01)
    (slope,) = torch.autograd.grad(loss, targets)
    own = LAYOUTS["pairs"].predict(model, sample.prompt)
    ridge = torch.from_numpy(reference(model, sample.prompt, 2, 0.01))
    wanted = 2 / targets.numel() * ((targets - own) + 0.5 * (targets - ridge))
    torch.testing.assert_close(slope, wanted.detach(), rtol=1e-7, atol=1e-10)


def test_no_query_reads_another(exact):
    """With other questions beside it, a query has the same error: losses are means over single queries."""
    model, sample = exact
    prompt = sample.prompt
    parts = [
        Sample(
            Prompt(prompt.phi, prompt.y, prompt.phi_query[:, i : i + 1]),
            sample.targets[:, i : i + 1],
        )
        for i in range(prompt.phi_query.shape[1])
    ]
    single = torch.stack([cotraining_loss(model, part, 1.0, (1, 2), 0.01) for part in parts])
    torch.testing.assert_close(cotraining_loss(model, sample, 1.0, (1, 2), 0.01), single.mean())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_weight_0_the_loss_has_the_same_bits(tmp_path, layout):
    recipe = recipe_with(tmp_path, layout, auxiliary_layers=(1,), auxiliary_ridge=0.5)
    torch.manual_seed(0)
    model, sample = Transformer(recipe.config()), batch_at(0, recipe)
    found = Loss(LAYOUTS[layout], model, recipe.training)(sample)
    assert torch.equal(found, LAYOUTS[layout].loss(model, sample))


def steps_of(recipe, folder, count=10):
    run = started(recipe, folder, False, print, Group())
    for _ in range(count):
        run.one_step()
        run.step += 1
    return run.model.state_dict()


def test_with_weight_0_training_has_the_same_bits_and_with_another_it_has_not(tmp_path):
    plain = steps_of(recipe_with(tmp_path), tmp_path / "plain")
    zero = steps_of(recipe_with(tmp_path, auxiliary_layers=(1,)), tmp_path / "zero")
    some = recipe_with(tmp_path, auxiliary=1.0, auxiliary_layers=(1,))
    cotrained = steps_of(some, tmp_path / "cotrained")
    assert all(torch.equal(plain[name], zero[name]) for name in plain)
    assert not torch.equal(plain["embed.W"], cotrained["embed.W"])


def test_a_recipe_saved_without_the_keys_is_not_cotrained(tmp_path):
    recipe = recipe_with(tmp_path)
    values = recipe.to_dict()
    for name in ("auxiliary", "auxiliary_layers", "auxiliary_ridge"):
        del values["training"][name]
    assert Recipe.from_dict(values) == recipe
    assert recipe.training.auxiliary == 0


def test_cotraining_is_resumed_bit_for_bit(tmp_path):
    recipe = recipe_with(tmp_path, auxiliary=1.0, auxiliary_layers=(1, 2), steps=20)
    whole = started(recipe, tmp_path / "whole", False, print, Group())
    whole.train(lambda step, seen: None)

    def stop(step, seen):
        if step == 13:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        started(recipe, tmp_path / "parts", False, print, Group()).train(stop)
    again = started(recipe, tmp_path / "parts", True, print, Group())
    assert again.step == 10
    again.train(lambda step, seen: None)
    first, second = whole.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = recipe_with(tmp_path, auxiliary=2.0, auxiliary_layers=(1, 2), steps=20)
    with pytest.raises(Refusal, match="another recipe"):
        started(other, tmp_path / "parts", True, print, Group())


def test_cotraining_teaches_features_in_which_ridge_predicts(tmp_path):
    """The regression on its states gets far better than at the start, and than without the auxiliary error."""
    errors = {}
    for weight in (0.0, 1.0):
        recipe = recipe_with(tmp_path, auxiliary=weight, auxiliary_layers=(1,))
        run = started(recipe, tmp_path / f"run-{weight}", False, print, Group())
        sample = recipe.task.sample(256, torch.Generator().manual_seed(9))
        sample = Sample(sample.prompt.to(torch.float32), sample.targets.float())

        def error(run=run, sample=sample):
            with torch.no_grad():
                both = cotraining_loss(run.model, sample, 1.0, (1,), 0.001)
                return float(both - run.layout.loss(run.model, sample))

        before = error()
        for _ in range(60):
            run.one_step()
            run.step += 1
        errors[weight] = before, error()
    assert errors[0.0][0] == errors[1.0][0]
    assert errors[1.0][1] < 0.8 * errors[1.0][0]
    assert errors[1.0][1] < 0.9 * errors[0.0][1]
