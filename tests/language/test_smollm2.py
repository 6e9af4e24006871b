"""With the weights of SmolLM2-135M: what its tokenizer does, and that it learns in context."""

import pytest
import torch

from ridgeformer.language import (
    FORMATS,
    LANGUAGE_TASKS,
    LanguageModel,
    class_prompts,
    default_directory,
    expectations,
    label_flips,
    log_odds,
    number_answers,
    prompts,
    read,
    scores,
    tokenization,
)
from ridgeformer.language.numbers import Tokenization
from ridgeformer.language.prompts import LABELS

pytestmark = [
    pytest.mark.lm,
    pytest.mark.skipif(
        not (default_directory() / "config.json").exists(),
        reason="SmolLM2 is not in the cache: `ridgeformer lm fetch` downloads it",
    ),
]


@pytest.fixture(scope="module")
def model():
    return LanguageModel.load(default_directory())


def shown(model, tokens):
    return [model.text([token]) for token in tokens]


def test_it_is_the_model_that_was_fetched(model):
    assert (model.layers, model.heads, model.width, model.context) == (30, 9, 576, 8192)
    assert model.parameters == 134_515_008
    assert model.branches
    texts = ["The capital of France is", "The opposite of hot is"]
    answers = [" Paris", " cold"]
    ids = torch.tensor([[model.tokens(answer)[0] for answer in answers]] * 2)
    found = model.log_probabilities([model.tokens(text) for text in texts], ids)
    assert (found.diagonal() > -1).all()
    assert (found.flip(0).diagonal() < -5).all()


def test_its_tokenizer_keeps_digits_apart(model):
    assert [tokenization(model, written) for written in FORMATS.values()] == [
        Tokenization("integers", 2, space=True, digits_apart=True, predictions=10),
        Tokenization("one-decimal", 3, space=True, digits_apart=True, predictions=19),
        Tokenization("two-decimals", 4, space=True, digits_apart=True, predictions=109),
        Tokenization("separated-digits", 3, space=True, digits_apart=True, predictions=19),
    ]


@pytest.mark.parametrize("name", LANGUAGE_TASKS)
def test_pieces_are_the_tokens_of_the_whole_text(model, name):
    task = LANGUAGE_TASKS[name](supports=16)
    problems = task.draw(8, seed=0)
    for style in LABELS:
        for prompt in prompts(model, task, problems, style):
            for sequence in (prompt.context, *prompt.sequences):
                assert model.tokens(model.text(sequence)) == sequence


def test_words_token_by_token(model):
    problems = LANGUAGE_TASKS["animal-tool"](supports=2, queries=1).draw(1, seed=0)
    (prompt,) = class_prompts(model, problems, ("A", "B"))
    assert prompt.choices.lead == ()
    assert [shown(model, tokens) for tokens in prompt.choices.tokens] == [[" A"], [" B"]]
    assert [shown(model, prompt.context)[i] for i in prompt.predicting] == [":", ":"]
    assert shown(model, prompt.sequences[0])[-1] == ":"


def test_numbers_token_by_token(model):
    task = LANGUAGE_TASKS["linear"](supports=2, queries=1)
    problems = task.draw(1, seed=0)
    (prompt,) = prompts(model, task, problems)
    (a, b), (c, d) = problems.inputs[0][0], f"{problems.targets[0, 0]:.0f}"
    first = ["Input", ":", " ", a, b, "\n", "Output", ":", " ", c, d, "\n"]
    assert shown(model, prompt.context)[:12] == first
    assert prompt.predicting == [8, 20]
    assert [list(span) for span in prompt.answer_positions] == [[9, 10], [21, 22]]


def test_scores_equal_those_without_a_cache(model):
    task = LANGUAGE_TASKS["linear"](supports=3, queries=1)
    (prompt,) = prompts(model, task, task.draw(1, seed=0))
    found = number_answers(model, prompt, FORMATS["integers"]).scores[0]
    (sequence,) = prompt.sequences
    batch = torch.tensor([sequence + answer for answer in prompt.choices.tokens])
    with torch.inference_mode():
        logits = model.network(batch, use_cache=False, logits_to_keep=3).logits
    steps = logits[:, :2].log_softmax(-1).gather(2, batch[:, -2:, None])
    torch.testing.assert_close(found, steps[..., 0].sum(1), atol=1e-4, rtol=0)


def test_flips_equal_prompts_that_are_run_alone(model):
    task = LANGUAGE_TASKS["animal-tool"](supports=4, queries=2)
    (prompt,) = prompts(model, task, task.draw(1, seed=0))
    found = label_flips(model, prompt)
    flipped = prompt.with_answers([1 - prompt.answers[0], *prompt.answers[1:]])
    alone = log_odds(scores(model, [prompt, flipped], shared=False))
    torch.testing.assert_close(found[:2], alone, atol=1e-3, rtol=0)


def test_it_learns_classes_and_numbers_in_context(model):
    task = LANGUAGE_TASKS["fruit-country"]()
    problems = task.draw(4, seed=0)
    found = log_odds(read(model, prompts(model, task, problems), layers=(18,)).scores)
    assert ((found > 0) == problems.query_targets.bool()).double().mean() > 0.8
    task = LANGUAGE_TASKS["linear"](supports=32, queries=6)
    problems = task.draw(2, seed=0)
    written = FORMATS["integers"]
    answers = [number_answers(model, prompt, written) for prompt in prompts(model, task, problems)]
    assert all((answer.mass > 0.8).all() for answer in answers)
    said = torch.stack([expectations(answer.scores, written) for answer in answers])
    error = (said - problems.query_targets).square().mean()
    trivial = (problems.targets.mean(1, keepdim=True) - problems.query_targets).square().mean()
    assert error < trivial
