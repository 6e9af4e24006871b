"""Models narrower than the features that they read: U in the embedding, and what the theorems say of it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy_executor import run
from selection import first_of_each
from theorem_cases import largest_ratio, plant

from ridgeformer import theory
from ridgeformer.compiler import (
    CompiledModel,
    Exact,
    LinearAttention,
    SoftmaxAttention,
    compile,
    size_report,
)
from ridgeformer.experiments.theorems import THEOREMS, Verdict, narrow
from ridgeformer.kernels import Linear, kernel_from
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import (
    ConjugateGradient,
    condition_number,
    kernel_eigenvalues,
    krr,
    make_solver,
    solve,
)
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

FEATURES, KEPT, SUPPORTS = 20, 3, 12
U = torch.randn(KEPT, FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / (
    FEATURES**0.5
)


@pytest.fixture(scope="module")
def prompt():
    return KernelDraw(Linear(), features=FEATURES, supports=SUPPORTS, scale=0.5).draw(6, seed=0)


def by_hand(prompt):
    """The same problem with the features projected beforehand."""
    return Prompt(prompt.phi @ U.T, prompt.y, prompt.phi_query @ U.T)


WIDE = LinearAttention(40.0)


def narrow_linear(name="cg", precondition="none", steps=6, to=WIDE):
    return compile(
        make_solver(name, precondition), features=FEATURES, steps=steps, ridge=0.3,
        kernel=Linear(U), to=to,
    )  # fmt: skip


# The kernel


def test_the_linear_kernel_projects(prompt):
    kernel, small = Linear(U), by_hand(prompt)
    torch.testing.assert_close(kernel(prompt.phi, prompt.phi), theory.gram(small))
    torch.testing.assert_close(kernel.diagonal(prompt.phi), Linear().diagonal(small.phi))
    torch.testing.assert_close(
        kernel_eigenvalues(prompt, kernel), kernel_eigenvalues(small), atol=1e-12, rtol=1e-9
    )
    torch.testing.assert_close(
        condition_number(prompt, ridge=1.0, kernel=kernel), condition_number(small, ridge=1.0)
    )
    options = {"steps": 3, "ridge": 0.3}
    torch.testing.assert_close(
        solve(ConjugateGradient(), prompt, kernel=kernel, **options).predictions,
        solve(ConjugateGradient(), small, **options).predictions,
    )
    values = kernel(prompt.phi, prompt.phi).abs().max()
    longest = float(prompt.phi.norm(dim=-1).max())
    assert float(values) <= kernel.range(longest).most


def test_a_projected_linear_kernel_survives_the_disk():
    for kernel in (Linear(U), Linear()):
        again = kernel_from(json.loads(json.dumps(kernel.to_dict())))
        if kernel.projection is None:
            assert again.projection is None
        else:
            torch.testing.assert_close(again.projection, U, rtol=0, atol=0)
    assert kernel_from({"name": "linear"}).projection is None  # as older models wrote it


def test_drift_is_bounded_through_a_projection(prompt):
    generator = torch.Generator().manual_seed(1)
    moved = Prompt(
        *(
            x + 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype)
            for x in (prompt.phi,)
        ),
        prompt.y,
        prompt.phi_query,
    )
    kernel = Linear(U)
    change = torch.linalg.matrix_norm(theory.gram(prompt, kernel) - theory.gram(moved, kernel), 2)
    assert largest_ratio(change, theory.gram_drift_bound(prompt, moved, kernel=kernel)) > 0.1
    apart = (krr(prompt, ridge=0.3, kernel=kernel) - krr(moved, ridge=0.3, kernel=kernel)).abs()
    options = {"ridge": 0.3, "kernel": kernel}
    largest_ratio(apart, theory.drift_prediction_bound(prompt, moved, **options))
    assert theory.lipschitz_constant(Linear(2 * U), 1.5) == pytest.approx(
        4 * theory.lipschitz_constant(kernel, 1.5)
    )


# The models


@pytest.mark.parametrize(
    ("name", "precondition", "products"),
    [
        ("cg", "none", None),
        ("cg", "jacobi", Exact()),
        ("chebyshev", "none", None),
    ],
)
def test_a_narrow_model_is_its_solver(prompt, name, precondition, products):
    to = LinearAttention(40.0, products=products)
    model = narrow_linear(name, precondition, to=to)
    assert model.transformer.config.d_model < FEATURES
    found, expected = trajectory(model, prompt), reference(model, prompt)
    assert float(found.distance(expected).max()) < 1e-10
    wide = compile(
        make_solver(name, precondition), features=KEPT, steps=6, ridge=0.3, to=to
    )  # fmt: skip
    assert model.transformer.config.d_model == wide.transformer.config.d_model
    # The model of the projected features, with the projection done outside, is the same model.
    torch.testing.assert_close(
        found.predictions, trajectory(wide, by_hand(prompt)).predictions, rtol=0, atol=1e-11
    )


def test_a_narrow_causal_model_and_one_of_softmax_heads(prompt):
    exact = krr(prompt, ridge=0.3, kernel=Linear(U))
    causal = narrow_linear(to=LinearAttention(40.0, causal=True))
    assert float((causal.predict(prompt) - exact).abs().max()) < 1e-9
    inside = prompt.inside(2.5)
    softmax = narrow_linear("chebyshev", steps=180, to=SoftmaxAttention(2.5, 12))
    apart = (softmax.predict(inside) - krr(inside, ridge=0.3, kernel=Linear(U))).abs().max()
    assert float(apart) < 1e-7


def test_a_narrow_model_survives_the_disk(prompt, tmp_path):
    model = narrow_linear()
    model.save(tmp_path / "m")
    again = CompiledModel.load(tmp_path / "m")
    torch.testing.assert_close(again.predict(prompt), model.predict(prompt), rtol=0, atol=0)
    arrays = (x.numpy() for x in (prompt.phi, prompt.y, prompt.phi_query))
    peer = run(tmp_path / "m", *arrays)
    np.testing.assert_allclose(peer, model.predict(prompt).numpy(), atol=1e-10)
    assert size_report(again)["beyond features"] == 13


def test_a_projection_of_other_features_is_refused(prompt):
    with pytest.raises(Refusal, match="reads 20 features, not 5"):
        compile(
            make_solver("cg"),
            features=5,
            steps=2,
            ridge=1.0,
            kernel=Linear(U),
            to=LinearAttention(9.0),
        )
    with pytest.raises(Refusal, match="reads 20 features, not 3"):
        kernel_eigenvalues(by_hand(prompt), Linear(U))
    with pytest.raises(Refusal, match="projection is 0"):
        compile(
            make_solver("cg"), features=FEATURES, steps=2, ridge=1.0, kernel=Linear(0 * U),
            to=SoftmaxAttention(1.0, 4),
        )  # fmt: skip


def test_the_command_line_compiles_a_narrow_model(tmp_path):
    np.save(tmp_path / "U.npy", U.numpy())
    command = [
        sys.executable, "-m", "ridgeformer.cli", "compile", "cg", "--features", str(FEATURES),
        "--steps", "3", "--ridge", "1", "--max-eigenvalue", "9", "--projection", "U.npy",
        "--out", "m",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "d_model 16 (3 of 20 + 13)" in " ".join(done.stdout.split())


# The theorems


@pytest.fixture(scope="module")
def found(unchecked):
    return list(narrow.cases(0, True))


def test_the_kernel_that_is_read_is_the_projected_one(found):
    assert {(c.setting.kernel.name, c.name) for c in found} == {
        (kernel, name) for kernel in ("linear", "exponential") for name in
        ("leading", "random", "learned")
    }  # fmt: skip
    family = narrow.Family.drawn(0)
    for case in found:
        extra = 13 if case.setting is narrow.LINEAR else 24
        assert case.d_model == case.width + extra < narrow.FEATURES
        if case.name == "leading":
            own = case.setting.through(narrow.leading(family, case.width))
            torch.testing.assert_close(
                case.gram, theory.gram(case.prompt, own), rtol=1e-12, atol=1e-12
            )
            torch.testing.assert_close(
                case.cross, theory.cross(case.prompt, own), rtol=1e-12, atol=1e-12
            )


def test_truncation_of_all_prompts_is_one_projection():
    family = narrow.Family.drawn(3)
    prompt = family.prompts(5, 4)
    for width in (2, 9):
        own = Linear(narrow.leading(family, width))
        torch.testing.assert_close(
            theory.gram(prompt, own),
            theory.eigen_truncation(prompt, rank=width),
            rtol=0,
            atol=1e-12,
        )
    spread = kernel_eigenvalues(prompt)
    assert float((spread.amax(0) / spread.amin(0)).min()) > 1.01  # the spectra do differ


def test_each_part_of_the_width_theorems_says_something(found):
    others = [c for c in found if c.name != "leading"]
    for part in (narrow.resolvent_ratios, narrow.rank_ratios):
        for among in (found, others):
            assert 0.1 < part(among).max() <= 1 + 1e-9
    ratios = [float((error / bound).max()) for error, bound in map(narrow.query_errors, found)]
    assert 0.1 < max(ratios) <= 1 + 1e-9


def test_learning_helps_on_prompts_that_it_has_not_seen(found):
    def typical(name):
        errors = [narrow.query_errors(c)[0] for c in found if c.name == name and c.width == 12]
        return float(torch.cat(errors).median())

    assert typical("learned") < 0.5 * typical("random")


def test_the_rank_bound_is_for_the_linear_kernel_alone(found):
    """exp(⟨Uφ, Uφ⟩/τ) has full rank: it beats what any K̂ of rank m can do."""
    (case,) = (c for c in found if c.setting is narrow.EXPONENTIAL and c.name == "leading")
    after = theory.eigenvalue_after(case.prompt, rank=case.width, kernel=case.setting.kernel)
    assert (case.distance < after).all()


def first_term_only(*arguments, **options):
    return theory.query_error_terms(*arguments, **options)[0]


PLANTED = [
    ("narrow-query", "query_error_bound", lambda f: first_term_only),
    ("narrow-query", "query_error_bound", lambda f: lambda *a, **k: f(*a, **k) / 3),
    ("narrow-width", "resolvent_bound", lambda f: lambda e, ridge: f(e, ridge=ridge) / 2),
    ("narrow-width", "eigenvalue_after", lambda f: lambda *a, **k: 2 * f(*a, **k)),
    ("narrow-truncation", "rank_error", lambda f: lambda *a, **k: 2 * f(*a, **k)),
    ("narrow-truncation", "leading", lambda f: lambda family, width: family.directions[1:][:width]),
    ("narrow-truncation", "leading", lambda f: lambda family, width: narrow.unseen(width, 5)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attribute", "wrong"), first_of_each(PLANTED))
def test_a_planted_error_is_named(monkeypatch, name, attribute, wrong):
    plant(monkeypatch, narrow, attribute, wrong)
    verdict = Verdict(THEOREMS[name], THEOREMS[name].measure(0, True))
    assert not verdict.holds


def test_a_model_that_is_not_narrow_is_refused():
    with pytest.raises(Refusal, match="not below 48 features"):
        narrow.narrow_model(narrow.EXPONENTIAL, narrow.unseen(40, 0))


def test_the_tail_bound_does_not_hold_for_projections_that_do_not_know_the_data(found):
    """‖K − K̂‖ ≤ Σ_{i>m} σ_i is not true of any m features that are kept."""
    (case,) = (c for c in found if c.name == "random" and c.width == 12)
    tail = kernel_eigenvalues(case.prompt)[:, : narrow.SUPPORTS - case.width].sum(-1)
    assert (case.distance > 5 * tail).all()
