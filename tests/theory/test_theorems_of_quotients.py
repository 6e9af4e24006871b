"""CG whose quotients are off: the bound along its path, the ranges that it keeps, and its descent."""

import pytest
import torch
from theorem_cases import CASES, largest_ratio

from ridgeformer import theory
from ridgeformer.experiments.theorems.quotients import (
    ALLOWED,
    ERROR,
    Setting,
    disturbed_coefficients,
    worst_signs,
)
from ridgeformer.solvers import EagerMachine
from ridgeformer.theory.inexact_scalars import defect_remainder
from ridgeformer.types import Refusal

PROMPTS, STEPS = 12, 5


@pytest.fixture(params=CASES)
def setting(request):
    kernel, task, ridge = CASES[request.param]
    prompt = task.draw(PROMPTS, seed=0)
    prompt = type(prompt)(prompt.phi, prompt.y[..., :1], prompt.phi_query)
    return Setting(request.param, prompt, kernel, ridge)


def constant(value):
    return torch.full((STEPS, PROMPTS), value, dtype=torch.float64)


def random_signs():
    generator = torch.Generator().manual_seed(1)
    return torch.rand(2, STEPS, PROMPTS, generator=generator) * 2 - 1


def apart(setting, run):
    clean = setting.path(constant(0.0), constant(0.0))
    return setting.predictions(run.alpha - clean.alpha).abs()


def bound_of(setting, run, error):
    return theory.inexact_scalars_bound(
        run, setting.prompt, length_error=error, memory_error=error, **setting.system
    )


@pytest.mark.parametrize("error", [1e-3, 1e-6])
def test_inexact_quotients_reach_predictions_as_bounded(setting, error):
    for signs in (torch.ones(2, STEPS, PROMPTS), random_signs()):
        run = setting.path(*(error * signs.double()))
        bound = bound_of(setting, run, error * (1 + 1e-6))
        assert largest_ratio(apart(setting, run), bound) > 0.2
        defects = theory.defect_responses(run)
        sources = torch.cat([run.length_error, run.memory_error, constant(0.0)[:1]])
        for (i, t), response in defects.b.items():
            found = (run.direction[i] * run.residual[t]).sum(-1)
            scale = run.direction[i].norm(dim=-1) * run.residual[0].norm(dim=-1)
            assert ((response * sources).sum(0) - found).abs().max() < 1e-9 * scale.max()


def test_the_worst_signs_meet_the_bound_at_every_step(setting):
    clean = setting.path(constant(0.0), constant(0.0))
    weights = theory.cross(setting.prompt, setting.kernel)[:, 0]
    for t, (lengths, memories) in worst_signs(clean, weights).items():
        run = setting.path(1e-3 * ERROR * lengths, 1e-3 * ERROR * memories)
        bound = bound_of(setting, run, 1e-3 * ALLOWED)
        ratio = (apart(setting, run) / bound)[t, :, 0]
        assert ratio.max() > 0.99
        assert ratio.median() > 0.9


def test_an_omitted_source_breaks_the_bound():
    """Errors of β matter: a bound that knows only those of γ is exceeded."""
    kernel, task, ridge = CASES["uniform"]
    setting = Setting("", task.draw(PROMPTS, seed=0), kernel, ridge)
    run = setting.path(constant(0.0), constant(ERROR))
    bound = theory.inexact_scalars_bound(
        run, setting.prompt, length_error=1e-9, memory_error=0.0, **setting.system
    )
    assert (apart(setting, run) > 10 * bound)[2:].any()


@pytest.mark.parametrize("size", [0.01, 0.3, 1.0])
def test_too_small_quotients_never_raise_the_energy(setting, size):
    """However much too small they are; with quotients that are too large it may rise."""
    generator = torch.Generator().manual_seed(0)
    drawn = size * torch.rand(2, STEPS, PROMPTS, generator=generator, dtype=torch.float64)
    run = setting.path(*drawn)
    energy = theory.energy_error(run.alpha[..., None], setting.prompt, **setting.system)[..., 0]
    moved = run.alpha.diff(dim=0)
    system = EagerMachine(setting.prompt, setting.kernel, setting.ridge).dense_system()
    steps = (moved * torch.einsum("bij,tbj->tbi", system, moved)).sum(-1)
    least = energy[:-1] ** 2 - energy[1:] ** 2 - steps
    assert (least >= -1e-10 * energy[0] ** 2).all()
    values = theory.system_eigenvalues(setting.prompt, **setting.system)
    assert (run.curvature >= values[:, 0] * run.rho[:-1] * (1 - 1e-9)).all()
    assert (run.rho[1:] <= values[:, -1] / values[:, 0] * run.rho[:-1]).all()


