"""Every solver × MLP × mask that compiles: model = program = solver within the certificate; size."""

import numpy as np
import pytest
import torch
from numpy_executor import run
from promise import excess, own_round_off
from textbook import dual_predictions, feature_predictions

from ridgeformer.compiler import CompiledModel, Exact, LinearAttention, compile, size_report
from ridgeformer.models import trajectory
from ridgeformer.program import interpret, trace
from ridgeformer.solvers import krr, make_solver, solve
from ridgeformer.tasks import PrescribedSpectrum, Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

DUAL = [
    ("gd", "none", "relu"),
    ("gd", "none", "reglu"),
    ("richardson", "none", "relu"),
    ("richardson", "jacobi", "reglu"),
    ("heavy-ball", "none", "relu"),
    ("heavy-ball", "none", "reglu"),
    ("chebyshev", "none", "relu"),
    ("chebyshev", "none", "reglu"),
    ("chebyshev", "jacobi", "reglu"),
    ("cg", "none", "relu"),
    ("cg", "none", "reglu"),
    ("cg", "jacobi", "reglu"),
    ("cg-predicted", "none", "relu"),
    ("cg-predicted", "none", "reglu"),
]
CG = pytest.mark.parametrize("name", ["cg", "cg-predicted"])
SIZES = [(1, 2, 1), (3, 9, 2), (8, 40, 1), (16, 5, 3)]  # features, supports, outputs
DECODERS = [*SIZES[:3], pytest.param(*SIZES[3], marks=pytest.mark.slow), (12, 90, 1)]


def also_slow(quick, slow):
    """Values of a parameter, some of which are tried by the slow tests alone."""
    return [*quick, *(pytest.param(value, marks=pytest.mark.slow) for value in slow)]


PRODUCTS = {"relu": None, "reglu": Exact()}


def make(name, precondition, mlp, features, outputs, steps, top, causal=False):
    solver = make_solver(name, precondition)
    return solver, compile(
        solver, features=features, outputs=outputs, steps=steps, ridge=1.0,
        to=LinearAttention(top, PRODUCTS[mlp], causal),
    )  # fmt: skip


@pytest.mark.parametrize(("features", "supports", "outputs"), SIZES)
@pytest.mark.parametrize(("name", "precondition", "mlp"), DUAL)
def test_model_equals_solver_at_every_step(name, precondition, mlp, features, supports, outputs):
    task = PrescribedSpectrum(features=features, supports=supports, outputs=outputs, condition=20)
    prompt, top, steps = task.draw(6, seed=0), task.max_eigenvalue, min(5, features + 1)
    solver, model = make(name, precondition, mlp, features, outputs, steps, top)
    found = trajectory(model, prompt, states=True)
    expected = solve(solver, prompt, steps=steps, ridge=1.0, max_eigenvalue=top, states=True)
    program = interpret(trace(solver, steps=steps, ridge=1.0, max_eigenvalue=top), prompt)
    scale = float(expected.predictions.abs().max())
    assert float(found.distance(expected).max()) < 1e-10 * scale
    assert float(found.distance(program).max()) < 1e-10 * scale
    alpha, size = expected.states["alpha"], float(expected.states["alpha"].abs().max())
    torch.testing.assert_close(found.states["alpha"], alpha, rtol=0, atol=1e-10 * size)
    # A pass without records leaves out the zeros of the weights, and sums in another order.
    near = 1e-9 * float(found.final.abs().max())
    torch.testing.assert_close(model.predict(prompt), found.final, rtol=0, atol=near)
    if name.startswith("cg") and precondition == "none":
        assert excess(found.predictions.numpy(), dual_predictions, prompt, 1.0).max() < 1


@pytest.mark.parametrize(("name", "precondition", "mlp"), DUAL)
def test_a_saved_model_runs_in_numpy(tmp_path, name, precondition, mlp):
    task = PrescribedSpectrum(features=4, supports=11, outputs=2, condition=8)
    prompt = task.draw(3, seed=1)
    _, model = make(name, precondition, mlp, 4, 2, 4, task.max_eigenvalue)
    model.save(tmp_path / "m")
    again = CompiledModel.load(tmp_path / "m")
    assert torch.equal(again.predict(prompt), model.predict(prompt))
    expected = run(tmp_path / "m", *(x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query)))
    apart = np.abs(model.predict(prompt).numpy() - expected).max()
    assert apart < 1e-12 * np.abs(expected).max()


