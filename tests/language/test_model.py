"""Models are read from directories, whole or not at all, and know what they may be asked."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_language import save_tiny, tiny_model, tiny_network

from ridgeformer.language import LanguageModel, extra
from ridgeformer.types import Refusal


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "tiny")


def test_a_directory_is_read(saved):
    model = LanguageModel.load(saved)
    assert (model.layers, model.heads, model.width, model.context) == (3, 4, 32, 1024)
    assert model.vocabulary == 300
    assert model.parameters == sum(p.numel() for p in tiny_network().parameters())
    assert not model.network.training
    assert "3 layers of 4 heads, width 32" in repr(model)
    sequence = (5, 6, 7)
    found = model.log_probabilities([sequence], torch.arange(300)[None])[0]
    with torch.no_grad():
        expected = tiny_network()(torch.tensor([sequence])).logits[0, -1].log_softmax(-1)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


def test_text_and_tokens():
    model = tiny_model()
    tokens = model.tokens("cat: A\n")
    assert [model.text([token]) for token in tokens] == ["c", "at", ":", " A", "\n"]
    assert model.start == ()
    assert tiny_model(start=True).start == (0,)
    assert tiny_model(start=True).tokens("cat: A\n") == tokens
    assert model.ends_line(model.tokens("\n")[0])
    assert model.ends_line(0)
    assert not model.ends_line(model.tokens("a")[0])


def test_untrained_weights_are_drawn_from_the_seed(saved):
    model = LanguageModel.load(saved)
    sequence, all_tokens = [(5, 6, 7)], torch.arange(300)[None]
    before = torch.random.get_rng_state()
    first, again, other = (
        model.untrained(seed).log_probabilities(sequence, all_tokens) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, model.log_probabilities(sequence, all_tokens))
    drawn = model.untrained(1)
    assert (drawn.layers, drawn.width, drawn.parameters) == (3, 32, model.parameters)
    spread = drawn.network.get_input_embeddings().weight.std()
    assert abs(spread / 0.3 - 1) < 0.05  # the config's initializer_range


def refused(folder, match):
    with pytest.raises(Refusal, match=match) as caught:
        LanguageModel.load(folder)
    assert "\n" not in str(caught.value)


def test_a_missing_directory_is_refused(tmp_path):
    refused(tmp_path / "none", "no directory .* `ridgeformer lm fetch` gets one")
    refused(tmp_path, "holds no language model: there is no config.json")


def test_damaged_weights_are_refused(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(folder, "cannot be read as a causal language model")
    path.unlink()
    refused(folder, "cannot be read as a causal language model")


def test_missing_and_infinite_weights_are_refused(folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    norm = weights.pop("model.layers.1.input_layernorm.weight")
    save_file(weights, path, metadata={"format": "pt"})
    refused(folder, "weight model.layers.1.input_layernorm.weight is missing")
    weights["model.layers.1.input_layernorm.weight"] = norm * torch.nan
    save_file(weights, path, metadata={"format": "pt"})
    refused(folder, "input_layernorm.weight has NaN or infinite entries")


def test_a_damaged_configuration_is_refused(folder):
    (folder / "config.json").write_text("{")
    refused(folder, "cannot be read as a causal language model")
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
    refused(folder, "cannot be read as a causal language model")


def test_a_missing_or_damaged_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").write_text("{}")
    refused(folder, "tokenizer")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    refused(folder, "tokenizer")


def test_without_the_extra_one_sentence_says_how_to_get_it(saved, monkeypatch):
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "transformers" else name)
    refused(saved, r"need transformers: pip install 'ridgeformer\[lm\]'")
