"""Trained models from the disk: predictions, layer by layer too, what they show, what they refuse."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy_executor import run as run_with_numpy
from safetensors.torch import load_file, save_file
from tiny_models import LINEAR, PROCESS, cli, compile_cg, recipe_of, refused, train

import ridgeformer as rf
from ridgeformer.tasks import LEARNABLE, Prompt
from ridgeformer.training import LAYOUTS, TrainedModel
from ridgeformer.training.recipe import Curriculum
from ridgeformer.transformer import Transformer, save
from ridgeformer.types import Refusal

TASKS = {"pairs": LINEAR, "interleaved": PROCESS, "alternating": PROCESS}


def prompt_of(layout, supports=5, batch=3):
    values = TASKS[layout]
    task = LEARNABLE[values["name"]](features=values["features"], supports=supports, queries=4)
    return task.draw(batch, seed=3)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a model of each layout, and a compiled one."""
    folder = tmp_path_factory.mktemp("trained")
    for layout, task in TASKS.items():
        (folder / f"for-{layout}").mkdir()
        train(folder / f"for-{layout}", layout, task).rename(folder / layout)
    compile_cg(folder / "cg")
    return folder


def test_load_tells_compiled_from_trained(home, tmp_path):
    assert isinstance(rf.load(home / "pairs"), TrainedModel)
    assert isinstance(rf.load(home / "cg"), rf.CompiledModel)
    save(rf.load(home / "pairs").transformer, tmp_path / "bare")
    with pytest.raises(Refusal, match="neither a certificate nor a recipe"):
        rf.load(tmp_path / "bare")


@pytest.mark.parametrize("layout", TASKS)
def test_predict_writes_predictions_and_layers(home, tmp_path, layout):
    prompt = prompt_of(layout)
    prompt.save(tmp_path / "prompts.npz")
    out = tmp_path / "p.npz"
    result = cli("predict", home / layout, tmp_path / "prompts.npz", "--out", out, "--trajectory")
    assert result.exit_code == 0, result.output
    found = np.load(out)
    assert found["prediction"].shape == (3, 4, 1)
    assert found["trajectory"].shape == (3, 3, 4, 1)
    expected = rf.load(home / layout).predict(prompt).numpy()
    np.testing.assert_array_equal(found["prediction"], found["trajectory"][-1])
    np.testing.assert_allclose(found["prediction"], expected, atol=1e-6)


@pytest.mark.parametrize("layout", TASKS)
def test_they_agree_with_numpy(home, layout):
    prompt = prompt_of(layout)
    expected = run_with_numpy(
        home / layout, prompt.phi.numpy(), prompt.y.numpy(), prompt.phi_query.numpy()
    )
    found = rf.load(home / layout).predict(prompt)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_interleaved_reads_x_y_x_y_and_one_query(home):
    """Tokens written by hand, for one query of one prompt at a time."""
    model, prompt = rf.load(home / "interleaved"), prompt_of("interleaved")
    found = model.predict(prompt)
    for b in range(3):
        for q in range(4):
            rows = []
            for x, y in zip(prompt.phi[b, :, 0], prompt.y[b, :, 0], strict=True):
                rows += [[x, 0, 0, 0, 1], [0, y, 1, 0, 0]]
            rows.append([prompt.phi_query[b, q, 0], 0, 0, 0, 1])
            tokens = torch.tensor(rows)[None]
            stream = model.transformer.residual_stream(tokens, tokens.shape[1])
            alone = model.transformer.readout(stream)[0, -1, 0]
            torch.testing.assert_close(found[b, q, 0], alone, atol=1e-5, rtol=0)


