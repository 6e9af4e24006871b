"""Exported models: the stock GPT2Model computes what ours computes, or the export is refused."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fork_server import cli, refused
from gpt2_executor import check_stock, mask_of, run, tokens_of
from torch import nn
from transformers import GPT2Model

import ridgeformer as rf
from ridgeformer.export import GPT2, prefix_mask
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Record, Transformer, TransformerConfig, save
from ridgeformer.types import Refusal

SOFTMAX = {"attention": "softmax", "mlp": "relu", "norm": "none", "dtype": "float64"}
FEATURES, OUTPUTS = 4, 2
FLAGS = slice(-3, None)


def random_model(layers=40, d_model=20, n_heads=3, d_head=7, d_mlp=64, **changes):
    """Random weights that keep the stream near 10, no entry of them zero but for the flags: these
    stay where they are, and two heads use them to suppress the aggregator and the queries."""
    config = TransformerConfig(
        d_in=FEATURES + OUTPUTS + 3, d_out=OUTPUTS, d_model=d_model, n_layers=layers,
        n_heads=n_heads, d_head=d_head, d_mlp=d_mlp, **(SOFTMAX | {"attn_scale": 0.3} | changes),
    )  # fmt: skip
    torch.manual_seed(0)
    model = Transformer(config).requires_grad_(False)
    for name, weight in model.named_parameters():
        if name.rpartition(".")[2].startswith("b"):
            weight.normal_(std=1.0 if name.endswith("b_in") else 0.05)
    model.embed.W[:, FLAGS] = model.embed.W[FLAGS] = 0
    model.embed.W[FLAGS, FLAGS] = torch.eye(3, dtype=config.torch_dtype)
    model.embed.b[FLAGS] = 0
    for block in model.blocks:
        for weight in (block.attn.W_O, block.attn.b_O, block.mlp.W_out, block.mlp.b_out):
            weight[..., FLAGS] = 0
        for head in range(n_heads - 1):
            block.attn.W_Q[head, :, 0] = block.attn.W_K[head, :, 0] = 0
            block.attn.W_Q[head, FLAGS, 0] = 100
            block.attn.W_K[head, -2:, 0] = -100
        # A steep table beside gentle units, as compiled reciprocals have.
        steep = slice(0, d_mlp // 8)
        block.mlp.W_in[:, steep] *= 1e4
        block.mlp.b_in[steep] *= 1e4
        block.mlp.W_out[steep] *= 1e-4
    return model


def random_prompts(batch=100, supports=12, queries=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((batch, supports, FEATURES), (batch, supports, OUTPUTS), (batch, queries, FEATURES))
    return Prompt(*(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes))


def arrays(prompt):
    return {"phi": prompt.phi, "y": prompt.y, "phi_query": prompt.phi_query}


def expected(model, prompt):
    with torch.inference_mode():
        return model(prompt.tokens(), prompt.supports + 1).numpy()


def apart(seen, model, prompt):
    truth = expected(model, prompt)
    assert np.abs(truth - truth[:1]).max() > 0.1, "predictions depend on the prompt"
    return np.abs(seen - truth).max() / np.abs(truth).max()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a saved model, the same exported by the command, and 100 prompts."""
    directory = tmp_path_factory.mktemp("home")
    save(random_model(), directory / "model", {"sites": {"states": {"note": "kept"}}})
    random_prompts().save(directory / "prompts.npz")
    result = cli("export", "model", "--to", "gpt2", "--out", "gpt2", cwd=directory)
    assert result.returncode == 0, result.stderr
    assert "40 layers" in result.stdout
    return directory


def test_stock_gpt2_agrees_in_a_process_without_us(home, tmp_path):
    executor = Path(__file__).parents[1] / "helpers/gpt2_executor.py"
    out = tmp_path / "predictions.npz"
    command = [sys.executable, executor, home / "gpt2", home / "prompts.npz", out]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    model, prompt = random_model(), random_prompts()
    assert 3 < model.residual_stream(prompt.tokens(), 13).norm(dim=-1).mean() < 30
    assert apart(np.load(out)["prediction"], model, prompt) < 1e-12


def test_the_checkpoint_holds_data_only(home):
    assert sorted(path.name for path in (home / "gpt2").iterdir()) == [
        "config.json", "model.safetensors", "ridgeformer.json", "ridgeformer.safetensors",
    ]  # fmt: skip
    config = json.loads((home / "gpt2/config.json").read_text())
    assert config["model_type"] == "gpt2"
    assert "auto_map" not in config
    beside = json.loads((home / "gpt2/ridgeformer.json").read_text())
    assert beside["model"] == json.loads((home / "model/config.json").read_text())


class Impostor(nn.LayerNorm):
    def forward(self, x):
        return x


def replace_a_norm(gpt2):
    gpt2.h[3].ln_1 = Impostor(gpt2.config.n_embd)


def patch_a_forward(gpt2):
    gpt2.h[3].mlp.forward = lambda x: x


