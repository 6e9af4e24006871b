"""The study of a language model on a tiny random one, and its verdict on planted learners."""

import json
from dataclasses import replace
from functools import partial
from math import inf

import pytest
import torch
from browsing import problems_at_every_width
from tiny_language import save_tiny, tiny_model

from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.experiments.jobs import Store
from ridgeformer.experiments.language import (
    drift,
    number_formats,
    number_influence,
    numbers,
    outputs,
    told,
)
from ridgeformer.experiments.language.asked import drawn, fingerprint, packed, unpacked
from ridgeformer.experiments.language.gathered import Seen, gathered
from ridgeformer.experiments.language.lm_page import page_of
from ridgeformer.experiments.language.noise import rates_under
from ridgeformer.experiments.language.power import mixed
from ridgeformer.experiments.language.simulated import (
    Noise,
    draw_words,
    neighbour_learner,
    ridge_learner,
    simulate,
)
from ridgeformer.experiments.language.study import chosen_tasks, study_language, word_jobs
from ridgeformer.experiments.language.words import COPIES, TOGETHER, answers, centred_cosines
from ridgeformer.experiments.page import render
from ridgeformer.language import FORMATS, LANGUAGE_TASKS, label_flips, log_odds, prompts, scores
from ridgeformer.language.tasks import NumericTask
from ridgeformer.types import Refusal


@pytest.fixture(scope="module", autouse=True)
def few_simulated():
    """Power is told from two simulated learners of each kind, for time's sake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(told, "rates_under", partial(rates_under, repeats=2))
        yield


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("tiny"), seed=5)


@pytest.fixture(scope="module", autouse=True)
def small():
    """Fewer supports and prompts of numbers, which a test of the whole does not need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_influence, "SUPPORTS", 5)
        patch.setattr(number_formats, "PROMPTS", 2)
        yield


