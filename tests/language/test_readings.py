"""Readings and influences equal those of Hugging Face, run sequence by sequence."""

import pytest
import torch
from tiny_language import tiny_model, tiny_network

from ridgeformer.language import (
    FORMATS,
    LANGUAGE_TASKS,
    changed_answers,
    expectations,
    isolated_states,
    label_flips,
    log_odds,
    prompts,
    read,
    scores,
    target_changes,
)
from ridgeformer.types import Refusal


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(scope="module")
def network():
    network = tiny_network()
    network.set_attn_implementation("eager")
    return network


def run(network, sequence):
    with torch.no_grad():
        return network(torch.tensor([sequence]), output_hidden_states=True, output_attentions=True)


def score(network, sequence, answer):
    """The log-probability of an answer after a sequence."""
    steps = run(network, sequence + answer).logits[0, len(sequence) - 1 : -1].log_softmax(-1)
    return float(steps.gather(1, torch.tensor(answer)[:, None]).sum())


def drawn(model, name="animal-tool", labels="A/B", batch=2, k=4, q=3):
    task = LANGUAGE_TASKS[name](supports=k, queries=q)
    return prompts(model, task, task.draw(batch, seed=0), labels)


@pytest.mark.parametrize("labels", ["A/B", "foo/bar", "natural"])
def test_readings_equal_those_of_single_sequences(model, network, labels):
    batch = drawn(model, labels=labels)
    found = read(model, batch)
    assert found.support_states.shape == (2, 4, 4, 32)
    assert found.query_states.shape == (2, 3, 4, 32)
    assert found.attention.shape == (2, 3, 3, 4, 4)
    close = {"atol": 3e-5, "rtol": 0}
    for b, prompt in enumerate(batch):
        for q, sequence in enumerate(prompt.sequences):
            out = run(network, sequence)
            states = torch.stack(out.hidden_states)[:, 0]
            torch.testing.assert_close(found.query_states[b, q], states[:, -1], **close)
            supports = states[:, prompt.predicting].transpose(0, 1)
            torch.testing.assert_close(found.support_states[b], supports, **close)
            attention = torch.stack(out.attentions)[:, 0, :, -1]
            for i, span in enumerate(prompt.answer_positions):
                summed = attention[..., span.start : span.stop].sum(-1)
                torch.testing.assert_close(found.attention[b, q, ..., i], summed, **close)
            expected = [score(network, sequence, tokens) for tokens in prompt.choices.tokens]
            torch.testing.assert_close(found.scores[b, q], torch.tensor(expected), **close)
        alone = [torch.stack(run(network, s).hidden_states)[:, 0, -1] for s in prompt.isolated]
        isolated = torch.cat([found.isolated_support_states[b], found.isolated_query_states[b]])
        torch.testing.assert_close(isolated, torch.stack(alone), **close)


def test_chosen_layers_and_no_attention(model):
    batch = drawn(model)
    whole, part = read(model, batch), read(model, batch, layers=(2,), attention=False)
    torch.testing.assert_close(part.support_states, whole.support_states[:, :, [2]])
    torch.testing.assert_close(part.isolated_query_states, whole.isolated_query_states[:, :, [2]])
    assert part.attention.count_nonzero() == 0
    torch.testing.assert_close(part.scores, whole.scores, atol=1e-5, rtol=0)
    with pytest.raises(Refusal, match=r"layers 0 to 3; got \[4\]"):
        read(model, batch, layers=(4,))
    with pytest.raises(Refusal, match="equally many"):
        read(model, [*batch, *drawn(model, k=2)])


def test_isolated_states_are_the_same_wherever_they_stand(model):
    batch = drawn(model)
    both, again = isolated_states(model, batch, (3,)), isolated_states(model, batch[1:], (3,))
    torch.testing.assert_close(both[1:], again, atol=1e-5, rtol=0)


@pytest.mark.parametrize("labels", ["A/B", "foo/bar"])
def test_flipped_labels_move_log_odds_as_in_prompts_built_anew(model, network, labels):
    (prompt,) = drawn(model, labels=labels, batch=1)
    found = label_flips(model, prompt)
    assert found.shape == (5, 3)
    expected = []
    for variant in range(5):
        answers = [a if i + 1 != variant else 1 - a for i, a in enumerate(prompt.answers)]
        row = []
        for sequence in prompt.with_answers(answers).sequences:
            first, second = (score(network, sequence, t) for t in prompt.choices.tokens)
            row.append(second - first)
        expected.append(row)
    torch.testing.assert_close(found, torch.tensor(expected), atol=5e-5, rtol=0)
    some = label_flips(model, prompt, supports=(3, 1))
    torch.testing.assert_close(some, found[[0, 4, 2]], atol=5e-5, rtol=0)


def test_changed_targets_move_expectations_as_in_prompts_built_anew(model):
    (prompt,) = drawn(model, "linear", batch=1, k=3, q=2)
    written, targets = FORMATS["integers"], torch.tensor([11.0, 55.0, 99.0], dtype=torch.float64)
    found = target_changes(model, prompt, written, targets)
    assert found.shape == (4, 2)
    for variant in range(4):
        answers = list(prompt.answers)
        if variant:
            answers[variant - 1] = (1, 45, 89)[variant - 1]
        anew = prompt.with_answers(answers)
        expected = expectations(scores(model, [anew], shared=False)[0], written)
        torch.testing.assert_close(found[variant], expected, atol=1e-3, rtol=0)
    some = target_changes(model, prompt, written, targets, supports=(2,))
    torch.testing.assert_close(some, found[[0, 3]], atol=1e-3, rtol=0)


def test_several_labels_may_change_at_once(model):
    (prompt,) = drawn(model, batch=1)
    variants = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]])
    found = log_odds(changed_answers(model, prompt, variants))
    for row, answers in enumerate(variants.tolist()):
        anew = log_odds(scores(model, [prompt.with_answers(answers)], shared=False)[0])
        torch.testing.assert_close(found[row], anew, atol=5e-5, rtol=0)
    with pytest.raises(Refusal, match="among the prompt's 2"):
        changed_answers(model, prompt, torch.tensor([[0, 0, 0, 2]]))


def test_only_two_labels_flip(model):
    (prompt,) = drawn(model, "linear", batch=1, k=2)
    with pytest.raises(Refusal, match="Labels flip between two; this prompt has 90"):
        label_flips(model, prompt)
