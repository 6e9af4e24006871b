"""Products within a token, gated and interpolated, and how far their errors reach."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from ridgeformer.compiler import Interpolated, SoftmaxAttention, compile
from ridgeformer.compiler.backends.multiply import Grid, Multiplier, SquareMultiplier, fine_grid
from ridgeformer.compiler.backends.softmax import SoftmaxLowering
from ridgeformer.compiler.circuit import whole
from ridgeformer.compiler.passes import assemble, erase, place, reuse
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import EagerMachine, Richardson, certified_interval, make_solver
from ridgeformer.solvers.richardson import preconditioned
from ridgeformer.tasks import Prompt
from ridgeformer.theory import Layers, product_error, product_error_bound, sensitivity
from ridgeformer.transformer import Record
from ridgeformer.types import Refusal

A, B = (0.1, 1.7), (-2.0, 2.0)
"""The ranges of the two factors: one positive, as a normaliser is, and one of either sign."""


def product_model(multiplier, fine=False, a=A, b=B, terms=((1.0, "a", "b"),), linear=0.0):
    """A model that multiplies a token's feature a by its target b, as a function of arrays."""
    lowering = SoftmaxLowering(outputs=1, features=1, multiplier=multiplier)
    multiplier.know(lowering.phi, *a)
    multiplier.know(lowering.y, *b)
    forms = {"a": whole(lowering.phi), "b": whole(lowering.y)}
    products = [(c, forms[first], forms[second]) for c, first, second in terms]
    start = whole(lowering.y, linear) if linear else ()
    out = multiplier.store(lowering.s, 1, start, products, "a·b", fine=fine)
    lowering.read(1, None, out)
    circuit = erase(reuse(lowering.s.circuit(lowering.raw, lowering.y, silence=1.0)))
    placement = place(circuit)
    gated = not isinstance(multiplier, SquareMultiplier)
    model = assemble(
        circuit, placement, attention="softmax", causal=False, gated=gated, dtype="float64"
    )
    columns = list(placement.columns[out])
    last = f"blocks.{model.config.n_layers - 1}.resid_post"

    def multiply(x, y):
        features, targets = (torch.from_numpy(v.reshape(-1, 50, 1)) for v in (x, y))
        record = Record.of([last])
        with torch.no_grad():
            prompt = Prompt(features, targets, features[:, :1])
            model.residual_stream(prompt.tokens(), 51, [record])
        return record.values[last][:, :50, columns].numpy().reshape(-1)

    return multiply


