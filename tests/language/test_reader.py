"""A model that reads a forest sees what it sees when each sequence is run alone, by Hugging Face itself."""

import pytest
import torch
from tiny_language import tiny_model, tiny_network, tiny_tokenizer

from ridgeformer.language import Forest, LanguageModel, Reader, Wanted, reader
from ridgeformer.language.packed import PackedLinear, pack
from ridgeformer.types import Refusal

SEQUENCES = [
    (1, 2, 3, 4, 5, 6, 7),
    (1, 2, 3, 9, 5, 6, 7),
    (1, 2, 3, 4, 5, 8),
    (1, 2, 3, 4, 5, 8, 8, 8),
    (4, 4, 4),
    (1, 7),
    (2,),
]


@pytest.fixture(scope="module")
def alone():
    """The network as Hugging Face made it, with attention that it shows."""
    network = tiny_network()
    network.set_attn_implementation("eager")
    return network


def run(network, sequence):
    with torch.no_grad():
        return network(torch.tensor([sequence]), output_hidden_states=True, output_attentions=True)


def everything(forest, ends, to):
    nodes = torch.tensor(ends)
    tokens = torch.arange(300).expand(len(ends), -1)
    return Wanted(
        states=nodes, next_after=nodes, next_tokens=tokens, attention_from=nodes, attention_to=to
    )


def check(seen, alone, sequences):
    for row, sequence in enumerate(sequences):
        out = run(alone, sequence)
        states = torch.stack([layer[0, -1] for layer in out.hidden_states])
        attention = torch.stack([layer[0, :, -1] for layer in out.attentions])
        expected = out.logits[0, -1].log_softmax(-1)
        torch.testing.assert_close(seen.states[row], states, atol=2e-5, rtol=0)
        torch.testing.assert_close(seen.log_probabilities[row], expected, atol=2e-5, rtol=0)
        assert seen.best[row] == expected.argmax()
        to = attention[:, :, [0, len(sequence) - 1]]
        torch.testing.assert_close(seen.attention[row], to, atol=1e-5, rtol=0)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 192])
@pytest.mark.parametrize("keep", [False, True])
def test_shared_beginnings_change_nothing(alone, monkeypatch, chunk, keep):
    monkeypatch.setattr(reader, "CHUNK", chunk)
    forest = Forest()
    paths = [forest.grow(sequence) for sequence in SEQUENCES]
    to = torch.tensor([[path[0], path[-1]] for path in paths])
    ends = [path[-1] for path in paths]
    model = tiny_model()
    seen = Reader(model, forest, keep=keep).read(everything(forest, ends, to))
    check(seen, alone, SEQUENCES)
    apart = Reader(model, forest, shared=False).read(everything(forest, ends, to))
    check(apart, alone, SEQUENCES)


@pytest.mark.parametrize("chunk", [2, 192])
def test_a_forest_may_grow_after_it_was_read(alone, monkeypatch, chunk):
    monkeypatch.setattr(reader, "CHUNK", chunk)
    forest, model = Forest(), tiny_model()
    growing = Reader(model, forest, keep=True)
    for part in (SEQUENCES[:2], SEQUENCES[2:4], SEQUENCES[4:]):
        paths = [forest.grow(sequence) for sequence in part]
        to = torch.tensor([[path[0], path[-1]] for path in paths])
        seen = growing.read(everything(forest, [path[-1] for path in paths], to))
        check(seen, alone, part)


def test_each_node_runs_once(monkeypatch):
    model = tiny_model()
    assert model.branches
    ran = []
    network = model.network.forward
    monkeypatch.setattr(
        model.network, "forward", lambda **given: ran.append(given["input_ids"]) or network(**given)
    )
    monkeypatch.setattr(reader, "CHUNK", 4)
    forest = Forest()
    ends = [forest.grow(sequence)[-1] for sequence in SEQUENCES]
    Reader(model, forest).read(Wanted(next_after=torch.tensor(ends)))
    assert sum(tokens.shape[1] for tokens in ran) == len(forest) == 19
    assert max(tokens.shape[1] for tokens in ran) <= 4


def test_a_network_that_does_not_see_branches_apart_runs_sequences_alone(alone, monkeypatch):
    model = tiny_model()
    network = model.network.forward
    monkeypatch.setattr(model.network, "forward", lambda attention_mask, **given: network(**given))
    assert not model.branches
    states = model.states(SEQUENCES[:2], torch.tensor([[-1], [-1]]))
    for row in range(2):
        expected = run(alone, SEQUENCES[row]).hidden_states[2][0, -1]
        torch.testing.assert_close(states[row, 0, 2], expected, atol=2e-5, rtol=0)


def test_other_architectures_share_beginnings_too():
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=64)
    network = GPT2LMHeadModel(config).eval()
    tokens = torch.arange(300).expand(7, -1)
    with torch.no_grad():
        expected = torch.stack(
            [network(torch.tensor([s])).logits[0, -1].log_softmax(-1) for s in SEQUENCES]
        )
    model = LanguageModel(network, tiny_tokenizer(), "gpt2")
    assert model.branches
    assert model.context == 64
    torch.testing.assert_close(
        model.log_probabilities(SEQUENCES, tokens), expected, atol=2e-5, rtol=0
    )


def test_chosen_layers_are_read_in_their_order():
    model, at = tiny_model(), torch.tensor([[1, -1]])
    whole = model.states(SEQUENCES[:1], at)
    forest = Forest()
    node = forest.grow(SEQUENCES[0])[1]
    wanted = Wanted(states=torch.tensor([node]), layers=torch.tensor([3, 0]))
    assert torch.equal(Reader(model, forest).read(wanted).states, whole[0, :1, [3, 0]])


def test_too_long_a_prompt_is_refused():
    model = tiny_model(max_position_embeddings=8)
    model.states([(1,) * 8], torch.tensor([[0]]))
    with pytest.raises(Refusal, match="9 tokens, and the model reads at most 8: take fewer"):
        model.states([(1,) * 9], torch.tensor([[0]]))


def test_numbers_that_are_not_finite_are_refused():
    model = tiny_model()
    assert model.branches
    model.network.model.norm.weight.mul_(torch.inf)
    with pytest.raises(Refusal, match="NaN or infinite"):
        model.log_probabilities([(1, 2)], torch.tensor([[3]]))


def test_packed_layers_compute_the_same():
    torch.manual_seed(0)
    for bias in (True, False):
        plain = torch.nn.Sequential(torch.nn.Linear(7, 5, bias=bias)).requires_grad_(False)
        x = torch.randn(2, 3, 7)
        expected = plain(x)
        pack(plain, rows=6)
        assert isinstance(plain[0], PackedLinear)
        torch.testing.assert_close(plain(x), expected)
