"""Compiled CG in real arithmetic: tables, ranges, the gate, and models whose tables are coarse."""

import mpmath
import numpy as np
import pytest
import torch
from theorem_cases import largest_ratio

from ridgeformer import theory
from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.experiments.theorems import THEOREMS
from ridgeformer.experiments.theorems.compiled_cg import ERROR, Setting, settings
from ridgeformer.kernels import Exponential, Gaussian, Linear
from ridgeformer.models import reference, trajectory
from ridgeformer.models.reference import interval_of
from ridgeformer.program import interpret, tables, trace
from ridgeformer.program.trace import Scope
from ridgeformer.solvers import ConjugateGradient, EagerMachine, krr
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt
from ridgeformer.theory import compiled_cg
from ridgeformer.types import Refusal

COARSE = 3.0
"""The ratio of the knots of coarse tables, whose reciprocals are off by 1e-7."""


@pytest.fixture
def coarse(monkeypatch):
    for name in ("FINE_RATIO", "COARSE_RATIO"):
        monkeypatch.setattr(tables, name, COARSE)
    tables.reciprocal_table.cache_clear()
    yield
    tables.reciprocal_table.cache_clear()


@pytest.mark.parametrize("reach", [1.5, 16.0, 256.0, 1e3, 1e7, 1e14])
def test_tables_are_never_too_large_and_too_small_by_what_is_said(reach):
    """The corrections of files, in forty digits, over all that the tables leave."""
    r = tables.reciprocal_table(1.0, reach)
    most = compiled_cg.guess_error(r.table)
    bound = theory.table_error(1.0, reach)
    assert bound <= 3.2e-16
    found = []
    with mpmath.workdps(40):
        for e in map(mpmath.mpf, np.linspace(-most, most, 401).tolist()):
            p = (1 + r.a * e) * (1 + r.b * e + r.c * e**2) * (1 + r.d * e + r.f * e**2)
            found.append(float(1 - (1 - e) * p))
    assert min(found) >= -compiled_cg.COEFFICIENTS
    assert 0.9 * bound <= max(found) <= bound + compiled_cg.COEFFICIENTS
    x = torch.logspace(0, np.log10(reach), 4001, dtype=torch.float64)
    coarse = 1 - x * tables.reciprocal_table(1.0, reach, COARSE)(x)
    said = theory.table_error(1.0, reach, COARSE)
    assert float(coarse.min()) >= -1e-14
    assert 0.5 * said <= float(coarse.max()) <= said * (1 + 1e-6) + 1e-14
    guesses = (1 - x * r.table(x)).abs().max()
    assert 0.99 * most <= float(guesses) <= most * (1 + 1e-12)


def test_units_are_within_a_tenth():
    for reach in (2.0, 20.0, 1e6, 1e34):
        x = torch.logspace(-32, np.log10(reach) - 32, 5001, dtype=torch.float64)
        near = tables.unit_table(1e-32, 1e-32 * reach)(x) * x.sqrt()
        assert float(near.min()) >= 0.899
        assert float(near.max()) <= 1.101


@pytest.mark.parametrize("setting", list(settings(6, seed=1)), ids=lambda s: s.label)
def test_compiled_cg_errs_as_its_reciprocals_do(setting):
    measured, bound = difference_and_bound(setting, setting.errors)
    assert largest_ratio(measured, bound * (1 + 1e-5)) > 0.5
    assert float(measured.max()) > 0.05 * ERROR, "the errors are far above round-off"


def test_a_bound_that_knows_only_some_reciprocals_is_exceeded():
    """Every kind counts: without its own error, each setting breaks the bound of the others."""
    for setting in settings(6, seed=1):
        tiny = theory.CGErrors(*(1e-3 * e for e in vars(setting.errors).values()))
        measured, bound = difference_and_bound(setting, tiny)
        assert (measured > bound).any(), setting.label


def difference_and_bound(setting, known, steps=5):
    """|f̂_t − f_t| of the recurrence with too small reciprocals, and the bound for these errors."""
    run = setting.run(setting.errors, steps, setting.worst_signs(steps)[2])
    exact = setting.run(theory.CGErrors(), steps).predictions
    return (run.predictions - exact).abs(), setting.bound(run, known)


