"""A decoder that solves every prefix: each x is predicted by the solver on the pairs before it."""

import numpy as np
import pytest
import torch
from numpy_executor import run, run_prefixes
from promise import excess
from textbook import feature_predictions

from ridgeformer.compiler import (
    CompiledModel,
    Exact,
    LinearAttention,
    SoftmaxAttention,
    compile,
    size_report,
)
from ridgeformer.kernels import Exponential, Linear, Polynomial
from ridgeformer.models import load, trajectory, zoo
from ridgeformer.solvers import krr, make_solver, solve
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


def make(prompt, top, steps, name="cg", *, ridge=1.0, kernel=None, dtype="float64"):
    return compile(
        make_solver(name), features=prompt.features, outputs=prompt.outputs, steps=steps,
        ridge=ridge, kernel=kernel, dtype=dtype,
        to=LinearAttention(top, Exact(), causal=True, every_prefix=True),
    )  # fmt: skip


def prefixes(prompt, features=lambda x: x):
    """Each prefix as a prompt with one query; the pairs after it are 0, and so count for nothing."""
    k = prompt.supports
    phi, query = features(prompt.phi), features(prompt.phi_query)
    kept = (torch.arange(k) < torch.arange(k + 1)[:, None]).to(phi.dtype)[None, :, :, None]
    xs = torch.cat([phi, query[:, :1]], dim=1).flatten(0, 1)[:, None]
    return Prompt(*((kept * x[:, None]).flatten(0, 1) for x in (phi, prompt.y)), xs)


def at_prefixes(model, prompt):
    """Predictions of every step, one row for each prefix of each prompt."""
    found = trajectory(model, prompt, prefixes=True).predictions[:, :, : prompt.supports + 1]
    return found.reshape(len(found), -1, 1, prompt.outputs)


SIZES = [(1, 3, 1), (3, 9, 2), (8, 40, 1), (16, 5, 3), (5, 70, 2)]


@pytest.mark.parametrize(("features", "supports", "outputs"), SIZES)
@pytest.mark.parametrize("condition", [5.0, 300.0])
def test_every_prefix_and_step_is_textbook_cg(features, supports, outputs, condition):
    task = PrescribedSpectrum(
        features=features, supports=supports, outputs=outputs, condition=condition
    )
    prompt, steps = task.draw(3, seed=0), min(8, features + 1)
    model = make(prompt, task.max_eigenvalue, steps)
    # Each prefix counts by itself: relative to its own largest prediction, or its own round-off.
    found = at_prefixes(model, prompt)
    assert excess(found.numpy(), feature_predictions, prefixes(prompt), 1.0).max() < 1
    found[-1] = model.predict_prefixes(prompt)[:, : supports + 1].reshape(found[-1].shape)
    assert excess(found.numpy(), feature_predictions, prefixes(prompt), 1.0).max() < 1
    found = trajectory(model, prompt).predictions
    assert excess(found.numpy(), feature_predictions, prompt, 1.0).max() < 1
    for last in (model.predict(prompt), model.predict_prefixes(prompt)[:, supports:]):
        found[-1] = last
        assert excess(found.numpy(), feature_predictions, prompt, 1.0).max() < 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2, 3))])
def test_random_problems(seed):
    rng = np.random.default_rng(seed)
    for index in range(3):
        task = PrescribedSpectrum(
            features=int(rng.integers(1, 16)),
            supports=int(rng.integers(2, 50)),
            outputs=int(rng.choice([1, 3])),
            condition=float(10 ** rng.uniform(0.3, 3)),
            shape=("geometric", "uniform", "clustered")[index % 3],
        )
        prompt = task.draw(2, seed=index)
        model = make(prompt, 999.0, min(task.features, 16))
        found = at_prefixes(model, prompt).numpy()
        assert excess(found, feature_predictions, prefixes(prompt), 1.0).max() < 1, task


