"""Constructions: dot products from pairs of heads, the normaliser, products, reciprocals."""

from math import cos, inf, pi, tan

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgeformer import theory
from ridgeformer.compiler import HeadPairs, Interpolated, SoftmaxAttention, compile
from ridgeformer.experiments.theorems.cases import two_ends
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import Prompt
from ridgeformer.theory import HeadPairErrors
from ridgeformer.types import Refusal

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.portable]


def derivative(s, v, epsilon, pairs):
    """G_h(ε) in forty digits, so that only the method's own error is left."""
    with mpmath.workdps(40):
        s, v = [mpmath.mpf(float(x)) for x in s], [mpmath.mpf(float(x)) for x in v]

        def head(e):
            weights = [mpmath.exp(e * x) for x in s]
            return sum(w * x for w, x in zip(weights, v, strict=True)) / sum(weights)

        epsilon, total = mpmath.mpf(float(epsilon)), mpmath.mpf(0)
        for c in range(1, pairs + 1):
            # The weights once more, as exact fractions.
            weight = mpmath.mpf(1) / c
            for d in range(1, pairs + 1):
                if d != c:
                    weight *= mpmath.mpf(d * d) / (d * d - c * c)
            total += weight * (head(c * epsilon) - head(-c * epsilon)) / (2 * epsilon)
        mean_s, mean_v = sum(s) / len(s), sum(v) / len(v)
        exact = sum(a * b for a, b in zip(s, v, strict=True)) / len(s) - mean_s * mean_v
        return float(total - exact)


def half_spread(x):
    return (max(x) - min(x)) / 2


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=2, max_size=8),
    st.integers(1, 4),
    st.floats(0.02, 0.98),
)
def test_pairs_of_heads_err_no_more_than_bounded(points, pairs, share):
    s, v = map(np.array, zip(*points, strict=True))
    S, V = half_spread(s), half_spread(v)
    if S < 1e-3 or V < 1e-3:
        return
    x = share * pi / 2 / pairs
    error = abs(derivative(s, v, x / S, pairs))
    assert error <= S * V * float(theory.derivative_error_bound(x, pairs)) * (1 + 1e-9)


@pytest.mark.parametrize("pairs", [1, 2, 3, 4])
def test_two_points_come_near_the_bound_of_pairs(pairs):
    ends = np.array([-1.0, 1.0])
    ratios = [
        abs(derivative(ends, ends, x, pairs)) / float(theory.derivative_error_bound(x, pairs))
        for x in (0.01, 0.05)
    ]
    assert 0.2 < min(ratios) <= max(ratios) < 1


def test_the_circle_is_no_larger_than_it_must_be():
    """B(θ) lies above the mean of the function, and below its largest value."""
    theta, height = theory.dot_products.circles()
    for index in (100, 500, 900):
        angle = float(theta[index])
        with mpmath.workdps(15):
            corner = mpmath.asin(min(1, pi / 4 / angle))
            mean = 2 / pi * (
                corner + mpmath.quad(lambda w, a=angle: tan(a * mpmath.sin(w)), [corner, pi / 2])
            )  # fmt: skip
        assert float(mean) <= height[index] <= 1.05 * float(mean)
        assert height[index] <= max(1, 1 / cos(angle))


def test_the_aggregator_takes_two_points_further_from_the_bound_of_an_operator():
    """Supports and v at ±1: ‖Ev‖/‖v‖ is what one entry is off, n times the error of the derivative."""
    points, x = np.array([-1.0, 1.0, 0.0]), 0.01
    reached = [
        abs(derivative(points, points, x, pairs)) / float(theory.derivative_error_bound(x, pairs))
        for pairs in (1, 2, 3, 4)
    ]
    np.testing.assert_allclose(reached, [0.136, 0.055, 0.0255, 0.0125], rtol=0.02)


def test_features_that_are_off_may_be_longer_than_their_domain():
    exact, off = (HeadPairErrors(4, 2, 0.01, 2, 1.0, feature_error=f) for f in (0.0, 0.1))
    longer = HeadPairErrors(4, 2, 0.01, 2, 1.1)
    assert exact.derivative < off.derivative == longer.derivative
    assert off.size == longer.size
    assert off.round_off == pytest.approx(longer.round_off + 1.1**2 * 0.21)
    assert HeadPairErrors(4, 2, 0.7, 2, 1.0, feature_error=0.1).too_large


