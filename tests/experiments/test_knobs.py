"""Knobs: thresholds and limits are met where they say, and planted errors make the sweeps fail."""

from math import exp, log, tanh

import numpy as np
import pytest
import torch
from selection import first_of_each
from theorem_cases import diagonal_prompt, largest_ratio, plant

from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.experiments.theorems import THEOREMS, Verdict
from ridgeformer.experiments.theorems import hard as hard_prompts
from ridgeformer.experiments.theorems import knobs as knob_checks
from ridgeformer.experiments.theorems import knobs_of_data as data_checks
from ridgeformer.experiments.theorems import softmax as softmax_checks
from ridgeformer.experiments.theorems.hard import hard_for_krylov, prompt_of_modes
from ridgeformer.experiments.theorems.ratios import both_sides
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    NadarayaWatson,
    condition_number,
    krr,
    solve,
)
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.theory import (
    cg_energy_floor,
    chebyshev_condition,
    chebyshev_factor,
    chebyshev_residual,
    chebyshev_steps,
    cold_bound,
    cold_limit,
    cold_misfit_bounds,
    cold_size_bound,
    cold_temperature,
    energy_error,
    hot_bound,
    hot_limit,
    hot_misfit_bound,
    hot_temperature,
    least_ridge,
    misfit_bounds,
    nearest_targets,
    richardson_condition,
    richardson_rate,
    richardson_steps,
    smoother_cold_bound,
    smoother_hot_bound,
    spectral_energies,
    termination_steps,
)
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sphere(*shape, seed=0):
    x = normal(*shape, seed=seed)
    return x / x.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("condition", [1.5, 6.0, 20.0, 1e3])
@pytest.mark.parametrize("tolerance", [0.5, 1e-2, 1e-6])
def test_steps_and_condition_are_thresholds(condition, tolerance):
    for steps, factor in (
        (chebyshev_steps(condition, tolerance), chebyshev_factor),
        (richardson_steps(condition, tolerance), lambda c, t: richardson_rate(c) ** t),
    ):
        assert factor(condition, steps) <= tolerance < factor(condition, steps - 1)
    for steps in (2, 9):
        assert chebyshev_factor(chebyshev_condition(steps, tolerance), steps) == pytest.approx(
            tolerance
        )
        found = richardson_rate(richardson_condition(steps, tolerance)) ** steps
        assert found == pytest.approx(tolerance)


def test_a_system_without_spread_takes_one_step():
    assert chebyshev_steps(1.0, 1e-3) == richardson_steps(1.0, 1e-3) == 1
    with pytest.raises(Refusal, match="between 0 and 1"):
        chebyshev_steps(2.0, 1.0)