def test_softmax_cg_errs_as_bounded_in_advance():
    """The bound that knows no path holds, is finite, and asks for the errors of D."""
    tested = [s for s in settings(6, seed=1) if s.errors.normaliser]
    assert len(tested) == 4
    for setting in tested:
        measured, _ = difference_and_bound(setting, setting.errors)
        bound = theory.softmax_cg_growth_bound(
            setting.prompt, steps=5, errors=setting.errors, **setting.system
        )
        assert (measured <= bound * (1 + 1e-5) + 1e-15).all()
        assert bound[1].isfinite().all()
        assert bound[2].isfinite().any(), "on prompts that meet the conditions a step longer"
        assert float((measured / bound)[1].max()) > 0.02, "it says something after one step"
        without = theory.CGErrors(setting.errors.length, setting.errors.memory)
        less = theory.softmax_cg_growth_bound(
            setting.prompt, steps=5, errors=without, **setting.system
        )
        assert (less[1] < bound[1]).all(), "the errors of D count"
        if not without.length:
            assert (measured[1] > less[1]).any(), "nothing else errs, so that the bound is 0"
    with pytest.raises(Refusal, match="preconditioner"):
        theory.softmax_cg_growth_bound(
            setting.prompt, steps=5, errors=theory.CGErrors(diagonal=1e-6), **setting.system
        )


def test_the_querys_own_normaliser_is_counted_in_advance():
    """F_t + δ_D(1 + F_t) with F_t of the inexact recurrence, and nothing less."""
    (setting,) = (s for s in settings(6, seed=1) if s.label == "gaussian, D")
    prompt, off = setting.prompt, 1e-6
    errors = theory.CGErrors(normaliser=off)
    found = theory.softmax_cg_growth_bound(prompt, steps=1, errors=errors, **setting.system)
    energy = theory.target_energy(prompt, ridge=1.0, kernel=setting.kernel)
    energy = energy * theory.query_weight(prompt, ridge=1.0, kernel=setting.kernel)
    norms = torch.linalg.matrix_norm(theory.gram(prompt, setting.kernel), 2)
    for i, (values, norm) in enumerate(zip(setting.eigenvalues, norms, strict=True)):
        known = theory.InexactCG(float(values[0]), float(values[-1]), off * float(norm))
        grown = known.energy_error(1)
        expected = (grown + off * (1 + grown)) * energy[i]
        torch.testing.assert_close(found[1, i], expected, rtol=1e-9, atol=0.0)


def test_linear_cg_errs_as_bounded_in_advance():
    """Both bounds that know no path hold, and are what they are said to be."""
    tested = [s for s in settings(6, seed=1) if s.errors.length or s.errors.memory][:3]
    for setting in tested:
        prompt, errors, run = setting.prompt, setting.errors, setting.run(setting.errors, 4)
        known = {"steps": 4, "errors": errors, "ridge": 1.0, "kernel": setting.kernel}
        apart = (run.predictions - setting.run(theory.CGErrors(), 4).predictions).abs()
        grown = theory.compiled_cg_growth_bound(prompt, **known)
        assert (apart <= grown * (1 + 1e-5) + 1e-15).all()
        falls = theory.compiled_cg_descent_bound(prompt, **known)
        error = (run.predictions - krr(prompt, ridge=1.0, kernel=setting.kernel)[..., 0]).abs()
        assert (error <= falls).all()
        energy = theory.target_energy(prompt, ridge=1.0)
        energy = energy * theory.query_weight(prompt, ridge=1.0)
        values = setting.eigenvalues
        kappa = (values[:, -1] / values[:, 0])[:, None]
        units = 2 * 2**1.5 * errors.memory
        quotients = 6 * 2 * kappa.sqrt() * 14 * kappa**2 * max(errors.length, errors.memory)
        quotients = quotients.clamp(max=(1 - 0.7 / kappa))
        torch.testing.assert_close(grown[2], (quotients + units) * energy)
        expected = ((1 - 0.7 / kappa) + 9 * errors.memory) * energy
        torch.testing.assert_close(falls[2], expected, rtol=1e-12, atol=0.0)
    for bound in (theory.compiled_cg_growth_bound, theory.compiled_cg_descent_bound):
        with pytest.raises(Refusal, match="reciprocals of scalars"):
            bound(prompt, **known | {"errors": theory.CGErrors(diagonal=1e-6)})


