"""The distribution over numbers is exact, and what the model would say is what it says."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from tiny_language import MERGES, tiny_model, tiny_network, tiny_tokenizer

from ridgeformer.language import (
    FORMATS,
    LANGUAGE_TASKS,
    LanguageModel,
    expectations,
    number_answers,
    prompts,
    quantiles,
    scores,
    tokenization,
)
from ridgeformer.language.numbers import Tokenization
from ridgeformer.types import Refusal


def drawn(model, written="integers", k=3, q=2, batch=1):
    task = LANGUAGE_TASKS["linear"](supports=k, queries=q, format=written)
    return prompts(model, task, task.draw(batch, seed=0))


def brute_force(network, prompt):
    """Every answer after every query, each as a sequence of its own and without a cache."""
    answers = torch.tensor(prompt.choices.tokens)
    rows = []
    for sequence in prompt.sequences:
        whole = torch.cat([torch.tensor([sequence]).expand(len(answers), -1), answers], dim=1)
        with torch.no_grad():
            logits = network(whole, use_cache=False).logits[:, len(sequence) - 1 : -1]
        rows.append(logits.log_softmax(-1).gather(2, answers[..., None])[..., 0].sum(1))
    return torch.stack(rows)


@pytest.mark.parametrize("written", ["integers", "one-decimal", "separated-digits"])
def test_scores_equal_those_without_a_cache(written):
    model = tiny_model()
    (prompt,) = drawn(model, written)
    expected = brute_force(tiny_network(), prompt)
    found = number_answers(model, prompt, FORMATS[written]).scores
    assert found.shape == (2, 90)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(scores(model, [prompt])[0], found, atol=1e-5, rtol=0)


def test_scores_of_two_decimals_equal_those_without_a_cache():
    model = tiny_model()
    (prompt,) = drawn(model, "two-decimals", k=2, q=1)
    expected = brute_force(tiny_network(), prompt)
    torch.testing.assert_close(scores(model, [prompt])[0], expected, atol=1e-4, rtol=0)


def test_answers_of_one_token_are_scored_at_once():
    pairs = [(a, b) for a in "123456789" for b in "0123456789"]
    merged = tiny_model(merges=[*MERGES, *pairs], vocab_size=400)
    facts = tokenization(merged, FORMATS["integers"])
    assert facts == Tokenization("integers", 1, space=True, digits_apart=False, predictions=1)
    (prompt,) = drawn(merged)
    expected = brute_force(tiny_network(vocab_size=400), prompt)
    torch.testing.assert_close(scores(merged, [prompt])[0], expected, atol=1e-4, rtol=0)


def test_how_numbers_are_written():
    model = tiny_model()
    found = [tokenization(model, written) for written in FORMATS.values()]
    assert found == [
        Tokenization("integers", 2, True, True, 10),
        Tokenization("one-decimal", 3, True, True, 19),
        Tokenization("two-decimals", 4, True, True, 109),
        Tokenization("separated-digits", 3, True, True, 19),
    ]
    with pytest.raises(Refusal, match="choose another format"):
        tokenization(tiny_model(merges=[*MERGES, ("4", "2")]), FORMATS["integers"])


@pytest.mark.parametrize("written", FORMATS.values(), ids=FORMATS)
def test_formats_read_what_they_write(written):
    texts = written.texts()
    assert len(set(texts)) == written.count
    assert [written.parse(text) for text in texts] == list(range(written.count))
    values = [float(text.replace(" ", "")) for text in texts]
    np.testing.assert_allclose(written.values.numpy(), values, rtol=1e-15)
    assert written.index_of(written.values).tolist() == list(range(written.count))
    assert written.indices(torch.tensor([-1.0, 0.0, 1.0, 3.0]).double()).tolist() == [
        0,
        0,
        written.count - 1,
        written.count - 1,
    ]
    for text in ("", "x", "-58", "1000", "5", "58.0.1", "¹²", "nan"):
        assert written.parse(text) is None
    others = {"58", "5.8", "5.80", "5 8"} - set(texts)
    assert len(others) == 3
    assert all(written.parse(text) is None for text in others)


def test_expectations_and_quantiles():
    written = FORMATS["integers"]
    generator = torch.Generator().manual_seed(0)
    given = torch.randn(4, 2, 90, generator=generator) * 3 - 5
    weights = given.double().exp().numpy()
    weights = weights / weights.sum(-1, keepdims=True)
    expected = (weights * np.arange(10, 100)).sum(-1)
    np.testing.assert_allclose(expectations(given, written).numpy(), expected, rtol=1e-9)
    levels = torch.tensor([0.05, 0.5, 0.95])
    found = quantiles(given, written, levels)
    for index in np.ndindex(4, 2):
        for column, level in enumerate(levels.tolist()):
            number = int(found[index][column]) - 10
            below = weights[index].cumsum()
            assert below[number] >= level - 1e-9
            assert number == 0 or below[number - 1] < level + 1e-9
    sure = torch.full((90,), -torch.inf)
    sure[48] = 0.0
    assert expectations(sure, written) == 58
    assert quantiles(sure, written, levels).tolist() == [58, 58, 58]


def bigrams(said):
    """A model whose next token depends on the last one alone: each letter of a text brings the next."""
    tokenizer = tiny_tokenizer()
    network = tiny_network(
        hidden_size=300, num_hidden_layers=1, tie_word_embeddings=False, num_attention_heads=1,
        num_key_value_heads=1, head_dim=4,
    )  # fmt: skip
    table = torch.zeros(300, 300)
    for a, b in pairwise(said):
        table[tokenizer.encode(b)[0], tokenizer.encode(a)[0]] = 1.0
    with torch.no_grad():
        network.model.embed_tokens.weight.copy_(torch.eye(300))
        network.lm_head.weight.copy_(table)
        network.model.layers[0].self_attn.o_proj.weight.zero_()
        network.model.layers[0].mlp.down_proj.weight.zero_()
    return LanguageModel(network, tokenizer, said)


@pytest.mark.parametrize(
    ("said", "answer", "unparseable"),
    [
        (" 58\n", "58", 0),
        (" 10\n", "10", 0),
        (" 587", "587", 1),  # goes on
        (" 5\n", "5\n", 1),  # too short
        (" x", "x", 1),
        (" 05", "0", 1),  # no number of the format
        (" 58.", "58.", 1),
    ],
)
def test_greedy_answers_are_parsed_or_counted(said, answer, unparseable):
    model = bigrams(said)
    (prompt,) = drawn(model)
    found = number_answers(model, prompt, FORMATS["integers"])
    assert found.said == (answer, answer)
    assert found.unparseable == 2 * unparseable
    if unparseable:
        assert found.greedy.isnan().all()
    else:
        assert found.greedy.tolist() == [float(answer)] * 2
        assert found.scores.argmax(-1).tolist() == [int(answer) - 10] * 2
    assert (found.mass <= 1 + 1e-6).all()


def test_greedy_answers_are_those_that_generation_gives():
    """Of a model that can say digits and the end of a line alone."""
    for seed in range(4):
        model = tiny_model(seed=seed, tie_word_embeddings=False, hidden_size=16)
        digits = [model.tokens(letter)[0] for letter in "0123456789\n"]
        network = tiny_network(seed=seed, tie_word_embeddings=False, hidden_size=16)
        (prompt,) = drawn(model, k=4, q=6)
        allowed = torch.full((300,), -1e4).scatter(0, torch.tensor(digits), 0.0)

        def only(module, inputs, output, allowed=allowed):
            return output + allowed

        model.network.lm_head.register_forward_hook(only)
        network.lm_head.register_forward_hook(only)
        found = number_answers(model, prompt, FORMATS["integers"])
        for query, sequence in enumerate(prompt.sequences):
            made = network.generate(
                torch.tensor([sequence]), max_new_tokens=3, do_sample=False, eos_token_id=digits[-1],
                pad_token_id=0,
            )[0, len(sequence) :]  # fmt: skip
            text = model.text(made.tolist())
            index = FORMATS["integers"].parse(text[:-1]) if text.endswith("\n") else None
            assert text.startswith(found.said[query])
            if index is None:
                assert found.greedy[query].isnan()
            else:
                assert found.greedy[query] == index + 10