@pytest.fixture(scope="module")
def study(directory, tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    finding = study_language(
        ["animal-tool", "random-labels", "linear"], out, model=directory, prompts=4, seed=3
    )
    return finding, out, directory


@pytest.mark.pages
def test_the_page_is_drawn_at_every_width(study, browser):
    assert problems_at_every_width(browser, study[1] / "index.html") == {}


def test_the_study_writes_numbers_with_intervals_and_a_page(study):
    finding, out, _ = study
    written = json.loads((out / "findings.json").read_text())
    assert written["settings"]["seed of choices"] == 3
    assert written["settings"]["seed of numbers"] == 4
    for task in ("animal-tool", "random-labels"):
        assert written["settings"]["choices"][task]["seed"] == 3
        assert {"layer", "λ", "centre"} <= written["settings"]["choices"][task].keys()
        for name in ("similarity", "kernel ridge regression", told.UNTRAINED, told.IN_CONTEXT):
            number = finding.get("agreement", name, task=task)
            assert number.low <= number.mean <= number.high
            assert number.prompts == 4
    assert written["settings"]["queries of words"] == 12
    assert written["settings"]["queries of numbers"] == 6
    for k in numbers.SIZES:
        assert finding.get("RMSE", "language model", task="linear", supports=k).mean > 0
        assert finding.get("RMSE", "ridge on states", task="linear", supports=k).mean > 0
        fixed = written["settings"]["choices of numbers"]["linear"][str(k)]
        assert {"layer", "λ", "views"} <= fixed["trained"].keys() & fixed["untrained"].keys()
    page = (out / "index.html").read_text()
    assert finding.settings["verdict"] in page
    changed = written["settings"]["changed targets"]
    assert changed["verdict"] in page
    assert (
        {"linear, states", "linear, inputs"}
        == changed["verdicts"].keys()
        == changed["choices"].keys()
    )
    for features in ("states", "inputs"):
        number = finding.get("agreement of targets", "similarity", task="linear", features=features)
        assert number.low <= number.mean <= number.high
    for name in FORMATS:
        assert name in page
        found = finding.get("RMSE over the mean's, by format", "language model", format=name)
        assert found.mean > 0
    assert "Layer by layer" in page
    assert "Are predictors wrong where the model is?" in page
    assert finding.settings["styles"]["curves"] == {"animal-tool": [2, 4, 8, 16, 32, 64]}
    for style in ("A/B", "foo/bar", "natural", "swapped"):
        number = finding.get("accuracy by labels", "language model", labels=style, supports=16, bias="centred")  # fmt: skip
        assert number.setting["task"] == "animal-tool"
        assert number.prompts == 4
    assert "Do states of the same word move?" in page
    drifts = finding.select("drift", drift.WHOLE, task="animal-tool")
    assert [n.setting["layer"] for n in drifts] == [0, 1, 2, 3]
    change = finding.get("change of f*", drift.WHOLE, task="animal-tool", layer=3)
    assert 0 < change.low <= change.mean <= change.high


def test_the_same_command_asks_nothing_twice_and_finds_the_same(study, monkeypatch):
    _, out, directory = study
    before = (out / "findings.json").read_bytes()

    def asked(*_):
        raise AssertionError("the model was asked again")

    monkeypatch.setattr("ridgeformer.experiments.language.words.answers", asked)
    monkeypatch.setattr("ridgeformer.experiments.language.numbers.number_answers", asked)
    monkeypatch.setattr("ridgeformer.experiments.language.styles.scores", asked)
    monkeypatch.setattr("ridgeformer.experiments.language.drift.in_context", asked)
    monkeypatch.setattr("ridgeformer.experiments.language.number_influence.target_changes", asked)
    said = []
    store = Store(out / "tasks", say=said.append)
    study_language(["animal-tool", "random-labels", "linear"], out, model=directory, prompts=4, seed=3, store=store)  # fmt: skip
    # 2 seeds of 2 tasks with words; 26 of numbers; 4 styles and 5 other sizes of one task; contexts of trained and untrained.
    kept = 4 * 2 * 2 + 26 + 4 * (4 + 5) + 2 * drift.CONTEXTS
    assert said == [f"{kept} of {kept} results are kept in {out / 'tasks'} already."]
    assert (out / "findings.json").read_bytes() == before


def test_every_task_is_asked_with_as_many_queries_as_the_settings_say():
    for task in chosen_tasks(list(LANGUAGE_TASKS)):
        expected = 6 if isinstance(task, NumericTask) else 12
        assert len(drawn(task, 0, 0).queries[0]) == expected


def test_more_prompts_are_the_same_ones_and_others():
    task = LANGUAGE_TASKS["animal-tool"]()
    few, many = ([drawn(task, 0, n).inputs for n in range(count)] for count in (2, 5))
    assert many[:2] == few
    assert len({row for (row,) in many}) == 5


def test_influence_is_half_the_flip_and_copies_are_changed_together():
    model, task = tiny_model(seed=1), LANGUAGE_TASKS["animal-tool"](supports=6, queries=3)
    problem = task.draw(1, 0)
    (prompt,) = prompts(model, task, problem)
    together = torch.tensor([[1, 0, 0, 0, 1, 0], [1, 1, 1, 1, 1, 1]]).bool()
    found = answers(model, prompt, torch.tensor([2, 5, 0]), together)
    flips = label_flips(model, prompt)
    y = 2 * problem.targets[0] - 1
    expected = (flips[1:] - flips[0]) / (-2 * y[:, None])
    assert torch.allclose(found["influence"].double(), expected.double(), atol=1e-5)
    assert torch.allclose(found["outputs"], flips[0], atol=1e-5)
    # By hand: three copies, all of them flipped, each prompt scored alone.
    own = list(prompt.answers)
    both = []
    for label in (own[2], 1 - own[2]):
        labels = [label, own[1], label, own[3], own[4], label]
        whole = prompt.with_supports([2, 1, 2, 3, 4, 2]).with_answers(labels)
        both.append(log_odds(scores(model, [whole], shared=False))[0])
    per_copy = (both[1] - both[0]) / (-2 * y[2]) / COPIES
    assert torch.allclose(found["repeated"].double(), per_copy.double(), atol=1e-4)
    for part, labels in enumerate(
        ([1 - own[0], *own[1:4], 1 - own[4], own[5]], [1 - y for y in own])
    ):
        changed = log_odds(scores(model, [prompt.with_answers(labels)]))[0]
        assert torch.allclose(found["together"][part], changed - flips[0], atol=1e-4)
    assert torch.equal(found["flipped together"], together)
    assert found["attention"].shape == (12, 6, 3)


def test_features_of_words_do_not_depend_on_the_prompt(directory):
    task = LANGUAGE_TASKS["animal-tool"](supports=6, queries=3)
    jobs = word_jobs(str(directory), fingerprint(directory), task, 4, 0)
    seen = gathered(jobs, [job.run() for job in jobs])
    words = [job.problem().inputs[0] + job.problem().queries[0] for job in jobs]
    features = torch.cat([seen.trained.supports, seen.trained.queries], dim=2)
    by_word = {}
    for b, row in enumerate(words):
        for i, word in enumerate(row):
            known = by_word.setdefault(word, features[:, b, i])
            assert torch.allclose(known, features[:, b, i], atol=1e-5)
    assert len(by_word) > 10
    assert not torch.allclose(seen.trained.supports[-1], seen.untrained.supports[-1], atol=0.1)
    assert torch.allclose(seen.words, torch.stack(list(by_word.values()), dim=1), atol=1e-5)
    first = seen.copies.slots[:, 0]
    assert torch.equal(seen.copies.once, seen.trained.influence[torch.arange(4), first])
    assert len({tuple(row) for row in seen.copies.slots.tolist()}) > 1
    assert seen.flipped.sum(-1).tolist() == [[2, 6]] * 4
    assert not torch.equal(seen.flipped[0, 0], seen.flipped[1, 0])


def test_cosines_of_what_is_constant_are_zero():
    same = torch.ones(5, 7) * 1e3 + 1e-5 * torch.randn(5, 7)
    assert not centred_cosines(same, same[:3]).any()
    a, b = torch.randn(5, 7), torch.randn(3, 7)
    expected = torch.nn.functional.cosine_similarity(
        (a - a.mean(0))[:, None], (b - a.mean(0))[None], dim=-1
    )
    assert torch.allclose(centred_cosines(a, b), expected, atol=1e-5)


def test_packed_tensors_come_back():
    values = torch.randn(3, 4, 5)
    assert torch.equal(unpacked(json.loads(json.dumps(packed(values)))), values)


def planted(learner, seed):
    """What would be gathered of a language model that is this learner, for both seeds."""
    words = draw_words(seed=seed)
    parts = []
    for part in (1, 2):
        seen, copies = simulate(words, learner, Noise(), prompts=25, seed=mixed(seed, part), noise_seed=seed)  # fmt: skip
        generator = torch.Generator().manual_seed(part)
        noise = torch.randn(*seen.supports.shape, generator=generator, dtype=torch.float64)
        asked = torch.randn(*seen.queries.shape, generator=generator, dtype=torch.float64)
        changes = -2 * seen.targets[..., None] * seen.influence
        order = torch.rand(25, 16, generator=generator).argsort(-1)
        flipped = torch.stack([order < n for n in TOGETHER], dim=1)
        parts.append(
            Seen(
                replace(seen, truth=seen.outputs.sign()),
                replace(seen, supports=noise, queries=asked),
                copies,
                centred_cosines(seen.supports, seen.queries),
                flipped.double() @ changes,
                flipped,
                words[None],
            )
        )
    return parts


@pytest.mark.parametrize(
    ("learner", "kind"),
    [
        (ridge_learner(0.1), "kernel ridge regression"),
        (ridge_learner(inf), "similarity"),
        (neighbour_learner(1), "neighbours"),
    ],
)
def test_a_planted_learner_gets_its_verdict(learner, kind):
    out = Collector(25, 1)
    heard, seen = [], {}
    for number in range(2):
        first, second = planted(learner, 7 + number)
        heard.append(told.tell(f"task-{number}", first, second, out))
        seen[f"task-{number}"] = second
    settings = {
        **told.settings_of(heard, seen), "words": list(seen), "numbers": [], "copies": COPIES, "labels": "A/B",
        "model": {"name": "planted", "layers": 1, "heads": 1, "width": 96, "fingerprint": "0" * 32},
        "seed of choices": 0, "seed of numbers": 1, "supports of words": 16, "queries of words": 6, "styles": {"tasks": []}, "drift": {"tasks": []},
    }  # fmt: skip
    assert settings["verdict"] == f"The influence of labels is that of {kind} in 2 of 2 tasks."
    assert {v["kind"] for v in settings["verdicts"].values()} == {kind}
    finding = Finding("planted", 0, 25, settings, told.MEASURES, out.numbers)
    assert settings["verdict"] in render(page_of(finding))
    difference = finding.get("difference", "kernel ridge regression, smaller λ", task="task-0")
    assert (difference.low > 0) == (kind == "kernel ridge regression") or kind == "neighbours"
    assert abs(finding.get("agreement", told.UNTRAINED, task="task-0").mean) < 0.15
    assert finding.get("additivity", "flips", task="task-0", flips=6).mean == pytest.approx(1)
    assert finding.get("noise", "ceiling", task="task-0").value > 0.9
    power = finding.get("power", "ridge regression, λ = 0.1", task="task-0")
    assert (power.mean, power.prompts, power.control) == (1, 2, False)
    assert power.low == pytest.approx(0.025**0.5)  # Clopper and Pearson, of 2 in 2
    wrong = finding.get("power", "similarity", task="task-0")
    assert (wrong.mean, wrong.control) == (0, True)
    assert "Could it have found ridge regression?" in render(page_of(finding))
    trained, control = (
        finding.get("outputs by layer", name, task="task-0", layer=0)
        for name in ("isolated", "isolated, untrained")
    )
    assert trained.low > (0.1 if kind == "neighbours" else 0.3)
    assert abs(control.mean) < 0.3
    assert control.control


def test_where_the_model_is_wrong_and_how_often_a_predictor_is_at_all():
    (seen, _) = simulate(draw_words(seed=3), ridge_learner(inf), Noise(), prompts=25, seed=4, noise_seed=5)  # fmt: skip
    generator = torch.Generator().manual_seed(6)
    truth = torch.randint(2, seen.outputs.shape, generator=generator) * 2.0 - 1.0
    truth[:, 0], truth[:, 1] = 1.0, -1.0
    out = Collector(25, 1)
    same, blind = seen.outputs.double() + 3, truth + 0.1 * torch.randn(truth.shape, generator=generator)  # fmt: skip
    outputs.add_outputs(replace(seen, truth=truth), {"same": same, "blind": blind}, out)
    finding = Finding("planted", 0, 25, numbers=out.numbers)
    centred = seen.outputs - seen.outputs.mean(-1, keepdim=True)
    wrong = int((centred.sign() != truth).sum())
    assert finding.get("wrong queries", "language model").value == wrong
    # What says the same is wrong at the same queries, and no more often in all; what knows the truth shares few errors.
    assert finding.get("wrong together", "same").value == 1
    assert finding.get("wrong at all", "same").value == pytest.approx(wrong / truth.numel())
    assert finding.get("wrong together", "blind").value < 0.2


def test_one_sentence_over_all_tasks():
    same = told.overall(["similarity", "cannot be told", "similarity"])
    assert same.endswith(
        "that of similarity in 2 of 3 tasks, and in the other 1 it cannot be told."
    )
    assert "cannot be told" in told.overall(["cannot be told"])
    assert "differs" in told.overall(["similarity", "recency"])


def test_references_of_numbers_know_a_line():
    task = LANGUAGE_TASKS["linear"](supports=16, noise=0.0)
    problems, before = task.draw(8, 1), task.draw(8, 0)
    prompt, mean = numbers.scaled(problems, task)
    found = numbers.references(numbers.scaled(before, task)[0])
    errors = {
        name: (one.predict(prompt)[..., 0] + mean - problems.query_targets).abs().mean()
        for name, one in found.items()
    }
    assert errors["ridge on inputs"] < 1
    assert errors["GP"] < 1
    assert errors["1-NN"] < errors["mean"]


@pytest.mark.parametrize(
    ("names", "options", "reason"),
    [
        (["animal-tols"], {}, "did you mean animal-tool"),
        (["linear", "linear"], {}, "named twice"),
        ([], {"prompts": 3}, "at least 4"),
        ([], {"seed": -1}, "seed"),
        ([], {"model": "nowhere"}, "`ridgeformer lm fetch`"),
    ],
)
def test_refusals_write_nothing(names, options, reason, tmp_path, directory):
    with pytest.raises(Refusal, match=reason):
        study_language(names, tmp_path / "out", **{"model": directory, **options})
    assert not (tmp_path / "out").exists()


def test_a_prompt_that_is_too_long_is_refused(tmp_path):
    small = save_tiny(tmp_path / "small", max_position_embeddings=32)
    with pytest.raises(Refusal, match="reads at most 32"):
        study_language(["animal-tool"], tmp_path / "out", model=small, prompts=4)
    assert not (tmp_path / "out" / "findings.json").exists()
    assert not (tmp_path / "out" / "index.html").exists()