def test_the_least_ridge_gives_the_condition_number():
    prompt = diagonal_prompt([21.0, 4.0, 1.5], 1.0, [1, 1, 1], [1, 1, 1])
    ridge = least_ridge(7.0, 20.0, 0.5)
    assert float(condition_number(prompt, ridge=ridge)) == pytest.approx(7.0)
    assert least_ridge(50.0, 20.0, 0.5) == 0, "K alone is better conditioned than that"
    assert least_ridge(1.0, 20.0) == float("inf")


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
@pytest.mark.parametrize("ridge", [0.05, 1.0, 30.0])
def test_no_solver_does_better_on_the_hard_prompt(steps, ridge):
    """One K and y are the worst for CG at every λ; textbook quantities, no compiled model."""
    prompt = hard_for_krylov(0.2, 20.0, steps, 3, seed=1)
    expected = chebyshev_factor((20 + ridge) / (0.2 + ridge), steps)
    interval = (0.2 + ridge, 20 + ridge)
    for solver, tuned in ((ConjugateGradient(), None), (Chebyshev(), interval)):
        run = solve(solver, prompt, steps=steps, ridge=ridge, interval=tuned, states=True)
        error = energy_error(run.states["alpha"][-1:], prompt, ridge=ridge)
        start = energy_error(run.states["alpha"][:1], prompt, ridge=ridge)
        np.testing.assert_allclose(error / start, expected, rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("eigenvalue", [1.0, 2.7, 9.0, 11.0, 40.0])
def test_the_residual_of_a_mode_is_chebyshevs_polynomial(eigenvalue):
    one = torch.ones(1, dtype=torch.float64)
    prompt = prompt_of_modes((eigenvalue - 0.5) * one, one, one, 1, seed=0)
    run = solve(Chebyshev(), prompt, steps=4, ridge=0.5, interval=(1.0, 9.0), states=True)
    residual = (1 - eigenvalue * run.states["alpha"][-1] / prompt.y).abs()
    expected = chebyshev_residual(eigenvalue, (1.0, 9.0), 4)
    np.testing.assert_allclose(float(residual), expected, rtol=1e-9)
    assert (expected > 1) == (eigenvalue > 10)


def test_the_misfit_of_the_ridge_is_bounded_on_both_sides():
    """Many targets at once; the first mode with odd T meets the lower bound."""
    steps, largest, smallest = 5, 10.0, 0.5
    values = torch.tensor([largest, 6.0, 2.0, smallest], dtype=torch.float64)
    for ridge in (0.1, 1.0, 10.0):
        lower, upper = misfit_bounds(ridge, largest, smallest, steps)
        interval = (smallest + ridge, largest + ridge)
        for y in (normal(4, seed=3), torch.eye(4, dtype=torch.float64)[0]):
            drawn = prompt_of_modes(values, y, y, 5, seed=2)
            prompt = Prompt(drawn.phi, drawn.y, drawn.phi)
            f = solve(Chebyshev(), prompt, steps=steps, ridge=ridge, interval=interval)
            misfit = (drawn.y - f.predictions[-1]).norm(dim=1) / y.norm()
            assert (misfit >= lower - 1e-12).all()
            assert (misfit <= upper + 1e-12).all()
        if lower > 0:
            np.testing.assert_allclose(misfit.numpy(), lower, rtol=1e-9)


def least_energy(values, energies, steps):
    """min Σ w_i q(s_i)² over q(0) = 1 by least squares: CG's error without CG."""
    s, w = values.numpy(), np.sqrt(energies.numpy())
    powers = (s[:, None] / s.max()) ** np.arange(1, steps + 1)
    found, *_ = np.linalg.lstsq(powers * w[:, None], -w, rcond=None)
    return np.linalg.norm(w + (powers * w[:, None]) @ found)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_floor_of_cg_holds_and_is_met_before_the_last_step(steps):
    values = torch.tensor([[1.0, 2.0, 5.0, 11.0, 13.0]], dtype=torch.float64)
    energies = normal(1, 5, seed=4).square() + 0.1
    assert cg_energy_floor(values, energies, steps=steps) <= least_energy(
        values[0], energies[0], steps
    ) * (1 + 1e-12)
    few = slice(0, steps + 1)
    floor = float(cg_energy_floor(values[:, few], energies[:, few], steps=steps))
    assert floor == pytest.approx(least_energy(values[0, few], energies[0, few], steps), rel=1e-9)
    assert float(cg_energy_floor(values[:, :steps], energies[:, :steps], steps=steps)) == 0


@pytest.mark.parametrize("distinct", [1, 2, 4])
def test_copied_supports_end_cg_after_one_more_step(distinct):
    """The numerics: rank, smallest eigenvalue, the error one step before the end, and the end."""
    prompt = data_checks.copied(distinct, 9, 5, 6, seed=5)
    values, energies = spectral_energies(prompt, ridge=0.7, rank=distinct)
    assert (termination_steps(prompt, ridge=0.7) == distinct + 1).all()
    assert (values[:, 0] == 0.7).all()
    run = solve(ConjugateGradient(), prompt, steps=distinct + 1, ridge=0.7, states=True)
    error = energy_error(run.states["alpha"], prompt, ridge=0.7)[..., 0]
    np.testing.assert_allclose(error[0], energies.sum(1).sqrt(), rtol=1e-9)
    floor = cg_energy_floor(values, energies, steps=distinct)
    np.testing.assert_allclose(error[-2], floor, rtol=1e-7)
    assert float((error[-1] / error[0]).max()) < 1e-9


def smoother(prompt, temperature):
    return solve(
        NadarayaWatson(), prompt, steps=1, ridge=1.0, kernel=Exponential(temperature)
    ).predictions[-1]


def test_the_hot_smoothers_spread_is_met():
    """One support of four at the query, three opposite, e^{R²/τ} = 3: tanh is attained."""
    temperature = 1 / log(3)
    phi = torch.tensor([[[1.0], [-1.0], [-1.0], [-1.0]]], dtype=torch.float64)
    y = torch.tensor([[[1.0], [0.0], [0.0], [0.0]]], dtype=torch.float64)
    prompt = Prompt(phi, y, phi[:, :1])
    bound = smoother_hot_bound(prompt, temperature=temperature, max_norm=1.0)
    assert float(bound) == pytest.approx(tanh(log(3) / 2))
    assert float(smoother(prompt, temperature) - y.mean()) == pytest.approx(float(bound))


@pytest.mark.parametrize("temperature", [0.03, 0.3, 3.0])
def test_the_smoothers_limits_hold(temperature):
    prompt = Prompt(0.9 * sphere(50, 6, 3), normal(50, 6, 1, seed=1), sphere(50, 4, 3, seed=2))
    f = smoother(prompt, temperature)
    hot = smoother_hot_bound(prompt, temperature=temperature, max_norm=1.0)
    largest_ratio((f - prompt.y.mean(1, keepdim=True)).abs(), hot)
    _, nearest = nearest_targets(prompt)
    cold = smoother_cold_bound(prompt, temperature=temperature)
    largest_ratio((f - nearest).abs(), cold, 1.0)
    alone = Prompt(prompt.phi[:, :1], prompt.y[:, :1], prompt.phi_query)
    assert (smoother_cold_bound(alone, temperature=temperature) == 0).all()


def test_the_cold_limit_holds_for_every_output():
    several = Prompt(sphere(5, 6, 3), normal(5, 6, 3, seed=1), sphere(5, 4, 3, seed=2))
    bound = smoother_cold_bound(several, temperature=0.3)
    _, nearest = nearest_targets(several)
    for output in range(3):
        one = Prompt(several.phi, several.y[..., [output]], several.phi_query)
        assert bound[..., [output]].equal(smoother_cold_bound(one, temperature=0.3))
        assert nearest[..., [output]].equal(nearest_targets(one)[1])
    alone = Prompt(several.phi[:, :1], several.y[:, :1], several.phi_query)
    assert smoother_cold_bound(alone, temperature=0.3).equal(torch.zeros(5, 4, 3).double())


@pytest.mark.parametrize("temperature", [0.05, 0.2, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("ridge", [0.1, 1.0, 20.0])
def test_both_limits_of_temperature_hold(temperature, ridge):
    kernel = Exponential(temperature, torch.eye(7, 9, dtype=torch.float64))
    phi = torch.cat([sphere(40, 5, 7), torch.zeros(40, 5, 2, dtype=torch.float64)], 2)
    prompt = Prompt(phi, normal(40, 5, 2, seed=1), torch.cat([phi, sphere(40, 4, 9, seed=2)], 1))
    f = krr(prompt, ridge=ridge, kernel=kernel)
    setting = {"ridge": ridge, "kernel": kernel}
    largest_ratio((f - hot_limit(prompt, ridge=ridge)).abs(), hot_bound(prompt, **setting), 10.0)
    largest_ratio((f - cold_limit(prompt, **setting)).abs(), cold_bound(prompt, **setting), 10.0)
    largest_ratio(f.abs(), cold_size_bound(prompt, **setting), 10.0)
    misfit = (prompt.y - f[:, :5]).norm(dim=1)
    lower, upper = cold_misfit_bounds(prompt, **setting)
    largest_ratio(misfit, upper, 10.0)
    largest_ratio(lower, misfit, 10.0)
    largest_ratio(hot_misfit_bound(prompt, **setting), misfit, 10.0)


def test_two_supports_meet_the_cold_bounds():
    """Two supports: targets of opposite sign have the largest misfit, equal ones the smallest."""
    angle = torch.tensor(1.1, dtype=torch.float64)
    phi = torch.stack([torch.tensor([1.0, 0.0]).double(), torch.stack([angle.cos(), angle.sin()])])[
        None
    ]
    for sign, side in ((-1.0, 1), (1.0, 0)):
        y = torch.tensor([[[1.0], [sign]]], dtype=torch.float64)
        prompt, kernel = Prompt(phi, y, phi), Exponential(0.4)
        misfit = (y - krr(prompt, ridge=0.5, kernel=kernel)).norm()
        bound = cold_misfit_bounds(prompt, ridge=0.5, kernel=kernel)[side]
        assert float(misfit) == pytest.approx(float(bound))


def test_the_hot_bounds_are_met_in_the_limit():
    """Opposite poles, targets to match: both ratios tend to 1 with τ, for a large ridge."""
    phi = torch.tensor([[[1.0], [1.0], [-1.0], [-1.0]]], dtype=torch.float64)
    prompt, kernel, ridge = Prompt(phi, phi, phi), Exponential(1e6), 400.0
    f = krr(prompt, ridge=ridge, kernel=kernel)
    reached = (f - hot_limit(prompt, ridge=ridge)).abs().max()
    assert 0.98 < float(reached / hot_bound(prompt, ridge=ridge, kernel=kernel).max()) <= 1
    misfit = (prompt.y - f).norm()
    assert float(hot_misfit_bound(prompt, ridge=ridge, kernel=kernel) / misfit) == pytest.approx(1)


def test_the_cold_limit_needs_one_norm():
    prompt = KernelDraw(kernel=Exponential(2.0), supports=5).draw(2, seed=0)
    with pytest.raises(Refusal, match="one norm"):
        cold_bound(prompt, ridge=1.0, kernel=Exponential(2.0))


def test_the_temperatures_are_where_the_bounds_say():
    k, ridge, share = 6, 0.8, 0.5
    hot = hot_temperature(k, 1.0, ridge=ridge, share=share)
    assert ridge / (ridge + k * (exp(1 / hot) - 1)) == pytest.approx(share)
    cold = cold_temperature(k, 0.4, share=0.1)
    near = exp(-0.4 / cold)
    assert k**0.5 * near / (1 - (k - 1) * near) == pytest.approx(0.1)


def test_a_model_refuses_what_is_beyond_its_domain():
    model = compile(Chebyshev(), features=2, steps=3, ridge=1.0, to=LinearAttention(4.0))
    one = torch.ones(2, dtype=torch.float64)
    inside = prompt_of_modes(torch.tensor([4.0, 1.0]).double(), one, one, 2, seed=0)
    beyond = prompt_of_modes(torch.tensor([4.1, 1.0]).double(), one, one, 2, seed=0)
    assert not knob_checks.refused(model, inside)
    assert knob_checks.refused(model, beyond)
    with pytest.raises(Refusal, match="raise the `temperature`"):
        data_checks.softmax_model(Exponential(0.02), 3)


def test_both_sides_of_a_statement_are_looked_at():
    measured = np.array([1.0])
    bad_upper = both_sides(measured, np.array(0.0), np.array(0.5), 0.0)
    bad_lower = both_sides(measured, np.array(2.0), np.array(np.inf), 0.0)
    assert bad_upper.max() == bad_lower.max() == 2
    assert both_sides(measured, np.array(0.0), np.array(np.inf), 0.0).size == 0


def scaled(factor):
    return lambda f: lambda *a, **k: factor * f(*a, **k)


def without_ridge(f):
    return lambda prompt, *, ridge, kernel: f(prompt, ridge=1e-6, kernel=kernel)


PLANTED = [
    ("knob-depth", knob_checks, "chebyshev_factor", lambda f: lambda c, t: f(2 * c, t)),
    ("knob-depth", knob_checks, "chebyshev_factor", lambda f: lambda c, t: f(c / 2, t)),
    ("knob-depth", knob_checks, "richardson_factor", lambda f: lambda c, t: f(c, 2 * t)),
    ("knob-depth", knob_checks, "chebyshev_steps", lambda f: lambda c, e: f(c, e) + 1),
    ("knob-depth", knob_checks, "chebyshev_steps", lambda f: lambda c, e: f(c, e) - 1),
    ("knob-depth", knob_checks, "richardson_steps", lambda f: lambda c, e: 2 * f(c, e)),
    ("knob-conditioning", knob_checks, "chebyshev_condition", scaled(1.1)),
    ("knob-conditioning", knob_checks, "richardson_condition", scaled(0.9)),
    ("knob-conditioning", knob_checks, "chebyshev_factor", scaled(0.5)),
    ("knob-conditioning", knob_checks, "chebyshev_residual", scaled(2)),
    ("knob-conditioning", knob_checks, "refused", lambda f: lambda *a: False),
    ("knob-ridge", knob_checks, "least_ridge", scaled(2)),
    ("knob-ridge", knob_checks, "least_ridge", lambda f: lambda c, hi, lo: f(c, hi)),
    ("knob-ridge", knob_checks, "misfit_bounds", lambda f: lambda r, *a: f(2 * r, *a)),
    ("knob-ridge", knob_checks, "misfit_bounds", lambda f: lambda r, *a: f(r / 2, *a)),
    ("knob-collinear", data_checks, "cg_energy_floor", scaled(1.01)),
    ("knob-collinear", data_checks, "cg_energy_floor", lambda f: lambda v, w, steps: f(v, w, steps=steps + 1)),
    ("knob-collinear", data_checks, "chebyshev_factor", scaled(0.5)),
    ("knob-temperature", data_checks, "hot_limit", scaled(1.5)),
    ("knob-temperature", data_checks, "hot_bound", scaled(0.4)),
    ("knob-temperature", data_checks, "hot_misfit_bound", scaled(1.1)),
    ("knob-temperature", data_checks, "cold_limit", scaled(0)),
    ("knob-temperature", data_checks, "cold_misfit_bounds", lambda f: lambda *a, **k: f(*a, **k)[::-1]),
    ("knob-temperature", data_checks, "cold_misfit_bounds", without_ridge),
    ("knob-temperature", data_checks, "cold_size_bound", scaled(0.5)),
    ("knob-temperature", data_checks, "hot_temperature", scaled(0.02)),
    ("knob-temperature", data_checks, "cold_temperature", scaled(2)),
    ("knob-temperature", data_checks, "LARGEST_NORMALISER", lambda f: {"float64": 1e13}),
    ("knob-width", data_checks, "rank_error", scaled(1.001)),
    ("knob-width", data_checks, "rank_error", lambda f: lambda p, rank, ridge: f(p, rank=rank - 1, ridge=ridge)),
    ("knob-width", data_checks, "resolvent_bound", scaled(0.5)),
    ("temperature", softmax_checks, "smoother_hot_bound", scaled(0.5)),
    ("temperature", softmax_checks, "smoother_cold_bound", scaled(0.5)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "module", "attribute", "wrong"), first_of_each(PLANTED))
def test_a_planted_error_is_found(monkeypatch, name, module, attribute, wrong):
    plant(monkeypatch, module, attribute, wrong)
    verdict = Verdict(THEOREMS[name], THEOREMS[name].measure(0, True))
    assert verdict.violated


def test_an_easier_prompt_than_the_worst_is_noticed(monkeypatch):
    """The lower side: were the hard prompts not hard, the prediction would not be reached."""
    monkeypatch.setattr(
        hard_prompts, "extrema", lambda lo, hi, steps: torch.linspace(hi, lo, steps + 1).double()
    )
    theorem = THEOREMS["knob-depth"]
    assert Verdict(theorem, theorem.measure(0, True)).violated


def test_a_ridge_dropped_from_the_solver_is_noticed(monkeypatch):
    right = knob_checks.built
    monkeypatch.setattr(
        knob_checks,
        "built",
        lambda name, p, t, ridge, lo, hi: right(name, p, t, 0.9 * ridge, lo, hi),
    )
    theorem = THEOREMS["knob-ridge"]
    assert Verdict(theorem, theorem.measure(0, True)).violated


@pytest.mark.parametrize("name", [name for name in THEOREMS if name.startswith("knob")])
def test_every_knob_has_a_prediction_and_its_failure_in_the_figure(name):
    outcome = THEOREMS[name].measure(1, True)
    assert Verdict(THEOREMS[name], outcome).holds
    assert any(line.bound and len(set(line.x)) > 1 for line in outcome.lines)
    assert any(line.bound and len(set(line.x)) == 1 for line in outcome.lines), "a vertical"