@CG
@pytest.mark.parametrize("mlp", ["relu", "reglu"])
@pytest.mark.parametrize(("features", "supports", "outputs"), DECODERS)
def test_the_causal_decoder_runs_cg_in_feature_space(
    tmp_path, mlp, features, supports, outputs, name
):
    task = PrescribedSpectrum(features=features, supports=supports, outputs=outputs, condition=50)
    prompt, steps = task.draw(6, seed=0), min(8, features)
    _, model = make(name, "none", mlp, features, outputs, steps, task.max_eigenvalue, causal=True)
    found = trajectory(model, prompt).predictions.numpy()
    reference, extended = (
        feature_predictions(prompt, 1.0, steps, d) for d in (np.float64, np.longdouble)
    )
    assert excess(found, feature_predictions, prompt, 1.0).max() < 1
    if outputs == 1 and name == "cg":
        assert model.transformer.config.d_model <= 5 * features + 24
    if steps > 2:  # the dual iterates are others, so the comparison above means something
        apart = np.abs(found - dual_predictions(prompt, 1.0, steps)).max()
        assert apart > 1e-3 * np.abs(reference).max()
    model.save(tmp_path / "m")
    arrays = [x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query)]
    expected = run(tmp_path / "m", *arrays)
    own = own_round_off(lambda p: feature_predictions(p, 1.0, steps), prompt, extended)[-1]
    assert np.abs(found[-1] - expected).max() < max(1e-12 * np.abs(expected).max(), 100 * own.max())


@pytest.mark.parametrize("name", ["gd", "chebyshev", "heavy-ball"])
def test_fixed_coefficients_run_causally_too(name):
    task = PrescribedSpectrum(features=5, supports=14, outputs=2, condition=30)
    prompt, top = task.draw(4, seed=0), task.max_eigenvalue
    solver, model = make(name, "none", "relu", 5, 2, 6, top, causal=True)
    expected = solve(solver, prompt, steps=6, ridge=1.0, max_eigenvalue=top)
    # Polynomials of A applied to y: the same predictions in either space.
    apart = trajectory(model, prompt).distance(expected).max()
    assert float(apart) < 1e-10 * float(expected.predictions.abs().max())


@pytest.mark.parametrize("outputs", also_slow([1, 3], [2, 8]))
@pytest.mark.parametrize("features", also_slow([2, 8], [1, 32]))
@pytest.mark.parametrize("top", [99.0, 1e6])
def test_cg_is_small(features, outputs, top):
    small, large = (
        make("cg", "none", "relu", features, outputs, steps, top)[1].transformer.config
        for steps in (3, 8)
    )
    assert large.d_model <= features + 10 * outputs + 5
    assert large.n_layers - small.n_layers == 7 * 5, "seven layers a step"
    assert large.n_layers <= 7 * 8 + 2
    if outputs <= 3:
        assert large.d_mlp <= 320


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("features", also_slow([2], [1, 32]))
@pytest.mark.parametrize("top", [99.0, 1e6])
def test_predicted_cg_takes_five_layers_a_step(features, outputs, top):
    for steps in (1, 3, 8):
        config = make("cg-predicted", "none", "relu", features, outputs, steps, top)[
            1
        ].transformer.config
        assert config.n_layers == 5 * steps
        assert config.d_model <= features + 18 * outputs + 4


@pytest.mark.parametrize("name", ["gd", "richardson", "heavy-ball", "chebyshev"])
def test_fixed_coefficient_steps_are_single_layers(name):
    _, model = make(name, "none", "relu", 6, 1, 10, 50.0)
    size = size_report(model)
    assert size["layers"] == 11
    assert size["d_model"] <= 6 + 7
    assert size["heads"] == 1


def test_the_outputs_share_one_mat_vec_head():
    _, model = make("cg", "none", "relu", 4, 3, 2, 50.0)
    heads = model.heads(role="matvec")
    assert len(heads) == 2, "one mat-vec per step"
    assert all(len(head.writes) == 3 for head in heads)
    # The first direction is the residual itself.
    assert [head.multiplies for head in heads] == [("r",), ("p",)]


def test_weights_do_not_depend_on_the_number_of_supports():
    _, model = make("cg", "none", "relu", 4, 1, 4, 50.0)
    for supports in (2, 7, 300):
        prompt = PrescribedSpectrum(features=4, supports=supports, condition=20).draw(3, seed=0)
        found = trajectory(model, prompt).predictions.numpy()
        assert excess(found, dual_predictions, prompt, 1.0).max() < 1


@CG
@pytest.mark.parametrize("causal", [False, True])
def test_cg_stays_at_the_solution_and_zero_stays_zero(name, causal):
    task = PrescribedSpectrum(features=4, supports=12, condition=300)
    prompt = task.draw(8, seed=0)
    _, model = make(name, "none", "relu", 4, 1, 50, task.max_eigenvalue, causal=causal)
    found = trajectory(model, prompt).predictions
    assert torch.isfinite(found).all()
    torch.testing.assert_close(
        found[20:], krr(prompt, ridge=1.0).expand(31, -1, -1, -1), rtol=1e-9, atol=1e-9
    )
    zero = Prompt(prompt.phi, torch.zeros_like(prompt.y), prompt.phi_query)
    assert trajectory(model, zero).predictions.abs().max() == 0


