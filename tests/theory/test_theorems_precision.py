"""Round-off, termination and preconditioners on compiled models: bounds hold, and planted errors show."""

import bisect
from math import exp, sqrt

import mpmath
import numpy as np
import pytest
import torch
from theorem_cases import diagonal_prompt, largest_ratio, plant

from ridgeformer import theory
from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.experiments.theorems import (
    THEOREMS,
    Verdict,
    drift,
    exactness,
    precision,
    preconditioning,
    width,
)
from ridgeformer.experiments.theorems.base import Measurement
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.solvers import Chebyshev, ConjugateGradient, GradientDescent, HeavyBall, krr, solve
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.theory.round_off import weight_error
from ridgeformer.theory.systems import lengths
from ridgeformer.types import Refusal

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]

U = theory.UNIT["float32"]


def single(solver, size, condition, steps, dtype="float32"):
    prompt, top = precision.drawn(size, condition, 32, seed=5)
    return prompt, (1.0, 1.0 + top), precision.run_model(solver, prompt, top, steps, dtype)


# Round-off


def test_the_unit_is_that_of_the_numbers():
    for name, unit in theory.UNIT.items():
        one = torch.ones((), dtype=getattr(torch, name))
        assert float(one + unit) == 1.0  # a tie goes to even
        assert float(one + 1.01 * unit) > 1.0
        assert unit == torch.finfo(one.dtype).eps / 2
    assert theory.accumulated(3, 0.1) == pytest.approx(0.3 / 0.7)


def test_the_last_sum_is_part_of_the_bound():
    """After one step of a thousand supports in one place, reading the prediction is nearly all of it."""
    one = torch.full((1, 1000, 1), 0.7, dtype=torch.float64)
    prompt, interval = Prompt(one, one, one[:, :1]), (1.0, 500.0)
    alphas = solve(GradientDescent(), prompt, steps=1, ridge=1.0, interval=interval, states=True)
    held = alphas.states["alpha"]
    bound = theory.fixed_round_off_bound(
        GradientDescent(), prompt, held, ridge=1.0, interval=interval, unit=U
    )
    read = theory.reading_round_off_bound(prompt, held, unit=U).amax(0)
    by_hand = theory.accumulated(1001, U) * 1000 * 0.7 * 0.7 * float(held[1, 0, 0, 0])
    assert float(read) == pytest.approx(by_hand)
    assert 1 < float(bound / read) < 1.05


@pytest.mark.parametrize("size", precision.SIZES)
@pytest.mark.parametrize(
    "solver", [GradientDescent(), Chebyshev(), HeavyBall()], ids=lambda s: s.name
)
def test_round_off_of_fixed_coefficients_is_bounded(solver, size):
    for condition in (10.0, 300.0):
        prompt, interval, run = single(solver, size, condition, 24)
        alphas = run.states["alpha"]
        local = precision.residual_errors(solver, prompt, alphas, interval)
        options = {"ridge": 1.0, "interval": interval, "unit": U}
        bound = theory.residual_round_off_bound(solver, prompt, alphas, **options)
        assert largest_ratio(local, bound) > 0.02
        exact = solve(solver, prompt, steps=24, ridge=1.0, interval=interval).predictions
        apart = (run.predictions - exact).abs()
        bound = theory.fixed_round_off_bound(solver, prompt, alphas, **options)
        assert largest_ratio(apart, bound.expand_as(apart)) > 1e-3


def test_the_errors_of_steps_are_those_of_the_recurrence():
    """The solver's own iterates in float64 leave nothing to explain, a pushed one just the push."""
    prompt, interval, _ = single(GradientDescent(), (4, 12), 30.0, 1)
    for solver in (GradientDescent(), Chebyshev(), HeavyBall()):
        run = solve(solver, prompt, steps=6, ridge=1.0, interval=interval, states=True)
        alphas = run.states["alpha"].clone()
        assert float(precision.residual_errors(solver, prompt, alphas, interval).max()) < 1e-11
        alphas[1] += 0.01
        first = precision.residual_errors(solver, prompt, alphas, interval)[0]
        (omega, _), *_ = theory.semi_iteration_weights(solver, steps=1, tuned=interval)
        # The first step is ω times the residual over c.
        expected = 0.01 * prompt.supports**0.5 * sum(interval) / 2 / omega
        torch.testing.assert_close(first, torch.full_like(first, expected))