@pytest.mark.parametrize("ridge", [1e-6, 0.1, 1e5])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_ridge_and_precision(ridge, dtype):
    task = PrescribedSpectrum(features=5, supports=20, outputs=2, condition=200, ridge=ridge)
    prompt = task.draw(8, seed=0).to(getattr(torch, dtype))
    model = make(prompt, task.max_eigenvalue, 5, ridge=ridge, dtype=dtype)
    relative = model.certificate.relative_error
    found = at_prefixes(model, prompt).numpy()
    numpy_type = getattr(np, dtype)
    assert found.dtype == numpy_type
    one_by_one = prefixes(prompt)
    used = excess(found, feature_predictions, one_by_one, ridge, numpy_type, relative)
    assert used.max() < 1


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("end", ["min_target_norm", "max_target_norm"])
def test_targets_at_the_ends_of_the_domain(end, dtype):
    task = PrescribedSpectrum(features=3, supports=10, condition=100)
    prompt = task.draw(4, seed=0)
    model = make(prompt, task.max_eigenvalue, 4, dtype=dtype)
    norms, limit = model.certificate.target_norms(prompt), getattr(model.certificate, end)
    scale = limit / float(norms.min() if end.startswith("min") else norms.max())
    prompt = Prompt(prompt.phi, scale * prompt.y, prompt.phi_query).to(getattr(torch, dtype))
    found, relative = at_prefixes(model, prompt).numpy(), model.certificate.relative_error
    one_by_one, numpy_type = prefixes(prompt), getattr(np, dtype)
    assert excess(found, feature_predictions, one_by_one, 1.0, numpy_type, relative).max() < 1


@pytest.mark.parametrize("name", ["gd", "richardson", "chebyshev", "heavy-ball"])
def test_fixed_coefficients_come_through_the_same_door(name):
    task = PrescribedSpectrum(features=5, supports=14, outputs=2, condition=30)
    prompt, top = task.draw(4, seed=0), task.max_eigenvalue
    model = make(prompt, top, 6, name)
    # Polynomials of A applied to y: the same predictions in either space.
    expected = solve(make_solver(name), prefixes(prompt), steps=6, ridge=1.0, max_eigenvalue=top)
    scale = float(expected.predictions.abs().max())
    assert float((at_prefixes(model, prompt) - expected.predictions).abs().max()) < 1e-10 * scale
    assert model.transformer.config.n_layers == 7, "a step is one layer"


@pytest.mark.parametrize("degree", [2, 3])
def test_polynomial_kernels(degree):
    kernel = Polynomial(degree, 0.5)
    prompt = KernelDraw(kernel=kernel, features=2, supports=12, outputs=2, scale=0.6).draw(
        3, seed=0
    )
    top = 1.01 * float(torch.linalg.eigvalsh(kernel(prompt.phi, prompt.phi)).max())
    model = make(prompt, top, 3, kernel=kernel)

    def features(x):  # (⟨a, b⟩ + c)^d is the product of all entries of (a, √c), d at a time
        extended = torch.cat([x, torch.full_like(x[..., :1], 0.5**0.5)], dim=-1)
        out = extended
        for _ in range(degree - 1):
            out = (out[..., :, None] * extended[..., None, :]).flatten(-2)
        return out

    found = at_prefixes(model, prompt).numpy()
    assert excess(found, feature_predictions, prefixes(prompt, features), 1.0).max() < 1


@pytest.mark.parametrize("outputs", [1, 2])
def test_nothing_before_the_first_pair_and_nothing_for_zeros(outputs):
    task = PrescribedSpectrum(features=4, supports=12, outputs=outputs, condition=300)
    prompt = task.draw(8, seed=0)
    model = make(prompt, task.max_eigenvalue, 6)
    found = trajectory(model, prompt, prefixes=True).predictions
    assert found[:, :, 0].abs().max() == 0
    assert found[1:, :, 1:].abs().min() > 0
    zero = Prompt(prompt.phi, torch.zeros_like(prompt.y), prompt.phi_query)
    assert trajectory(model, zero, prefixes=True).predictions.abs().max() == 0
    y = prompt.y.clone()
    y[:, :5, 0] = 0  # prefixes that begin with zeros, in one of the outputs
    late = trajectory(model, Prompt(prompt.phi, y, prompt.phi_query), prefixes=True).predictions
    assert late[:, :, :6, 0].abs().max() == 0
    assert torch.isfinite(late).all()
    if outputs == 2:
        assert torch.equal(late[..., 1], found[..., 1]), "outputs share nothing but φ"