@CG
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ridge", [1e-6, 0.1, 1e5])
def test_any_ridge(ridge, causal, dtype, name):
    task = PrescribedSpectrum(features=6, supports=20, outputs=2, condition=200, ridge=ridge)
    prompt = task.draw(16, seed=0).to(getattr(torch, dtype))

    def compiled():
        return compile(
            make_solver(name), features=6, outputs=2, steps=5, ridge=ridge, dtype=dtype,
            to=LinearAttention(task.max_eigenvalue, causal=causal),
        )  # fmt: skip

    if name == "cg-predicted" and causal and dtype == "float32" and ridge != 0.1:
        # Its table of 1/ρ has weights up to ρ^(−3/2), and ρ = ‖Φᵀy‖² has a wide range.
        with pytest.raises(Refusal, match="the range of float32"):
            compiled()
        return
    model = compiled()
    found = trajectory(model, prompt).predictions.numpy()
    textbook = feature_predictions if causal else dual_predictions
    relative = 1e-9 if dtype == "float64" else 1e-6
    assert excess(found, textbook, prompt, ridge, getattr(np, dtype), relative).max() < 1


@CG
@pytest.mark.parametrize("size", [1e-11, 1e-4, 1e4, 1e11])
def test_targets_of_any_size_in_the_domain(size, name):
    task = PrescribedSpectrum(features=4, supports=12, condition=30)
    prompt = task.draw(4, seed=0)
    _, model = make(name, "none", "relu", 4, 1, 4, task.max_eigenvalue)
    scaled = Prompt(prompt.phi, prompt.y / prompt.y.norm() * size, prompt.phi_query)
    expected = solve(make_solver("cg"), scaled, steps=4, ridge=1.0)
    apart = trajectory(model, scaled).distance(expected).max()
    assert float(apart) < 1e-9 * float(expected.predictions.abs().max())


@pytest.mark.parametrize(
    ("name", "precondition", "options", "message"),
    [
        ("cg", "jacobi", {}, r"use `products=Exact\(\)`"),
        ("cg", "jacobi", {"products": Exact(), "causal": True}, "not available in feature space"),
        ("richardson", "row-sum", {}, "softmax attention"),
        ("newton", "none", {"causal": True}, "without `causal=True`"),
        ("gd++", "none", {"causal": True}, "without `causal=True`"),
        ("newton", "none", {"steps": 2000}, "use fewer `steps`"),
        ("block-cg", "none", {}, "its state is a matrix"),
        ("nadaraya-watson", "none", {}, r"use `to=SoftmaxAttention\(…\)`"),
        ("cg", "none", {"ridge": 0.0}, "ridge must be positive"),
        ("cg", "none", {"ridge": -1.0}, "ridge must be positive"),
        ("cg", "none", {"max_eigenvalue": 0.0}, "must be positive and finite"),
        ("cg", "none", {"steps": 0}, "at least 1"),
        ("cg", "none", {"features": 0}, "at least 1"),
        ("cg", "none", {"outputs": -2}, "at least 1"),
        (
            "cg",
            "none",
            {"dtype": "float32", "ridge": 1e20, "max_eigenvalue": 1e27},
            "the range of float32",
        ),
        ("cg", "none", {"dtype": "float32", "max_eigenvalue": 1e15}, "choose λ ≥"),
    ],
)
def test_what_cannot_compile_is_refused_with_the_reason(name, precondition, options, message):
    target = {"max_eigenvalue": 9.0}
    target |= {n: v for n, v in options.items() if n in ("max_eigenvalue", "products", "causal")}
    settings = {"features": 3, "steps": 2, "ridge": 1.0}
    settings |= {n: v for n, v in options.items() if n not in target}
    with pytest.raises(Refusal, match=message):
        compile(make_solver(name, precondition), to=LinearAttention(**target), **settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: Prompt(2 * p.phi, p.y, p.phi_query), r"λ_max\(K\) is .* outside the domain"),
        (lambda p: Prompt(1.001 * p.phi, p.y, p.phi_query), r"λ_max\(K\) is .* outside the domain"),
        (lambda p: Prompt(p.phi, 1e14 * p.y, p.phi_query), "rescale the targets"),
        (lambda p: Prompt(p.phi, 1e-16 * p.y, p.phi_query), "rescale the targets"),
        (lambda p: Prompt(p.phi, p.y, 1e9 * p.phi_query), "A query has norm"),
        (lambda p: Prompt(p.phi[..., 1:], p.y, p.phi_query[..., 1:]), "`features=3`"),
        (lambda p: Prompt(p.phi, p.y.repeat(1, 1, 2), p.phi_query), "`outputs=2`"),
    ],
)
def test_prompts_outside_the_domain_are_refused(change, message):
    task = PrescribedSpectrum(features=4, supports=12, condition=30)
    prompt = task.draw(4, seed=0)
    _, model = make("cg", "none", "relu", 4, 1, 3, task.max_eigenvalue)
    model.predict(prompt)  # the edge itself is inside
    for call in (model.predict, lambda p: trajectory(model, p)):
        with pytest.raises(Refusal, match=message):
            call(change(prompt))
