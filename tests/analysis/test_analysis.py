"""Analyses recover what was planted in compiled models, and fail on what was not."""

from dataclasses import replace

import pytest
import torch

from ridgeformer.analysis import (
    ablate_aggregator,
    ablate_matvecs,
    change_ridge,
    communication,
    growth_without_reductions,
    head_effects,
    matvec_heads,
    probe,
    sharing,
    with_ridge,
)
from ridgeformer.analysis import ablation as ablation_module
from ridgeformer.analysis.reference import apart
from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Exponential, Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import krr, make_solver
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = PrescribedSpectrum(features=4, supports=12, condition=20)
EXACT = 1e-8


def linear(name, precondition="none", interval=None, *, ridge=1.0, steps=4, outputs=1, **options):
    return compile(
        make_solver(name, precondition, interval), features=4, steps=steps, ridge=ridge,
        outputs=outputs, to=LinearAttention(TASK.max_eigenvalue, **options),
    )  # fmt: skip


def softmax(name, precondition="none", **options):
    chosen = {"steps": 3, "ridge": 0.5, "kernel": Exponential(0.3), **options}
    return compile(
        make_solver(name, precondition), features=3,
        to=SoftmaxAttention(max_norm=1.01, max_supports=12), **chosen,
    )  # fmt: skip


