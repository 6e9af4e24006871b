"""Prompts are built token by token, and know where a model answers."""

import pytest
import torch
from tiny_language import MERGES, tiny_model

from ridgeformer.language import (
    LANGUAGE_TASKS,
    Problems,
    class_prompts,
    labels_of,
    number_prompts,
    prompts,
)
from ridgeformer.language.formats import FORMATS
from ridgeformer.language.prompts import LABELS, Choices
from ridgeformer.types import Refusal


@pytest.fixture(scope="module")
def model():
    return tiny_model()


def words():
    targets = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    return Problems((("cat", "axe", "dog"),), targets, (("cow", "saw"),), targets[:, :2])


def numbers(x, y, queries):
    targets = torch.tensor([y], dtype=torch.float64)
    return Problems((x,), targets, (queries,), targets[:, : len(queries)])


def shown(model, tokens):
    return [model.text([token]) for token in tokens]


def test_words_and_labels(model):
    (prompt,) = class_prompts(model, words(), ("A", "B"))
    context = ["c", "at", ":", " A", "\n", "a", "x", "e", ":", " B", "\n", "d", "o", "g", ":", " A"]
    assert shown(model, prompt.context) == [*context, "\n"]
    assert prompt.predicting == [2, 8, 14]
    assert [list(span) for span in prompt.answer_positions] == [[3], [9], [15]]
    first, second = prompt.sequences
    assert shown(model, first[17:]) == ["c", "o", "w", ":"]
    assert shown(model, second[17:]) == ["s", "a", "w", ":"]
    assert first[:17] == second[:17] == prompt.context
    assert [shown(model, tokens) for tokens in prompt.isolated[::3]] == [
        ["\n", "c", "at", ":"],
        ["\n", "c", "o", "w", ":"],
    ]
    assert len(prompt.isolated) == 5


def test_a_label_of_several_tokens_is_predicted_where_labels_differ(model):
    (prompt,) = class_prompts(model, words(), ("bar", "baz"))
    assert shown(model, prompt.choices.lead) == [" ", "b", "a"]
    assert [shown(model, tokens) for tokens in prompt.choices.tokens] == [["r"], ["z"]]
    shown_context = shown(model, prompt.context)
    assert shown_context[:8] == ["c", "at", ":", " ", "b", "a", "r", "\n"]
    assert prompt.predicting[0] == 5
    assert list(prompt.answer_positions[0]) == [6]
    assert shown(model, prompt.queries[0]) == ["c", "o", "w", ":", " ", "b", "a"]
    (prompt,) = class_prompts(model, words(), ("foo", "bar"))
    assert prompt.choices.lead == ()
    assert [shown(model, t) for t in prompt.choices.tokens] == [[" foo"], [" ", "b", "a", "r"]]
    assert shown(model, prompt.context)[:10] == ["c", "at", ":", " foo", "\n", *"axe", ":", " "]
    assert list(prompt.answer_positions[1]) == [9, 10, 11, 12]


def test_numbers(model):
    problems = numbers(("34", "21"), (58.0, 17.0), ("90",))
    (prompt,) = number_prompts(model, problems, FORMATS["integers"])
    first = [*"Input", ":", " ", "3", "4", "\n", *"Output", ":", " ", "5", "8", "\n"]
    second = [*"Input", ":", " ", "2", "1", "\n", *"Output", ":", " ", "1", "7", "\n"]
    assert shown(model, prompt.context) == first + second
    assert [shown(model, prompt.context)[i] for i in prompt.predicting] == [" ", " "]
    assert prompt.predicting == [17, 38]
    assert [list(span) for span in prompt.answer_positions] == [[18, 19], [39, 40]]
    query = [*"Input", ":", " ", "9", "0", "\n", *"Output", ":", " "]
    assert shown(model, prompt.queries[0]) == query
    assert prompt.choices.texts[prompt.answers[0]] == "58"


@pytest.mark.parametrize(
    ("written", "text", "tokens"),
    [
        ("one-decimal", "3.4", ["3", ".", "4"]),
        ("two-decimals", "3.45", ["3", ".", "4", "5"]),
        ("separated-digits", "3 4", ["3", " ", "4"]),
    ],
)
def test_other_formats(model, written, text, tokens):
    value = float(text.replace(" ", ""))
    problems = numbers((text, text), (value, value), (text,))
    (prompt,) = number_prompts(model, problems, FORMATS[written])
    example = [*"Input", ":", " ", *tokens, "\n", *"Output", ":", " ", *tokens, "\n"]
    assert shown(model, prompt.context) == example * 2