def pairs(count=20_000, a=A, b=B, seed=0):
    """Random pairs, with the corners of the two ranges among them."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(*a, count), rng.uniform(*b, count)
    x[:4], y[:4] = [a[0], a[0], a[1], a[1]], [b[0], b[1], b[0], b[1]]
    return x, y


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_interpolated_products_err_as_promised(layers):
    sizes, errors = np.array({1: [4, 16, 64], 2: [4, 8, 16]}.get(layers, [2, 4, 8])), []
    x, y = pairs()
    for intervals in sizes:
        grid = Grid(int(intervals), layers)
        found = product_model(SquareMultiplier(grid))(x, y)
        errors.append(np.abs(found - x * y).max())
        promised = product_error_bound(A, B, grid.finest)
        assert errors[-1] <= product_error(A, B, Layers(grid.intervals, grid.layers))
        assert errors[-1] > 0.9 * promised, "the promise is not idle"
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope + 2 * layers) < 0.1 * layers, slope


def test_fine_products_err_by_round_off():
    x, y = pairs()
    multiplier = SquareMultiplier(Grid(2))
    found = product_model(multiplier, fine=True)(x, y)
    grid = fine_grid(multiplier.neurons // 2)
    bound = product_error(A, B, Layers(grid.intervals, grid.layers))
    assert 0.001 * bound < np.abs(found - x * y).max() < bound < 1e-11


def test_sums_of_products_and_a_linear_part():
    x, y = pairs()
    terms = ((2.0, "a", "b"), (-0.5, "b", "b"), (3.0, "a", "a"))
    for multiplier in (Multiplier(), SquareMultiplier()):
        found = product_model(multiplier, fine=True, terms=terms, linear=-4.0)(x, y)
        np.testing.assert_allclose(
            found, 2 * x * y - 0.5 * y * y + 3 * x * x - 4 * y, rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("layers", [1, 2])
def test_zero_times_anything_is_zero(layers):
    x, y = pairs(1000)
    for multiplier in (Multiplier(), SquareMultiplier(Grid(7, layers))):
        # Both squares are then squares of the same number, or of opposite ones.
        assert np.abs(product_model(multiplier)(x, 0 * y)).max() < 1e-14
        symmetric = product_model(multiplier, a=(-3.0, 3.0))
        assert np.abs(symmetric(0 * x, y)).max() < 1e-14


def test_gated_products_are_exact():
    x, y = pairs(a=(-1e3, 1e3), b=(-1e-6, 1e6))
    found = product_model(Multiplier())(x, y)
    np.testing.assert_array_equal(found, x * y)


# ---------------------------------------------------------------------- how far errors reach


class DisturbedMachine(EagerMachine):
    """Adds the s-th disturbance to the residual of step s."""

    def __init__(self, *arguments, disturbances, **options):
        super().__init__(*arguments, **options)
        self.disturbances, self.step = disturbances, 0

    def matvec(self, v):
        product = super().matvec(v)
        self.step += 1
        return product - self.disturbances[self.step - 1]


def predictions(solver, prompt, ridge, kernel, interval, disturbances):
    machine = DisturbedMachine(
        prompt, kernel, ridge, interval=interval, disturbances=disturbances
    )  # fmt: skip
    state, found = solver.init(machine), []
    for t in range(1, len(disturbances) + 1):
        state = solver.step(machine, state, t)
        found.append(machine.predict(state.alpha))
    return torch.stack(found)


def case(name, precondition, prompt, ridge, kernel, steps):
    """The solver, its interval for these prompts, the bound, and √P for disturbances."""
    solver = make_solver(name, precondition)
    most = float(kernel.diagonal(torch.cat([prompt.phi, prompt.phi_query], 1)).max())
    sums = 1 + kernel(prompt.phi, prompt.phi).sum(-1, keepdim=True)
    interval = certified_interval(
        precondition, ridge, float(torch.linalg.eigvalsh(kernel(prompt.phi, prompt.phi)).max()),
        (float(sums.min()), float(sums.max())),
    )  # fmt: skip
    spectrum = EagerMachine(prompt, kernel, ridge).interval(precondition)
    offset = ridge if precondition == "none" else 0.0
    amplified = sensitivity(solver, steps=steps, tuned=interval, spectrum=spectrum, offset=offset)
    bound = most**0.5 * amplified.prediction
    root = sums.sqrt() if precondition == "row-sum" else torch.ones_like(sums)
    return solver, interval, bound, root


CASES = [
    ("gd", "none"), ("heavy-ball", "none"), ("chebyshev", "none"),
    ("richardson", "row-sum"), ("chebyshev", "row-sum"),
]  # fmt: skip


@pytest.mark.parametrize("kernel", [Exponential(1.0), Gaussian(0.7)], ids=["exp", "gauss"])
@pytest.mark.parametrize(("name", "precondition"), CASES)
def test_random_errors_never_exceed_the_amplification(name, precondition, kernel):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    steps, worst = 12, 0.0
    for supports, ridge in ((3, 0.3), (12, 0.01), (30, 1.0)):
        phi, query, y = (
            0.7 * normal(20, supports, 2),
            0.7 * normal(20, 5, 2),
            normal(20, supports, 1),
        )
        query[:, 0] = phi[:, 0]
        prompt = Prompt(phi, y, query)
        solver, interval, bound, root = case(name, precondition, prompt, ridge, kernel, steps)
        clean = predictions(solver, prompt, ridge, kernel, interval, 0 * normal(steps, *y.shape))
        for signs_only in (True, False):
            noise = normal(steps, *y.shape)
            noise = noise.sign() if signs_only else noise
            noise = noise / noise.norm(dim=2, keepdim=True)  # ‖P^(−1/2)e‖ = 1
            seen = predictions(solver, prompt, ridge, kernel, interval, root * noise)
            worst = max(worst, float((seen - clean).abs().max()) / bound)
    assert 1e-3 < worst <= 1, worst


@pytest.mark.parametrize("steps", [1, 5, 25])
@pytest.mark.parametrize(("name", "precondition"), CASES)
def test_one_mode_comes_near_the_amplification(name, precondition, steps):
    """Equal supports leave one mode, at the top of the spectrum; errors of a sign each add up."""
    k, kernel, ridge = 16, Gaussian(1.0), 0.05
    phi = torch.zeros(1, k, 1, dtype=torch.float64)
    prompt = Prompt(phi, torch.zeros_like(phi), phi[:, :1])
    solver, interval, bound, root = case(name, precondition, prompt, ridge, kernel, steps)
    total = 0.0
    for impulse in range(steps):
        noise = torch.zeros(steps, 1, k, 1, dtype=torch.float64)
        noise[impulse] = root[0] / k**0.5
        total += float(predictions(solver, prompt, ridge, kernel, interval, noise)[-1].abs())
    assert 0.3 < total / bound <= 1, total / bound


def test_round_off_alone_may_be_more_than_a_tolerance():
    """With D up to 7·10⁴ the reciprocal by squares is far from exact, and a promise must know it."""
    rng = np.random.default_rng(0)
    towards = rng.normal(size=(40, 1, 2))
    towards /= np.linalg.norm(towards, axis=-1, keepdims=True)
    points = towards * (1 - 1e-3 * rng.uniform(size=(40, 7, 1)))
    prompt = Prompt(*map(torch.from_numpy, (points[:, :3], np.ones((40, 3, 1)), points[:, 3:])))

    def model_for(tolerance):
        products = Interpolated(1.0, tolerance=tolerance)
        return compile(
            make_solver("richardson"), features=2, steps=1, ridge=1e5, kernel=Exponential(0.1),
            to=SoftmaxAttention(1.0, 3, products),
        )  # fmt: skip

    model = model_for(3e-7)
    apart = trajectory(model, prompt).predictions - reference(model, prompt).predictions
    assert 1e-11 < float(apart.abs().max()) <= model.certificate.absolute_error
    with pytest.raises(Refusal, match="round-off alone may cost"):
        model_for(1e-11)


@dataclass(frozen=True)
class Enlarged(Richardson):
    """Richardson iteration that multiplies α by a million and divides again, where errors are not enlarged."""

    name = "enlarged"

    def step(self, m, s, t):
        large = m.bound(1e6 * s.alpha, lambda: 2e6 * m.solution_norm(), "a multiple of an iterate")
        residual = preconditioned(m.target() - 1e-6 * m.matvec(large), s.inverse)
        alpha = s.alpha + self.step_size(m, t) * residual
        return s._replace(alpha=m.bound(alpha, lambda: 2 * m.solution_norm(), "as in Richardson"))


@pytest.mark.parametrize("digits", [False, True])
def test_a_step_of_ones_own_is_promised_nothing(digits):
    """The response to an error of its product is a millionth of that to one of its residual."""
    to = SoftmaxAttention(1.0, 6, Interpolated(1.0, tolerance=1e-2, digits=digits))
    made = {"features": 2, "steps": 4, "ridge": 1.0, "kernel": Gaussian(1.0), "to": to}
    assert compile(Richardson(precondition="row-sum"), **made).certificate.absolute_error <= 1e-2
    with pytest.raises(Refusal, match=r"is proved for the steps of `gd`.* and enlarged has others"):
        compile(Enlarged(precondition="row-sum"), **made)
