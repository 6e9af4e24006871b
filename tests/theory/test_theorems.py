"""Depth and width: every bound holds on random prompts, and is attained or nearly so somewhere."""

from functools import partial
from math import cos, pi, sqrt

import numpy as np
import pytest
import torch
from theorem_cases import CASES, STEPS, diagonal_prompt, largest_ratio

from ridgeformer import theory
from ridgeformer.analysis.directions import orthonormal, outside
from ridgeformer.kernels import Linear
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    GradientDescent,
    HeavyBall,
    Richardson,
    effective_dimension,
    kernel_eigenvalues,
    krr,
    solve,
)
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.types import Refusal

BOUNDS = {
    GradientDescent: partial(theory.tuned_prediction_bound, theory.richardson_factor),
    Richardson: partial(theory.tuned_prediction_bound, theory.richardson_factor),
    HeavyBall: partial(theory.tuned_prediction_bound, theory.heavy_ball_factor),
    Chebyshev: partial(theory.tuned_prediction_bound, theory.chebyshev_factor),
    ConjugateGradient: theory.cg_prediction_bound,
}


@pytest.fixture(params=CASES)
def case(request):
    kernel, task, ridge = CASES[request.param]
    return kernel, task.draw(20, seed=0), ridge


# Depth


@pytest.mark.parametrize("solver", BOUNDS, ids=lambda s: s.name)
def test_predictions_converge_as_fast_as_promised(solver, case):
    kernel, prompt, ridge = case
    options = {"steps": STEPS, "ridge": ridge, "kernel": kernel}
    bound = BOUNDS[solver](prompt, **options)
    exact = krr(prompt, ridge=ridge, kernel=kernel)
    measured = (solve(solver(), prompt, **options).predictions - exact).abs()
    largest_ratio(measured, bound, exact.abs().max())
    # After the start, too, some prompt comes within a small factor of what is promised.
    assert largest_ratio(measured[1:], bound[1:], exact.abs().max()) > 0.05


@pytest.mark.parametrize("precondition", ["jacobi", "row-sum"])
@pytest.mark.parametrize("solver", [Richardson, Chebyshev, ConjugateGradient], ids=lambda s: s.name)
@pytest.mark.parametrize("name", ["gaussian", "short gaussian", "exponential"])
def test_preconditioned_predictions_converge_as_fast_as_promised(solver, precondition, name):
    kernel, task, ridge = CASES[name]
    prompt = task.draw(20, seed=1)
    options = {"steps": STEPS, "ridge": ridge, "kernel": kernel}
    bound = BOUNDS[solver](prompt, precondition=precondition, **options)
    found = solve(solver(precondition=precondition), prompt, **options).predictions
    exact = krr(prompt, ridge=ridge, kernel=kernel)
    largest_ratio((found - exact).abs(), bound, exact.abs().max())


@pytest.mark.parametrize("steps", [1, 2, 5, 12])
@pytest.mark.parametrize("solver", [Richardson, Chebyshev, HeavyBall], ids=lambda s: s.name)
def test_the_worst_mode_of_fixed_coefficients_meets_its_bound(solver, steps):
    """A target and a query along the mode of the largest eigenvalue."""
    prompt = diagonal_prompt([30.0, 2.0], 1.0, [1.0, 0.0], [1.0, 0.0])
    bound = BOUNDS[solver](prompt, ridge=1.0, steps=steps)
    found = solve(solver(), prompt, ridge=1.0, steps=steps).predictions
    measured = (found - krr(prompt, ridge=1.0)).abs()
    torch.testing.assert_close(measured, bound, rtol=1e-8, atol=0)


