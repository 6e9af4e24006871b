"""Softmax attention: smoothers and CG to round-off, fixed coefficients within their certificate."""

import numpy as np
import pytest
import torch
from promise import largest, over_allowed, own_round_off
from textbook import arrays, cg

from ridgeformer.compiler import compile
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.targets import Exact, Interpolated, SoftmaxAttention
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.models import trajectory
from ridgeformer.solvers import (
    EagerMachine,
    certified_interval,
    condition_number,
    krr,
    make_solver,
    solve,
)
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.transformer import Record

pytestmark = pytest.mark.usefixtures("unchecked")


def ball(rng, shape, radius, surface=False):
    """Points anywhere in a ball, or on its surface."""
    points = rng.standard_normal(shape)
    length = np.ones(shape[:-1]) if surface else rng.uniform(size=shape[:-1])
    return points * (radius * length / np.linalg.norm(points, axis=-1))[..., None]


def drawn(rng, batch, supports, features, radius, target=1.0, outputs=1, queries=4):
    points = ball(rng, (batch, supports + queries, features), radius)
    y = rng.uniform(-target, target, (batch, supports, outputs))
    return Prompt(*map(torch.from_numpy, (points[:, :supports], y, points[:, supports:])))


def kernel_matrix(kernel, a, b):
    """k(a_i, b_j) by the formula, in whatever precision the arrays have."""
    if isinstance(kernel, Gaussian):
        apart = a[:, :, None] - b[:, None]
        return np.exp(-(apart**2).sum(-1) / (2 * a.dtype.type(kernel.lengthscale) ** 2))
    if kernel.projection is not None:
        U = kernel.projection.numpy().astype(a.dtype)
        a, b = a @ U.T, b @ U.T
    return np.exp(a @ b.swapaxes(1, 2) / a.dtype.type(kernel.temperature))


# ---------------------------------------------------------------------- one head: a smoother