def test_round_off_is_not_counted_for_other_solvers():
    prompt, interval, run = single(GradientDescent(), (1, 2), 10.0, 2)
    # Tuned to another interval, gradient descent has another step than the centre's.
    with pytest.raises(Refusal, match="gd is not a semi-iteration"):
        theory.fixed_round_off_bound(
            GradientDescent((1.0, 50.0)),
            prompt,
            run.states["alpha"],
            ridge=1.0,
            interval=interval,
            unit=U,
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cg_in_finite_precision_is_as_good_as_its_residual(dtype):
    for size in precision.SIZES:
        for condition in (10.0, 1000.0):
            prompt, _, run = single(ConjugateGradient(), size, condition, 3 * size[0] + 2, dtype)
            apart = (run.predictions - krr(prompt, ridge=1.0)).abs()
            bound = theory.cg_round_off_bound(
                prompt, run.states["alpha"], run.predictions, ridge=1.0, unit=theory.UNIT[dtype]
            )
            largest_ratio(apart[1:], bound[1:], 1e-3 * float(apart[0].max()))
            # and the bound is not large: the model has converged to its own precision
            assert float(bound[-1].max() / apart[0].max()) < 1e5 * theory.UNIT[dtype]


# Termination


def test_cg_is_just_so_far_from_the_end_one_step_before_it():
    prompt = KernelDraw(kernel=Linear(), features=4, supports=12).draw(8, seed=1)
    full = diagonal_prompt([9.0, 5.0, 3.0, 2.0], 1.0, [1.0, -2.0, 1.0, 0.5], torch.ones(4))
    for given, steps in ((prompt, 4), (full, 3)):
        run = solve(ConjugateGradient(), given, steps=steps, ridge=1.0, states=True)
        energy = theory.energy_error(run.states["alpha"], given, ridge=1.0)
        spectrum = theory.spectral_energies(given, ridge=1.0, rank=4)
        left = theory.cg_energy_floor(*spectrum, steps=steps)[:, None]
        torch.testing.assert_close(energy[-1], left, rtol=1e-7, atol=0)
        assert (energy >= left * (1 - 1e-7)).all()


# Preconditioners


def test_the_optimised_diagonal_is_better_than_jacobis():
    prompt = preconditioning.badly_scaled(4, seed=0)
    best = preconditioning.optimised(prompt, preconditioning.RIDGE, 60)
    system = theory.preconditioned_system(prompt, ridge=preconditioning.RIDGE)
    found = preconditioning.condition_of(system, best)
    jacobi = theory.preconditioned_condition(
        prompt, ridge=preconditioning.RIDGE, precondition="jacobi"
    )
    plain = theory.preconditioned_condition(prompt, ridge=preconditioning.RIDGE)
    assert (found < 0.95 * jacobi).all()
    assert (jacobi < 0.5 * plain).all()  # so that the prompts are badly scaled


def test_the_parts_of_the_diagonal_theorem_say_something():
    rates, scalings = Measurement(), Measurement()
    preconditioning.jacobi_rates(rates, preconditioning.badly_scaled(8, seed=0), 6)
    assert np.concatenate(rates.ratios).max() > 0.1
    tight, ridge = preconditioning.nearly_tight()
    ones = torch.ones(1, tight.supports, 1, dtype=torch.float64)
    preconditioning.compare_scaling(scalings, tight, ridge, ones)
    first, second = scalings.ratios
    assert 0.45 < first.item() <= 1
    assert 0.45 < first.item() * second.item() <= 1


# Planted errors


def scaled_by(factor):
    return lambda f: lambda *a, **k: factor * f(*a, **k)


def without_residual(f):
    def wrong(prompt, alphas, *arguments, **options):
        return f(prompt, torch.zeros_like(alphas), *arguments, **options) * 0 + 1e-12

    return wrong


def one_less(f):
    """d_eff/m for d_eff/(m + 1)."""
    return lambda *a, rank, **k: f(*a, rank=max(rank - 1, 0), **k)


PLANTED = [
    ("float32-floor", precision, "fixed_round_off_bound", scaled_by(1 / 200)),
    ("float32-cg", precision, "cg_round_off_bound", scaled_by(0.5)),
    ("float32-cg", precision, "cg_round_off_bound", without_residual),
    ("float32-floor", precision, "UNIT", lambda u: {"float32": u["float64"]}),
    ("diagonal-preconditioners", preconditioning, "jacobi_condition_bound", scaled_by(2)),
    ("diagonal-preconditioners", preconditioning, "jacobi_condition_bound", scaled_by(0.3)),
    ("diagonal-preconditioners", preconditioning, "cg_prediction_bound", scaled_by(1 / 8)),
    ("finite-termination", exactness, "cg_energy_floor", scaled_by(1.001)),
    ("finite-termination", exactness, "cg_energy_floor", scaled_by(0.999)),
    ("query-error", width, "query_error_bound", scaled_by(0.999)),
    ("feature-drift", drift, "drift_prediction_bound", scaled_by(0.999)),
    ("feature-drift", drift, "drift_prediction_bound", scaled_by(10)),
    ("effective-dimension", width, "relative_error_bound", one_less),
    ("effective-dimension", width, "eigenvalue_bound", one_less),
    ("effective-dimension", width, "sufficient_width", lambda f: lambda *a, **k: f(*a, **k) + 1),
    ("float32-floor", precision, "residual_round_off_bound", scaled_by(1 / 20)),
    ("float32-floor", precision, "reading_round_off_bound", scaled_by(10)),
    ("float32-cg", precision, "cg_gap_bound", scaled_by(10)),
]


@pytest.mark.parametrize(("name", "module", "attribute", "wrong"), PLANTED)
def test_a_planted_error_is_named(monkeypatch, name, module, attribute, wrong):
    plant(monkeypatch, module, attribute, wrong)
    assert not Verdict(THEOREMS[name], THEOREMS[name].measure(0, True)).holds


@pytest.mark.parametrize("term", ["targets", "updates", "mat-vecs"])
def test_each_term_of_round_off_is_judged(term, monkeypatch):
    """Ten times too large, while another term dominates elsewhere."""
    right = theory.residual_round_off_terms

    def wrong(*arguments, **options):
        terms = right(*arguments, **options)
        return terms | {term: 10 * terms[term]}

    monkeypatch.setattr(theory, "residual_round_off_terms", wrong)
    theorem = THEOREMS["float32-floor"]
    assert Verdict(theorem, theorem.measure(0, True)).word == "vacuous"


@pytest.mark.parametrize("part", ["predictions", "alphas", "sums"])
def test_each_term_of_the_gap_of_cg_is_judged(part, monkeypatch):
    from ridgeformer.theory import round_off

    right = round_off.cg_gap_bound

    def wrong(prompt, alphas, predictions, *, unit):
        """One term more than once: what is held of f or of α, or what the sums of a mat-vec lose."""
        none, still = torch.zeros_like(predictions), torch.zeros_like(alphas)
        whole = right(prompt, alphas, predictions, unit=unit)
        if part == "predictions":
            more = right(prompt, still, predictions, unit=unit)
        else:
            more = right(prompt, alphas, none, unit=unit)
            held = lengths(alphas.double(), 2)[:-1, :, None, :]
            reach = lengths(prompt.phi_query.abs() @ prompt.phi.abs().mT, 2)[:, :, None]
            held = torch.cat([torch.zeros_like(more[:1]), unit * reach * held]).cumsum(0)
            more = held if part == "alphas" else more - held
        return whole + 9 * more

    monkeypatch.setattr(theory, "cg_gap_bound", wrong)
    theorem = THEOREMS["float32-cg"]
    assert Verdict(theorem, theorem.measure(0, True)).word == "vacuous"


def no_root(kernel, *arguments):
    """The Gaussian's constant without e^(−1/2)."""
    return exp(0.5) * GAUSSIAN_DRIFT(kernel, *arguments)


GAUSSIAN_DRIFT = Gaussian.drift


def without_ridge(f):
    """A bound that ignores λ: that of λ = 1."""
    return lambda *a, ridge, **k: f(*a, ridge=1.0, **k)


def test_each_constant_of_drift_is_judged(monkeypatch):
    theorem = THEOREMS["feature-drift"]
    assert Verdict(theorem, theorem.measure(0, True)).word == "holds"
    for owner, name, wrong in (
        (Gaussian, "drift", no_root),
        (theory, "gram_drift_bound", scaled_by(2)(theory.gram_drift_bound)),
        (theory, "cross_drift_bound", scaled_by(2)(theory.cross_drift_bound)),
        (theory, "lipschitz_constant", scaled_by(2)(theory.lipschitz_constant)),
        (theory, "drift_prediction_bound", without_ridge(theory.drift_prediction_bound)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, wrong)
            assert not Verdict(theorem, theorem.measure(0, True)).holds


@pytest.mark.parametrize("form", ["resolvent_bound", "in_gram", "in_cross", "half"])
def test_each_term_of_the_drift_of_a_prediction_is_judged(form, monkeypatch):
    from ridgeformer.theory import drift as bounds

    right = theory.drift_prediction_bound
    if form == "resolvent_bound":
        monkeypatch.setattr(bounds, form, scaled_by(2)(bounds.resolvent_bound))
    elif form == "half":
        monkeypatch.setattr(bounds, "sqrt", lambda x: sqrt(x) / 2)
    else:
        monkeypatch.setattr(
            theory,
            "drift_prediction_bound",
            lambda *a, **k: right(*a, **k | ({form: 2 * k[form]} if form in k else {})),
        )
    theorem = THEOREMS["feature-drift"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_dropped_query_term_is_noticed(monkeypatch):
    def first_only(*arguments, **options):
        return theory.query_error_terms(*arguments, **options)[0]

    monkeypatch.setattr(width.theory, "query_error_bound", first_only)
    assert not Verdict(THEOREMS["query-error"], THEOREMS["query-error"].measure(0, True)).holds


def test_a_sloppy_matvec_in_single_precision_is_noticed(monkeypatch):
    """Sums in half precision: the round-off that the theorem counts is no longer all there is."""
    from ridgeformer.transformer import attention

    right = attention.summed_products

    def sloppy(k, v):
        return right(k, v).to(torch.bfloat16).to(k.dtype)

    monkeypatch.setattr(attention, "summed_products", sloppy)
    for name in ("float32-floor", "float32-cg"):
        assert not Verdict(THEOREMS[name], THEOREMS[name].measure(0, True)).holds


def test_jacobi_without_its_diagonal_is_noticed(monkeypatch):
    """A preconditioner that is left out of the compiled model, but not of the bound."""

    class Plain(ConjugateGradient):
        def __init__(self, precondition="none"):
            super().__init__("none")

    monkeypatch.setattr(preconditioning, "ConjugateGradient", Plain)
    prompt = preconditioning.badly_scaled(8, seed=0)
    measurement = Measurement()
    preconditioning.jacobi_rates(measurement, prompt, 12)
    assert np.concatenate(measurement.ratios).max() > 1 + 1e-9


@pytest.mark.parametrize(
    "solver", [GradientDescent(), Chebyshev(), HeavyBall()], ids=lambda s: s.name
)
@pytest.mark.parametrize(
    ("ridge", "top", "steps"),
    [
        (1.0, 9.0, 20), (1.0, 999.0, 30), (0.3, 7.7, 20), (0.01, 1e4, 20), (2.0, 0.1, 20),
        (1.0, 1e-3, 20), (1.0, 1e6, 450),
    ],
)  # fmt: skip
def test_weights_of_steps_are_off_by_a_few_roundings_of_float64(solver, ridge, top, steps):
    """Each weight of a model is that of the exact recurrence, in forty digits, up to v of the theorem."""
    silences = 1e10
    model = compile(solver, features=2, steps=steps, ridge=ridge, to=LinearAttention(top))
    found = {v for p in model.transformer.parameters() for v in p.abs().flatten().tolist()}
    found = {v for v in found if 0 < v < silences} - {1.0}
    assert found
    interval = (ridge, ridge + top)
    with mpmath.workdps(40):
        exact = exact_weights(solver.name, *map(mpmath.mpf, interval), ridge, steps)
        exact = sorted({(float(w), float(size)): (w, size) for w, size in exact}.values())
        keys = [float(w) for w, _ in exact]
        units = {}
        for weight in found:
            at = bisect.bisect(keys, weight)
            near = exact[max(at - 5, 0) : at + 5]
            off = [(abs(weight - w), abs(w), size) for w, size in near]
            units[weight] = min((d / 2**-53 - w) / size for d, w, size in off)
            least = min(d / (2.0**-53 * w + weight_error(interval) * s) for d, w, s in off)
            assert least <= 1, weight
    if steps > 30 and solver.name == "chebyshev":
        assert max(units.values()) > 40, "the recurrence of ω loses more where κ is large"


def exact_weights(name, a, b, ridge, steps):
    """The sizes of all weights that a step may have, each with ω, or ω/c for those of y and Kα."""
    c, rho, omega, found = (a + b) / 2, (b - a) / (a + b), mpmath.mpf(1), []
    for t in range(1, steps + 1):
        if name == "chebyshev" and t > 1:
            omega = 1 / (1 - (2 if t == 2 else omega) * rho**2 / 4)
        if name == "heavy-ball":
            omega = 2 * (a + b) / (mpmath.sqrt(a) + mpmath.sqrt(b)) ** 2
        kept = omega * (1 - ridge / c)
        found += [(abs(w), omega) for w in (kept, kept - 1, omega, omega - 1)]
        found.append((omega / c, omega / c))
    return found