@pytest.mark.parametrize("steps", [1, 3, 6])
def test_cg_can_be_as_slow_as_chebyshev(steps):
    """Eigenvalues at the extrema of T_t, and weights that make CG's best polynomial T_t itself."""
    lo, hi = 2.0, 20.0
    values = [(hi + lo) / 2 + (hi - lo) / 2 * cos(pi * i / steps) for i in range(steps + 1)]
    y = [1.0 if 0 < i < steps else sqrt(0.5) for i in range(steps + 1)]
    prompt = diagonal_prompt(values, 1.0, y, [(-1) ** i * v for i, v in enumerate(y)])
    found = solve(ConjugateGradient(), prompt, ridge=1.0, steps=steps).predictions
    measured = (found - krr(prompt, ridge=1.0)).abs()[steps]
    sharp = BOUNDS[Chebyshev](prompt, ridge=1.0, steps=steps)[steps]
    torch.testing.assert_close(measured, sharp, rtol=1e-8, atol=0)
    ratio = largest_ratio(
        measured, theory.cg_prediction_bound(prompt, ridge=1.0, steps=steps)[steps]
    )
    assert ratio == pytest.approx(1 / (1 + theory.cg_rate(hi / lo) ** (2 * steps)))


def test_cg_ends_with_the_distinct_eigenvalues():
    prompt = KernelDraw(Linear(), features=4, supports=20).draw(10, seed=0)
    steps = theory.termination_steps(prompt, ridge=1.0)
    assert (steps == 5).all()  # rank K + 1
    found = solve(ConjugateGradient(), prompt, ridge=1.0, steps=5).distance(krr(prompt, ridge=1.0))
    assert float(found[5].max()) < 1e-10
    assert float(found[4].min()) > 1e-8  # and not before
    repeated = diagonal_prompt([9.0, 9.0, 4.0, 4.0, 2.0], 1.0, torch.ones(5), torch.ones(5))
    assert int(theory.termination_steps(repeated, ridge=1.0)) == 3


@pytest.mark.parametrize("solver", [GradientDescent, Richardson, Chebyshev, HeavyBall], ids=lambda s: s.name)  # fmt: skip
def test_a_product_more_is_a_degree_more(solver):
    """t products, the first of them Aα₀ = 0, leave a polynomial of degree t and no less."""
    values = np.linspace(1.0, 5.0, 12)
    found = theory.residual_polynomials(solver(), values, steps=5, tuned=(1.0, 5.0))
    for t, polynomial in enumerate(found):
        assert theory.products_taken(solver(), steps=t, tuned=(1.0, 5.0)) == t
        for degree, least, most in ((t, 0.0, 1e-12), (t - 1, 1e-6, 1.0)):
            if degree >= 0:
                fit = np.polynomial.Polynomial.fit(values, polynomial, degree)
                assert least <= np.abs(fit(values) - polynomial).max() <= most


@pytest.mark.parametrize("precondition", ["none", "jacobi"])
def test_iterates_lie_in_their_krylov_space(precondition):
    """P⁻¹·span(y, AP⁻¹y, …), and in no smaller one."""
    prompt = KernelDraw(Linear(), features=8, supports=12).draw(10, seed=0)
    machine = EagerMachine(prompt, Linear(), 1.0)
    inverse = machine.inverse_preconditioner(precondition)
    inverse = torch.ones_like(prompt.y) if inverse is None else inverse
    for solver in (ConjugateGradient(precondition), Richardson(precondition)):
        alphas = solve(solver, prompt, steps=4, ridge=1.0, states=True).states["alpha"]
        power, basis = inverse * prompt.y, prompt.y[..., :0]
        for alpha in alphas[1:]:
            apart = outside(alpha, basis).norm(dim=1) / alpha.norm(dim=1)
            assert apart.min() > 1e-4
            basis = orthonormal(torch.cat([basis, outside(power, basis)], dim=-1))
            assert (outside(alpha, basis).norm(dim=1) / alpha.norm(dim=1)).max() < 1e-10
            power = inverse * machine.matvec(basis[..., -1:])


def test_an_interval_that_is_too_small_is_refused():
    prompt = diagonal_prompt([30.0, 2.0], 1.0, [1.0, 0.0], [1.0, 0.0])
    with pytest.raises(Refusal, match="does not hold the spectrum"):
        BOUNDS[Chebyshev](prompt, ridge=1.0, steps=1, interval=(2.0, 20.0))


# Preconditioning


