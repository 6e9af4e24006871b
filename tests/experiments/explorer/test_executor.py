"""The explorer's JavaScript runs saved models as the library does: in a real browser, against Python."""

import base64
import json
from dataclasses import replace

import pytest
import torch
from browsing import opened_explorer

from ridgeformer.experiments.explorer.shown import MODELS, Compiled
from ridgeformer.models import load, trajectory, zoo
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.pages]

NEAR = 1e-9
RUN = """async ([name, i, prompts, steps]) => {
    const model = await explorer.open(name, i);
    return prompts.map(([phi, y, queries]) => {
        const { readings, predictions } = model.run(phi, y, queries, { steps: steps ?? Infinity });
        return { readings: readings.map(r => [...r.values]), predictions: [...predictions] };
    });
}"""
RUN_FILE = """([config, weights, prompts]) => {
    const model = explorer.load(config, weights);
    return prompts.map(([phi, y, queries]) => [...model.run(phi, y, queries).predictions]);
}"""
COMPILED = [shown for shown in MODELS if isinstance(shown, Compiled)]
LOOPS = 20


@pytest.fixture(scope="module")
def page(browser, explorer):
    shown, troubles = opened_explorer(browser, explorer, 1024)
    yield shown
    assert troubles == []
    shown.context.close()


def plain(prompt, i):
    return [t[i].tolist() for t in (prompt.phi, prompt.y[..., 0], prompt.phi_query)]


def inputs(generator, *shape):
    return 2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1


def prompts_for(shown, count, seed):
    """Prompts of several sizes inside the domain of every model of a world."""
    generator = torch.Generator().manual_seed(seed)
    features = {"waves": 8, "smooth": 2, "circle": 2}[shown.world]
    for i in range(count):
        k, q = (1, 5, 17, 40)[i % 4], 3
        phi, queries = inputs(generator, 1, k, features), inputs(generator, 1, q, features)
        yield Prompt(phi, 2 * inputs(generator, 1, k, 1), queries)


def compare_compiled(page, shown, count):
    steps = LOOPS if shown.looped else None
    for i, ridge in enumerate(shown.ridges()):
        model = shown.compile(ridge)
        prompts = list(prompts_for(shown, count, seed=i))
        found = page.evaluate(RUN, [shown.name, i, [plain(p, 0) for p in prompts], steps])
        for prompt, run in zip(prompts, found, strict=True):
            expected = trajectory(model, prompt, steps=steps).predictions[:, 0, :, 0]
            allowed = allowance(model, prompt, steps, expected)
            read = torch.tensor(run["readings"], dtype=torch.float64)
            assert ((read - expected).abs().amax(1) <= allowed).all()
            final = torch.tensor(run["predictions"], dtype=torch.float64)
            assert float((final - model.predict(prompt, steps)[0, :, 0]).abs().max()) <= allowed[-1]


def allowance(model, prompt, steps, expected):
    """1e-9 of the largest prediction at every step; where conjugate gradients amplify round-off, a hundred times
    what the library itself is apart from step to step when the supports come in another order."""
    generator, spread = torch.Generator().manual_seed(0), torch.zeros(len(expected))
    for _ in range(4):
        order = torch.randperm(prompt.supports, generator=generator)
        again = Prompt(prompt.phi[:, order], prompt.y[:, order], prompt.phi_query)
        found = trajectory(model, again, steps=steps).predictions[:, 0, :, 0]
        spread = torch.maximum(spread, (found - expected).abs().amax(1))
    return torch.clamp(
        100 * spread.cummax(0).values, min=NEAR * max(1.0, float(expected.abs().max()))
    )


@pytest.mark.parametrize("shown", COMPILED, ids=lambda shown: shown.name)
def test_compiled_models_give_the_same_at_every_step(page, shown):
    compare_compiled(page, shown, count=4)


@pytest.mark.slow
@pytest.mark.parametrize("shown", COMPILED, ids=lambda shown: shown.name)
def test_compiled_models_give_the_same_on_many_prompts(page, shown):
    compare_compiled(page, shown, count=200)


def in_double(model):
    """The trained model in double precision, in which the page computes."""
    config = replace(model.transformer.config, dtype="float64")
    double = Transformer(config)
    double.load_state_dict({k: v.double() for k, v in model.transformer.state_dict().items()})
    return replace(model, transformer=double)


def compare_trained(page, name, count):
    directory, model = zoo.path_of(name), in_double(load(zoo.path_of(name)))
    prompt = model.recipe.task.draw(count, seed=1)
    prompt = Prompt(prompt.phi.double(), prompt.y.double(), prompt.phi_query.double())
    config = json.loads((directory / "config.json").read_text())
    weights = base64.b64encode((directory / "model.safetensors").read_bytes()).decode()
    given = [plain(prompt, i) for i in range(count)]
    found = torch.tensor(page.evaluate(RUN_FILE, [config, weights, given]), dtype=torch.float64)
    expected = model.predict(prompt)[..., 0]
    assert float((found - expected).abs().max()) <= NEAR * max(1.0, float(expected.abs().max()))


@pytest.mark.parametrize("name", [name for name in zoo.names() if not name.endswith("-1")])
def test_trained_models_give_the_same(page, name):
    compare_trained(page, name, count=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.names())
def test_trained_models_give_the_same_on_many_prompts(page, name):
    compare_trained(page, name, count=200)