def test_it_stays_at_the_solution_of_every_prefix():
    task = PrescribedSpectrum(features=4, supports=12, condition=300)
    prompt = task.draw(4, seed=0)
    found = at_prefixes(make(prompt, task.max_eigenvalue, 50), prompt)
    assert torch.isfinite(found).all()
    exact = krr(prefixes(prompt), ridge=1.0).expand(31, -1, -1, -1)
    torch.testing.assert_close(found[20:], exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
def test_no_bit_of_a_prediction_depends_on_later_tokens(outputs):
    """Longer than a chunk of causal attention and a block of the MLP are; every step is compared."""
    task = PrescribedSpectrum(features=3, supports=150, outputs=outputs, condition=20)
    prompt = task.draw(2, seed=0)
    model = make(prompt, 1e4, 3)
    found, at_once = trajectory(model, prompt, prefixes=True).predictions, model.predict_prefixes
    for first in (0, 1, 30, 31, 32, 100, 149):
        phi, y = prompt.phi.clone(), prompt.y.clone()
        y[:, first:] = 3 * y[:, first:].flip(1) + 1
        phi[:, first + 1 :] = 2 * phi[:, first + 1 :].flip(1) - 0.1
        other = Prompt(phi, y, -prompt.phi_query)
        changed = trajectory(model, other, prefixes=True).predictions
        # x_{first+1} is still the same, and its own y comes after it.
        assert torch.equal(changed[:, :, : first + 1], found[:, :, : first + 1])
        assert torch.equal(at_once(other)[:, : first + 1], at_once(prompt)[:, : first + 1])
        assert (changed[1:, :, first + 1 :] != found[1:, :, first + 1 :]).float().mean() > 0.9


def test_a_query_is_answered_by_itself():
    prompt = PrescribedSpectrum(features=3, supports=9, queries=5, condition=20).draw(2, seed=0)
    model = make(prompt, 50.0, 3)
    found = model.predict(prompt)
    moved = prompt.phi_query.clone()
    moved[:, 1:] *= -2
    assert torch.equal(model.predict(Prompt(prompt.phi, prompt.y, moved))[:, 0], found[:, 0])


def test_weights_do_not_depend_on_the_number_of_pairs():
    model = None
    for supports in (1, 7, 300):
        task = PrescribedSpectrum(features=3, supports=supports, condition=20)
        prompt = task.draw(2, seed=0)
        model = model or make(prompt, task.max_eigenvalue, 3)
        found = at_prefixes(model, prompt).numpy()
        assert excess(found, feature_predictions, prefixes(prompt), 1.0).max() < 1


def test_a_saved_model_runs_in_numpy(tmp_path):
    task = PrescribedSpectrum(features=4, supports=11, outputs=2, condition=8)
    prompt = task.draw(3, seed=1)
    model = make(prompt, task.max_eigenvalue, 4)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert isinstance(again, CompiledModel)
    assert again.certificate == model.certificate
    assert torch.equal(again.predict_prefixes(prompt), model.predict_prefixes(prompt))
    arrays = [x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query)]
    expected = run_prefixes(tmp_path / "m", *arrays)
    apart = np.abs(model.predict_prefixes(prompt).numpy() - expected).max()
    assert apart < 1e-12 * np.abs(expected).max()
    np.testing.assert_array_equal(run(tmp_path / "m", *arrays), expected[:, 11:])


def test_heads_and_sites_say_what_they_are_for():
    task = PrescribedSpectrum(features=4, supports=11, outputs=2, condition=8)
    prompt = task.draw(3, seed=1)
    model = make(prompt, task.max_eigenvalue, 3)
    assert len(model.heads()) == 8, "one for each output, for Φᵀy and for each of three steps"
    assert [head.layer for head in model.heads("target")] == [0, 0]
    matvecs = model.heads("matvec")
    assert [head.multiplies for head in matvecs] == [("r",)] * 2 + [("p",)] * 4
    assert size_report(model)["layers"] == 9 * 3 + 2
    # The state of every token is the iterate of its prefix: w at each x gives its prediction.
    from ridgeformer.models import residual_stream

    entry = model.sites["states"]["alpha"][-1]
    layer = int(entry["site"].split(".")[1])
    stream = residual_stream(model, prompt)[2 * (layer + 1)][:, model.every_x(prompt)]
    w = stream[..., entry["columns"]].unflatten(-1, (2, 4))
    xs = torch.cat([prompt.phi, prompt.phi_query], dim=1)
    read = (w * xs[:, :, None]).sum(-1)
    torch.testing.assert_close(read, model.predict_prefixes(prompt), rtol=1e-11, atol=1e-11)