def test_alternating_tokens_of_a_y_carry_their_x(home):
    """Tokens written by hand, for one query of one prompt at a time, at every prefix of the supports."""
    model, prompt = rf.load(home / "alternating"), prompt_of("alternating")
    rows = []
    for k, (x, y) in enumerate(zip(prompt.phi[1, :, 0], prompt.y[1, :, 0], strict=True), start=1):
        rows += [[x, 0, 0, 0, 1], [x, y, 1, 0, 0]]
        tokens = torch.tensor([*rows, [prompt.phi_query[1, 2, 0], 0, 0, 0, 1]])[None]
        stream = model.transformer.residual_stream(tokens, tokens.shape[1])
        alone = model.transformer.readout(stream)[0, -1, 0]
        found = model.predict(Prompt(prompt.phi[:, :k], prompt.y[:, :k], prompt.phi_query))
        torch.testing.assert_close(found[1, 2, 0], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", ["none", "learned", "sinusoidal"])
def test_positions_are_those_of_the_recipe(tmp_path, positions):
    recipe = replace(recipe_of("interleaved", PROCESS), name="positions")
    recipe = replace(recipe, model=replace(recipe.model, positions=positions))
    torch.manual_seed(0)
    TrainedModel(Transformer(recipe.config()), recipe, {}).save(tmp_path / "m")
    model, prompt = rf.load(tmp_path / "m"), prompt_of("interleaved")
    assert model.transformer.config.positional == positions
    assert model.most_supports == (8 if positions == "learned" else None)
    arrays = (prompt.phi.numpy(), prompt.y.numpy(), prompt.phi_query.numpy())
    found = model.predict(prompt).numpy()
    np.testing.assert_allclose(found, run_with_numpy(tmp_path / "m", *arrays), atol=1e-5)
    result = cli("inspect", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert ("18 learned" if positions == "learned" else positions) in result.stdout


@pytest.mark.parametrize("layout", TASKS)
def test_a_layer_of_the_trajectory_is_a_model_that_ends_there(home, layout):
    model, prompt = rf.load(home / layout), prompt_of(layout)
    found = rf.trajectory(model, prompt)
    depth = model.transformer.config.n_layers
    assert found.predictions.shape[0] == depth + 1
    for layers in range(depth + 1):
        short = Transformer(replace(model.transformer.config, n_layers=layers))
        kept = {n: w for n, w in model.transformer.state_dict().items() if n in short.state_dict()}
        short.load_state_dict(kept)
        expected = LAYOUTS[layout].predict(short, prompt)
        torch.testing.assert_close(found.predictions[layers], expected, atol=1e-6, rtol=0)
    assert not torch.allclose(found.predictions[0], found.predictions[-1], atol=1e-3)


def test_edits_reach_a_trained_model_and_states_are_refused(home):
    model, prompt = rf.load(home / "pairs"), prompt_of("pairs")
    cut = rf.trajectory(model, prompt, edits=[rf.ablate("blocks.0.attn_out")]).predictions
    whole = rf.trajectory(model, prompt).predictions
    torch.testing.assert_close(cut[0], whole[0])
    assert not torch.allclose(cut[1], whole[1], atol=1e-3)
    with pytest.raises(Refusal, match="states"):
        rf.trajectory(model, prompt, states=True)


def test_inspect_shows_recipe_sizes_and_scores(home):
    result = cli("inspect", home / "interleaved")
    assert result.exit_code == 0, result.output
    parameters = sum(w.numel() for w in rf.load(home / "interleaved").transformer.parameters())
    for word in ("tiny-interleaved", "lengthscales", "18 learned", f"{parameters:,}", "mse 0.5"):
        assert word in result.stdout


def test_inspect_shows_a_curriculum_where_there_is_one(home, tmp_path):
    assert "first_points" not in cli("inspect", home / "interleaved").stdout
    recipe = replace(recipe_of("alternating", PROCESS), curriculum=Curriculum(first_points=5))
    TrainedModel(Transformer(recipe.config()), recipe, {}).save(tmp_path / "m")
    assert "first_points 5" in " ".join(
        cli("inspect", tmp_path / "m").stdout.replace("│", " ").split()
    )
    assert "first_points 5" in repr(recipe)


def test_prompts_that_do_not_fit(home, tmp_path):
    prompt_of("pairs").save(tmp_path / "two.npz")
    prompt_of("interleaved", supports=9).save(tmp_path / "long.npz")
    prompt_of("pairs", supports=100).save(tmp_path / "many.npz")
    out = ["--out", tmp_path / "p.npz"]
    refused(cli("predict", home / "interleaved", tmp_path / "two.npz", *out), "trained on 1 features", "has 2")  # fmt: skip
    refused(cli("predict", home / "interleaved", tmp_path / "long.npz", *out), "at most 8 supports", "has 9")  # fmt: skip
    assert not (tmp_path / "p.npz").exists()
    assert cli("predict", home / "pairs", tmp_path / "many.npz", *out).exit_code == 0
    last = prompt_of("interleaved", supports=8)  # the most that the positions allow
    assert rf.load(home / "interleaved").predict(last).shape == (3, 4, 1)


def copied(home, tmp_path, layout="pairs", **changes):
    """The model with other entries in config.json, and no hashes that would tell."""
    (tmp_path / "m").mkdir()
    config = json.loads((home / layout / "config.json").read_text()) | changes
    config.pop("weights_sha256")
    (tmp_path / "m/config.json").write_text(json.dumps(config))
    save_file(load_file(home / layout / "model.safetensors"), tmp_path / "m/model.safetensors")
    return tmp_path / "m"


def test_copies_without_changes_load(home, tmp_path):
    assert rf.load(copied(home, tmp_path)).recipe.name == "tiny-pairs"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"recipe": None}, "recipe and scores must be tables"),
        ({"scores": [1]}, "recipe and scores must be tables"),
        ({"recipe": {"name": "a", "task": 3}}, r"\[task\] must be a table"),
        ({"recipe": {"name": "a"}}, "lacks 'task'"),
        ({"recipe": {"name": "a", "task": {"name": "chess"}}}, "There is no learnable task 'chess'"),
        ({"recipe": {"name": "a", "task": LINEAR | {"features": 5}}}, "d_in is 6, and by its recipe 9"),
        ({"recipe": {"name": "a", "task": LINEAR, "model": {"layout": "interleaved"}}}, "mask is prefix"),
    ],
)  # fmt: skip
def test_damaged_recipes(home, tmp_path, changes, words):
    with pytest.raises(Refusal, match=words):
        rf.load(copied(home, tmp_path, **changes))


def test_damaged_files(home, tmp_path):
    model = copied(home, tmp_path)
    data = (home / "pairs/model.safetensors").read_bytes()
    (model / "config.json").write_text((home / "pairs/config.json").read_text())
    (model / "model.safetensors").write_bytes(data[:-9] + bytes([data[-9] ^ 64]) + data[-8:])
    prompt_of("pairs").save(tmp_path / "prompts.npz")
    for command in (
        ["predict", model, tmp_path / "prompts.npz", "--out", tmp_path / "p.npz"],
        ["inspect", model],
        ["evaluate", model, "--out", tmp_path / "e"],
    ):
        refused(cli(*command), "damaged or was altered")


def test_prompts_of_either_precision(home):
    prompt = prompt_of("pairs")
    model = rf.load(home / "pairs")
    single = Prompt(prompt.phi.float(), prompt.y.float(), prompt.phi_query.float())
    torch.testing.assert_close(model.predict(prompt), model.predict(single), atol=1e-5, rtol=0)
