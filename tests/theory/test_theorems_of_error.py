"""Approximate kernels, drifting features, several outputs, inexact mat-vecs: bounds hold and are met."""

from math import sqrt

import pytest
import torch
from theorem_cases import CASES, STEPS, diagonal_prompt, largest_ratio

from ridgeformer import theory
from ridgeformer.kernels import Exponential, Gaussian, Linear, Polynomial
from ridgeformer.solvers import (
    BlockCG,
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    HeavyBall,
    Richardson,
    krr,
    solve,
)
from ridgeformer.tasks import Prompt


@pytest.fixture(params=CASES)
def case(request):
    kernel, task, ridge = CASES[request.param]
    return kernel, task.draw(20, seed=0), ridge


def drift(prompt, size, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def moved(x):
        return x + size * torch.randn(x.shape, generator=generator, dtype=x.dtype)

    return Prompt(moved(prompt.phi), prompt.y, moved(prompt.phi_query))


# Approximate kernels and features


def sketched(prompt, rank):
    """The linear kernel on the leading `rank` principal directions of the features."""
    basis = torch.linalg.svd(prompt.phi, full_matrices=False).Vh[:, :rank]
    return Prompt(prompt.phi @ basis.mT, prompt.y, prompt.phi_query @ basis.mT)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_a_query_errs_by_both_terms(rank):
    for name in ("geometric", "uniform", "few supports"):
        prompt = CASES[name][1].draw(50, seed=0)
        small = sketched(prompt, rank)
        matrices = theory.gram(small), theory.cross(small)
        measured = (krr(prompt, ridge=1.0) - krr(small, ridge=1.0)).abs()
        largest_ratio(measured, theory.query_error_bound(prompt, *matrices, ridge=1.0), 1.0)


def test_the_query_bound_is_met_and_its_second_term_is_needed():
    """A target and a query along a mode that the sketch drops: first K alone, then k(x) alone."""
    prompt = diagonal_prompt([5.0, 3.0], 1.0, [0.0, 1.0], [0.0, 1.0])
    exact, at_query = theory.gram(prompt), theory.cross(prompt)
    truncated = theory.eigen_truncation(prompt, rank=1)
    for matrices in ((truncated, at_query), (exact, 0 * at_query)):
        found = theory.approximate_prediction(prompt, *matrices, ridge=1.0)
        bound = theory.query_error_bound(prompt, *matrices, ridge=1.0)
        assert largest_ratio((krr(prompt, ridge=1.0) - found).abs(), bound) == pytest.approx(1)
    first, second = theory.query_error_terms(prompt, exact, 0 * at_query, ridge=1.0)
    assert float(first) == 0
    assert float(second) > 0


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0])
def test_drift_of_features_is_bounded(case, size):
    kernel, prompt, ridge = case
    moved = drift(prompt, size)
    change = torch.linalg.matrix_norm(theory.gram(prompt, kernel) - theory.gram(moved, kernel), 2)
    largest_ratio(change, theory.gram_drift_bound(prompt, moved, kernel=kernel))
    change = (theory.cross(prompt, kernel) - theory.cross(moved, kernel)).norm(dim=2)
    largest_ratio(change, theory.cross_drift_bound(prompt, moved, kernel=kernel))
    options = {"ridge": ridge, "kernel": kernel}
    change = (krr(prompt, **options) - krr(moved, **options)).abs()
    largest_ratio(change, theory.drift_prediction_bound(prompt, moved, **options))


def line(*positions):
    return torch.tensor(positions, dtype=torch.float64)[None, :, None]