def test_second_order_errors_of_tokens_are_counted():
    """What is not linear in errors of a part in a hundred, with the coefficients kept: bounded, and in the bound."""
    generator = torch.Generator().manual_seed(0)
    for label, kind in (("gaussian, D", "normaliser"), ("linear, Jacobi", "diagonal")):
        (setting,) = (s for s in settings(6, seed=1) if s.label == label)
        prompt, known = setting.prompt, theory.CGErrors(**{kind: 0.01})
        path = setting.path(setting.run(theory.CGErrors(), 4))
        tokens = compiled_cg.token_errors(
            path, prompt, known, 1.0, setting.kernel, setting.precondition
        )
        off = 0.02 * torch.rand(6, 12, generator=generator, dtype=torch.float64) - 0.01
        none = torch.zeros_like(off)
        theta = torch.cat([off, none] if kind == "normaliser" else [none, off], -1)
        product, inverse = 1 - theta[:, :12], (1 - theta[:, 12:]) * tokens.scaling
        r, alpha, p = prompt.y[..., 0], none, none
        for t in range(4):
            p = inverse * r + path.beta[t][:, None] * p
            image = torch.einsum("bij,bj->bi", tokens.gram, p) * product + p
            alpha, r = (
                alpha + path.gamma[t][:, None] * p,
                r - path.gamma[t][:, None] * image,
            )
            linear = torch.einsum("bij,bj->bi", tokens.alpha[t + 1], theta)
            rest = torch.einsum("bqi,bi->bq", tokens.weights, alpha - path.alpha[t + 1] - linear)
            assert (rest.abs() <= tokens.prediction[t + 1] + 1e-13).all()
            assert t == 0 or float((rest.abs() / tokens.prediction[t + 1]).max()) > 1e-3
        energy = theory.energy_prediction_bound(
            path.residual, prompt, ridge=1.0, kernel=setting.kernel
        )
        before = compiled_cg.token_bound(path, tokens, known, energy)
        tokens.prediction = [found + 1 for found in tokens.prediction]
        after = compiled_cg.token_bound(path, tokens, known, energy)
        torch.testing.assert_close(after[1:], before[1:] + 1)


@pytest.mark.parametrize("name", ["normaliser", "diagonal"])
def test_the_worst_tokens_meet_the_bound_at_every_step(name):
    """Errors of D and of P⁻¹ alone, so small that only what is linear in them counts."""
    errors = theory.CGErrors(**{name: 1e-3 * ERROR})
    kinds = {"normaliser": "gaussian, D", "diagonal": "linear, Jacobi"}
    (setting,) = (s for s in settings(6, seed=1) if s.label == kinds[name])
    exact = setting.run(theory.CGErrors(), 5).predictions
    for t, signs in enumerate(setting.worst_signs(5), start=1):
        run = setting.run(errors, 5, signs)
        apart = (run.predictions - exact).abs()[t, :, 0]
        ratio = apart / setting.bound(run, errors)[t, :, 0]
        assert float(ratio.max()) < 1 + 1e-4, "round-off of 1e-16 beside errors of 1e-9"
        assert float(ratio.min()) > 0.98


MODELS = {
    "linear": (Linear(), LinearAttention(30.0), "none"),
    "linear, Jacobi": (Linear(), LinearAttention(30.0, Exact()), "jacobi"),
    "gaussian": (Gaussian(0.7), SoftmaxAttention(2.0, 12), "none"),
    "exponential, row sums": (Exponential(2.0), SoftmaxAttention(2.0, 12), "row-sum"),
}


