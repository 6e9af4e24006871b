"""`ridgeformer import`: checkpoints that predict the same afterwards, and those that are refused."""

import json
import shutil
from dataclasses import fields
from typing import get_args, get_type_hints

import numeric_gpt2
import numpy as np
import pytest
import torch
from fork_server import cli as cli_apart
from fork_server import refused as refused_apart
from numeric_gpt2 import save_checkpoint
from safetensors.torch import load_file, save_file
from tiny_models import cli, refused

import ridgeformer as rf
from ridgeformer.tasks import LEARNABLE, LinearRegression

TASK = ["--task", "linear", "--features", "3", "--supports", "8", "--queries", "4"]


@pytest.fixture(scope="module")
def model():
    return numeric_gpt2.random_gpt2()


@pytest.fixture
def checkpoint(model, tmp_path):
    return save_checkpoint(model, tmp_path / "theirs", "model.safetensors")


def imported(folder, *more, task=TASK):
    return cli("import", "--from", "gpt2", folder, "--out", folder.parent / "ours", *task, *more)


def edit(folder, **entries):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def edit_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


@pytest.mark.parametrize("file", ["model.safetensors", "state.pt", "model.pt"])
def test_all_commands_read_an_imported_model(model, file, tmp_path):
    """It is imported, inspected and asked by words alone, and answers as GPT-2 does."""
    save_checkpoint(model, tmp_path / "theirs", file)
    result = cli_apart("import", "theirs", "--out", "ours", *TASK, "--noise", 0.5, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "3 layers, d_model 32, at most 15 supports" in " ".join(result.stdout.split())
    assert cli_apart("inspect", "ours", cwd=tmp_path).returncode == 0
    task = LinearRegression(features=3, supports=8, queries=4, noise=0.5)
    prompt = task.draw(6, seed=1)
    prompt.save(tmp_path / "prompts.npz")
    done = cli_apart("predict", "ours", "prompts.npz", "--out", "found.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = torch.from_numpy(np.load(tmp_path / "found.npz")["prediction"])
    torch.testing.assert_close(found, model.answers(prompt), rtol=0, atol=1e-5, check_dtype=False)
    ours = rf.load(tmp_path / "ours")
    assert ours.recipe.task == task
    assert ours.recipe.name == "theirs"
    assert ours.recipe.model.layout == "interleaved"
    assert ours.scores.get("steps") == (150 if file == "state.pt" else None)


def test_the_run_of_garg_and_others_is_read_as_their_code_writes_it(model, tmp_path):
    """config.yaml, in which n_positions counts points, and state.pt."""
    folder = save_checkpoint(model, tmp_path / "theirs", "state.pt")
    (folder / "config.json").unlink()
    sizes = (
        "family: gpt2\n  n_dims: 3\n  n_embd: 32\n  n_head: 4\n  n_layer: 3\n  n_positions: 16\n"
    )
    (folder / "config.yaml").write_text(f"model: !munch.Munch\n  {sizes}out_dir: somewhere\n")
    assert imported(folder).exit_code == 0
    ours, prompt = rf.load(tmp_path / "ours"), LinearRegression(features=3).draw(4, seed=0)
    prompt = rf.Prompt(prompt.phi[:, :9], prompt.y[:, :9], prompt.phi_query)
    torch.testing.assert_close(ours.predict(prompt), model.answers(prompt), rtol=0, atol=1e-5)
    (folder / "config.yaml").write_text("model: [\n")
    refused(imported(folder, "--force"), "config.yaml is damaged")
    (folder / "config.yaml").write_text(f"model:\n  {sizes.replace('gpt2', 'lstm')}")
    refused(imported(folder, "--force"), "configuration of a lstm, not of a GPT-2")


def test_a_recipe_may_say_what_the_model_was_trained_on(model, checkpoint, tmp_path):
    recipe = tmp_path / "trained.toml"
    recipe.write_text(
        'name = "mine"\nseed = 4\n[task]\nname = "sparse"\nfeatures = 3\nsupports = 9\n'
        "[training]\nsteps = 700\n"
    )
    assert imported(checkpoint, task=["--task", recipe]).exit_code == 0
    kept = rf.load(tmp_path / "ours").recipe
    assert (kept.name, kept.seed, kept.task.name, kept.training.steps) == ("mine", 4, "sparse", 700)
    assert kept.model.d_model == 32
    refused(
        imported(checkpoint, "--force", task=["--task", recipe, "--features", 3]),
        "--features is said by the recipe",
    )


def test_targets_of_another_scale(model, checkpoint, tmp_path):
    """The model saw y twice as large as the task draws it, and its predictions are halved."""
    assert imported(checkpoint, "--target-scale", 2).exit_code == 0
    prompt = LinearRegression(features=3, supports=8, queries=4).draw(4, seed=0)
    larger = rf.Prompt(prompt.phi, 2 * prompt.y, prompt.phi_query)
    found = rf.load(tmp_path / "ours").predict(prompt)
    torch.testing.assert_close(2 * found, model.answers(larger), rtol=0, atol=1e-5)
    refused(imported(checkpoint, "--force", "--target-scale", 0), "--target-scale must be positive")


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_pytorch_tanh"])
def test_other_activations_that_a_model_may_have(activation, tmp_path):
    theirs = numeric_gpt2.random_gpt2(activation_function=activation)
    folder = save_checkpoint(theirs, tmp_path / "theirs")
    assert imported(folder).exit_code == 0
    prompt = LinearRegression(features=3, supports=8, queries=4).draw(4, seed=0)
    found = rf.load(tmp_path / "ours").predict(prompt)
    torch.testing.assert_close(found, theirs.answers(prompt), rtol=0, atol=1e-5)


def test_scores_that_are_not_scaled_and_maps_without_bias(tmp_path):
    theirs = numeric_gpt2.random_gpt2(scale_attn_weights=False)
    theirs._read_in.bias = None
    folder = save_checkpoint(theirs, tmp_path / "theirs")
    assert imported(folder).exit_code == 0
    prompt = LinearRegression(features=3, supports=8, queries=4).draw(4, seed=0)
    found = rf.load(tmp_path / "ours").predict(prompt)
    torch.testing.assert_close(found, theirs.answers(prompt), rtol=0, atol=1e-5)


def test_other_names_and_masks_of_old_versions(model, checkpoint, tmp_path):
    def rename(weights):
        for name in list(weights):
            weights["module." + name.lstrip("_").replace("backbone.", "gpt.")] = weights.pop(name)
        weights["module.gpt.h.0.attn.bias"] = torch.ones(1, 1, 32, 32)
        weights["module.gpt.h.0.attn.masked_bias"] = torch.tensor(-1e4)

    edit_weights(checkpoint, rename)
    assert imported(checkpoint).exit_code == 0
    prompt = LinearRegression(features=3, supports=8, queries=4).draw(4, seed=0)
    found = rf.load(tmp_path / "ours").predict(prompt)
    torch.testing.assert_close(found, model.answers(prompt), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"activation_function": "silu"}, "the activation silu cannot be read"),
        ({"add_cross_attention": True}, "add_cross_attention True cannot be read"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon 1e-06 cannot be read"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx True"),
        ({"n_head": 5}, "an n_head that divides n_embd 32; got 5"),
        ({"n_head": None}, "an n_head that divides n_embd 32; got None"),
        ({"n_layer": 2}, "n_layer is 3, and there 2"),
        ({"n_positions": 1024}, "n_positions is 32, and there 1024"),
        ({"model_type": "llama"}, "the configuration of a llama, not of a GPT-2"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(checkpoint, entries, words):
    edit(checkpoint, **entries)
    refused(imported(checkpoint), words)
    assert not (checkpoint.parent / "ours").exists()


def dropped(name):
    return lambda weights: weights.pop(name)


def replaced(name, tensor):
    return lambda weights: weights.update({name: tensor})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dropped("_backbone.h.1.mlp.c_fc.bias"), "there is no tensor h.1.mlp.c_fc.bias"),
        (dropped("_backbone.h.0.mlp.c_fc.weight"), "there is no tensor h.0.mlp.c_fc.weight"),
        (dropped("_backbone.wpe.weight"), "no positional table wpe.weight"),
        (dropped("_read_in.weight"), "no matrix read_in.weight"),
        (dropped("_read_out.weight"), "no matrix read_out.weight"),
        (
            replaced("_backbone.h.0.crossattention.c_attn.weight", torch.ones(32, 64)),
            "a tensor h.0.crossattention.c_attn.weight, which a GPT2Model has not",
        ),
        (
            replaced("_backbone.h.2.attn.c_proj.weight", torch.ones(32, 31)),
            "h.2.attn.c_proj.weight must be [32, 32]; it is [32, 31]",
        ),
        (replaced("_read_out.weight", torch.ones(2, 32)), "read_out.weight must be [1, 32]; it is [2, 32]"),
        (replaced("_read_in.weight", torch.ones(31, 3)), "read_in.weight must be [32, 3]; it is [31, 3]"),
        (replaced("_backbone.ln_f.bias", torch.full((32,), torch.nan)), "ln_f.bias has NaN"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused(checkpoint, change, words):
    edit_weights(checkpoint, change)
    refused(imported(checkpoint), words)
    assert not (checkpoint.parent / "ours").exists()


class Harmful:
    """What a file may do that is unpacked without care."""

    def __reduce__(self):
        return print, ("unpacked",)


def test_damaged_and_missing_files_are_refused(model, checkpoint, tmp_path, capsys):
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    refused(imported(checkpoint), "model.safetensors is damaged")
    path.unlink()
    refused(imported(checkpoint), "no model.safetensors or state.pt or model.pt")
    refused(imported(checkpoint, "--weights", "model_9.pt"), "no model_9.pt")
    (checkpoint / "state.pt").write_bytes(b"not a state dict")
    refused(imported(checkpoint), "state.pt cannot be read as a state dict")
    torch.save({"model": Harmful()}, checkpoint / "state.pt")
    refused(imported(checkpoint), "state.pt cannot be read as a state dict")
    assert "unpacked" not in capsys.readouterr().out
    torch.save([torch.ones(2)], checkpoint / "state.pt")
    refused(imported(checkpoint), "state.pt is not a state dict")
    (checkpoint / "config.json").write_text("{")
    refused(imported(checkpoint), "config.json is damaged")
    (checkpoint / "config.json").unlink()
    refused(imported(checkpoint), "there is no config.json and no config.yaml")
    shutil.rmtree(checkpoint)
    refused(imported(checkpoint), "There is no directory")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (["--task", "linear", "--features", "4"], "say --features 3"),
        (["--task", "linear", "--features", "3"], "room for 15 supports and a query"),
        (["--task", "liner"], "did you mean linear?"),
        (["--task", "nowhere.toml"], "There is no recipe at nowhere.toml"),
        ([*TASK, "--nonzero", "2"], "--nonzero is not an option of the linear task"),
        ([*TASK, "--noise", "-1"], "needs noise ≥ 0"),
        ([*TASK, "--from", "jax"], "There is no importer 'jax'"),
    ],
)
def test_tasks_that_do_not_fit_are_refused(checkpoint, task, words):
    refused(cli("import", checkpoint, "--out", checkpoint.parent / "ours", *task), words)