def test_an_x_that_counted_as_a_pair_would_be_noticed(monkeypatch):
    from ridgeformer.compiler.backends.every_prefix import EveryPrefixLowering

    task = PrescribedSpectrum(features=4, supports=11, condition=8)
    prompt = task.draw(3, seed=1)
    monkeypatch.setattr(EveryPrefixLowering, "key", property(lambda self: self.phi))
    found = at_prefixes(make(prompt, task.max_eigenvalue, 3), prompt).numpy()
    assert excess(found, feature_predictions, prefixes(prompt), 1.0).max() > 1e6


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cg", {"precondition": "jacobi"}, "not available in feature space"),
        ("cg", {"precondition": "row-sum"}, "comes from the normaliser of softmax attention"),
        ("richardson", {"precondition": "jacobi"}, "not available in feature space"),
        ("nadaraya-watson", {}, r"use `to=SoftmaxAttention\(…\)`"),
        ("block-cg", {}, "its state is a matrix"),
        ("cg", {"kernel": Exponential()}, "the exponential kernel is not one"),
        ("cg", {"products": Exact(max_target=2.0)}, "`max_target` means nothing"),
        ("cg", {"products": None}, r"use `products=Exact\(\)`"),
        ("cg", {"causal": False}, "use `causal=True` with `every_prefix=True`"),
        ("cg", {"dtype": "float32", "ridge": 1e20, "top": 1e27}, "the range of float32"),
        ("cg", {"dtype": "float32", "top": 1e17}, "choose λ ≥"),
    ],
)
def test_what_cannot_be_done_is_refused(name, options, message):
    with pytest.raises(Refusal, match=message):
        compile(
            make_solver(name, options.get("precondition", "none")), features=3, steps=2,
            ridge=options.get("ridge", 1.0), kernel=options.get("kernel", Linear()), dtype=options.get("dtype", "float64"),
            to=LinearAttention(
                options.get("top", 9.0), options.get("products", Exact()),
                causal=options.get("causal", True), every_prefix=True,
            ),
        )  # fmt: skip


def test_softmax_attention_has_no_such_thing():
    with pytest.raises(TypeError, match="every_prefix"):
        SoftmaxAttention(1.0, 16, every_prefix=True)


def test_the_domain_is_that_of_every_prefix():
    task = PrescribedSpectrum(features=4, supports=12, condition=30)
    prompt = task.draw(4, seed=0)
    model = make(prompt, task.max_eigenvalue, 3)
    y = prompt.y.clone()
    y[:, 0] = 1e-25  # the first prefix is too small, the whole prompt is not
    with pytest.raises(Refusal, match=r"‖Φᵀy‖ of some prefix is .* rescale the targets"):
        model.predict(Prompt(prompt.phi, y, prompt.phi_query))
    y[:, :2] = 1e20 * prompt.y[:, :2]
    y[:, 1] = -y[:, 0] * prompt.phi[:, 0, :1] / prompt.phi[:, 1, :1]
    with pytest.raises(Refusal, match="‖Φᵀy‖ of some prefix"):
        model.predict(Prompt(prompt.phi, y, prompt.phi_query))
    y[:, :2] = 0  # nothing is allowed, at any prefix
    assert torch.isfinite(model.predict_prefixes(Prompt(prompt.phi, y, prompt.phi_query))).all()
    with pytest.raises(Refusal, match=r"λ_max\(K\)"):
        model.predict_prefixes(Prompt(2 * prompt.phi, prompt.y, prompt.phi_query))


def test_other_models_predict_at_the_queries_alone():
    prompt = PrescribedSpectrum(features=2, supports=4).draw(1, seed=0)
    causal = compile(
        make_solver("gd"), features=2, steps=2, ridge=1.0, to=LinearAttention(1e3, causal=True)
    )
    for call in (causal.predict_prefixes, lambda p: trajectory(causal, p, prefixes=True)):
        with pytest.raises(Refusal, match="compile it with `every_prefix=True`"):
            call(prompt)
    trained = zoo.load("gp")
    with pytest.raises(Refusal, match="at the queries alone"):
        trajectory(trained, trained.recipe.task.draw(1, seed=0), prefixes=True)