def test_pairs_are_separated_by_commas(model):
    task = LANGUAGE_TASKS["linear-2d"](supports=2, queries=1)
    problems = task.draw(1, seed=0)
    (prompt,) = prompts(model, task, problems)
    a, b = (int(value) for value in problems.features[0, 0])
    assert model.text(prompt.questions[0]) == f"Input: {a}, {b}\nOutput: "


@pytest.mark.parametrize("name", LANGUAGE_TASKS)
def test_the_text_of_every_task_is_what_was_drawn(model, name):
    task = LANGUAGE_TASKS[name](supports=4, queries=2)
    problems = task.draw(2, seed=0)
    for row, prompt in enumerate(prompts(model, task, problems, "A/B")):
        if problems.features is None or not hasattr(task, "format"):
            answers = ["AB"[int(target)] for target in problems.targets[row]]
            lines = [f"{x}: {y}\n" for x, y in zip(problems.inputs[row], answers, strict=True)]
            last = f"{problems.queries[row][1]}:"
        else:
            answers = [f"{target:.0f}" for target in problems.targets[row].tolist()]
            pairs = zip(problems.inputs[row], answers, strict=True)
            lines = [f"Input: {x}\nOutput: {y}\n" for x, y in pairs]
            last = f"Input: {problems.queries[row][1]}\nOutput: "
        assert model.text(prompt.sequences[1]) == "".join(lines) + last


def test_the_beginning_of_text_is_marked_once():
    marked = tiny_model(start=True)
    (prompt,) = class_prompts(marked, words(), ("A", "B"))
    assert prompt.context[0] == 0
    assert prompt.context.count(0) == 1
    assert prompt.predicting == [3, 9, 15]
    assert all(tokens[0] == 0 for tokens in prompt.isolated)


def test_an_opening_stands_before_the_first_support(model):
    task = LANGUAGE_TASKS["animal-tool"](supports=2, queries=1)
    problems = task.draw(1, seed=0)
    (plain,), (opened,) = (prompts(model, task, problems, opening=o) for o in ("", "List:\n"))
    assert model.text(opened.context) == "List:\n" + model.text(plain.context)
    assert opened.predicting == [position + 6 for position in plain.predicting]
    assert opened.isolated == plain.isolated
    task = LANGUAGE_TASKS["linear"](supports=2, queries=1)
    (opened,) = prompts(model, task, task.draw(1, seed=0), opening="\n")
    assert model.text(opened.context).startswith("\nInput: ")


def test_styles_of_labels():
    task = LANGUAGE_TASKS["animal-tool"]()
    found = {style: labels_of(task, style) for style in LABELS}
    assert found == {
        "A/B": ("A", "B"),
        "foo/bar": ("foo", "bar"),
        "natural": ("animal", "tool"),
        "swapped": ("tool", "animal"),
    }
    assert labels_of(LANGUAGE_TASKS["random-labels"](), "natural") == ("animal", "tool")
    with pytest.raises(Refusal, match="no style of labels 'A': choose from A/B, foo/bar"):
        labels_of(task, "A")
    with pytest.raises(Refusal, match="linear has no classes"):
        labels_of(LANGUAGE_TASKS["linear"](), "A/B")


def test_answers_and_supports_are_exchanged(model):
    (prompt,) = class_prompts(model, words(), ("A", "B"))
    flipped = prompt.with_answers((0, 0, 0))
    assert model.text(flipped.context) == "cat: A\naxe: A\ndog: A\n"
    twice = prompt.with_supports((1, 0, 1))
    assert model.text(twice.context) == "axe: B\ncat: A\naxe: B\n"
    with pytest.raises(Refusal, match="3 supports needs as many answers; got 2"):
        prompt.with_answers((0, 0))


def test_answers_that_cannot_be_told_apart_are_refused(model):
    for labels in (("x", "xy"), ("x", "x")):
        with pytest.raises(Refusal, match="beginning of another's"):
            Choices.of(model, labels)


def test_uneven_formats_are_refused():
    merged = tiny_model(merges=[*MERGES, ("1", "0")])
    problems = numbers(("34", "21"), (58.0, 17.0), ("90",))
    with pytest.raises(Refusal, match=r"format integers with 1 to 2 tokens.*choose another format"):
        number_prompts(merged, problems, FORMATS["integers"])


def test_a_tokenizer_that_joins_pieces_to_other_text_is_refused(monkeypatch):
    model = tiny_model()
    monkeypatch.setattr(model, "text", lambda tokens: "c at : A")
    with pytest.raises(Refusal, match="does not keep text that is built piece by piece"):
        class_prompts(model, words(), ("A", "B"))