def test_nothing_is_promised_for_more_terms_than_a_unit_has_digits():
    assert theory.accumulated(2**24, theory.UNIT["float32"]) == inf
    assert theory.accumulated(2**25, theory.UNIT["float32"]) == inf
    assert 0 < theory.accumulated(2**24 - 1, theory.UNIT["float32"]) < inf


def test_a_scale_beyond_the_poles_is_refused():
    with pytest.raises(Refusal, match=r"0 < x < 0\.785"):
        theory.derivative_error_bound(0.8, 2)


@pytest.mark.parametrize("kernel", [Gaussian(0.5), Exponential(1.0)])
@pytest.mark.parametrize("ridge", [0.01, 1.0, 5.0])
def test_row_sums_keep_the_spectrum_and_equal_supports_meet_both_ends(kernel, ridge):
    phi = torch.rand(16, 10, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    phi[:4] = phi[:4, :1]
    prompt = Prompt(phi, phi[..., :1], phi)
    values = theory.system_eigenvalues(prompt, ridge=ridge, kernel=kernel, precondition="row-sum")
    low, high = theory.row_sum_spectrum_bound(theory.row_sums(prompt, kernel), ridge=ridge)
    assert (values.amin(-1) >= low * (1 - 1e-9)).all()
    assert (values.amax(-1) <= high * (1 + 1e-9)).all()
    torch.testing.assert_close(values.amin(-1)[:4], low[:4], rtol=1e-8, atol=0)
    torch.testing.assert_close(values.amax(-1)[:4], high[:4], rtol=1e-8, atol=0)


COLD = Exponential(0.04)


@pytest.mark.parametrize("name", ["gd", "chebyshev", "heavy-ball", "cg"])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_cold_models_keep_their_promise(name, steps):
    """D up to 10¹²: whatever is lost in a coefficient that is later multiplied by D shows here."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(16, 19, 3, generator=generator, dtype=torch.float64)
    points = points / points.norm(dim=-1, keepdim=True)
    y = torch.randn(16, 15, 1, generator=generator, dtype=torch.float64)
    prompt = Prompt(points[:, :15], y, points[:, 15:])
    model = compile(
        make_solver(name), features=3, steps=steps, ridge=1.0, kernel=COLD,
        to=SoftmaxAttention(1.001, 15),
    )  # fmt: skip
    expected = reference(model, prompt).predictions
    error = (trajectory(model, prompt).predictions - expected).abs().amax((1, 2, 3))
    largest = expected.abs().amax((1, 2, 3))
    assert (error <= model.certificate.relative_error * largest).all(), error


def test_a_normaliser_costs_a_few_units_of_its_sums():
    """fl(D·o) in float32, written out, against sums in float64."""
    rng, unit = np.random.default_rng(0), theory.UNIT["float32"]
    k, p = 15, 3
    for temperature in (0.1, 0.2, 1.0, 10.0):
        x = rng.standard_normal((200, k, p))
        x = (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)
        v = rng.standard_normal((200, k)).astype(np.float32)
        query = x[:, 0] * rng.uniform(0, 1, (200, 1)).astype(np.float32)
        scaled = x * np.float32(1 / temperature)
        logits = np.einsum("bkp,bp->bk", scaled, query)
        largest = np.maximum(0, logits.max(-1, keepdims=True))
        weights, sink = np.exp(logits - largest), np.exp(-largest[:, 0])
        total = weights.sum(-1) + sink
        found = (weights / total[:, None] * v).sum(-1) * (1 / (sink / total))
        assert found.dtype == np.float32
        terms = x.astype(float) * query[:, None].astype(float) / temperature
        kernel = np.exp(terms.sum(-1))
        bound = theory.normaliser_round_off(
            torch.from_numpy((kernel * np.abs(v)).sum(-1)),
            tokens=k + 1, roundings=p + 2, logit=torch.from_numpy(np.abs(terms).sum(-1).max(-1)),
            reciprocal=1.0, unit=unit,
        ).numpy()  # fmt: skip
        ratio = np.abs(found - (kernel * v).sum(-1)) / bound
        assert 0.03 < ratio.max() < 1


@pytest.mark.parametrize("term", ["sums", "reciprocal", "logits"])
def test_each_term_of_the_normaliser_is_judged(term, monkeypatch):
    """A term that is ten times too large is vacuous, though another one may dominate elsewhere."""
    from ridgeformer.experiments.theorems import THEOREMS, Verdict

    right = theory.normaliser_terms

    def wrong(*arguments, **options):
        terms = right(*arguments, **options)
        return terms | {term: 10 * terms[term]}

    theorem = THEOREMS["normaliser"]
    assert Verdict(theorem, theorem.measure(0, True)).word == "holds"
    if term == "reciprocal":
        monkeypatch.setattr(theory, "RECIPROCAL", 10 * theory.RECIPROCAL)
    else:
        monkeypatch.setattr(theory, "normaliser_terms", wrong)
    assert Verdict(theorem, theorem.measure(0, True)).word == "vacuous"


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_the_width_that_a_tolerance_needs(tolerance):
    a, b = (0.05, 0.5), (-3.0, 3.0)
    for reach in (1.0, 40.0):
        n = theory.interpolation_intervals(a, b, reach=reach, tolerance=tolerance)
        assert reach * theory.product_error_bound(a, b, n) <= tolerance
        assert n == 1 or reach * theory.product_error_bound(a, b, n - 1) > tolerance
        assert theory.product_error_bound(a, b, n) == pytest.approx(0.45 * 6 / 4 / n**2)


def test_a_tolerance_buys_the_width_of_the_formula():
    """Four times the supports at the same tolerance: twice the neurons, and the responses' share."""
    from ridgeformer.compiler.backends import softmax_attention

    found = []
    original = softmax_attention.chosen_grid

    def watched(products, budget, *rest):
        grid = original(products, budget, *rest)
        reach = budget.query * budget.spread * budget.response.prediction
        left = products.tolerance - budget.spent(grid)
        needed = theory.interpolation_intervals(
            budget.first, budget.second, reach=reach, tolerance=left
        )
        found.append((grid.intervals, needed))
        return grid

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_attention, "chosen_grid", watched)
        for supports in (8, 32):
            compile(
                make_solver("richardson", "row-sum"), features=2, steps=6, ridge=0.5,
                kernel=Gaussian(0.7),
                to=SoftmaxAttention(1.0, supports, products=Interpolated(1.0, tolerance=1e-2)),
            )  # fmt: skip
    assert len(found) == 2
    for chosen, predicted in found:
        assert chosen == predicted