@pytest.mark.parametrize("label", MODELS)
def test_models_with_coarse_tables_err_as_bounded(label, coarse):
    """Compiled models themselves, with reciprocals so coarse that their errors stand out of round-off."""
    kernel, target, kind = MODELS[label]
    prompt = KernelDraw(kernel=kernel, features=2, supports=12, scale=0.5).draw(12, 0).inside(2.0)
    model = compile(
        ConjugateGradient(kind), features=2, steps=4, ridge=1.0, kernel=kernel, to=target
    )
    found = trajectory(model, prompt).predictions[..., 0]
    exact = reference(model, prompt).predictions[..., 0]
    least, most = interval_of(model)
    sums = None
    if isinstance(target, SoftmaxAttention):
        sums = (1.0, 1 + 12 * kernel.range(2.0).most)
    errors = theory.compiled_cg_errors(
        (least, most),
        row_sums=sums,
        diagonal=(1.0, 31.0) if kind == "jacobi" else None,
        ratio=COARSE,
    )
    assert 1e-8 < errors.length < 1e-6
    # Along the solver's own path, which differs from the model's by parts of 1e-7.
    setting = Setting("", prompt, kernel, 1.0, kind, errors)
    path = setting.path(setting.run(theory.CGErrors(), 4))
    bound = theory.compiled_cg_bound(
        path, prompt, found, errors=errors, ridge=1.0, kernel=kernel, precondition=kind
    )
    apart = (found - exact).abs()
    assert (apart <= 1.001 * bound + 1e-13).all()
    assert float(apart.max()) > 1e-9, "far above round-off"
    assert float((apart[1:] / bound[1:]).max()) > 0.05


def in_feature_space(prompt):
    """A prompt whose dual system is the system of feature space: K = ΦᵀΦ, y = Φᵀy and k(x) = φ(x)."""
    values, vectors = torch.linalg.eigh(prompt.phi.mT @ prompt.phi)
    root, inverse = (vectors * values[:, None] ** power @ vectors.mT for power in (0.5, -0.5))
    return Prompt(root, prompt.phi.mT @ prompt.y, prompt.phi_query @ inverse)


@pytest.mark.parametrize("every_prefix", [False, True])
def test_models_in_feature_space_err_as_bounded(every_prefix, coarse):
    """The same theorem with M for A: causal decoders with coarse tables, also one that solves every prefix."""
    prompt = PrescribedSpectrum(features=4, supports=12, condition=10).draw(12, 0)
    top = float(torch.linalg.eigvalsh(theory.gram(prompt)).max())
    target = LinearAttention(
        top, Exact() if every_prefix else None, causal=True, every_prefix=every_prefix
    )
    model = compile(ConjugateGradient(), features=4, steps=3, ridge=1.0, to=target)
    found = trajectory(model, prompt).predictions[..., 0]
    same = in_feature_space(prompt)
    setting = Setting("", same, Linear(), 1.0, "none", theory.CGErrors())
    exact = setting.run(theory.CGErrors(), 3)
    errors = theory.compiled_cg_errors((1.0, 1.0 + top), ratio=COARSE)
    bound = theory.compiled_cg_bound(
        setting.path(exact), same, found, errors=errors, **setting.system
    )
    apart = (found - exact.predictions).abs()
    assert (apart <= 1.001 * bound + 1e-13).all()
    assert float((apart[1:] / bound[1:]).max()) > 0.1
    assert float(apart.max()) > 1e-9, "far above round-off"


def test_a_quotient_near_one_is_inverted_to_the_last_bit():
    """What `cg-predicted` divides by, in forty digits: too large by at most 2⁻⁵³, never too small."""
    error = tables.first_guess(1.0, 1e4, tables.NEAR_RATIO)[1]
    assert error <= 0.00114
    hinges = tables.near_one(1.1 * error**2, 1e4)
    ends = np.concatenate(
        [1 - np.linspace(0, 1.1 * error**2, 301), 1 + np.linspace(0, 2.0**-26, 5)]
    )
    with mpmath.workdps(40):
        for q in map(mpmath.mpf, ends.tolist()):
            terms = zip(hinges.slopes, hinges.biases, hinges.weights, strict=True)
            found = q + sum(
                mpmath.mpf(w) * max(mpmath.mpf(a) * q + mpmath.mpf(b), 0) for a, b, w in terms
            )
            assert -1e-18 <= float(q * found - 1) <= 2.0**-53


