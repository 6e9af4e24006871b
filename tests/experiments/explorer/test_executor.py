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
from ridgeformer.transformer import Record, Transformer

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.pages]

NEAR = 1e-9
MANY = 200
"""Prompts on which each model is compared."""
SIZES = {1: 40, 2: 80, 3: 80, 5: 40, 17: 40, 40: 40}
"""How many prompts have so many supports."""
RUN = """async ([name, i, prompts, steps]) => {
    const model = await explorer.open(name, i);
    return prompts.map(([phi, y, queries]) => {
        const { readings, predictions } = model.run(phi, y, queries, { steps: steps ?? Infinity });
        return { readings: readings.map(r => [...r.ahead, ...r.values]), predictions: [...predictions] };
    });
}"""
RUN_BLOCKS = """async ([name, i, n, context, loops, streams]) => {
    const { transformer } = await explorer.open(name, i), order = transformer.applied(loops);
    const registers = transformer.config.n_registers ?? 0;
    const pass = { n: n + registers, context: context + registers, registers, order };
    return order.map((l, b) => {
        const before = Float64Array.from(streams[2 * b]);
        const made = [before, new Float64Array(before.length), new Float64Array(before.length)];
        transformer.applyBlock(transformer.blocks[l], made, pass);
        return made.slice(1).map((stream, half) => {
            const expected = streams[2 * b + 1 + half];
            const size = Math.max(1, ...expected.map(Math.abs));
            return Math.max(...expected.map((v, j) => Math.abs(v - stream[j]))) / size;
        });
    });
}"""
RUN_FILE = """([config, weights, prompts]) => {
    const model = explorer.load(config, weights);
    return prompts.map(([phi, y, queries]) => [...model.run(phi, y, queries).predictions]);
}"""
COMPILED = [shown for shown in MODELS if isinstance(shown, Compiled)]
EACH = pytest.mark.parametrize("shown", COMPILED, ids=lambda shown: shown.name)
LOOPS = 20


@pytest.fixture(scope="module")
def page(browser, explorer):
    shown, troubles = opened_explorer(browser, explorer, 1024)
    yield shown
    assert troubles == []
    shown.context.close()


def plain(prompt):
    """Every prompt of a batch, as lists."""
    parts = zip(prompt.phi, prompt.y[..., 0], prompt.phi_query, strict=True)
    return [[t.tolist() for t in part] for part in parts]


def inputs(generator, *shape):
    return 2 * torch.rand(*shape, generator=generator, dtype=torch.float64) - 1


def prompts_for(shown, count, supports, generator):
    """Prompts inside the domain of every model of a world."""
    features = {"waves": 8, "smooth": 2, "circle": 2}[shown.world]
    phi, queries = (inputs(generator, count, n, features) for n in (supports, 3))
    return Prompt(phi, 2 * inputs(generator, count, supports, 1), queries)


def expected_of(shown, model, prompt):
    """Predictions [step, prompt, x] at the queries; a decoder's at every x of the prompt, too."""
    steps = LOOPS if shown.looped else None
    return trajectory(model, prompt, steps=steps, prefixes=shown.every_prefix).predictions[..., 0]


def own_round_off(shown, model, prompt, expected):
    """How far apart the library itself is, by step and prompt, when the supports come in another order."""
    generator, spread = torch.Generator().manual_seed(0), torch.zeros(expected.shape[:2])
    queries = slice(-prompt.phi_query.shape[1], None)
    for _ in range(4):
        order = torch.randperm(prompt.supports, generator=generator)
        again = Prompt(prompt.phi[:, order], prompt.y[:, order], prompt.phi_query)
        apart = (expected_of(shown, model, again) - expected)[..., queries].abs().amax(-1)
        spread = torch.maximum(spread, apart)
    return spread.cummax(0).values


@EACH
def test_compiled_models_give_the_same_at_every_step(page, shown):
    """To 1e-9 of the largest prediction. Where conjugate gradients amplify round-off, so that the library itself
    depends on the order of the supports, a hundred times that; and then there are as many other prompts."""
    steps = LOOPS if shown.looped else None
    for i, ridge in enumerate(shown.ridges()):
        model, generator, exact = shown.compile(ridge), torch.Generator().manual_seed(i), 0
        for supports, count in SIZES.items():
            prompt = prompts_for(shown, count, supports, generator)
            found = page.evaluate(RUN, [shown.name, i, plain(prompt), steps])
            expected = expected_of(shown, model, prompt)
            near = NEAR * expected.abs().amax((0, 2)).clamp(min=1.0).expand(expected.shape[:2])
            allowed = near
            if shown.conjugate:
                allowed = near.maximum(100 * own_round_off(shown, model, prompt, expected))
            read = torch.tensor([f["readings"] for f in found], dtype=torch.float64)
            assert ((read.transpose(0, 1) - expected).abs().amax(2) <= allowed).all()
            final = torch.tensor([f["predictions"] for f in found], dtype=torch.float64)
            apart = (final - model.predict(prompt, steps)[..., 0]).abs().amax(1)
            assert (apart <= allowed[-1]).all()
            exact += int((allowed == near).all(0).sum())
        assert exact >= MANY


@EACH
def test_every_block_gives_the_same_from_the_same_stream(page, shown):
    """To 1e-9 of what the stream holds, whatever later steps make of round-off."""
    for i, ridge in enumerate(shown.ridges()):
        model = shown.compile(ridge)
        prompt = prompts_for(shown, 1, 17, torch.Generator().manual_seed(i))
        (tokens, context), loops = (
            model.sequence(prompt),
            model.loops(LOOPS if shown.looped else None),
        )
        blocks = range(len(model.transformer.config.applied(loops)))
        sites = [f"blocks.{b}.resid_{half}" for b in blocks for half in ("mid", "post")]
        record = Record.of(["embed", *sites])
        with torch.inference_mode():
            model.transformer.residual_stream(tokens, context, edits=(record,), loops=loops)
        streams = [record.values[site].flatten().tolist() for site in ("embed", *sites)]
        apart = page.evaluate(RUN_BLOCKS, [shown.name, i, tokens.shape[1], context, loops, streams])
        assert len(apart) == len(blocks)
        assert float(torch.tensor(apart).max()) <= NEAR


def in_double(model):
    """The trained model in double precision, in which the page computes."""
    config = replace(model.transformer.config, dtype="float64")
    double = Transformer(config)
    double.load_state_dict({k: v.double() for k, v in model.transformer.state_dict().items()})
    return replace(model, transformer=double)


@pytest.mark.parametrize("name", zoo.names())
def test_trained_models_give_the_same(page, name):
    directory, model = zoo.path_of(name), in_double(load(zoo.path_of(name)))
    drawn = model.recipe.task.draw(MANY, seed=1)
    prompt = Prompt(drawn.phi.double(), drawn.y.double(), drawn.phi_query.double()[:, :8])
    config = json.loads((directory / "config.json").read_text())
    weights = base64.b64encode((directory / "model.safetensors").read_bytes()).decode()
    found = page.evaluate(RUN_FILE, [config, weights, plain(prompt)])
    expected = model.predict(prompt)[..., 0]
    apart = (torch.tensor(found, dtype=torch.float64) - expected).abs().amax(1)
    assert (apart <= NEAR * expected.abs().amax(1).clamp(min=1.0)).all()