def test_jacobi_is_within_a_factor_of_the_best_scaling(case):
    kernel, prompt, ridge = case
    generator = torch.Generator().manual_seed(0)
    jacobi = theory.preconditioned_condition(
        prompt, ridge=ridge, kernel=kernel, precondition="jacobi"
    )
    for spread in (0.0, 0.3, 1.0):
        noise = torch.randn(20, prompt.supports, 1, generator=generator, dtype=torch.float64)
        scaling = (spread * noise).exp()
        bound = theory.jacobi_condition_bound(prompt, scaling, ridge=ridge, kernel=kernel)
        largest_ratio(jacobi, bound)
    plain = theory.preconditioned_condition(prompt, ridge=ridge, kernel=kernel)
    unscaled = torch.ones(20, prompt.supports, 1, dtype=torch.float64)
    bound = theory.jacobi_condition_bound(prompt, unscaled, ridge=ridge, kernel=kernel)
    largest_ratio(bound, prompt.supports * plain)


def test_jacobis_factor_is_needed_up_to_two():
    """Two supports that nearly agree, and six small ones that agree with them less."""
    k, near, far, ridge = 8, 1e-8, 1e-4, 1e-14
    spread = torch.tensor([near] * 2 + [far] * (k - 2), dtype=torch.float64)
    size = torch.tensor([1.0] * 2 + [sqrt(near / far)] * (k - 2), dtype=torch.float64)
    root = (1 - spread).sqrt()
    correlation = root[:, None] * root + spread.diag()
    system = size[:, None] * correlation * size
    phi = torch.linalg.cholesky(system - ridge * torch.eye(k, dtype=torch.float64))[None]
    prompt = Prompt(phi, torch.ones(1, k, 1, dtype=torch.float64), phi[:, :1])
    jacobi = theory.preconditioned_condition(prompt, ridge=ridge, precondition="jacobi")
    plain = theory.preconditioned_condition(prompt, ridge=ridge)
    assert largest_ratio(jacobi, k * plain) > 0.45


# Width


@pytest.mark.parametrize("rank", [0, 1, 3, 6])
def test_eigen_truncation_meets_the_width_bound(case, rank):
    kernel, prompt, ridge = case
    exact = theory.gram(prompt, kernel)
    truncated = theory.eigen_truncation(prompt, rank=rank, kernel=kernel)
    measured = theory.resolvent_difference(exact, truncated, ridge=ridge)
    bound = theory.rank_error(prompt, rank=rank, ridge=ridge, kernel=kernel)
    torch.testing.assert_close(measured, bound, rtol=1e-8, atol=0)
    tail = theory.tail_bound(prompt, rank=rank, ridge=ridge, kernel=kernel)
    assert largest_ratio(measured, tail) < 1
    after = theory.eigenvalue_after(prompt, rank=rank, kernel=kernel)
    torch.testing.assert_close(
        torch.linalg.matrix_norm(exact - truncated, 2), after, rtol=1e-8, atol=0
    )


@pytest.mark.parametrize("rank", [1, 4])
def test_no_approximation_beats_truncation_and_all_keep_the_bound(case, rank):
    """Columns of K (Nyström, below K), and arbitrary matrices of that rank, which are not."""
    kernel, prompt, ridge = case
    exact = theory.gram(prompt, kernel)
    generator = torch.Generator().manual_seed(rank)
    factor = torch.randn(20, prompt.supports, rank, generator=generator, dtype=torch.float64)
    columns = exact[:, :, :rank]
    nystroem = columns @ torch.linalg.pinv(exact[:, :rank, :rank]) @ columns.mT
    least = theory.rank_error(prompt, rank=rank, ridge=ridge, kernel=kernel)
    for sketch in (nystroem, factor @ factor.mT):
        distance = torch.linalg.matrix_norm(exact - sketch, 2)
        measured = theory.resolvent_difference(exact, sketch, ridge=ridge)
        largest_ratio(theory.eigenvalue_after(prompt, rank=rank, kernel=kernel), distance)
        largest_ratio(least, measured)
        assert largest_ratio(measured, theory.resolvent_bound(distance, ridge=ridge)) > 0.1