EDGES = {
    "collinear": [[1.0, 0.0]] * 4 + [[-1.0, 0.0]] * 4,
    "one place": [[0.6, 0.8]] * 8,
    "zero": [[0.0, 0.0]] * 7 + [[1.0, 0.0]],
    "rim": [[np.cos(a), np.sin(a)] for a in np.linspace(0, 6, 8)],
}


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.7), Exponential(1.0)], ids=str)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e11])
def test_no_clamp_is_active_inside_the_domain(kernel, edge, size):
    """The interpreter refuses a clamp that acts; prompts at the edges of the domain, targets of any size."""
    phi = torch.tensor(EDGES[edge], dtype=torch.float64)[None]
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(1, 8, 1, generator=generator, dtype=torch.float64)
    prompt = Prompt(phi, size * y / y.norm(), phi[:, :2])
    top = 8 * kernel.range(1.0).most
    for kind in ("none", "jacobi") if isinstance(kernel, Linear) else ("none", "row-sum"):
        scope = Scope(row_sums=(1.0, 1 + top)) if kind == "row-sum" else None
        rank = int(torch.linalg.matrix_rank(theory.gram(prompt, kernel)[0], rtol=1e-6))
        program = trace(
            ConjugateGradient(kind), steps=min(rank, 3), ridge=0.5, max_eigenvalue=top, scope=scope
        )
        interpret(program, prompt, kernel, check=True)


@pytest.mark.parametrize("target", [LinearAttention(4.0), LinearAttention(4.0, causal=True)])
def test_a_solved_prompt_is_frozen_where_it_is_solved(target):
    """One support is solved in one step: all later iterates are where that one is."""
    generator = torch.Generator().manual_seed(0)
    phi = torch.rand(16, 1, 2, generator=generator, dtype=torch.float64) + 0.1
    y = torch.randn(16, 1, 1, generator=generator, dtype=torch.float64)
    prompt = Prompt(phi, y, phi.flip(0))
    model = compile(ConjugateGradient(), features=2, steps=9, ridge=1.0, to=target)
    found, exact = trajectory(model, prompt).predictions, krr(prompt, ridge=1.0)
    weight = theory.query_weight(prompt, ridge=1.0)[..., None]
    energy = theory.target_energy(prompt, ridge=1.0)[:, None]
    off = (found[1:] - exact).abs() / (weight * energy)
    # In real arithmetic 3.3e-16·√κ, and round-off of some operations besides.
    assert float(off.max()) < 5e-15
    system = EagerMachine(prompt, Linear(), 1.0).dense_system()
    assert float(system.max()) < 5


def test_a_clamped_curvature_would_be_noticed():
    """A range that does not hold the curvature is refused by the interpreter."""
    prompt = PrescribedSpectrum(features=4, supports=12, condition=20).draw(4, 0)
    program = trace(ConjugateGradient(), steps=3, ridge=1.0, max_eigenvalue=1.0)
    with pytest.raises(Exception, match="outside"):
        interpret(program, prompt, check=True)


@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        ("effective_scalar_error", None),
        ("table_error", lambda right: lambda *a: right(*a) / 2),
        ("compiled_cg_bound", lambda right: lambda *a, **k: right(*a, **k) / 1.01),
    ],
)
def test_wrong_constants_are_found(monkeypatch, attribute, wrong):
    if wrong is None:
        errors = theory.CGErrors(1e-16, 2e-16, 1e-17)
        assert theory.effective_scalar_error(errors, 4.0) == pytest.approx(2.6e-16)
        return
    monkeypatch.setattr(theory, attribute, wrong(getattr(theory, attribute)))
    assert THEOREMS["compiled-cg"].verify(0, True).verdict == "VIOLATED"