@pytest.mark.parametrize("ratio", [1.15, 2.0, 6.0])
def test_reciprocals_err_by_the_sixth_chebyshev_polynomial(ratio, monkeypatch):
    """The polynomial's own error, in forty digits: coarser tables than the compiler's show it."""
    from ridgeformer.program import tables

    monkeypatch.setattr(tables, "FINE_RATIO", ratio)
    monkeypatch.setattr(tables, "COARSE_RATIO", ratio)
    r = tables.reciprocal_table.__wrapped__(1.0, ratio**3)
    between = r.table.knots[1] / r.table.knots[0]
    chord = (1 + between) ** 2 / (4 * between)
    guess_error = 1 - 2 / (1 + chord)
    bound = theory.reciprocal_error_bound(guess_error)
    worst = 0.0
    with mpmath.workdps(40):
        for e in map(mpmath.mpf, np.linspace(-guess_error, guess_error, 401).tolist()):
            p = (1 + r.a * e) * (1 + r.b * e + r.c * e**2) * (1 + r.d * e + r.f * e**2)
            worst = max(worst, float(abs((1 - e) * p - 1)))
    # The coefficients are rounded to float64, which costs some units of it.
    assert worst <= bound + 1e-15
    assert worst > 0.99 * bound
    x = torch.from_numpy(np.geomspace(1.0, ratio**3, 1001))
    # The table is balanced by its largest error on 257 points of a cell.
    assert float((1 - x * r.table(x)).abs().max()) <= guess_error * (1 + 1e-4)