def test_the_growth_that_is_bounded_in_advance_holds(setting):
    values = theory.system_eigenvalues(setting.prompt, **setting.system)
    condition = float((values[:, -1] / values[:, 0]).max())
    error = theory.largest_scalar_error(STEPS, condition)
    for part in (1.0, 1e-4):
        bound = theory.inexact_scalars_growth_bound(
            setting.prompt, steps=STEPS, error=part * error, **setting.system
        )
        run = setting.path(constant(part * error), constant(part * error))
        largest_ratio(apart(setting, run), bound, 1.0)
    with pytest.raises(Refusal, match="may leave the ranges"):
        theory.inexact_scalars_growth_bound(
            setting.prompt, steps=STEPS, error=2 * error, **setting.system
        )


def test_the_growth_in_advance_has_its_constants(setting):
    """6t√κ(14κ²)^(t−1)δ for errors so small that it is the smaller of both."""
    values = theory.system_eigenvalues(setting.prompt, **setting.system)
    kappa = (values[:, -1] / values[:, 0])[:, None]
    weight = theory.query_weight(setting.prompt, **setting.system)
    weight = weight * theory.target_energy(setting.prompt, **setting.system)
    error = 1e-60
    found = theory.inexact_scalars_growth_bound(
        setting.prompt, steps=STEPS, error=error, **setting.system
    )
    for t in range(1, STEPS + 1):
        said = 6 * t * kappa.sqrt() * (14 * kappa**2) ** (t - 1) * error
        torch.testing.assert_close(found[t], said * weight, rtol=1e-9, atol=0.0)
    assert theory.largest_scalar_error(3, 7.0) == 1 / (16 * 3 * 15)


def test_what_is_beyond_first_order_is_that_of_the_couplings(setting):
    """If the first quotient alone errs, ν is the Frobenius norm of X^(−1/2)NX^(−1/2) itself."""
    first = constant(0.0)
    first[0] = 1e-4
    path = setting.path(first, constant(0.0))
    errors = torch.cat([path.length_error.abs(), constant(0.0)])
    weights = theory.cross(setting.prompt, setting.kernel)
    defects = theory.defect_responses(path)
    found = defect_remainder(path, defects, weights, errors)[3]
    p, system = path.direction[:3], EagerMachine(setting.prompt, setting.kernel, setting.ridge)
    together = torch.einsum("ibk,bkl,jbl->bij", p, system.dense_system(), p)
    x = together.diagonal(dim1=1, dim2=2)
    scaled = together / (x[:, :, None] * x[:, None, :]).sqrt()
    nu = torch.linalg.matrix_norm(scaled - torch.eye(3, dtype=torch.float64))[:, None]
    b = torch.einsum("ibk,bk->bi", p, path.residual[3])
    size = (b**2 / x).sum(-1).sqrt()[:, None]
    reach = (torch.einsum("bqk,ibk->bqi", weights, p) ** 2 / x[:, None]).sum(-1).sqrt()
    torch.testing.assert_close(found, nu / (1 - nu) * size * reach, rtol=1e-4, atol=0.0)


def test_several_outputs_are_taken_one_at_a_time():
    _, task, ridge = CASES["geometric"]
    prompt = task.draw(2, seed=0)
    machine = EagerMachine(prompt, CASES["geometric"][0], ridge)
    none = torch.zeros(2, 2, dtype=torch.float64)
    gamma, beta = disturbed_coefficients(machine, "none", none, none)
    with pytest.raises(Refusal, match="one at a time"):
        theory.cg_path(prompt, gamma, beta, ridge=ridge)
