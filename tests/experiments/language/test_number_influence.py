"""The influence of targets is what a changed prompt says, and planted learners of numbers get their verdict."""

from dataclasses import replace
from math import inf

import pytest
import torch
from tiny_language import save_tiny

from ridgeformer.analysis.in_context import influence_agreement
from ridgeformer.analysis.in_context.predictors import Ridge, neighbours
from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.experiments.language import number_influence, told
from ridgeformer.experiments.language.asked import fingerprint, loaded, unpacked
from ridgeformer.experiments.language.number_influence import (
    INPUTS,
    STATES,
    NumbersSeen,
    changes_of,
    gathered,
    inputs_of,
    settings_of,
    tell,
    views_of_inputs,
)
from ridgeformer.experiments.language.power import mixed
from ridgeformer.experiments.language.simulated import (
    Noise,
    draw_words,
    neighbour_learner,
    ridge_learner,
    simulate,
)
from ridgeformer.kernels import Gaussian
from ridgeformer.language import LANGUAGE_TASKS, expectations, prompts, scores
from ridgeformer.solvers import krr
from ridgeformer.tasks import Prompt


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("tiny"), seed=5))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(number_influence, "SUPPORTS", 5)


def test_influence_is_the_change_of_the_answer_over_that_of_the_target(directory, small):
    job = changes_of(directory, fingerprint(directory), LANGUAGE_TASKS["linear"](queries=3), 2, 7)[
        1
    ]
    found = job.run()
    model, problem, written = loaded(directory), job.problem(), job.task.number_format()

    def said(targets):
        """By hand: a prompt with these targets, scored alone and without a cache."""
        whole = replace(problem, targets=targets[None])
        (alone,) = prompts(model, job.task, whole)
        return expectations(scores(model, [alone], shared=False)[0], written)

    own, changed = problem.targets[0], job.changed()
    torch.testing.assert_close(unpacked(found["outputs"]).double(), said(own), atol=1e-3, rtol=0)
    for i in range(5):
        moved = torch.where(torch.arange(5) == i, changed, own)
        expected = (said(moved) - said(own)) / (changed[i] - own[i])
        seen = unpacked(found["influence"])[i].double()
        torch.testing.assert_close(seen, expected, atol=1e-4, rtol=0)
        assert expected.abs().max() > 1e-3  # else any code would pass
    assert unpacked(found["attention"]).shape == (12, 5, 3)


def test_targets_move_by_one_distance_and_stay_in_the_format(directory):
    signs, distances = set(), set()
    for name in ("linear", "sinusoid"):
        for job in changes_of(directory, "", LANGUAGE_TASKS[name](), 30, 0):
            own, values = job.problem().targets[0], job.task.number_format().values
            step = job.changed() - own
            assert torch.isin(job.changed(), values).all()
            assert len(set(step.abs().tolist())) == 1
            assert 10 <= float(step[0].abs()) <= 30
            distances.add(float(step[0].abs()))
            signs |= set(step.sign().tolist())
            assert job.changed().tolist() == job.changed().tolist()
    assert signs == {-1.0, 1.0}
    assert len(distances) > 10


def test_answers_stand_beside_states_inputs_and_untrained_states(directory, small):
    jobs = changes_of(directory, fingerprint(directory), LANGUAGE_TASKS["linear"](queries=3), 4, 0)
    seen = gathered(jobs, [job.run() for job in jobs])
    assert seen.states.layers == loaded(directory).layers + 1
    assert not torch.allclose(seen.states.supports, seen.untrained.supports, atol=0.1)
    assert torch.equal(seen.states.influence, seen.inputs.influence)
    x = torch.stack([job.problem().features[0, :, 0] for job in jobs])
    torch.testing.assert_close(seen.inputs.supports[0, ..., 0], ((x - 10) / 89).double())
    assert (seen.inputs.supports[..., 1] == 1).all()


