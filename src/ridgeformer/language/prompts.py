"""Prompts as tokens, built piece by piece, with the positions at which a model answers.

Words are asked for their label, and numbers for another number:

    dog: A                      Input: 34
    hammer: B                   Output: 58
    cat:                        Input: 35
                                Output:

An answer begins with a space. Where the tokenizer makes the space a token of its own, all answers share it;
what answers share is given with the question, so that a prompt ends where the answers differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from ridgeformer.language.forest import Forest, Tokens
from ridgeformer.language.formats import NumberFormat
from ridgeformer.language.model import LanguageModel
from ridgeformer.language.tasks import (
    ClassTask,
    LanguageTask,
    NumericTask,
    Problems,
    RelabelledTask,
)
from ridgeformer.types import Refusal

LABELS: dict[str, tuple[str, str] | None] = {
    "A/B": ("A", "B"),
    "foo/bar": ("foo", "bar"),
    "natural": None,
    "swapped": None,
}
"""The styles of labels: two of no meaning, the names of the classes, and each class under the other's name."""


@dataclass(frozen=True)
class Template:
    """The pieces of text that stand before an input, between it and its answer, and after that."""

    before: tuple[str, ...]
    between: tuple[str, ...]
    after: tuple[str, ...]
    space: str = ""
    """What separates an input from what stands before it."""


WORDS = Template((), (":",), ("\n",))
NUMBERS = Template(("Input", ":"), ("\n", "Output", ":"), ("\n",), space=" ")


@dataclass(frozen=True)
class Choices:
    """The answers that a prompt allows, as tokens."""

    texts: tuple[str, ...]
    lead: Tokens
    """The tokens that all answers begin with."""
    tokens: tuple[Tokens, ...]
    """The tokens of each answer after those."""

    @staticmethod
    def of(model: LanguageModel, texts: Sequence[str]) -> Choices:
        """The choices between texts; none of them may be the beginning of another."""
        whole = [checked(model, [f" {text}"])[0] for text in texts]
        shared = 0
        while len({tokens[: shared + 1] for tokens in whole}) == 1 and shared < len(whole[0]):
            shared += 1
        tokens = tuple(answer[shared:] for answer in whole)
        grown = Forest()
        ends = [grown.grow(answer)[-1] if answer else -1 for answer in tokens]
        if len(set(ends)) < len(ends) or any(grown.children[end] for end in ends):
            raise Refusal(
                f"The tokens of one answer are the beginning of another's, among {', '.join(texts[:4])}: choose "
                "answers that differ."
            )
        return Choices(tuple(texts), whole[0][:shared], tokens)


@dataclass(frozen=True)
class TokenPrompt:
    """One problem as tokens: its supports with their answers, and queries that each follow all of them.

    A support's `questions` entry and a query end at the position that predicts the answer.
    """

    start: Tokens
    """What stands before all: the tokens that the tokenizer begins with, and an opening if there is one."""
    marks: Tokens
    """The tokens that the tokenizer begins with, alone."""
    questions: tuple[Tokens, ...]
    answers: tuple[int, ...]
    """The index of each support's answer among the choices."""
    after: Tokens
    """What stands after each answer."""
    queries: tuple[Tokens, ...]
    choices: Choices

    @property
    def supports(self) -> int:
        return len(self.questions)

    @property
    def pieces(self) -> list[Tokens]:
        """The tokens of the context: the start, then question, answer and what stands after of each support."""
        parts = [self.start]
        for question, answer in zip(self.questions, self.answers, strict=True):
            parts += [question, self.choices.tokens[answer], self.after]
        return parts

    @property
    def context(self) -> Tokens:
        """The tokens before the queries."""
        return sum(self.pieces, ())

    @property
    def sequences(self) -> list[Tokens]:
        """Each query after the context."""
        context = self.context
        return [context + query for query in self.queries]

    @property
    def predicting(self) -> list[int]:
        """For each support the position in the context that predicts its answer."""
        ends = list(accumulate(map(len, self.pieces)))
        return [end - 1 for end in ends[1::3]]

    @property
    def answer_positions(self) -> list[range]:
        """For each support the positions of its answer's tokens."""
        ends = list(accumulate(map(len, self.pieces)))
        return [range(a, b) for a, b in zip(ends[1::3], ends[2::3], strict=True)]

    @property
    def isolated(self) -> list[Tokens]:
        """Each question alone, first of the supports and then of the queries.

        As in the context, each follows the end of a line. A question that began the text would lose its first
        token: models use the state there as a place to attend to when there is nothing to read.
        """
        before = self.marks + self.after
        return [before + question for question in (*self.questions, *self.queries)]

    def with_answers(self, answers: Sequence[int]) -> TokenPrompt:
        """The same questions with other answers."""
        if len(answers) != self.supports:
            raise Refusal(
                f"A prompt with {self.supports} supports needs as many answers; got {len(answers)}."
            )
        return replace(self, answers=tuple(answers))

    def with_supports(self, chosen: Sequence[int]) -> TokenPrompt:
        """The supports of these indices, in this order; one that is named twice is repeated."""
        return replace(
            self,
            questions=tuple(self.questions[i] for i in chosen),
            answers=tuple(self.answers[i] for i in chosen),
        )