def test_every_field_of_a_task_that_words_can_give_is_an_option(checkpoint, tmp_path):
    """The width of a network is called so, since that of an MLP is not the same."""
    words = ["--features", 3, "--supports", 8, "--network-width", 7]
    assert imported(checkpoint, task=["--task", "relu-network", *words]).exit_code == 0
    assert rf.load(tmp_path / "ours").recipe.task.width == 7
    help_text = " ".join(cli("import", "--help").output.replace("│", " ").split())
    for task in LEARNABLE.values():
        lists = [name for name, hint in get_type_hints(task).items() if ... in get_args(hint)]
        for field in fields(task):
            if field.name not in ("width", *lists):
                assert f"--{field.name.replace('_', '-')} " in help_text, (task.name, field.name)


def test_nothing_is_overwritten_by_mistake(checkpoint):
    refused(cli("import", checkpoint, "--out", checkpoint, *TASK), "is the checkpoint itself")
    assert imported(checkpoint).exit_code == 0
    refused(imported(checkpoint), "exists and is not empty", "--force")
    assert imported(checkpoint, "--force").exit_code == 0


def test_an_importer_of_ones_own_is_found_by_its_name(checkpoint, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass, field, replace\n"
        "import ridgeformer as rf\n"
        "@rf.register\n@dataclass(frozen=True)\n"
        "class Mine(rf.Importer):\n"
        "    seed: int = field(default=0, metadata={'help': 'The seed that is noted.'})\n"
        "    name, summary = 'mine', 'a checkpoint of mine'\n"
        "    def load(self, directory, trained_on):\n"
        "        model = rf.FromGPT2().load(directory, trained_on)\n"
        "        return replace(model, recipe=replace(model.recipe, seed=self.seed))\n"
    )
    words = ["--import", "mine.py", "import", checkpoint, "--out", "ours", *TASK, "--seed", 5]
    result = cli_apart(*words, "--from", "mine", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "a checkpoint of mine" in " ".join(result.stdout.split())
    assert rf.load(tmp_path / "ours").recipe.seed == 5
    refused_apart(
        cli_apart(*words, "--force", cwd=tmp_path),
        "--seed is not an option of the gpt2 importer: leave it out, or use --from mine.",
    )