def smoothed(kernel, prompt):
    """Σ k_i y_i / Σ k_i with the largest logit subtracted, as softmax is written down."""
    phi, y, query = arrays(prompt, np.float64)
    if isinstance(kernel, Gaussian):
        logits = -((query[:, :, None] - phi[:, None]) ** 2).sum(-1) / 2 / kernel.lengthscale**2
    else:
        logits = query @ phi.swapaxes(1, 2) / kernel.temperature
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights @ y / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("products", [None, Exact()], ids=["relu", "reglu"])
@pytest.mark.parametrize("temperature", [1e-2, 0.3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("name", ["exponential", "gaussian"])
def test_one_head_is_nadaraya_watson(name, temperature, products):
    # At ℓ² = τ a Gaussian and an exponential are equally sharp.
    kernel = Exponential(temperature) if name == "exponential" else Gaussian(temperature**0.5)
    model = compile(
        make_solver("nadaraya-watson"), features=3, outputs=2, kernel=kernel,
        to=SoftmaxAttention(max_norm=2.0, products=products),
    )  # fmt: skip
    assert model.transformer.config.n_heads == 1
    if name == "exponential":
        assert model.transformer.config.n_layers == 1
    rng = np.random.default_rng(0)
    for supports in (1, 2, 40, 300):
        prompt = drawn(rng, 10, supports, 3, radius=2.0, outputs=2)
        prompt.phi_query[:, 0] = prompt.phi[:, 0]
        expected = smoothed(kernel, prompt)
        apart = np.abs(model.predict(prompt).numpy() - expected).max()
        assert apart < 1e-12 * np.abs(expected).max(), (supports, apart)


@pytest.mark.parametrize("products", [None, Exact()], ids=["relu", "reglu"])
def test_a_smoother_keeps_its_promise_at_the_largest_logits(products):
    kernel, rng = Gaussian(0.1), np.random.default_rng(0)
    model = compile(
        make_solver("nadaraya-watson"), features=3, kernel=kernel,
        to=SoftmaxAttention(max_norm=70.0, products=products),
    )  # fmt: skip
    for spread in (0.05, 0.3, 10.0):  # neighbours far out, whose distances are small differences
        centre = ball(rng, (20, 1, 3), 40.0, surface=True)
        points = centre + ball(rng, (20, 24, 3), spread)
        y = rng.standard_normal((20, 20, 1))
        prompt = Prompt(*map(torch.from_numpy, (points[:, :20].copy(), y, points[:, 20:].copy())))
        expected = smoothed(kernel, prompt)
        apart = np.abs(model.predict(prompt).numpy() - expected).max()
        assert apart < model.certificate.relative_error * np.abs(expected).max(), (spread, apart)


# ---------------------------------------------------------------------- exact products: CG


def textbook_cg(kernel, prompt, ridge, steps, precondition, dtype):
    """CG on P^{−1/2}(K + λI)P^{−1/2} with the explicit matrix, P = I or the row sums."""
    phi, y, query = arrays(prompt, dtype)
    gram = kernel_matrix(kernel, phi, phi)
    sums = 1 + gram.sum(-1, keepdims=True)
    root = np.sqrt(sums) if precondition == "row-sum" else np.ones_like(sums)
    system = (
        (gram + dtype(ridge) * np.eye(gram.shape[-1], dtype=dtype)) / root / root.swapaxes(1, 2)
    )
    return kernel_matrix(kernel, query, phi) @ (cg(lambda v: system @ v, y / root, steps) / root)


def projection(rng, d, p):
    return torch.from_numpy(rng.standard_normal((d, p)) / p**0.5)


ROUTE_A = {
    "exponential": Exponential(0.5),
    "sharp": Exponential(0.01),
    "projected": Exponential(0.5, projection(np.random.default_rng(5), 2, 4)),
    "gaussian": Gaussian(0.8),
}


@pytest.mark.parametrize("precondition", ["none", "row-sum"])
@pytest.mark.parametrize("name", ROUTE_A)
def test_cg_on_a_softmax_kernel_equals_the_textbook(name, precondition, record_property):
    kernel, steps, rng = ROUTE_A[name], 6, np.random.default_rng(1)
    # |Uφ|²/τ ≤ 4 throughout; λ keeps κ within 10³ for the most collinear prompts.
    stretch = 1.0
    if isinstance(kernel, Exponential):
        if kernel.projection is not None:
            stretch = float(torch.linalg.matrix_norm(kernel.projection, 2))
        radius = 2 * kernel.temperature**0.5 / stretch
    else:
        radius = 2.0
    ridge = 0.2 if isinstance(kernel, Exponential) else 0.05
    options = {"features": 4, "outputs": 2, "steps": steps, "ridge": ridge, "kernel": kernel}
    solver, to = make_solver("cg", precondition), SoftmaxAttention(radius, max_supports=64)
    model, single = (
        compile(solver, to=to, dtype=dtype, **options) for dtype in ("float64", "float32")
    )
    relative, factor = single.certificate.relative_error, single.certificate.round_off_factor
    units = (
        0
        if isinstance(kernel, Exponential)
        else (2 * 4 + 10) * 2 * (radius / kernel.lengthscale) ** 2
    )
    assert (relative, factor) == (1e-3, pytest.approx(max(100, units)))
    worst, conditions, in_single, lost = 0.0, [], 0.0, 0.0
    for supports in (1, 2, 5, 17, 40, 64):
        prompt = drawn(rng, 12, supports, 4, radius, outputs=2)
        conditions.append(float(condition_number(prompt, ridge=ridge, kernel=kernel).max()))
        assert conditions[-1] <= 1e3
        found = trajectory(model, prompt).predictions.numpy()
        eager = solve(solver, prompt, steps=steps, ridge=ridge, kernel=kernel).predictions.numpy()
        extended = textbook_cg(kernel, prompt, ridge, steps, precondition, np.longdouble)
        scale = np.abs(extended).max(axis=(0, 2, 3), keepdims=True)
        for reference in (eager, extended):
            worst = max(worst, float((np.abs(found - reference) / scale).max()))
        rough = prompt.to(torch.float32)
        found = trajectory(single, rough).predictions.numpy()
        assert np.isfinite(found).all()
        extended = textbook_cg(kernel, rough, ridge, steps, precondition, np.longdouble)
        own = own_round_off(
            lambda p: textbook_cg(kernel, p, ridge, steps, precondition, np.float32),
            rough,
            extended,
        )
        in_single = max(in_single, over_allowed(found, extended, own, relative, factor).max())
        lost = max(lost, float((largest(found - extended)[1:] / own[1:]).max()))
    record_property(
        "largest error",
        f"{worst:.1e}; float32 {in_single:.1e} of what is allowed, {lost:.1f} times the textbook's own "
        f"round-off; κ ≤ {max(conditions):.3g}",
    )
    assert max(conditions) > 200, "not only easy prompts"
    assert worst < 1e-8
    assert in_single < 1
    assert lost < 10, "the construction loses hardly a digit more than the textbook"


@pytest.mark.parametrize("precondition", ["none", "row-sum"])
def test_cg_stays_at_the_solution(precondition):
    """Long after convergence, when what it divides by is nothing but round-off."""
    kernel, ridge, steps, rng = Exponential(1.0), 0.5, 24, np.random.default_rng(2)
    model = compile(
        make_solver("cg", precondition), features=3, steps=steps, ridge=ridge, kernel=kernel,
        to=SoftmaxAttention(max_norm=2.0, max_supports=64),
    )  # fmt: skip
    for supports in (1, 2, 5):
        prompt = drawn(rng, 40, supports, 3, 2.0)
        prompt.phi[:10] = prompt.phi[:10, :1]  # equal points
        prompt.y[5:15] *= 1e-9
        prompt.y[15] = 0
        found = trajectory(model, prompt).predictions
        exact = krr(prompt, ridge=ridge, kernel=kernel)
        scale = exact.abs().amax((1, 2), keepdim=True).clamp(min=1e-300)
        assert torch.isfinite(found).all()
        assert float(((found[8:] - exact).abs() / scale).max()) < 1e-9
        assert float(found[:, 15].abs().max()) == 0


# ---------------------------------------------------------------------- interpolated products


def hard_prompts(rng, batch, supports, radius, target):
    """A fifth each: anywhere; nearly equal points; on the surface; all targets at the bound; both."""
    prompt = drawn(rng, batch, supports, 3, radius, target)
    phi, y, query = prompt.phi, prompt.y, prompt.phi_query
    part = torch.arange(batch) % 5
    phi[part == 1] = 0.99 * phi[part == 1, :1] + 1e-6 * phi[part == 1]
    surface = (part == 2) | (part == 4)
    for points in (phi, query):
        points[surface] *= radius / points[surface].norm(dim=-1, keepdim=True)
    at_bound = part >= 3
    y[at_bound] = target * torch.where(y[at_bound] < 0, -1.0, 1.0).double()
    y[part == 4] = target
    query[:, 0] = phi[:, 0]
    query[:, 1] = -phi[:, 0]
    return prompt


def test_an_mlp_too_narrow_for_its_ranges_promises_nothing():
    """What an iterate may stray by grows with the number of supports, and its range does not."""
    narrow, wide = (
        compile(
            make_solver("richardson", "row-sum"), features=2, steps=20, ridge=10.0, kernel=Gaussian(1.0),
            to=SoftmaxAttention(1.0, 64, Interpolated(1.0, width=width)),
        ).certificate
        for width in (32, 4096)
    )  # fmt: skip
    assert (narrow.absolute_error, narrow.relative_error) == (None, None)
    assert narrow.promise().startswith("none")
    assert wide.absolute_error is not None


@pytest.mark.parametrize(
    ("name", "tolerance"), [("gd", 1e-2), ("gd", 1e-3), ("gd", 1e-4), ("chebyshev", 1e-2)]
)
def test_the_certificate_of_interpolated_products_holds(name, tolerance, record_property):
    """500 prompts with |φ|²/τ ≤ 4 and k ≤ 64, every step."""
    kernel, radius, target, steps, ridge = Exponential(1.0), 2.0, 1.5, 6, 1.0
    model = compile(
        make_solver(name), features=3, steps=steps, ridge=ridge, kernel=kernel,
        to=SoftmaxAttention(radius, max_supports=64, products=Interpolated(target, tolerance)),
    )  # fmt: skip
    certified = model.certificate.absolute_error
    assert 0.1 * tolerance < certified <= tolerance
    interval = certified_interval("none", ridge, Domain(kernel, radius, 64).max_eigenvalue)
    rng, worst, count = np.random.default_rng(0), 0.0, 0
    for supports, batch in ((1, 100), (2, 100), (9, 150), (30, 100), (64, 50)):
        prompt = hard_prompts(rng, batch, supports, radius, target)
        found = trajectory(model, prompt)
        expected = solve(
            make_solver(name), prompt, steps=steps, ridge=ridge, kernel=kernel, interval=interval
        )
        worst = max(worst, float((found.predictions - expected.predictions).abs().max()))
        count += batch
    record_property("measured over certified", f"{worst / certified:.3g}")
    assert count == 500
    assert worst <= certified
    assert worst / certified > 1e-5, "the certificate is not idle"


# ---------------------------------------------------------------------- one block a step

GAUSSIAN = Gaussian(0.5)


def one_block(name, steps, interval=None, width=256):
    return compile(
        make_solver(name, "row-sum", interval), features=2, steps=steps, ridge=0.1, kernel=GAUSSIAN,
        to=SoftmaxAttention(1.5, max_supports=64, products=Interpolated(2.0, width=width)),
    )  # fmt: skip


def plane_prompts(batch=4, supports=64):
    """k = 64 points in a square, for ℓ = 0.5 and λ = 0.1: a wave with noise."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (batch, supports + 16, 2))
    y = np.sin(3 * points[:, :supports, :1]) + 0.3 * rng.standard_normal((batch, supports, 1))
    y = np.clip(y, -2, 2)
    return Prompt(*map(torch.from_numpy, (points[:, :supports], y, points[:, supports:])))


@pytest.mark.parametrize("name", ["richardson", "chebyshev"])
def test_a_step_is_one_block_with_one_head(name):
    sizes = {}
    for steps in (4, 9, 30):
        model = one_block(name, steps)
        config = model.transformer.config
        assert config.n_heads == 1
        assert config.d_mlp <= 256
        sizes[steps] = config.n_layers - steps
        blocks = [int(e["site"].split(".")[1]) for e in model.sites["states"]["alpha"]]
        assert set(np.diff(blocks[1:-1])) == {1}, "every step is the next block"
    assert len(set(sizes.values())) == 1, "what comes before and after does not depend on the steps"


@pytest.mark.parametrize(
    ("name", "widths"), [("richardson", (128, 256, 512)), ("chebyshev", (256, 512, 1024))]
)
def test_the_error_falls_a_block_as_it_does_a_step_until_its_floor(name, widths, record_property):
    prompt, steps = plane_prompts(), 60
    interval = EagerMachine(prompt, GAUSSIAN, 0.1).interval("row-sum")
    exact = krr(prompt, ridge=0.1, kernel=GAUSSIAN)

    def rmse(values):
        return (values - exact).square().mean((1, 2, 3)).sqrt()

    expected = solve(
        make_solver(name, "row-sum"), prompt, steps=steps, ridge=0.1, kernel=GAUSSIAN,
        interval=interval,
    ).predictions  # fmt: skip
    floors = []
    for width in widths:
        found = trajectory(one_block(name, steps, interval, width), prompt).predictions
        floor = float((found - expected).abs().max())
        above = rmse(expected) > 10 * floor
        assert above.sum() > 2
        torch.testing.assert_close(rmse(found)[above], rmse(expected)[above], rtol=0.1, atol=0)
        floors.append(floor)
    record_property(f"floors at widths {widths}", " ".join(f"{x:.1e}" for x in floors))
    assert floors[2] < 5e-3
    assert floors[1] < floors[0] / 2
    assert floors[2] < floors[1] / 2


@pytest.mark.parametrize(("name", "steps"), [("richardson", 300), ("chebyshev", 120)])
def test_round_off_at_the_aggregator_does_not_grow(name, steps):
    """It reads only itself, where the iteration would diverge: what it holds must be exactly 0."""
    prompt = plane_prompts(2)
    interval = EagerMachine(prompt, GAUSSIAN, 0.1).interval("row-sum")
    model = one_block(name, steps, interval)
    found = trajectory(model, prompt).predictions
    expected = solve(
        make_solver(name, "row-sum"), prompt, steps=steps, ridge=0.1, kernel=GAUSSIAN,
        interval=interval,
    ).predictions  # fmt: skip
    apart = (found - expected).abs().amax((1, 2, 3))
    assert float(apart.max()) < 0.03
    assert float(apart[-1]) < 2 * float(apart[: steps // 4].max())
    places = model.sites["states"]["alpha"]
    record = Record.of(place["site"] for place in places)
    with torch.inference_mode():
        model.transformer.residual_stream(prompt.tokens(), prompt.supports + 1, [record])
    for place in places:
        at_aggregator = record.values[place["site"]][:, prompt.supports, place["columns"]]
        assert float(at_aggregator.abs().max()) == 0, place


def test_chebyshev_takes_an_eighth_of_richardsons_blocks(record_property):
    """k = 64, d = 2, ℓ = 0.5, λ = 0.1, normal features: Richardson with the step 1 of row averages."""
    prompt = KernelDraw(kernel=GAUSSIAN, features=2, supports=64, noise=0.1**0.5).draw(32, seed=0)
    own = EagerMachine(prompt, GAUSSIAN, 0.1).interval("row-sum")
    exact = krr(prompt, ridge=0.1, kernel=GAUSSIAN)

    def needed(predictions):
        """Steps after which the RMSE stays within 1e-4."""
        rmse = (predictions - exact).square().mean((1, 2, 3)).sqrt()
        return int((rmse > 1e-4).nonzero().max()) + 1

    def blocks(name, interval, most):
        found = solve(
            make_solver(name, "row-sum"), prompt, steps=most, ridge=0.1, kernel=GAUSSIAN,
            interval=interval,
        )  # fmt: skip
        count = needed(found.predictions)
        model = compile(
            make_solver(name, "row-sum", interval), features=2, steps=count + 1, ridge=0.1,
            kernel=GAUSSIAN, to=SoftmaxAttention(max_norm=6.0, max_supports=64),
        )  # fmt: skip
        assert needed(trajectory(model, prompt).predictions) == count
        assert model.transformer.config.n_layers <= count + 4
        return count

    plain = blocks("richardson", (1 - 1e-9, 1 + 1e-9), 1500)
    tuned, chebyshev = blocks("richardson", own, 1500), blocks("chebyshev", own, 150)
    record_property("blocks", f"step 1: {plain}; tuned: {tuned}; Chebyshev: {chebyshev}")
    assert plain >= 8 * chebyshev
    assert tuned >= 5 * chebyshev, "even beside the best constant step"