def class_prompts(
    model: LanguageModel, problems: Problems, labels: Sequence[str], opening: str = ""
) -> list[TokenPrompt]:
    """`word: A` for each problem; the target of an input is the index of its label."""
    targets = [[int(target) for target in row] for row in problems.targets.tolist()]
    return built(model, problems, WORDS, Choices.of(model, labels), targets, opening)


def number_prompts(
    model: LanguageModel, problems: Problems, written: NumberFormat, opening: str = ""
) -> list[TokenPrompt]:
    """`Input: 34` and `Output: 58` for each problem; the choices are all numbers of the format."""
    choices, answers = number_choices(model, written), written.index_of(problems.targets).tolist()
    return built(model, problems, NUMBERS, choices, answers, opening)


def prompts(
    model: LanguageModel,
    task: LanguageTask,
    problems: Problems,
    labels: str = "A/B",
    opening: str = "",
) -> list[TokenPrompt]:
    """The prompts of a task's problems; labels are in one of the styles, and play no part for numbers.

    `opening` is text before the first support, which otherwise begins the text unless the tokenizer marks that.
    """
    if isinstance(task, NumericTask):
        return number_prompts(model, problems, task.number_format(), opening)
    return class_prompts(model, problems, labels_of(task, labels), opening)


def labels_of(task: LanguageTask, style: str) -> tuple[str, str]:
    """The labels of a task's two classes in a style."""
    if style not in LABELS:
        raise Refusal(f"There is no style of labels {style!r}: choose from {', '.join(LABELS)}.")
    if not isinstance(task, (ClassTask, RelabelledTask)):
        raise Refusal(f"The language task {task.name} has no classes to label.")
    first, second = LABELS[style] or task.classes
    return (second, first) if style == "swapped" else (first, second)


def number_choices(model: LanguageModel, written: NumberFormat) -> Choices:
    """All numbers of a format; one that the tokenizer writes with differing numbers of tokens is refused."""
    choices = Choices.of(model, written.texts())
    lengths = sorted({len(tokens) for tokens in choices.tokens})
    if len(lengths) > 1:
        raise Refusal(
            f"The tokenizer writes numbers of the format {written.name} with {lengths[0]} to {lengths[-1]} "
            "tokens, so that they cannot be compared: choose another format."
        )
    return choices


def built(
    model: LanguageModel,
    problems: Problems,
    template: Template,
    choices: Choices,
    answers: list[list[int]],
    opening: str,
) -> list[TokenPrompt]:
    def question(text: str) -> Tokens:
        pieces = [*template.before, template.space + text, *template.between]
        return sum(checked(model, pieces), ()) + choices.lead

    after = sum(checked(model, template.after), ())
    start = model.start + sum(checked(model, [opening]), ())
    return [
        TokenPrompt(
            start,
            model.start,
            tuple(map(question, inputs)),
            tuple(chosen),
            after,
            tuple(map(question, queries)),
            choices,
        )
        for inputs, chosen, queries in zip(problems.inputs, answers, problems.queries, strict=True)
    ]


def checked(model: LanguageModel, pieces: Sequence[str]) -> list[Tokens]:
    """The tokens of each piece; a tokenizer that joins pieces to another text is refused."""
    tokens = [model.tokens(piece) for piece in pieces]
    text = "".join(pieces)
    if (seen := model.text(sum(tokens, ()))) != text:
        raise Refusal(
            f"The tokenizer of {model.name} does not keep text that is built piece by piece ({text!r} becomes "
            f"{seen!r}): choose a model with byte-level tokens."
        )
    return tokens
