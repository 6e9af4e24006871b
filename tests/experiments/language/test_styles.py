"""Accuracy under other labels: by hand for one prompt, on planted answers, and as kept jobs."""

import json

import pytest
import torch
from tiny_language import save_tiny, tiny_model

from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.experiments.language import styles
from ridgeformer.experiments.language.asked import fingerprint, packed, unpacked
from ridgeformer.experiments.language.names import MODEL
from ridgeformer.experiments.language.outputs import accuracies, centred_unit
from ridgeformer.language import LABELS, LANGUAGE_TASKS


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny"), seed=5))


def jobs_of(directory, names=("animal-tool",), curves=(), count=4):
    return styles.style_jobs(directory, fingerprint(directory), names, curves, count, 1)


def test_accuracy_by_hand():
    said = torch.tensor([[3.0, 1.0, 2.0, 4.0], [-1.0, 1.0, -2.0, 2.0]])
    truth = torch.tensor([[1.0, -1.0, -1.0, 1.0], [1.0, 1.0, -1.0, 1.0]])
    found = accuracies(said, truth)
    assert found["kept"].tolist() == [0.5, 0.75]
    assert found["centred"].tolist() == [1.0, 0.75]


@pytest.mark.parametrize("style", LABELS)
def test_answers_are_those_to_the_text_that_is_written_by_hand(directory, style):
    job = next(j for j in jobs_of(directory)["animal-tool"] if j.labels == style)
    said = unpacked(job.run()["outputs"])
    problem, model = job.problem(), tiny_model(seed=5)
    first, second = {"A/B": ("A", "B"), "foo/bar": ("foo", "bar"), "natural": ("animal", "tool"), "swapped": ("tool", "animal")}[style]  # fmt: skip
    shown = zip(problem.inputs[0], problem.targets[0].tolist(), strict=True)
    context = "".join(f"{word}: {(first, second)[int(y)]}\n" for word, y in shown)
    for query in (0, 5):
        start = model.tokens(f"{context}{problem.queries[0][query]}:")
        both = [chain_of(model, start, model.tokens(f" {label}")) for label in (first, second)]
        assert float(said[query]) == pytest.approx(both[1] - both[0], abs=1e-3)


def chain_of(model, start, answer):
    """The log-probability of an answer's tokens, from one run of the network on the whole text."""
    ids = torch.tensor([[*start, *answer]])
    with torch.inference_mode():
        logits = model.network(ids, use_cache=False).logits[0].log_softmax(-1)
    return sum(float(logits[len(start) - 1 + i, token]) for i, token in enumerate(answer))


def test_styles_have_the_same_problems_with_balanced_queries(directory):
    jobs = jobs_of(directory)["animal-tool"]
    assert len(jobs) == 4 * len(LABELS)
    for number in range(4):
        own = [job.problem() for job in jobs if job.number == number]
        assert len({(p.inputs, p.queries) for p in own}) == 1
        assert own[0].query_targets.sum() == styles.QUERIES // 2
    assert len({json.dumps(job.describe(), sort_keys=True) for job in jobs}) == len(jobs)


def planted(jobs, bias, knows):
    """Answers with a bias: right under the styles that are known, and otherwise alike for both classes."""
    results = []
    for job in jobs:
        truth = 2 * job.problem().query_targets[0] - 1
        sign = 1.0 if job.labels in knows else -1.0
        results.append({"outputs": packed(bias + sign * truth)})
    return results


def test_a_planted_bias_hides_what_centring_shows(directory):
    jobs = jobs_of(directory, curves=["animal-tool"])["animal-tool"]
    out = Collector(4, 1)
    styles.score(jobs, planted(jobs, 5.0, ("A/B", "foo/bar", "natural")), out)
    finding = Finding("planted", 0, 4, numbers=out.numbers)

    def value(style, bias):
        return finding.get("accuracy by labels", MODEL, labels=style, bias=bias, supports=16).value

    assert [value(style, "kept") for style in LABELS] == [0.5] * 4
    assert [value(style, "centred") for style in LABELS] == [1.0, 1.0, 1.0, 0.0]
    assert finding.get("labels less A/B", MODEL, labels="swapped").value == -1
    assert finding.get("labels less A/B", MODEL, labels="foo/bar").value == 0
    sizes = [n.setting["supports"] for n in finding.select("accuracy by labels", "1-NN", bias="kept")]  # fmt: skip
    assert sizes == list(styles.SIZES)


def test_references_know_classes_that_lie_apart(directory, monkeypatch):
    task = LANGUAGE_TASKS["animal-tool"](supports=16, queries=12)
    problems = task.draw(3, 0)
    wide = torch.randn(3, 28, 1, 32) * 0.1 + 7
    wide[:, :, 0, 0] += torch.cat([problems.targets, problems.query_targets], dim=1).float()
    monkeypatch.setattr(styles, "isolated_states", lambda *_: wide)
    out = Collector(3, 1)
    styles.add_references(jobs_of(directory)["animal-tool"][0], problems, out)
    assert {n.method for n in out.numbers} >= {"1-NN", "class centroids"}
    assert min(n.value for n in out.numbers) > 0.9


def test_features_are_centred_by_supports_and_of_length_one():
    supports, queries = torch.randn(2, 5, 7).double() + 3, torch.randn(2, 4, 7).double() + 3
    a, b = centred_unit(supports, queries)
    mean = supports.mean(1, keepdim=True)
    assert torch.allclose(a, torch.nn.functional.normalize(supports - mean, dim=-1))
    assert torch.allclose(b, torch.nn.functional.normalize(queries - mean, dim=-1))
    same = torch.ones(2, 5, 7).double()
    assert not centred_unit(same, same)[0].any()


def test_which_tasks_and_sizes(tmp_path, directory):
    every = [task.name for task in styles.styled_tasks(())]
    assert {"animal-tool", "small-large", "even-odd", "verb-adjective", "flipped-labels"} <= {*every}  # fmt: skip
    assert not {"random-labels", "linear"} & {*every}
    assert styles.styled_tasks(["linear", "random-labels"]) == []
    assert [t.name for t in styles.styled_tasks(["even-odd", "linear"])] == ["even-odd"]
    # A model that reads few tokens has no learning curve beyond them.
    small = str(save_tiny(tmp_path / "small", max_position_embeddings=256))
    sizes = {j.task.supports for j in jobs_of(small, curves=["animal-tool"])["animal-tool"]}
    assert sizes == {2, 4, 8, 16}
    assert len(jobs_of(directory, count=99)["animal-tool"]) == 4 * styles.MOST_PROMPTS