def test_the_tail_bound_fails_for_a_bad_approximation():
    """Features kept linearly, but the wrong ones: the tail says 0.1, the distance is 9."""
    prompt = diagonal_prompt([10.0, 1.1], 1.0, [1.0, 1.0], [1.0, 1.0])
    sketch = torch.tensor([[[0.0, 0.0], [0.0, 0.1]]], dtype=torch.float64)
    distance = torch.linalg.matrix_norm(theory.gram(prompt) - sketch, 2)
    assert float(distance) == pytest.approx(9.0)
    assert float(kernel_eigenvalues(prompt)[0, :1].sum()) == pytest.approx(0.1)
    measured = theory.resolvent_difference(theory.gram(prompt), sketch, ridge=1.0)
    assert float(measured) > float(theory.tail_bound(prompt, rank=1, ridge=1.0))


def test_a_rank_of_k_or_more_loses_nothing_and_a_negative_one_is_refused():
    prompt = diagonal_prompt([10.0, 1.1], 1.0, [1.0, 1.0], [1.0, 1.0])
    for rank in (2, 3, 9):
        assert float(theory.tail_bound(prompt, rank=rank, ridge=1.0)) == 0
        assert float(theory.rank_error(prompt, rank=rank, ridge=1.0)) == 0
    for bound in (theory.tail_bound, theory.eigenvalue_bound, theory.relative_error_bound):
        with pytest.raises(Refusal, match="cannot be negative"):
            bound(prompt, rank=-1, ridge=1.0)


def test_gd_plus_plus_needs_no_more_layers_than_newton():
    for condition in (1.001, 1.5, 3.0, 10.0, 300.0, 1e4, 1e6, 1e8):
        for tolerance in (0.5, 1e-2, 1e-4, 1e-8, 1e-12, 1e-15):
            newton, plus = (
                theory.steps_needed(factor, condition, tolerance)
                for factor in (theory.newton_factor, theory.gd_plus_factor)
            )
            assert plus + 1 <= newton + 2


def test_the_effective_dimension_bounds_eigenvalues_and_width(case):
    kernel, prompt, ridge = case
    options = {"ridge": ridge, "kernel": kernel}
    for rank in range(prompt.supports):
        after = theory.eigenvalue_after(prompt, rank=rank, kernel=kernel)
        largest_ratio(after, theory.eigenvalue_bound(prompt, rank=rank, **options))
        error = ridge * theory.rank_error(prompt, rank=rank, **options)
        largest_ratio(error, theory.relative_error_bound(prompt, rank=rank, **options))
    for tolerance in (0.3, 1.0, 4.0):
        width = theory.sufficient_width(prompt, tolerance=tolerance, **options)
        values = torch.cat([kernel_eigenvalues(prompt, kernel).flip(-1), torch.zeros(20, 1)], 1)
        after = values.gather(1, width[:, None])[:, 0]
        largest_ratio(after, torch.full_like(after, tolerance * ridge))
        needed = (1 + 1 / tolerance) * effective_dimension(prompt, **options)
        assert ((width + 1 >= needed - 1e-9) | (width == prompt.supports)).all()
        assert (width < needed).all()  # one less is not enough


def test_the_effective_dimension_is_met_by_equal_eigenvalues():
    """k = 6 eigenvalues λ: d_eff is 3, and yet width 3 leaves as much error as width 0."""
    prompt = diagonal_prompt([2.0] * 6, 1.0, torch.ones(6), torch.ones(6))
    bound = theory.eigenvalue_bound(prompt, rank=5, ridge=1.0)
    assert largest_ratio(theory.eigenvalue_after(prompt, rank=5), bound) == pytest.approx(1)
    error = theory.rank_error(prompt, rank=5, ridge=1.0)
    relative = theory.relative_error_bound(prompt, rank=5, ridge=1.0)
    assert largest_ratio(error, relative) == pytest.approx(1)
    for rank in (0, 3):
        assert float(theory.rank_error(prompt, rank=rank, ridge=1.0)) == pytest.approx(0.5)
    assert int(theory.sufficient_width(prompt, tolerance=1.0, ridge=1.0)) == 5