def hook_a_module(gpt2):
    gpt2.h[3].attn.register_forward_hook(lambda module, inputs, output: None)


@pytest.mark.parametrize("tamper", [replace_a_norm, patch_a_forward, hook_a_module])
def test_a_tampered_gpt2_is_noticed(home, tamper):
    gpt2 = GPT2Model.from_pretrained(home / "gpt2")
    check_stock(gpt2)
    tamper(gpt2)
    with pytest.raises(AssertionError, match=r"h\.3"):
        check_stock(gpt2)


def test_a_patched_class_is_noticed(home, monkeypatch):
    gpt2 = GPT2Model.from_pretrained(home / "gpt2")
    monkeypatch.setattr(nn.LayerNorm, "forward", Impostor.forward)
    with pytest.raises(AssertionError):
        check_stock(gpt2)


@pytest.mark.parametrize(
    "shape",
    [
        {"d_model": 9, "n_heads": 1, "d_head": 4},
        {"d_model": 9, "n_heads": 1, "d_head": 30},  # wider than the stream
        {"d_model": 16, "n_heads": 9, "d_head": 3},
        {"d_model": 11, "n_heads": 4, "d_head": 11, "attn_scale": 1.0},
        {"d_mlp": 500, "layers": 5},
        {"d_mlp": 1},
        {"layers": 1},
        {"layers": 150},
    ],
    ids=str,
)
def test_every_shape_agrees(tmp_path, shape):
    model, prompt = random_model(**({"layers": 10} | shape)), random_prompts(10)
    GPT2().save(model, tmp_path / "gpt2")
    assert apart(run(tmp_path / "gpt2", **arrays(prompt)), model, prompt) < 1e-10


def test_eager_attention_agrees(home):
    prompt = random_prompts(10)
    seen = run(home / "gpt2", **arrays(prompt), attn_implementation="eager")
    assert apart(seen, random_model(), prompt) < 1e-12


def test_float32_agrees_to_its_own_digits(tmp_path):
    model, prompt = random_model(dtype="float32"), random_prompts(10)
    GPT2().save(model, tmp_path / "gpt2")
    assert apart(run(tmp_path / "gpt2", **arrays(prompt)), model, prompt) < 1e-4


def test_the_error_of_the_norms_falls_with_the_square_of_the_constant(tmp_path):
    model, prompt = random_model(), random_prompts(10)
    errors = []
    for constant in (1e4, 1e5, 1e6):
        GPT2(constant=constant).save(model, tmp_path / "gpt2", force=True)
        errors.append(apart(run(tmp_path / "gpt2", **arrays(prompt)), model, prompt))
    assert errors[0] < 1e-4
    np.testing.assert_allclose(errors[0], [100 * errors[1], 1e4 * errors[2]], rtol=0.1)


def test_the_epsilon_of_the_norms_is_accounted_for(tmp_path):
    """With C this small, ε is half of what the norms divide by; the prompts are smaller still."""
    model, prompt = random_model(layers=2), random_prompts(10)
    for name, weight in model.named_parameters():
        if name.rpartition(".")[2].startswith("b"):
            weight.zero_()
    model.embed.W *= 1e-6
    GPT2(constant=0.015).save(model, tmp_path / "gpt2")
    seen, truth = run(tmp_path / "gpt2", **arrays(prompt)), expected(model, prompt)
    np.testing.assert_allclose(seen, truth, atol=1e-6 * np.abs(truth).max())


def test_the_mask_is_the_prefix_mask():
    mask = prefix_mask(2, 2, torch.float64)
    torch.testing.assert_close(mask, mask_of(2, 5, torch.float64), rtol=0, atol=0)
    visible = [[1, 1, 1, 0, 0]] * 3 + [[1, 1, 1, 1, 0], [1, 1, 1, 0, 1]]
    assert (mask[0, 0] == 0).int().tolist() == visible


def test_nnsight_reads_what_record_reads(home):
    from nnsight import NNsight
    from safetensors.torch import load_file

    model, prompt = random_model(), random_prompts(5)
    modules = json.loads((home / "gpt2/ridgeformer.json").read_text())["modules"]
    assert len(modules) == 1 + 2 * 40
    record = Record.of(modules)
    with torch.inference_mode():
        model.residual_stream(prompt.tokens(), 13, [record])

    gpt2 = NNsight(GPT2Model.from_pretrained(home / "gpt2", dtype=torch.float64))
    maps = load_file(home / "gpt2/ridgeformer.safetensors")
    embeds = tokens_of(*arrays(prompt).values()) @ maps["embedding"] + maps["embedding_bias"]
    in_order = ["embed"]
    for layer in range(40):
        in_order += [f"blocks.{layer}.resid_mid", f"blocks.{layer}.resid_post"]
    mask, seen = mask_of(12, 16, torch.float64), {}
    with torch.no_grad(), gpt2.trace(inputs_embeds=embeds, attention_mask=mask):
        for site in in_order:
            seen[site] = gpt2.get(modules[site]).input.save()
    for site, stream in seen.items():
        truth = record.values[site]
        d = truth.shape[-1]
        torch.testing.assert_close(stream[..., :d], truth, rtol=1e-10, atol=1e-10, msg=site)
        torch.testing.assert_close(stream[..., d : 2 * d], -truth, rtol=1e-10, atol=1e-10)


