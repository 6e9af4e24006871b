"""Drift of states on planted ones: what does not move has none, and what does has its known size."""

import pytest
import torch
from tiny_language import save_tiny, tiny_model

from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.experiments.language import drift
from ridgeformer.experiments.language.asked import fingerprint, unpacked
from ridgeformer.language import LANGUAGE_TASKS
from ridgeformer.solvers import krr
from ridgeformer.tasks import Prompt

CLASSES = torch.arange(32) % 2 * 2.0 - 1.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny"), seed=5))


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def told(trained, untrained=None, layers=(0,)):
    out = Collector(12, 1)
    other = trained if untrained is None else untrained
    drift.tell(layers, trained, other, CLASSES, out)
    return Finding("planted", 0, 12, numbers=out.numbers)


def test_states_that_do_not_move_have_no_drift_and_no_effect():
    words = normal(1, 32, 1, 40) + CLASSES[None, :, None, None]
    found = told(words.expand(-1, -1, 12, -1), words.expand(-1, -1, 12, -1) + normal(1, 32, 12, 40))
    assert found.get("drift", drift.WHOLE).value == pytest.approx(0, abs=1e-12)
    assert found.get("drift", drift.WHOLE + drift.UNTRAINED).value > 0.3
    assert found.get("change of f*", drift.WHOLE).value == pytest.approx(0, abs=1e-12)
    for name in (drift.WHOLE, drift.FROZEN, drift.PRINCIPAL, drift.RANDOM):
        assert found.get("change of f* for other words", name).value == pytest.approx(0, abs=1e-12)
    assert found.get("kept", drift.WHOLE).value == pytest.approx(1)
    assert 0 < found.get("kept", drift.FROZEN).value < 1


def test_drift_of_a_known_size_and_what_all_words_share():
    words, own = normal(1, 32, 1, 600), 0.5 * normal(1, 32, 12, 600, seed=1)
    shared = 2.0 * normal(1, 1, 12, 600, seed=2)
    found = told(words + own + shared)
    # W is .25 of words alone and 4 that all share; B is 1.
    assert found.get("drift", drift.WHOLE).value == pytest.approx(4.25, rel=0.1)
    assert found.get("drift", drift.SHIFTED).value == pytest.approx(0.25, rel=0.1)
    # What all share is no part of features that are centred.
    without, effect = (f.get("change of f*", drift.WHOLE).value for f in (told(words + own), found))
    assert effect == pytest.approx(without, rel=1e-9)
    assert effect > 0.05


@pytest.mark.parametrize("size", [0.01, 0.3, 3.0])
def test_the_change_is_never_above_its_bound(size):
    words = normal(3, 32, 1, 20) + CLASSES[None, :, None, None]
    found = told(words + size * normal(3, 32, 12, 20, seed=3), layers=(0, 1, 2))
    for layer in range(3):
        change, bound = (found.get(m, drift.WHOLE, layer=layer).value for m in ("change of f*", "bound on the change of f*"))  # fmt: skip
        assert 0 < change <= bound


def test_a_planted_frozen_direction_is_found():
    words = normal(1, 32, 1, 40)
    words[..., :8] += 2.0 * CLASSES[None, :, None, None] * torch.rand(8)
    moved = 3.0 * normal(1, 32, 12, 40, seed=4)
    moved[..., :8] = 0.0
    found = told(words + moved)
    frozen, whole = (found.get("drift of other words", n).value for n in (drift.FROZEN, drift.WHOLE))  # fmt: skip
    assert frozen < 0.2 * whole
    changes = [found.get("change of f* for other words", n).value for n in (drift.FROZEN, drift.WHOLE)]  # fmt: skip
    assert changes[0] < 0.5 * changes[1]


def test_a_layer_whose_states_are_all_alike_has_no_numbers():
    flat, words = torch.ones(1, 32, 12, 20), normal(1, 32, 12, 20)
    found = told(torch.cat([flat.double(), words]), layers=(0, 1))
    assert found.get("drift", drift.WHOLE, layer=0).mean is None
    assert found.get("change of f*", drift.WHOLE, layer=0).mean is None
    assert not found.select("kept", drift.FROZEN, layer=0)
    assert found.get("kept", drift.FROZEN, layer=1).value > 0


def test_every_word_is_once_a_query_and_classes_are_balanced():
    states = normal(3, 16, 5)
    prompt, truth = drift.turns(states, CLASSES[:16])
    assert len(prompt) == 3 * drift.FOLDS
    assert prompt.supports == 12
    assert not prompt.y.sum(1).any()
    assert not truth.sum(1).any()
    # By hand: the second turn of the third context asks words 2, 3, 10 and 11.
    asked, rest = [2, 3, 10, 11], [0, 1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15]
    mean = states[2, rest].mean(0)
    a, b = (torch.nn.functional.normalize(states[2, i] - mean, dim=-1) for i in (rest, asked))
    row = 2 * drift.FOLDS + 1
    assert torch.allclose(prompt.phi[row], a)
    assert torch.allclose(prompt.phi_query[row], b)
    assert torch.equal(truth[row], CLASSES[asked].double())
    expected = a @ a.T + drift.RIDGE * torch.eye(12)
    by_hand = b @ a.T @ torch.linalg.solve(expected, CLASSES[rest].double())
    said = krr(Prompt(prompt.phi, prompt.y, prompt.phi_query), ridge=drift.RIDGE)[row, :, 0]
    assert torch.allclose(said, by_hand)


def test_contexts_have_none_of_the_words_and_states_follow_them(directory):
    task = LANGUAGE_TASKS["animal-tool"]()
    jobs = drift.drift_jobs(directory, fingerprint(directory), [task], 1)["animal-tool"]
    assert len(jobs) == 2 * drift.CONTEXTS
    problems = [job.problem() for job in jobs]
    assert len({p.queries for p in problems}) == 1
    assert len({p.inputs for p in problems}) == drift.CONTEXTS
    for p in problems:
        assert not {*p.inputs[0]} & {*p.queries[0]}
        assert p.targets.sum() == drift.SUPPORTS // 2
        kinds = [task.members[int(y)] for y in p.targets[0]]
        assert all(w in kind for w, kind in zip(p.inputs[0], kinds, strict=True))
        own = [task.members[i % 2] for i in range(drift.INPUTS)]
        assert all(w in kind for w, kind in zip(p.queries[0], own, strict=True))
    model, first = tiny_model(seed=5), problems[0]
    shown = zip(first.inputs[0], first.targets[0].tolist(), strict=True)
    text = "".join(f"{word}: {'AB'[int(y)]}\n" for word, y in shown) + f"{first.queries[0][3]}:"
    with torch.inference_mode():
        hidden = model.network(
            torch.tensor([model.tokens(text)]), output_hidden_states=True
        ).hidden_states
    states = unpacked(jobs[0].run()["states"])
    assert states.shape == (drift.INPUTS, 4, 32)
    for place, layer in enumerate(drift.layers_of(model)):
        torch.testing.assert_close(states[3, place], hidden[layer][0, -1], atol=1e-3, rtol=1e-3)


def test_only_tasks_with_classes_and_words_enough():
    tasks = [LANGUAGE_TASKS[n]() for n in ("random-labels", "linear", "even-odd", "animal-tool", "fruit-country")]  # fmt: skip
    assert list(drift.drift_jobs("x", "y", tasks, 1)) == ["even-odd", "animal-tool"]
    assert drift.drift_jobs("x", "y", tasks[:2], 1) == {}