@pytest.mark.parametrize(
    ("kernel", "start", "end"),
    [
        (Linear(), (1.0, 2.0), (1.5, 3.0)),
        (Gaussian(0.7), (-0.35, 0.35), (-0.3501, 0.3501)),
        (Exponential(2.0), (1.0, 1.0), (1.0001, 1.0001)),
        (Polynomial(3), (1.0, 1.0), (1.0001, 1.0001)),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_the_constants_of_drift_are_the_best(kernel, start, end):
    """Two supports on a line, moved where the kernel is steepest."""
    y, query = torch.ones(1, 2, 1, dtype=torch.float64), line(end[0])
    before, after = Prompt(line(*start), y, query), Prompt(line(*end), y, query)
    change = torch.linalg.matrix_norm(theory.gram(before, kernel) - theory.gram(after, kernel), 2)
    ratio = largest_ratio(change, theory.gram_drift_bound(before, after, kernel=kernel))
    assert ratio > 0.999


def test_the_drift_of_a_prediction_is_met():
    """One support: f = φ(x)φy/(φ² + λ). A query that moves meets the bound, a support a fifth of it."""
    y, place = torch.ones(1, 1, 1, dtype=torch.float64), 1 + sqrt(2)
    before = Prompt(line(place), y, line(1.0))
    moved = {
        1.0: Prompt(line(place), y, line(1.5)),
        0.207: Prompt(line(place + 1e-5), y, line(1.0)),
    }
    for expected, after in moved.items():
        change = (krr(before, ridge=1.0) - krr(after, ridge=1.0)).abs()
        bound = theory.drift_prediction_bound(before, after, ridge=1.0)
        assert largest_ratio(change, bound) == pytest.approx(expected, abs=1e-3)


def test_the_lipschitz_constants_hold_for_a_ball():
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(4, 500, 1, 3, generator=generator, dtype=torch.float64)
    points = 1.5 * points / points.norm(dim=-1, keepdim=True).clamp(min=1.0)
    projection = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    a, b, a_moved, b_moved = points
    size = (a - a_moved).norm(dim=-1) + (b - b_moved).norm(dim=-1)
    for kernel in (
        Linear(), Gaussian(0.7), Exponential(2.0), Exponential(4.0, projection), Polynomial(3),
    ):  # fmt: skip
        change = (kernel(a, b) - kernel(a_moved, b_moved)).abs()[:, :, 0]
        largest_ratio(change, theory.lipschitz_constant(kernel, 1.5) * size)


# Several outputs


@pytest.mark.parametrize("name", ["geometric", "uniform", "gaussian"])
def test_block_cg_is_never_behind_cg(name):
    kernel, task, ridge = CASES[name]
    task = type(task)(**{**vars(task), "outputs": 3})
    prompt = task.draw(20, seed=2)
    options = {"ridge": ridge, "kernel": kernel, "steps": 5}
    run = solve(BlockCG(), prompt, **options, states=True)
    energy = theory.energy_error(run.states["alpha"], prompt, ridge=ridge, kernel=kernel)
    ratio = largest_ratio(energy, theory.block_cg_energy_bound(prompt, **options), energy[0].max())
    assert ratio > 0.1
    exact = krr(prompt, ridge=ridge, kernel=kernel)
    bound = theory.block_cg_prediction_bound(prompt, **options)
    largest_ratio((run.predictions - exact).abs(), bound, exact.abs().max())


def test_block_cg_is_cg_when_outputs_share_nothing():
    """Two outputs on modes of their own: the block's space is the sum of two that do not meet."""
    prompt = diagonal_prompt([9.0, 7.0, 5.0, 4.0, 3.0, 2.0], 1.0, torch.zeros(6), torch.ones(6))
    y = torch.zeros(1, 6, 2, dtype=torch.float64)
    y[0, :3, 0] = y[0, 3:, 1] = 1.0
    prompt = Prompt(prompt.phi, y, prompt.phi_query)
    run = solve(BlockCG(), prompt, ridge=1.0, steps=2, states=True)
    energy = theory.energy_error(run.states["alpha"], prompt, ridge=1.0)
    bound = theory.block_cg_energy_bound(prompt, ridge=1.0, steps=2)
    torch.testing.assert_close(energy, bound, rtol=1e-8, atol=0)


# Mat-vecs with errors


class Noisy(EagerMachine):
    """Adds to every mat-vec an error of known norm: a random direction, a multiple, or one direction."""

    def __init__(self, prompt, kernel, ridge, error):
        super().__init__(prompt, kernel, ridge)
        self.error = error

    def matvec(self, v):
        return super().matvec(v) + self.error(v)


def run_on(machine, solver, steps):
    states = [solver.init(machine)]
    for t in range(1, steps + 1):
        states.append(solver.step(machine, states[-1], t))
    return states


@pytest.mark.parametrize("solver", [Richardson, Chebyshev, HeavyBall], ids=lambda s: s.name)
def test_errors_of_residuals_reach_predictions_as_bounded(solver, case):
    kernel, prompt, ridge = case
    generator = torch.Generator().manual_seed(0)

    def noise(v):
        direction = torch.randn(v.shape, generator=generator, dtype=v.dtype)
        return 0.01 * direction / direction.norm(dim=1, keepdim=True)

    machine = Noisy(prompt, kernel, ridge, noise)
    noisy = machine.predict(run_on(machine, solver(), STEPS)[-1].alpha)
    clean = solve(solver(), prompt, steps=STEPS, ridge=ridge, kernel=kernel).final
    bound = theory.perturbed_prediction_bound(
        solver(), prompt, ridge=ridge, steps=STEPS, residual_error=0.01, kernel=kernel
    )
    largest_ratio((noisy - clean).abs(), bound[:, :, None])


@pytest.mark.parametrize("solver", [Richardson, Chebyshev, HeavyBall], ids=lambda s: s.name)
def test_one_step_with_an_error_nearly_meets_the_bound(solver):
    """Error and query along the mode of the largest eigenvalue, far above λ; 2^(−1/4) is the grid's."""
    prompt = diagonal_prompt([30.0, 2.0], 1.0, [1.0, 1.0], [1.0, 0.0])
    machine = Noisy(prompt, Linear(), 1.0, lambda v: torch.tensor([[[0.1], [0.0]]]).to(v))
    noisy = machine.predict(run_on(machine, solver(), 1)[-1].alpha)
    clean = solve(solver(), prompt, steps=1, ridge=1.0).final
    bound = theory.perturbed_prediction_bound(
        solver(), prompt, ridge=1.0, steps=1, residual_error=0.1
    )
    assert largest_ratio((noisy - clean).abs(), bound[:, :, None]) > 0.8


@pytest.mark.parametrize("error", [1e-6, 1e-3])
def test_inexact_cg_drifts_no_further_than_its_steps(case, error):
    kernel, prompt, ridge = case
    generator = torch.Generator().manual_seed(0)
    shape = (20, prompt.supports, prompt.supports)

    def noise(v):
        matrix = torch.randn(shape, generator=generator, dtype=v.dtype)
        return error * (matrix / torch.linalg.matrix_norm(matrix, 2)[:, None, None]) @ v

    states = run_on(Noisy(prompt, kernel, ridge, noise), ConjugateGradient(), STEPS)
    alphas = torch.stack([s.alpha for s in states])
    carried = torch.stack([s.scale * s.r for s in states])
    true = prompt.y - theory.preconditioned_system(prompt, ridge=ridge, kernel=kernel) @ alphas
    bound = theory.residual_gap_bound(alphas, operator_error=error)
    size = (theory.gram(prompt, kernel) @ alphas).norm(dim=2).max()
    measured = (true - carried).norm(dim=2)
    assert largest_ratio(measured, bound, size) > 0.1
    options = {"ridge": ridge, "kernel": kernel}
    exact = krr(prompt, **options)
    measured = (theory.cross(prompt, kernel) @ alphas - exact).abs()
    limit = theory.residual_prediction_bound(carried, bound, prompt, **options)
    assert largest_ratio(measured, limit, exact.abs().max()) > 0.1
    solved = torch.linalg.solve(
        theory.preconditioned_system(prompt, **options), theory.cross(prompt, kernel).mT
    )
    height = kernel.diagonal(prompt.phi_query)[..., 0].sqrt()
    largest_ratio(solved.norm(dim=1), height / (2 * sqrt(ridge)))


def test_the_gap_of_cg_is_met_by_a_wrong_ridge():
    """E = ε·I for one step: the gap is ε times the step."""
    prompt = CASES["geometric"][1].draw(5, seed=0)
    states = run_on(Noisy(prompt, Linear(), 1.0, lambda v: 1e-3 * v), ConjugateGradient(), 1)
    alphas = torch.stack([s.alpha for s in states])
    true = prompt.y - theory.preconditioned_system(prompt, ridge=1.0) @ alphas[1]
    measured = (true - states[1].scale * states[1].r).norm(dim=1)
    bound = theory.residual_gap_bound(alphas, operator_error=1e-3)[1]
    torch.testing.assert_close(measured, bound, rtol=1e-8, atol=0)
