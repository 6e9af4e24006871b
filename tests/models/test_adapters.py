"""Other people's models as subjects: the same predictions, streams that are theirs, and interventions."""

import sys
from itertools import pairwise

import numeric_gpt2
import pytest
import torch
from torch import nn

import ridgeformer as rf
from ridgeformer.tasks import LinearRegression
from ridgeformer.types import Refusal

TASK = LinearRegression(features=3, supports=8, queries=4, condition=1.0)
SLOPES = LinearRegression(features=1, supports=7, queries=4)


def prompt_of(supports=8, batch=3, seed=0, task=TASK):
    return task.sample(batch, torch.Generator().manual_seed(seed), supports).prompt


class Encoder(nn.Module):
    """Tokens [x | y] of supports, then [x | 0] of queries, through nn.TransformerEncoder."""

    def __init__(self, batch_first=True, dropout=0.5, features=3):
        super().__init__()
        self.read_in = nn.Linear(features + 1, 16)
        layer = nn.TransformerEncoderLayer(
            16, 2, 32, dropout=dropout, norm_first=True, batch_first=batch_first
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.read_out = nn.Linear(16, 1)

    def forward(self, tokens):
        return self.read_out(self.encoder(self.read_in(tokens)))


def tokens_of(prompt):
    xs = torch.cat([prompt.phi, prompt.phi_query], dim=1)
    ys = nn.functional.pad(prompt.y, (0, 0, 0, prompt.phi_query.shape[1]))
    return torch.cat([xs, ys], dim=2)


def encoder_subject(module, **changes):
    first = module.encoder.layers[0].self_attn.batch_first
    settings = {
        "inputs": lambda p: tokens_of(p) if first else tokens_of(p).transpose(0, 1),
        "outputs": lambda out, p: (out if first else out.transpose(0, 1))[:, p.supports :],
        "layers": ["encoder.layers.0", "encoder.layers.1"],
        "positions": lambda p: (
            range(p.supports),
            range(p.supports, p.supports + p.phi_query.shape[1]),
        ),
        "batch_first": first,
    }
    return rf.ModuleSubject("an encoder", module, **(settings | changes))


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return Encoder()


def test_a_module_is_read_where_its_layers_are(encoder):
    """Against a forward pass by hand, layer after layer."""
    prompt = prompt_of()
    reading = encoder_subject(encoder).read(prompt)
    encoder.eval()
    with torch.no_grad():
        stream = encoder.read_in(tokens_of(prompt.to(torch.float32)))
        for layer in range(3):
            torch.testing.assert_close(reading.supports[layer], stream[:, :8])
            torch.testing.assert_close(reading.queries[layer], stream[:, 8:])
            if layer < 2:
                stream = encoder.encoder.layers[layer](stream)
        torch.testing.assert_close(reading.predictions, encoder.read_out(stream)[:, 8:])
    assert reading.layers == 2


def test_the_embedding_may_be_named(encoder):
    prompt = prompt_of()
    named = encoder_subject(encoder, embedding="read_in").read(prompt)
    torch.testing.assert_close(named.queries, encoder_subject(encoder).read(prompt).queries)


def test_streams_with_the_sequence_first_are_turned(encoder):
    other = Encoder(batch_first=False)
    other.load_state_dict(encoder.state_dict())
    prompt = prompt_of()
    a, b = (encoder_subject(module).read(prompt) for module in (encoder, other))
    torch.testing.assert_close(a.supports, b.supports)
    torch.testing.assert_close(a.predictions, b.predictions)
    subject = encoder_subject(other)
    zeros = subject.changed(prompt, 1, lambda s, q: (0 * s, 0 * q))
    torch.testing.assert_close(
        zeros, encoder_subject(encoder).changed(prompt, 1, lambda s, q: (0 * s, 0 * q))
    )


@pytest.mark.parametrize("layer", [0, 1, 2, -1])
def test_the_identity_changes_nothing_and_zeros_do(encoder, layer):
    subject, prompt = encoder_subject(encoder), prompt_of()
    before = subject.predict(prompt)
    assert torch.equal(subject.changed(prompt, layer, lambda s, q: (s, q)), before)
    after = subject.changed(prompt, layer, lambda s, q: (s, torch.zeros_like(q)))
    assert (after - before).abs().max() > 0.01


def test_the_stream_of_another_prompt_brings_its_prediction(encoder):
    """After the last layer, predictions are read from the queries alone."""
    subject, here, there = encoder_subject(encoder), prompt_of(seed=0), prompt_of(seed=1)
    other = subject.read(there)
    moved = subject.changed(here, 2, lambda s, q: (s, other.queries[2]))
    torch.testing.assert_close(moved, other.predictions)
    after_first = subject.changed(here, 1, lambda s, q: (other.supports[1], other.queries[1]))
    torch.testing.assert_close(after_first, other.predictions)
    # After the last layer no prediction depends on the supports, and before it they do.
    before = subject.predict(here)
    assert torch.equal(subject.changed(here, 2, lambda s, q: (0 * s, q)), before)
    assert not torch.allclose(subject.changed(here, 1, lambda s, q: (0 * s, q)), before)


def test_the_module_is_left_as_it_was(encoder):
    """Dropout is off while it is read, and on again afterwards, also after a refusal; no hook stays."""
    encoder.train()
    encoder.read_in.eval()
    subject, prompt = encoder_subject(encoder), prompt_of()
    assert torch.equal(subject.predict(prompt), subject.predict(prompt))
    with pytest.raises(Refusal):
        encoder_subject(encoder, outputs=lambda out, p: out).predict(prompt)
    assert encoder.training
    assert encoder.encoder.layers[1].training
    assert not encoder.read_in.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in encoder.modules())