@pytest.mark.parametrize("pairs", [1, 4])
@pytest.mark.parametrize("supports", [1, 2, 9])
def test_a_product_from_heads_is_a_nearby_operator(supports, pairs):
    """‖(K̂ − K)v‖ ≤ ‖E‖‖v‖ for every v at once, at a scale where truncation or round-off rules."""
    rng = np.random.default_rng(supports)
    for scale in (1e-7, 0.02, 0.3):
        epsilon = scale / pairs
        to = SoftmaxAttention(1.0, supports, dot_products=HeadPairs(2 * pairs, epsilon))
        model = compile(make_solver("gd"), features=2, outputs=supports, steps=1, ridge=1.0, to=to)
        phi = rng.standard_normal((1, supports, 2))
        phi /= np.maximum(1, np.linalg.norm(phi, axis=-1, keepdims=True))
        units = np.eye(supports)[None]
        prompt = Prompt(*map(torch.from_numpy, (phi, units, phi)))
        found = model.predict(prompt)[0].numpy() * (2 + supports) / 2  # K̂ column by column
        errors = theory.HeadPairErrors(supports, 2, epsilon, pairs, 1.0)
        entries = np.abs(found - phi[0] @ phi[0].T)
        assert np.linalg.norm(found - phi[0] @ phi[0].T, 2) <= errors.operator * supports**0.5
        assert entries.max() <= errors.entry


def test_the_chosen_scale_has_the_least_bound():
    best = theory.best_scale(16, 4, 4, 2.0, theory.UNIT["float64"])
    for factor in (0.5, 0.8, 1.25, 2.0):
        other = theory.HeadPairErrors(16, 4, factor * best.epsilon, 4, 2.0)
        assert other.operator > 0.99 * best.operator
    assert best.operator < theory.best_scale(16, 4, 1, 2.0, theory.UNIT["float64"]).operator / 30
    assert theory.HeadPairErrors(16, 4, 1.0, 4, 2.0).too_large


def test_the_sink_is_one_of_the_tokens_of_a_sum():
    """k supports and the sink: k + 1 weights, and nine roundings more."""
    from ridgeformer.experiments.theorems.normaliser import Mixed, in_one_place

    case = Mixed(in_one_place(2, 6, 0), 1.0, "float32")
    share = case.terms()["sums"] / case.weighted
    expected = theory.accumulated(6 + 1 + 9, theory.UNIT["float32"])
    torch.testing.assert_close(share, torch.full_like(share, expected), rtol=1e-12, atol=0)


@pytest.mark.parametrize("supports", [1, 9])
def test_dot_products_are_bounded_for_all_tokens_that_heads_average(supports):
    to = SoftmaxAttention(1.0, supports, dot_products=HeadPairs(2))
    model = compile(make_solver("gd"), features=2, steps=1, ridge=1.0, to=to)
    unit = torch.full((1, supports, 2), 0.5, dtype=torch.float64)
    _, context = model.sequence(Prompt(unit, unit[..., :1], unit[:, :1]))
    assert theory.HeadPairErrors(supports, 2, 0.1, 1, 1.0).tokens == context


@pytest.mark.parametrize(("pairs", "reached"), [(1, 0.02), (4, 0.01)])
def test_the_round_off_of_dot_products_is_of_the_size_that_is_said(pairs, reached):
    """At a scale where nothing else counts: 0.06 to 0.09 and 0.03 to 0.04 of the bound, by the seed."""
    prompt, epsilon = two_ends(64, 2, 4, 1.0, seed=0), 1e-7
    to = SoftmaxAttention(1.0, 2, dot_products=HeadPairs(2 * pairs, epsilon))
    model = compile(make_solver("gd"), features=4, steps=1, ridge=1.0, to=to)
    scores, values = (prompt.phi_query @ prompt.phi.mT).numpy(), prompt.y.mT.numpy() / 2
    bound = theory.dot_product_bound(
        scores, values, epsilon=epsilon, pairs=pairs, max_norm=1.0, features=4
    )
    ratio = np.abs(model.predict(prompt).numpy()[..., 0] - (scores * values).sum(-1)) / bound
    assert reached < ratio.max() < 1
