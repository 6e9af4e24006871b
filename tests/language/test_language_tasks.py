"""Tasks draw what they say: words with the right labels, numbers on the right curves, the same for the same seed."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process.kernels import RBF

from ridgeformer import register
from ridgeformer.language import FORMATS, LANGUAGE_TASKS, LanguageTask, Problems
from ridgeformer.language.tasks import ClassTask, FlippedLabels, NumericTask, RandomLabels
from ridgeformer.types import Refusal

CLASSES = [name for name, task in LANGUAGE_TASKS.items() if issubclass(task, ClassTask)]
WORDS = [name for name in CLASSES if not LANGUAGE_TASKS[name].numeric]
NUMERIC = [name for name, task in LANGUAGE_TASKS.items() if issubclass(task, NumericTask)]


@pytest.mark.parametrize("name", LANGUAGE_TASKS)
@pytest.mark.parametrize("k", [2, 5, 64])
def test_problems_are_seeded_and_have_their_shapes(name, k):
    task = LANGUAGE_TASKS[name](supports=k, queries=5)
    first, again, other = task.draw(3, seed=1), task.draw(3, seed=1), task.draw(3, seed=2)
    assert first.inputs == again.inputs
    assert first.queries == again.queries
    assert torch.equal(first.targets, again.targets)
    assert torch.equal(first.query_targets, again.query_targets)
    assert first.inputs != other.inputs
    assert first.targets.shape == (3, k)
    assert first.query_targets.shape == (3, 5)
    assert [len(row) for row in first.inputs] == [k] * 3
    assert [len(row) for row in first.queries] == [5] * 3
    for inputs, queries in zip(first.inputs, first.queries, strict=True):
        assert len({*inputs, *queries}) == k + 5  # none occurs twice
    assert len(first[1:]) == 2
    assert first[1:].inputs == first.inputs[1:]
    assert task.settings()["name"] == name


@pytest.mark.parametrize("name", LANGUAGE_TASKS)
def test_impossible_sizes_are_refused(name):
    for k in (1, 65):
        with pytest.raises(Refusal, match=f"{name} needs 2 to 64 supports; got supports {k}"):
            LANGUAGE_TASKS[name](supports=k)
    with pytest.raises(Refusal, match="queries ≥ 1"):
        LANGUAGE_TASKS[name](queries=0)
    if name != "linear-2d":
        with pytest.raises(Refusal, match=r"at most \d+ inputs"):
            LANGUAGE_TASKS[name](queries=1000).draw(1, seed=0)


@pytest.mark.parametrize("name", WORDS)
def test_word_lists_are_long_and_apart(name):
    first, second = LANGUAGE_TASKS[name].members
    for words in (first, second):
        assert 40 <= len(words) <= 60
        assert len(set(words)) == len(words)
        assert all(word.isalpha() for word in words)
    assert not {w.lower() for w in first} & {w.lower() for w in second}
    capitals = {word[0].isupper() for word in (*first, *second)}
    assert len(capitals) == 1  # or a class would show by them


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(("k", "q"), [(16, 6), (7, 3)])
def test_labels_are_those_of_the_classes_and_balanced(name, k, q):
    problems = LANGUAGE_TASKS[name](supports=k, queries=q).draw(20, seed=0)
    members = LANGUAGE_TASKS[name].members
    for texts, targets in (
        (problems.inputs, problems.targets),
        (problems.queries, problems.query_targets),
    ):
        for row, labels in zip(texts, targets.tolist(), strict=True):
            assert [text in members[1] for text in row] == labels
            assert all(text in members[0] or text in members[1] for text in row)
        more = 2 * targets.sum(1) - targets.shape[1]
        assert set(more.tolist()) == ({0} if targets.shape[1] % 2 == 0 else {-1, 1})
    # Every place has both classes in some problem.
    assert problems.targets.std(0).min() > 0


def test_numbers_are_features_of_number_classes():
    problems = LANGUAGE_TASKS["small-large"]().draw(4, seed=0)
    assert problems.features[..., 0].tolist() == [
        [float(t) for t in row] for row in problems.inputs
    ]
    assert torch.equal((problems.features[..., 0] >= 55).double(), problems.targets)
    problems = LANGUAGE_TASKS["even-odd"]().draw(4, seed=0)
    assert torch.equal(problems.query_features[..., 0] % 2, problems.query_targets)


def test_random_labels_know_nothing_of_the_inputs():
    task = RandomLabels(of="fruit-country", supports=16, queries=6)
    problems = task.draw(400, seed=0)
    countries = LANGUAGE_TASKS["fruit-country"].members[1]
    for texts, targets in (
        (problems.inputs, problems.targets),
        (problems.queries, problems.query_targets),
    ):
        true = torch.tensor([[text in countries for text in row] for row in texts]).double()
        assert (2 * targets.sum(1) == targets.shape[1]).all()
        agree = (true == targets).double().mean()
        assert abs(agree - 0.5) < 4 * 0.5 / true.numel() ** 0.5
    assert task.classes == ("fruit", "country")


@pytest.mark.parametrize(("share", "wrong"), [(0.25, 4), (0.0, 0), (1.0, 16)])
def test_a_share_of_flipped_labels_is_wrong(share, wrong):
    problems = FlippedLabels(share=share).draw(30, seed=0)
    tools = LANGUAGE_TASKS["animal-tool"].members[1]
    for row, labels in zip(problems.inputs, problems.targets.tolist(), strict=True):
        assert (
            sum((text in tools) != label for text, label in zip(row, labels, strict=True)) == wrong
        )
    for row, labels in zip(problems.queries, problems.query_targets.tolist(), strict=True):
        assert [text in tools for text in row] == labels
    with pytest.raises(Refusal, match="a share from 0 to 1; got share 2"):
        FlippedLabels(share=2.0)


def test_relabelled_tasks_need_two_classes():
    with pytest.raises(Refusal, match="needs a task with two classes; got 'linear'"):
        RandomLabels(of="linear")
    with pytest.raises(Refusal, match="did you mean animal-tool"):
        RandomLabels(of="animal-tol")


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("written", FORMATS)
def test_numbers_are_in_their_format(name, written):
    task = LANGUAGE_TASKS[name](format=written)
    problems, number_format = task.draw(8, seed=0), FORMATS[written]
    for features, texts in (
        (problems.features, problems.inputs),
        (problems.query_features, problems.queries),
    ):
        for row, values in zip(texts, features.tolist(), strict=True):
            for text, value in zip(row, values, strict=True):
                indices = [number_format.parse(part) for part in text.split(", ")]
                assert number_format.values[indices].tolist() == value
    for targets in (problems.targets, problems.query_targets):
        assert torch.equal(number_format.values[number_format.index_of(targets)], targets)
    # Functions reach low and high numbers.
    everything = torch.cat([problems.targets, problems.query_targets], dim=1)
    spread = everything.amax(1) - everything.amin(1)
    assert (spread > 0.2 * (number_format.values[-1] - number_format.values[0])).all()


def curve(name, seed=3, batch=6):
    """Points of noiseless functions, and by how much rounding moves their targets at most."""
    problems = LANGUAGE_TASKS[name](supports=64, queries=20, noise=0.0).draw(batch, seed)
    x = torch.cat([problems.features, problems.query_features], dim=1).numpy()
    y = torch.cat([problems.targets, problems.query_targets], dim=1).numpy()
    return x, y


@pytest.mark.parametrize(("name", "degree"), [("linear", 1), ("quadratic", 2)])
def test_polynomials_have_their_degree(name, degree):
    x, y = curve(name)
    for xs, ys in zip(x[..., 0], y, strict=True):
        residual = ys - np.polyval(np.polyfit(xs, ys, degree), xs)
        assert np.abs(residual).max() < 0.75  # rounding moves a target by 0.5
        lower = ys - np.polyval(np.polyfit(xs, ys, degree - 1), xs)
        assert np.abs(lower).max() > 5


def test_pairs_are_linear_in_both():
    x, y = curve("linear-2d")
    slopes = []
    for xs, ys in zip(x, y, strict=True):
        design = np.column_stack([xs, np.ones(len(xs))])
        solution = np.linalg.lstsq(design, ys)[0]
        assert np.abs(ys - design @ solution).max() < 0.75
        slopes.append(solution[:2])
    assert (np.abs(slopes) > 0.05).all(axis=1).any()


def test_sinusoids_have_one_or_two_periods():
    x, y = curve("sinusoid")
    for xs, ys in zip(x[..., 0], y, strict=True):
        share = (xs - 10) / 89

        def misfit(periods, share=share, ys=ys):
            angle = 2 * np.pi * periods * share
            design = np.column_stack([np.sin(angle), np.cos(angle), np.ones(len(ys))])
            return np.abs(ys - design @ np.linalg.lstsq(design, ys)[0]).max()

        assert min(misfit(periods) for periods in np.linspace(1, 2, 401)) < 0.8


def test_draws_of_a_gaussian_process_have_its_covariance():
    task = LANGUAGE_TASKS["gp-draw"](lengthscale=0.3)
    x = torch.tensor([[0.1], [0.3], [0.8]], dtype=torch.float64).expand(20000, 3, 1)
    drawn = task.observe(x, torch.Generator().manual_seed(0))
    found = (drawn.T @ drawn / len(drawn)).numpy()
    np.testing.assert_allclose(found, RBF(0.3)(x[0].numpy()), atol=0.05)


def test_noise_has_its_size():
    def draw(noise):
        problems = LANGUAGE_TASKS["linear"](supports=64, noise=noise).draw(200, 0)
        return problems.features[..., 0], problems.targets

    for noise in (0.01, 0.03):
        x, y = draw(noise)
        centred = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
        slope = (centred[0] * centred[1]).sum(1, keepdim=True) / centred[0].square().sum(
            1, keepdim=True
        )
        variance = (centred[1] - slope * centred[0]).square().sum() / (200 * 62)
        expected = (89 * noise) ** 2 + 1 / 12  # and the variance of rounding
        assert abs(variance / expected - 1) < 0.05


def test_unknown_formats_and_noise_are_refused():
    with pytest.raises(Refusal, match="no number format 'integer': did you mean integers"):
        LANGUAGE_TASKS["linear"](format="integer")
    with pytest.raises(Refusal, match=r"noise from 0 to 0.05; got noise 0.3"):
        LANGUAGE_TASKS["linear"](noise=0.3)
    with pytest.raises(Refusal, match=r"lengthscale from 0\.01 to 10"):
        LANGUAGE_TASKS["gp-draw"](lengthscale=0.0)


def test_a_task_of_the_users_own_counts_as_much():
    class Own(LanguageTask):
        name = "own"

        def draw(self, batch, seed):
            targets = torch.zeros(batch, self.supports, dtype=torch.float64)
            texts = (("x",) * self.supports,) * batch
            return Problems(texts, targets, texts, targets)

    try:
        register(Own)
        assert LANGUAGE_TASKS.find("own") is Own
    finally:
        LANGUAGE_TASKS.members.pop("own", None)