def compiled_prompts(batch=100, supports=20):
    """Points in a square and targets of at most 1, the domain of the models below."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (batch, supports + 3, 2))
    y = rng.uniform(-1, 1, (batch, supports, 1))
    return Prompt(*map(torch.from_numpy, (points[:, :supports], y, points[:, supports:])))


@pytest.mark.parametrize("name", ["richardson", "nadaraya-watson"])
def test_a_compiled_model_agrees_in_stock_gpt2(tmp_path, name):
    if name == "richardson":
        products = rf.Interpolated(max_target=1.0, width=256)
        model = rf.compile(
            rf.Richardson(precondition="row-sum"), features=2, steps=12, ridge=0.1, kernel=rf.Gaussian(0.5),
            to=rf.SoftmaxAttention(max_norm=1.5, max_supports=32, products=products),
        )  # fmt: skip
    else:
        model = rf.compile(
            rf.NadarayaWatson(), features=2, kernel=rf.Gaussian(0.5),
            to=rf.SoftmaxAttention(max_norm=1.5, products=None),
        )  # fmt: skip
    model.save(tmp_path / "model")
    prompt = compiled_prompts()
    result = cli("export", tmp_path / "model", "--to", "gpt2", "--out", tmp_path / "gpt2")
    assert result.returncode == 0, result.stderr
    seen = run(tmp_path / "gpt2", **arrays(prompt))
    assert apart(seen, model.transformer, prompt) < 1e-7
    np.testing.assert_array_equal(
        model.predict(prompt).numpy(), expected(model.transformer, prompt)
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attention": "linear"}, ["attention linear", "--attention softmax --mlp relu"]),
        ({"mlp": "reglu"}, ["mlp reglu", "--attention softmax --mlp relu"]),
        ({"mask": "causal"}, ["mask causal", "without --causal"]),
    ],
    ids=str,
)
def test_other_models_are_refused(tmp_path, changes, words):
    config = TransformerConfig(2, 1, 4, 1, 1, 4, 4, **(SOFTMAX | changes))
    save(Transformer(config), tmp_path / "model")
    result = cli("export", tmp_path / "model", "--to", "gpt2", "--out", tmp_path / "gpt2")
    refused(result, *words)
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_impossible_options_are_refused(home, tmp_path):
    export = ["export", home / "model", "--out", tmp_path / "gpt2"]
    refused(cli(*export, "--constant", "nan"), "constant must be positive")
    refused(cli(*export, "--to", "bert"), "bert", "gpt2")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named_with_its_extra(home, tmp_path):
    code = (
        "import sys; sys.modules['transformers'] = None; from ridgeformer.cli import app; "
        f"app(['export', {str(home / 'model')!r}, '--out', {str(tmp_path / 'gpt2')!r}])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    refused(result, "pip install 'ridgeformer[export]'")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_without_force(home, tmp_path):
    save(random_model(layers=1), tmp_path / "model")
    GPT2(positions=20).save(random_model(layers=1), tmp_path / "gpt2")
    before = (tmp_path / "gpt2/config.json").read_bytes()
    export = ["export", tmp_path / "model", "--out"]
    refused(cli(*export, tmp_path / "gpt2"), "exists and is not empty", "--force")
    assert (tmp_path / "gpt2/config.json").read_bytes() == before
    assert cli(*export, tmp_path / "gpt2", "--force").returncode == 0
    assert (tmp_path / "gpt2/config.json").read_bytes() != before

    refused(cli(*export, tmp_path / "model", "--force"), "is the model itself")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("years of work")
    refused(cli(*export, tmp_path / "other", "--force"), "does not hold a saved model")
    assert (tmp_path / "other/thesis.txt").exists()


def test_a_checkpoint_is_not_a_model_of_ours(home, tmp_path):
    refused(cli("export", home / "gpt2", "--out", tmp_path / "gpt2"), "not our model")


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"mlp": "gelu", "norm": "layernorm"}, {}, "mlp gelu, norm layernorm"),
        ({"positional": "learned", "max_tokens": 9}, {}, "positional learned"),
        ({}, {"constant": 0.0}, "constant must be positive"),
        ({}, {"constant": float("inf")}, "constant must be positive"),
        ({}, {"positions": 0}, "at least 1 position"),
    ],
)
def test_refusals_in_python(tmp_path, changes, options, words):
    model = Transformer(TransformerConfig(2, 1, 4, 1, 1, 4, 4, **(SOFTMAX | changes)))
    with pytest.raises(Refusal, match=words):
        GPT2(**options).save(model, tmp_path / "gpt2")
    assert list(tmp_path.iterdir()) == []