class Looped(nn.Module):
    """One layer that is applied three times."""

    def __init__(self):
        super().__init__()
        self.read_in, self.step, self.read_out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, tokens):
        x = self.read_in(tokens)
        for _ in range(3):
            x = self.step(x)
        return self.read_out(x)


def test_a_layer_that_runs_several_times_is_named_as_often():
    torch.manual_seed(0)
    module, prompt = Looped(), prompt_of()
    settings = encoder_subject(Encoder())
    subject = rf.ModuleSubject(
        "looped", module, settings.inputs, settings.outputs, ["step"] * 3, settings.positions
    )
    streams = subject.read(prompt).queries
    for before, after in pairwise(streams):
        torch.testing.assert_close(module.step(before), after)
    moved = subject.changed(prompt, 2, lambda s, q: (s, q + 1))
    torch.testing.assert_close(moved, module.read_out(module.step(streams[2] + 1)))
    once = rf.ModuleSubject(
        "looped", module, settings.inputs, settings.outputs, ["step"], settings.positions
    )
    with pytest.raises(Refusal, match="'step' ran 3 times and is named 1 time"):
        once.read(prompt)


def every_query_alone(prompt):
    """One sequence for each query."""
    q = prompt.phi_query.shape[1]
    repeated = (t.repeat_interleave(q, 0) for t in (prompt.phi, prompt.y))
    return tokens_of(rf.Prompt(*repeated, prompt.phi_query.flatten(0, 1)[:, None]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": ["encoder.layers.7"]}, "no submodule 'encoder.layers.7'"),
        ({"layers": []}, "list of the names"),
        ({"layers": "encoder"}, "list of the names"),
        ({"embedding": "nothing"}, "no submodule 'nothing'"),
        ({"outputs": lambda out, p: out}, r"predictions \[batch, q, r\], here \[3, 4, 1\]"),
        ({"positions": lambda p: (range(3), range(8, 12))}, "each of the 8 supports; got 3"),
        ({"positions": lambda p: (range(8), range(8, 10))}, "3 sequences with 2 queries each"),
        ({"layers": ["encoder.layers.0", "read_out"]}, "several widths: 16, 16, 1"),
        ({"batch_first": False}, "Say `batch_first=False`"),
        (
            {
                "inputs": every_query_alone,
                "outputs": lambda out, p: out[:, -1].reshape(3, 4, 1),
                "positions": lambda p: (range(8), [8]),
            },
            "other streams for each query",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_module_is_refused(encoder, changes, words):
    with pytest.raises(Refusal, match=words):
        encoder_subject(encoder, **changes).read(prompt_of())


@pytest.fixture(scope="module")
def gpt2():
    return numeric_gpt2.random_gpt2()


@pytest.fixture(scope="module")
def learned():
    return numeric_gpt2.trained_gpt2(SLOPES)


@pytest.mark.parametrize(
    ("which", "task", "supports"),
    [("gpt2", TASK, k) for k in (1, 2, 5, 15)] + [("learned", SLOPES, k) for k in (1, 4, 7)],
)
def test_an_imported_gpt2_predicts_the_same(which, task, supports, request, tmp_path):
    """In predictions and in every stream, whoever reads it."""
    theirs = request.getfixturevalue(which)
    folder = numeric_gpt2.save_checkpoint(theirs, tmp_path / "theirs")
    rf.FromGPT2().load(folder, task).save(tmp_path / "ours")
    ours = rf.load(tmp_path / "ours")
    prompt = prompt_of(supports, batch=8, seed=supports, task=task)
    answers = theirs.answers(prompt)
    assert answers.std() > 0.1
    torch.testing.assert_close(ours.predict(prompt), answers, rtol=0, atol=1e-5)
    here, there = rf.subject(ours).read(prompt), rf.GPT2Subject.of(theirs).read(prompt)
    torch.testing.assert_close(there.predictions, answers, rtol=0, atol=1e-5)
    torch.testing.assert_close(here.queries, there.queries, rtol=0, atol=2e-5)
    torch.testing.assert_close(here.supports, there.supports, rtol=0, atol=2e-5)
    loaded = rf.GPT2Subject.load(folder)
    torch.testing.assert_close(loaded.predict(prompt), answers, rtol=0, atol=1e-5)


def test_the_trained_gpt2_has_learned_something(learned):
    sample = SLOPES.sample(256, torch.Generator().manual_seed(7), 7)
    error = (learned.answers(sample.prompt) - sample.targets).square().mean()
    assert error < 0.75 * sample.targets.square().mean()


def test_in_double_precision_they_agree_to_round_off(tmp_path):
    theirs = numeric_gpt2.random_gpt2(seed=3, n_inner=20).double()
    folder = numeric_gpt2.save_checkpoint(theirs, tmp_path / "theirs", "model.safetensors")
    ours = rf.FromGPT2().load(folder, TASK)
    assert ours.transformer.config.dtype == "float64"
    prompt = prompt_of(7)
    torch.testing.assert_close(ours.predict(prompt), theirs.answers(prompt), rtol=0, atol=1e-12)


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_gpt2_and_its_import_answer_interventions_alike(gpt2, layer, tmp_path):
    folder = numeric_gpt2.save_checkpoint(gpt2, tmp_path / "theirs")
    ours, theirs = rf.subject(rf.FromGPT2().load(folder, TASK)), rf.GPT2Subject.of(gpt2)
    prompt = prompt_of()
    before = theirs.predict(prompt)
    assert torch.equal(theirs.changed(prompt, layer, lambda s, q: (s, q)), before)
    for change in (lambda s, q: (0 * s, q), lambda s, q: (s, 0 * q), lambda s, q: (s + 1, q - 1)):
        here, there = (subject.changed(prompt, layer, change) for subject in (ours, theirs))
        torch.testing.assert_close(here, there, rtol=0, atol=1e-5)
    assert not torch.allclose(theirs.changed(prompt, layer, lambda s, q: (s, 0 * q)), before)


def test_parts_may_be_given_and_prompts_must_fit(gpt2):
    parts = rf.GPT2Subject(gpt2._read_in, gpt2._backbone, gpt2._read_out)
    prompt = prompt_of()
    assert torch.equal(parts.predict(prompt), rf.GPT2Subject.of(gpt2).predict(prompt))
    with pytest.raises(Refusal, match="at most 15 supports; the prompt has 16"):
        parts.predict(prompt_of(16))
    wide = LinearRegression(features=4, supports=8, queries=4)
    with pytest.raises(Refusal, match="reads 3 features and 1 output; the prompt has 4 and 1"):
        parts.read(prompt_of(task=wide))


def test_what_is_no_gpt2_is_refused(gpt2):
    with pytest.raises(Refusal, match="has one output; its read_out has 2"):
        rf.GPT2Subject(gpt2._read_in, gpt2._backbone, nn.Linear(32, 2))
    with pytest.raises(Refusal, match=r"must be a GPT2Model of transformers.*got Linear"):
        rf.GPT2Subject(gpt2._read_in, nn.Linear(2, 2), gpt2._read_out)
    with pytest.raises(Refusal, match="Encoder has no backbone"):
        rf.GPT2Subject.of(Encoder())
    module = Looped()
    module.read_in = nn.Identity()
    with pytest.raises(Refusal, match="Looped needs a read_in and a read_out"):
        rf.GPT2Subject.of(module)


def test_without_transformers_one_sentence_says_so(gpt2, tmp_path, monkeypatch):
    folder = numeric_gpt2.save_checkpoint(gpt2, tmp_path / "theirs")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(Refusal, match=r"pip install 'ridgeformer\[export\]'"):
        rf.GPT2Subject.load(folder)
    # The import itself needs nothing but the files.
    assert rf.FromGPT2().load(folder, TASK).recipe.model.mlp == "gelu_new"