def planted(learner, seed):
    """What would be gathered of a model that is this learner on its states; untrained states and inputs are noise."""
    words = draw_words(seed=seed)
    parts = []
    for part in (1, 2):
        seen, _ = simulate(words, learner, Noise(), prompts=25, seed=mixed(seed, part), noise_seed=seed)  # fmt: skip
        generator = torch.Generator().manual_seed(part)

        def noise(like, width, generator=generator):
            shape = (*like.shape[:-1], width)
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        parts.append(
            NumbersSeen(
                seen,
                replace(seen, supports=noise(seen.supports, 2), queries=noise(seen.queries, 2)),
                replace(seen, supports=noise(seen.supports, 9), queries=noise(seen.queries, 9)),
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
    found = {f"task-{n}": tell(f"task-{n}", *planted(learner, 7 + n), out) for n in range(2)}
    settings = settings_of(found)
    assert settings["verdict"] == f"The influence of targets is that of {kind} in 2 of 2 tasks."
    kinds = {name: said["kind"] for name, said in settings["verdicts"].items()}
    assert kinds["task-0, states"] == kinds["task-1, states"] == kind
    assert kinds["task-0, inputs"] != kind
    finding = Finding("planted", 0, 25, settings, number_influence.MEASURES, out.numbers)
    for name in number_influence.UNTRAINED.values():
        control = finding.get("agreement of targets", name, task="task-0")
        assert control.control
        assert abs(control.mean) < 0.15
    difference = finding.get("difference of targets", "kernel ridge regression, smaller λ", task="task-0", features=STATES)  # fmt: skip
    if kind != "neighbours":
        assert (difference.low > 0) == (kind == "kernel ridge regression")
        assert (difference.high < 0) == (kind == "similarity")
    trained = finding.get("training of states", "similarity", task="task-0")
    both = [finding.get("agreement of targets", name, task="task-0", features=STATES).mean for name in ("similarity", told.UNTRAINED)]  # fmt: skip
    assert trained.mean == pytest.approx(both[0] - both[1])
    assert trained.low > 0.1
    shares = [finding.get("share of targets", part, task="task-1").mean for part in ("common", "supports", "queries", "interactions")]  # fmt: skip
    assert sum(shares) == pytest.approx(1)


def test_a_learner_of_the_inputs_themselves_is_named_on_them():
    """Ridge regression with an RBF on written numbers: states of random features do not explain it, inputs do."""
    task, parts = LANGUAGE_TASKS["sinusoid"](supports=12), []
    for seed in (0, 1):
        problems = task.draw(25, seed)
        supports, queries = inputs_of(task, problems)
        prompt = Prompt(supports[0], problems.targets[..., None], queries[0])
        learner = Ridge(0.1, Gaussian(0.15))
        influence = learner.influence(prompt)
        # The influence is that of the equations, whoever solves them.
        raised = torch.cat([prompt.y, prompt.y + torch.eye(12)[3][:, None]], dim=-1)
        both = krr(Prompt(prompt.phi, raised, prompt.phi_query), ridge=0.1, kernel=Gaussian(0.15))
        torch.testing.assert_close(influence[:, 3], both[..., 1] - both[..., 0])
        assert not torch.allclose(influence, neighbours(1).influence(prompt), atol=0.1)
        generator = torch.Generator().manual_seed(seed)
        (states,) = planted(ridge_learner(1.0), seed)[:1]
        noise = [torch.randn(*x.shape[:-1], 9, generator=generator).double() for x in (supports, queries)]  # fmt: skip
        seen = replace(
            states.states, supports=supports, queries=queries, targets=problems.targets,
            outputs=learner.predict(prompt)[..., 0], influence=influence, seed=seed, truth=None,
        )  # fmt: skip
        other = replace(seen, supports=noise[0], queries=noise[1])
        parts.append(NumbersSeen(other, seen, other))
    assert {view.kernel.name for view in views_of_inputs(parts[0].inputs)} == {"gaussian"}
    out = Collector(25, 1)
    found = tell("sinusoid", *parts, out)
    assert found[INPUTS].verdict.kind == "kernel ridge regression"
    assert found[INPUTS].verdict.profile.best.value == pytest.approx(0.1, rel=0.4)
    assert found[STATES].verdict.kind == "cannot be told"
    # A line compares numbers by (x_i − x̄)(x_j − x̄), whatever its λ.
    finding = Finding("planted", 0, 25, numbers=out.numbers)
    supports, queries = parts[1].inputs.supports[0, ..., 0], parts[1].inputs.queries[0, ..., 0]
    product = (supports - supports.mean(1, keepdim=True))[:, :, None] * queries[:, None, :]
    expected = influence_agreement(parts[1].inputs.influence, product).mean()
    assert finding.get("agreement of targets", "linear regression").mean == pytest.approx(
        float(expected)
    )


def test_one_sentence_says_what_was_changed():
    assert told.overall(["similarity"], "targets").startswith("The influence of targets is")
    assert told.overall(["similarity", "recency"], "targets").startswith("The influence of targets")