def sphere(batch, seed):
    """Twelve supports and four queries on the unit sphere in three dimensions."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(batch, 16, 3, generator=generator, dtype=torch.float64)
    points = points / points.norm(dim=-1, keepdim=True)
    y = torch.randn(batch, 12, 1, generator=generator, dtype=torch.float64)
    return Prompt(points[:, :12], y, points[:, 12:])


MODELS = {
    "cg": lambda: (linear("cg"), TASK.draw(8, seed=0)),
    "cg, gated": lambda: (linear("cg", products=Exact()), TASK.draw(8, seed=0)),
    "cg, jacobi": lambda: (linear("cg", "jacobi", products=Exact()), TASK.draw(8, seed=0)),
    "heavy ball": lambda: (linear("heavy-ball"), TASK.draw(8, seed=0)),
    "gradient descent": lambda: (linear("gd"), TASK.draw(8, seed=0)),
    "chebyshev": lambda: (linear("chebyshev"), TASK.draw(8, seed=0)),
    "softmax richardson": lambda: (softmax("richardson"), sphere(8, 0)),
    "softmax richardson, row sums": lambda: (softmax("richardson", "row-sum"), sphere(8, 0)),
    "softmax cg": lambda: (softmax("cg"), sphere(8, 0)),
}


# ---------------------------------------------------------------------- mat-vec heads


@pytest.mark.parametrize("name", MODELS)
def test_without_mat_vecs_a_model_is_its_solver_without_k(name):
    model, prompt = MODELS[name]()
    for place in ("everywhere", "supports"):
        for which in (None, [0], [1], [0, 1]):
            found = ablate_matvecs(model, prompt, place=place, which=which)
            assert found.alpha_apart < EXACT, found
            assert found.prediction_apart < EXACT, found
            assert found.intact_alpha_apart > 0.05, "the intact solver is not what it computes"


def test_without_any_mat_vec_cg_takes_one_step_to_y_over_ridge():
    """A is λI then, and CG solves that at once; its predictions are gone with the heads."""
    model, prompt = linear("cg", ridge=0.7), TASK.draw(8, seed=0)
    edits = [ablation_module.silence(at, "everywhere", 12) for at in matvec_heads(model)]
    found = trajectory(model, prompt, states=True, edits=edits)
    torch.testing.assert_close(found.states["alpha"][1:], (prompt.y / 0.7).expand(4, -1, -1, -1))
    assert not found.predictions.any()


@pytest.mark.parametrize("wrong", ["no product", "another product", "all products"])
def test_a_wrong_reference_is_noticed(wrong, monkeypatch):
    model, prompt = linear("cg"), TASK.draw(8, seed=0)
    right = ablation_module.coefficients
    dropped = {"no product": [], "another product": [2], "all products": range(4)}[wrong]
    monkeypatch.setattr(
        ablation_module, "coefficients", lambda m, p, d=(): right(m, p, dropped if d else ())
    )
    found = ablate_matvecs(model, prompt, which=[1])
    assert found.alpha_apart > 1e-2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: softmax("nadaraya-watson", ridge=None, steps=1), "Only dual models of solvers"),
        (lambda: linear("cg", causal=True), "Only dual models of solvers"),
        (lambda: softmax("cg", kernel=Linear()), "spread over many heads"),
    ],
)
def test_models_without_such_heads_are_refused(make, message):
    with pytest.raises(Refusal, match=message):
        matvec_heads(make())


# ---------------------------------------------------------------------- the aggregator


@pytest.mark.parametrize("products", [None, Exact()], ids=["relu", "reglu"])
def test_without_reductions_cg_stands_still(products):
    model, prompt = linear("cg", products=products), TASK.draw(8, seed=0)
    found = ablate_aggregator(model, prompt, "reductions")
    assert found.largest_alpha == found.largest_prediction == 0
    assert found.intact_alpha_apart == 1
    # Past 10⁴³ a plain ReLU MLP cannot silence its neurons any more, and something else happens.
    exact = 4 if products else 2
    assert max(found.state_apart[:exact]) < EXACT
    expected = torch.tensor(growth_without_reductions(model), dtype=torch.float64)
    growth = torch.tensor(found.growth, dtype=torch.float64)
    torch.testing.assert_close(growth[:exact], expected[:exact], rtol=EXACT, atol=0)
    if products is None:
        assert found.state_apart[2] > 0.1


def test_one_reduction_left_in_place_is_noticed(monkeypatch):
    all_heads = ablation_module.heads_that
    monkeypatch.setattr(ablation_module, "heads_that", lambda m, **kinds: all_heads(m, **kinds)[1:])
    found = ablate_aggregator(linear("cg", products=Exact()), TASK.draw(8, seed=0), "reductions")
    assert found.state_apart[0] > 0.9
    assert found.largest_alpha > 0


def test_without_the_aggregator_nothing_is_sent():
    found = ablate_aggregator(linear("cg"), TASK.draw(8, seed=0), "all")
    assert found.largest_alpha == found.largest_prediction == 0
    assert max(found.state_apart) == max(found.growth) == 0
    with pytest.raises(Refusal, match="Only adaptive solvers"):
        ablate_aggregator(linear("gd"), TASK.draw(8, seed=0), "all")


# ---------------------------------------------------------------------- λ in the weights


@pytest.mark.parametrize(
    ("name", "options"), [("cg", {"steps": 6}), ("gd", {"steps": 200, "interval": (0.5, 22.0)})]
)
def test_another_ridge_in_the_weights_is_another_ridge(name, options):
    prompt = TASK.draw(8, seed=0)
    model = linear(name, **options)
    errors = []
    for ridge in (1.3, 1.01, 1.001):
        found = change_ridge(model, linear(name, ridge=ridge, **options), prompt)
        assert found.prediction_apart < EXACT
        assert found.unchanged_apart > 0.05 * (ridge - 1)
        errors.append(found.slope_apart)
    # f is smooth in λ: the error of a difference quotient falls with the difference.
    assert errors[1] < 0.01
    assert errors[2] == pytest.approx(errors[1] / 10, rel=0.05)
    assert found.slope_cosine > 1 - 1e-6
    if name == "cg":  # in p·Ap and in r − γAp of each step; the last step needs no residual
        assert len(found.weights) == 2 * 6 - 1


def test_behind_softmax_the_ridge_is_one_weight_a_step():
    found = change_ridge(softmax("cg", steps=6), softmax("cg", steps=6, ridge=0.6), sphere(8, 0))
    assert found.prediction_apart < EXACT
    assert found.unchanged_apart > 1e-2
    assert len(found.weights) == 6


def test_a_changed_ridge_gives_the_closed_form():
    prompt = TASK.draw(8, seed=0)
    changed = with_ridge(linear("cg", steps=6), linear("cg", ridge=1.3, steps=6))
    found = changed.predict(prompt)
    assert apart(found, krr(prompt, ridge=1.3)) < EXACT
    assert apart(found, krr(prompt, ridge=1.0)) > 1e-2
    model = linear("cg")
    in_name_only = replace(model, certificate=replace(model.certificate, ridge=1.3))
    with pytest.raises(Refusal, match="No weight is proportional"):
        with_ridge(model, in_name_only)


# ---------------------------------------------------------------------- probes


def written(model, name, step):
    return next(e["site"] for e in model.sites["states"][name] if e["step"] == step)


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_probes_find_the_state_of_cg(attention):
    if attention == "linear":
        model, prompt = linear("cg", steps=3), TASK.draw(240, seed=1)
    else:
        model, prompt = softmax("cg", steps=3), sphere(240, 1)
    found = {(p.name, p.step): p for p in probe(model, prompt, seed=0)}
    for (name, step), p in found.items():
        vector = name in ("alpha", "r", "p")
        if vector or name != "beta" or attention == "linear":
            assert p.found.low > 0.99, p.found
        else:  # behind softmax β is never written down: only what is near it
            assert 0.9 < p.found.value < 0.999, p.found
        assert abs(p.shuffled.value) < (0.2 if vector else 0.45), p.shuffled
        if name == "r" and step >= 1:
            assert p.embedding.value < 0.3
        if step >= 2:
            assert p.random_weights.high < p.found.low - 0.05, p.random_weights
    # r_t is orthogonal to y, Ky, …, K^{t−1}y: nothing of it is there before the t-th mat-vec.
    for step in (1, 2):
        scores = dict(found["r", step].by_site)
        sites, (layer, _) = list(scores), matvec_heads(model)[step - 1]
        before = sites[: sites.index(f"blocks.{layer}.resid_mid")]
        assert max(scores[site] for site in before) < 0.3
    assert dict(found["r", 1].by_site)[written(model, "r", 1)] > 0.99
    assert dict(found["alpha", 3].by_site)[written(model, "alpha", 3)] > 0.99


def test_probes_do_not_find_what_is_not_there():
    """One step of CG knows y and Ky, to which r_2 is orthogonal; the probe is asked for it anyway."""
    short, long = linear("cg", steps=1), linear("cg", steps=3)
    borrowed = replace(short, certificate=long.certificate)
    found = {(p.name, p.step): p for p in probe(borrowed, TASK.draw(240, seed=1), seed=0)}
    assert found["alpha", 1].found.low > 0.99
    assert abs(found["r", 2].found.value) < 0.3


def test_probes_refuse_what_they_cannot_do():
    with pytest.raises(Refusal, match="a residual r and a direction p"):
        probe(linear("gd"), TASK.draw(16, seed=0), seed=0)
    with pytest.raises(Refusal, match="at least 8 prompts"):
        probe(linear("cg"), TASK.draw(4, seed=0), seed=0)


# ---------------------------------------------------------------------- heads


def three_outputs():
    task = replace(TASK, outputs=3)
    return linear("cg", steps=2, outputs=3), task.draw(4, seed=0)


def test_mat_vecs_are_shared_and_everything_else_is_dedicated():
    model, prompt = three_outputs()
    effects = head_effects(model, prompt)
    for effect in effects:
        if (effect.layer, effect.head) in matvec_heads(model):
            assert effect.serves() == (0, 1, 2)
        elif effect.does == "alpha":  # f grows beside α, so predictions do not need it
            assert effect.serves() == ()
        else:
            assert len(effect.serves()) == 1, effect
            assert max(sorted(effect.moved)[:2]) == 0, "to the last bit"
    table = {row.connection: row for row in sharing(effects)}
    assert table["data → data"].by_outputs_served == (0, 0, 0, 2)
    assert table["data → aggregator"].by_outputs_served == (0, 15, 0, 0)
    assert table["aggregator → data"].by_outputs_served == (6, 21, 0, 0)
    edits = [ablation_module.silence(at, "everywhere", 12) for at in matvec_heads(model)]
    assert not trajectory(model, prompt, edits=edits).predictions.any()


def test_the_communication_table_says_what_heads_do():
    model, prompt = three_outputs()
    table = communication(model, prompt)
    assert all(row.outside == row.overheard == 0 for row in table)
    assert sum(row.heads for row in table) == sum(
        len(layer["attention"]) for layer in model.sites["layers"]
    )
    # Step 1 goes: supports → aggregator → supports → supports → aggregator → … → supports.
    data_first = [(row.layer, row.source, row.to) for row in table if row.layer in (0, 2, 3)]
    assert (0, "data", "aggregator") in data_first
    assert (2, "data", "data") in data_first
    assert (3, "data", "aggregator") in data_first
    # A label that is wrong is noticed.
    layers = [dict(layer) for layer in model.sites["layers"]]
    layers[2]["attention"] = [{**h, "to": "aggregator"} for h in layers[2]["attention"]]
    wrong = communication(replace(model, sites={**model.sites, "layers": layers}), prompt)
    assert max(row.outside for row in wrong) > 0.1
    layers[2]["attention"] = [
        {**h, "from": "aggregator"} for h in model.sites["layers"][2]["attention"]
    ]
    wrong = communication(replace(model, sites={**model.sites, "layers": layers}), prompt)
    assert max(row.overheard for row in wrong) > 0.1
