"""States that are exchanged between prompts have the effect that the candidate predicts, and nothing else does."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from wrong_solvers import ConstantLength

import ridgeformer as rf
from ridgeformer.analysis.ablation import matvec_heads
from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.interchange import Study, find_interchanges
from ridgeformer.analysis.removal import effect_of_aggregator, remove_aggregator, remove_heads
from ridgeformer.experiments.identification.planted import Neighbours, Noisy, Relayered, Rotated
from ridgeformer.kernels import Linear
from ridgeformer.models import subject, zoo
from ridgeformer.models.reference import interval_of
from ridgeformer.solvers import make_solver
from ridgeformer.solvers.conjugate_gradient import ConjugateGradient
from ridgeformer.tasks import generator_of
from ridgeformer.tasks.linear_regression import LinearRegression
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = LinearRegression(features=5, supports=14, queries=6, condition=20.0)
PROMPT = TASK.draw(96, seed=3)
OTHER = TASK.relabel(PROMPT, generator_of(3, 1))
TOP = 1.4 * float(torch.linalg.eigvalsh(PROMPT.phi.mT @ PROMPT.phi).max())


@cache
def compiled(name, steps=4, precondition=None):
    solver = ConstantLength() if name == ConstantLength.name else make_solver(name, precondition)
    products = rf.Exact() if precondition else None
    return rf.compile(
        solver, features=5, steps=steps, ridge=TASK.ridge, to=rf.LinearAttention(TOP, products)
    )


def setting(model):
    return Setting(Linear(), TASK.ridge, *interval_of(model))


@cache
def found(name, steps=4, precondition=None, disguise=Rotated):
    model = compiled(name, steps, precondition)
    candidate = Candidate(make_solver(name, precondition))
    one = disguise(subject(model))
    return find_interchanges(one, PROMPT, OTHER, candidate, setting(model), steps, seed=0)


def study(model, candidate, steps=4):
    return Study(Rotated(subject(model)), PROMPT, OTHER, candidate, setting(model), steps)


METHODS = [
    ("gd", 4, None),
    ("heavy-ball", 4, None),
    ("chebyshev", 4, None),
    ("cg", 3, None),
    pytest.param("cg", 5, None, marks=pytest.mark.slow),
    pytest.param("cg", 4, "jacobi", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "steps", "precondition"), METHODS)
def test_an_exchanged_state_has_the_predicted_effect(name, steps, precondition):
    result = found(name, steps, precondition)
    assert len(result.steps) >= 2
    for one in result.steps:
        assert one.read_error < 1e-9
        assert one.size > 0.1
        assert one.correlation.low > 0.999
        assert one.contrast.low > 0.999
        assert one.slope.mean == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("name", "steps", "precondition"), METHODS)
def test_random_directions_and_other_layers_have_other_effects(name, steps, precondition):
    for one in found(name, steps, precondition).steps:
        assert one.random_size < 0.2, "no other direction in which A and B differ does as much"
        assert next_to_nothing(one.random_direction)
        assert next_to_nothing(one.elsewhere)


def next_to_nothing(correlation):
    """Undefined, where there is no effect, or not beyond ±0.1 by more than its interval."""
    if correlation.mean is None:
        return True
    return correlation.low < 0.1 and correlation.high > -0.1 and abs(correlation.mean) < 0.3


def test_what_belongs_to_a_step_is_at_its_layer_alone():
    pairs = [other for one in found("gd").steps for other in one.other_layers]
    apart = [other for other in pairs if other.own_part.mean is not None]
    assert len(apart) >= 4
    for other in apart:
        assert abs(other.own_part.mean) < 0.01
        assert other.own_part_at_right_layer.mean > 0.1


def test_what_is_exchanged():
    first = {one.step: one.quantities for one in found("heavy-ball").steps}
    assert 1 not in first, "the first iterate is a multiple of the targets"
    assert first[2] == ("alpha",), "and so is the one before the second"
    assert first[3] == ("alpha", "previous")
    conjugate = {one.step: one.quantities for one in found("cg", 3).steps}
    assert conjugate == {1: ("r", "p"), 2: ("p",)}, "α only adds up, and the last step needs no r"
    assert found("cg", 3).left_out == (3,), "nothing follows the last layer"


def test_a_method_whose_state_is_an_operator_has_nothing_to_exchange():
    """X is the same for all targets, and registers hold it as well as supports do."""
    assert found("newton", 3).steps == ()


@pytest.mark.parametrize("name", ["gd", pytest.param("cg", marks=pytest.mark.slow)])
def test_a_wrong_layer_is_noticed(name):
    model = compiled(name, 3)
    planted = study(model, Candidate(make_solver(name)), 3)
    right = planted.exchange(2)
    good = planted.result(right, [], 0)
    assert good.correlation.mean > 0.999
    for layer in (right.layer - 1, right.layer + 1):
        bad = planted.result(replace(right, layer=layer), [], 0)
        assert bad.correlation.mean is None or bad.correlation.mean < 0.99


@pytest.mark.parametrize("name", ["heavy-ball", pytest.param("cg", marks=pytest.mark.slow)])
def test_a_wrong_subspace_is_noticed(name):
    """The pattern of one quantity is taken for that of another."""
    model = compiled(name, 4)
    planted = study(model, Candidate(make_solver(name)))
    step = 3 if name == "heavy-ball" else 2
    right = planted.exchange(step)
    left, values, directions = torch.linalg.svd(
        right.to_other.supports.flatten(0, 1), full_matrices=False
    )
    assert values[2] < 1e-6 * values[0], "two quantities, two directions"
    swapped = (left[:, :2] * values[:2]) @ directions[:2].flip(0)
    move = replace(right.to_other, supports=swapped.reshape(right.to_other.supports.shape))
    bad = planted.result(replace(right, to_other=move), [], 0)
    assert bad.correlation.mean is None or bad.correlation.mean < 0.9


def test_conjugate_gradients_with_a_constant_length_are_not_conjugate_gradients():
    model = compiled(ConstantLength.name, 3)
    here = (Rotated(subject(model)), PROMPT, OTHER)
    wrong = find_interchanges(
        *here, Candidate(ConjugateGradient()), setting_of_constant(), 3, seed=0
    )
    right = find_interchanges(*here, Candidate(ConstantLength()), setting_of_constant(), 3, seed=0)
    assert all(one.correlation.low > 0.999 for one in right.steps)
    assert right.steps
    for one in wrong.steps:
        assert one.correlation.mean is None or one.correlation.mean < 0.98


def setting_of_constant():
    return Setting(Linear(), TASK.ridge, TASK.ridge, TASK.ridge + TOP)


@pytest.mark.parametrize(
    ("disguise", "layers"),
    [(lambda x: Relayered(x, copies=2), 2), (lambda x: Noisy(x, 0.01), 1)],
    ids=["idle layers", "noise"],
)
def test_disguised_models_can_be_changed(disguise, layers):
    plain, hidden = found("gd"), found("gd", disguise=disguise)
    for one, two in zip(plain.steps, hidden.steps, strict=True):
        assert two.layer == layers * one.layer
        assert two.correlation.mean > 0.9


def test_refusals():
    candidate, around = Candidate(make_solver("gd")), setting(compiled("gd"))
    with pytest.raises(Refusal, match="draw only the targets anew"):
        find_interchanges(
            subject(compiled("gd")), PROMPT, TASK.draw(96, seed=4), candidate, around, 4, seed=0
        )
    with pytest.raises(Refusal, match="give at least 8"):
        find_interchanges(
            subject(compiled("gd")), PROMPT[:6], OTHER[:6], candidate, around, 4, seed=0
        )
    with pytest.raises(Refusal, match="can only be read"):
        Neighbours().changed(PROMPT, 1, lambda s, q: (s, q))


SOME = PROMPT[:24]


@pytest.mark.parametrize("name", ["gd", pytest.param("cg", marks=pytest.mark.slow)])
def test_a_head_that_multiplies_by_the_kernel_is_that_steps_product(name):
    model = compiled(name, 3)
    removed = remove_heads(
        subject(model), SOME, Candidate(make_solver(name)), setting(model), 3,
        where="supports", seed=0,
    )  # fmt: skip
    by_place = {(one.layer - 1, one.head): one for one in removed.heads}
    heads = [by_place[at] for at in matvec_heads(model)]
    steps = [t for t, size in enumerate(removed.step_sizes, start=1) if size > 0]
    for head, step in zip([h for h in heads if h.matches], steps, strict=True):
        assert head.best.step == step
        assert head.best.correlation.low > 0.999
        assert head.best.slope.mean == pytest.approx(1, abs=1e-6)
        assert abs(head.best.dealt.mean) < 0.5
        others = [m.correlation.mean for m in head.matches if m.step != step]
        assert all(other < 0.99 for other in others)


def test_a_candidate_of_other_numbers_is_not_mimicked():
    model = compiled("gd", 3)
    wrong = replace(setting(model), hi=0.4 * setting(model).hi)
    removed = remove_heads(
        subject(model), SOME, Candidate(make_solver("gd")), wrong, 3, where="supports", seed=0
    )
    assert all(abs(h.best.slope.mean - 1) > 0.1 for h in removed.heads if h.best is not None)


def test_the_aggregator_is_removed_where_there_is_one():
    assert remove_aggregator(compiled("gd", 3), SOME) is None
    reductions, everything = remove_aggregator(compiled("cg", 3), SOME)
    assert reductions.largest_alpha == everything.largest_alpha == 0
    assert everything.heads > reductions.heads
    assert reductions.intact_alpha_apart == pytest.approx(1)


def test_a_model_that_reads_at_the_aggregator_needs_it():
    """Gradient descent takes no inner product; CG without any predicts 0; a decoder has no such token."""
    assert effect_of_aggregator(subject(compiled("gd", 3)), SOME) == 0
    assert effect_of_aggregator(subject(compiled("cg", 3)), SOME) == pytest.approx(1)
    decoder = subject(zoo.load("gp-causal"))
    some = zoo.load("gp-causal").recipe.task.draw(2, seed=0)
    assert effect_of_aggregator(decoder, some) is None
