"""A name claims its theorem: each solver against the equality or the peer that defines it."""

import numpy as np
import pytest
import torch
from numpy.polynomial.chebyshev import Chebyshev as ChebyshevSeries
from scipy.sparse.linalg import LinearOperator
from scipy.sparse.linalg import cg as scipy_cg
from sklearn.kernel_ridge import KernelRidge

from ridgeformer.kernels import KERNELS, Exponential, Gaussian, Linear
from ridgeformer.solvers import (
    SOLVERS,
    BlockCG,
    Chebyshev,
    ConjugateGradient,
    EagerMachine,
    GradientDescent,
    GradientDescentPlus,
    HeavyBall,
    IterativeNewton,
    NadarayaWatson,
    Richardson,
    condition_number,
    effective_dimension,
    kernel_eigenvalues,
    krr,
    krr_coefficients,
    make_solver,
    solve,
)
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt
from ridgeformer.types import Refusal

RIDGE = 0.7


def modes(eigenvalues, ridge):
    """A prompt whose A is diag(eigenvalues): every mode of the iteration is one support."""
    phi = torch.diag(torch.as_tensor(eigenvalues, dtype=torch.float64) - ridge).sqrt()[None]
    return Prompt(phi, torch.ones(1, len(eigenvalues), 1, dtype=torch.float64), phi[:, :1])


def residuals(solver, eigenvalues, steps, interval):
    """The residual y − Aα of every mode after each step; all start at 1."""
    prompt = modes(eigenvalues, ridge=1e-3)
    kept = solve(solver, prompt, steps=steps, ridge=1e-3, interval=interval, states=True)
    alpha = kept.states["alpha"][:, 0, :, 0].numpy()
    return 1 - alpha * np.asarray(eigenvalues)


@pytest.mark.parametrize("kernel", list(KERNELS.values()))
def test_oracle_is_scikit_learns_kernel_ridge(kernel):
    prompt = KernelDraw(supports=12, outputs=2).draw(3, seed=0)
    found = krr(prompt, ridge=RIDGE, kernel=kernel())
    for b in range(3):
        peer = KernelRidge(
            alpha=RIDGE, kernel=lambda x, z: float(kernel()(t(x)[None, None], t(z)[None, None]))
        )
        peer.fit(prompt.phi[b].numpy(), prompt.y[b].numpy())
        expected = peer.predict(prompt.phi_query[b].numpy())
        np.testing.assert_allclose(found[b].numpy(), expected, rtol=1e-9, atol=1e-12)


def t(x):
    return torch.as_tensor(np.asarray(x))


def test_spectrum_condition_and_effective_dimension():
    task = PrescribedSpectrum(features=5, supports=9, condition=50, ridge=2.0)
    prompt = task.draw(4, seed=1)
    np.testing.assert_allclose(condition_number(prompt, ridge=2.0).numpy(), 50, rtol=1e-9)
    gram = Linear()(prompt.phi, prompt.phi)
    expected = torch.linalg.eigvalsh(gram)
    torch.testing.assert_close(kernel_eigenvalues(prompt), expected.clamp(min=0), atol=1e-9, rtol=0)
    inverse = torch.linalg.inv(gram + 2.0 * torch.eye(9, dtype=torch.float64))
    trace = (gram @ inverse).diagonal(dim1=-2, dim2=-1).sum(-1)
    torch.testing.assert_close(effective_dimension(prompt, ridge=2.0), trace)


def test_wide_prompts_have_their_condition_number_too():
    prompt = PrescribedSpectrum(features=9, supports=5, condition=50, ridge=2.0).draw(4, seed=1)
    np.testing.assert_allclose(condition_number(prompt, ridge=2.0).numpy(), 50, rtol=1e-9)


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.7), Exponential(2.0)])
def test_cg_is_scipys_iterate_by_iterate(kernel):
    prompt = KernelDraw(supports=14, features=3).draw(1, seed=2)
    system = kernel(prompt.phi, prompt.phi)[0].numpy() + RIDGE * np.eye(14)
    iterates = [np.zeros(14)]
    scipy_cg(
        LinearOperator((14, 14), matvec=lambda v: system @ v, dtype=float),
        prompt.y[0, :, 0].numpy(),
        rtol=0,
        maxiter=8,
        callback=lambda x: iterates.append(x.copy()),
    )
    ours = solve(ConjugateGradient(), prompt, steps=8, ridge=RIDGE, kernel=kernel, states=True)
    found = ours.states["alpha"][:, 0, :, 0].numpy()
    np.testing.assert_allclose(found, np.array(iterates), rtol=1e-7, atol=1e-12)


def test_cg_terminates_after_as_many_steps_as_there_are_eigenvalues():
    eigenvalues = np.repeat([1.0, 3.0, 10.0], 4)
    residual = residuals(ConjugateGradient(), eigenvalues, 3, None)
    assert np.abs(residual[2]).max() > 1e-3
    assert np.abs(residual[3]).max() < 1e-12


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 15])
@pytest.mark.parametrize("condition", [4.0, 100.0])
def test_chebyshevs_worst_mode_is_one_over_the_chebyshev_polynomial(steps, condition):
    eigenvalues = np.linspace(1, condition, 2001)
    worst = np.abs(residuals(Chebyshev(), eigenvalues, steps, (1.0, condition)))[-1].max()
    exact = 1 / ChebyshevSeries([0] * steps + [1])((condition + 1) / (condition - 1))
    round_off = 1e-15 * condition  # of 1 − αλ
    assert abs(worst - exact) < 1e-10 * exact + round_off


def test_richardsons_worst_mode_is_the_power_of_its_rate():
    residual = residuals(GradientDescent(), [1.0, 5.0, 20.0], 6, (1.0, 20.0))
    np.testing.assert_allclose(np.abs(residual[:, [0, 2]]).T, [(19 / 21) ** np.arange(7)] * 2)


def test_heavy_ball_has_its_asymptotic_rate():
    condition = 1e4
    rate = (np.sqrt(condition) - 1) / (np.sqrt(condition) + 1)
    worst = np.abs(residuals(HeavyBall(), np.linspace(1, condition, 501), 1200, (1.0, condition)))
    # The error is (1 + O(t))·rate^t, so the t-th root tends to the rate from above.
    observed = (worst[1200].max() / worst[600].max()) ** (1 / 600)
    assert rate < observed < rate * 1.002
    # A method with another momentum has another rate: gradient descent does not pass.
    slow = np.abs(residuals(GradientDescent(), [1.0, condition], 1200, (1.0, condition)))
    assert (slow[1200].max() / slow[600].max()) ** (1 / 600) > rate * 1.01


def inverses(solver, steps):
    """I − AX after each step of Newton's iteration."""
    prompt = PrescribedSpectrum(features=4, supports=6, condition=20).draw(2, seed=0)
    machine = EagerMachine(prompt, Linear(), 1.0)
    state, A = solver.init(machine), machine.dense_system()
    for step in range(1, steps + 1):
        state = solver.step(machine, state, step)
        yield torch.eye(6, dtype=torch.float64) - A @ state.inverse


def test_newtons_residual_squares():
    *earlier, last = inverses(IterativeNewton(plain=True), 5)
    for before, after in zip(earlier, [*earlier[1:], last], strict=True):
        torch.testing.assert_close(after, before @ before, atol=1e-12, rtol=1e-9)
    assert (last.abs() > 1e-12).any()  # still far enough from round-off to mean something


def test_newtons_residual_doubles_the_degree_of_chebyshevs():
    """T_2n = 2T_n² − 1, with the scale that makes it 1 at 0."""
    *earlier, last = inverses(IterativeNewton(), 4)
    rho = 19 / 21
    for step, (before, after) in enumerate(zip(earlier, [*earlier[1:], last], strict=True)):
        here = 1 / ChebyshevSeries.basis(2**step)(1 / rho)
        eye = torch.eye(6, dtype=torch.float64)
        expected = (2 * before @ before - here**2 * eye) / (2 - here**2)
        torch.testing.assert_close(after, expected, atol=1e-12, rtol=1e-9)
    assert (last.abs() > 1e-12).any()


@pytest.mark.parametrize(
    ("plain", "peer"), [(True, GradientDescent()), (False, Chebyshev())], ids=["plain", "scaled"]
)
def test_newtons_solution_is_that_of_a_doubled_number_of_steps(plain, peer):
    """The residual of step t is the square of the peer's after 2^(t−1) steps."""
    values, interval = np.geomspace(1, 300, 40), (1.0, 300.0)
    found = residuals(IterativeNewton(plain=plain), values, 6, interval)
    slow = residuals(peer, values, 32, interval)
    for step in range(1, 7):
        expected = slow[2 ** (step - 1)] ** 2
        np.testing.assert_allclose(found[step], expected, atol=1e-11)
    assert found[6].max() > 1e-6  # not yet solved


def test_gd_plus_plus_knows_the_spectrum_of_its_features():
    """z ← z(1 − γz)² maps the old interval onto the new one, and no γ gives a smaller ratio."""
    lo, hi = 1.0, 500.0
    solver, machine = GradientDescentPlus(), EagerMachine(modes([lo, hi], 1e-3), Linear(), 1e-3)
    state = solver.init(machine)._replace(interval=(lo, hi))
    for step in range(1, 8):
        new = solver.step(machine, state, step).interval
        z = np.linspace(*state.interval, 200001)
        total = sum(state.interval) + np.sqrt(np.prod(state.interval))
        image = z * (1 - z / total) ** 2
        np.testing.assert_allclose([image.min(), image.max()], new, rtol=1e-8)
        ratios = [np.ptp(np.log(z * (1 - g * z / total) ** 2)) for g in (0.97, 1.0, 1.03)]
        assert ratios[1] < min(ratios[0], ratios[2]) or ratios[1] < 1e-8
        state = state._replace(interval=new)
    assert new[1] / new[0] < 1 + 1e-9


def test_gd_plus_plus_is_gradient_descent_on_its_features():
    """The residual of step t is Π(1 − η_s z_s), z the eigenvalue on the features of step s."""
    values = np.geomspace(1, 300, 40)
    found = residuals(GradientDescentPlus(), values, 6, (1.0, 300.0))
    z, (lo, hi), residual = values.copy(), (1.0, 300.0), np.ones(40)
    for step in range(1, 7):
        residual = residual * (1 - 2 * z / (lo + hi))
        np.testing.assert_allclose(found[step], residual, atol=1e-10)
        z = z * (1 - z / (lo + np.sqrt(lo * hi) + hi)) ** 2
        lo, hi = z.min(), 4 / 27 * (lo + np.sqrt(lo * hi) + hi)
    assert np.abs(residual).max() > 1e-9


def test_block_cg_solves_and_is_cg_for_one_output():
    task = PrescribedSpectrum(features=6, supports=10, condition=30)
    prompt = task.draw(3, seed=0)
    block = solve(BlockCG(), prompt, steps=4, ridge=1.0)
    single = solve(ConjugateGradient(), prompt, steps=4, ridge=1.0)
    torch.testing.assert_close(block.predictions, single.predictions, rtol=1e-8, atol=1e-10)
    several = PrescribedSpectrum(features=6, supports=10, condition=30, outputs=3).draw(3, seed=0)
    # Seven directions span everything: six features and the null space, three directions a step.
    found = solve(BlockCG(), several, steps=3, ridge=1.0)
    torch.testing.assert_close(found.final, krr(several, ridge=1.0), rtol=1e-8, atol=1e-9)
    slower = solve(ConjugateGradient(), several, steps=3, ridge=1.0)
    assert float(slower.distance(krr(several, ridge=1.0))[-1].max()) > 1e-3


def test_nadaraya_watson_is_the_normalised_average():
    prompt = KernelDraw(supports=7, outputs=2).draw(2, seed=0)
    kernel = Gaussian(0.8)
    weights = kernel(prompt.phi_query, prompt.phi)
    expected = torch.einsum("bqk,bkr->bqr", weights / weights.sum(-1, keepdim=True), prompt.y)
    found = solve(NadarayaWatson(), prompt, steps=2, ridge=1.0, kernel=kernel)
    torch.testing.assert_close(found.final, expected)
    assert float(found.distance(krr(prompt, ridge=0.1, kernel=kernel))[-1].max()) > 1e-2


@pytest.mark.parametrize("kind", ["jacobi", "row-sum"])
def test_preconditioned_richardson_is_the_dense_iteration(kind):
    prompt = KernelDraw(supports=9).draw(2, seed=3)
    kernel = Gaussian(0.6)
    A = kernel(prompt.phi, prompt.phi) + RIDGE * torch.eye(9, dtype=torch.float64)
    P = A.diagonal(dim1=-2, dim2=-1) if kind == "jacobi" else 1 + A.sum(-1) - RIDGE
    values = torch.linalg.eigvals(A / P[..., None]).real
    eta = 2 / (values.min() + values.max())
    alpha = torch.zeros_like(prompt.y)
    for _ in range(5):
        alpha = alpha + eta * (prompt.y - A @ alpha) / P[..., None]
    found = solve(Richardson(kind), prompt, steps=5, ridge=RIDGE, kernel=kernel, states=True)
    torch.testing.assert_close(found.states["alpha"][-1], alpha, rtol=1e-10, atol=1e-12)


def test_jacobi_pcg_is_cg_on_the_symmetrically_scaled_system():
    prompt = KernelDraw(supports=10, features=4, kernel=Linear()).draw(3, seed=4)
    d = (Linear().diagonal(prompt.phi) + RIDGE).rsqrt()
    A = Linear()(prompt.phi, prompt.phi) + RIDGE * torch.eye(10, dtype=torch.float64)
    # D^(−1/2) A D^(−1/2) β = D^(−1/2) y with α = D^(−1/2) β, by the textbook in NumPy.
    from textbook import cg

    scaled = (d * A * d.mT).numpy()
    beta = cg(lambda v: scaled @ v, (d * prompt.y).numpy(), 5)
    found = solve(ConjugateGradient("jacobi"), prompt, steps=5, ridge=RIDGE, states=True)
    expected = d.numpy() * beta
    np.testing.assert_allclose(found.states["alpha"].numpy(), expected, rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize("name", [n for n in SOLVERS if n != "nadaraya-watson"])
def test_every_solver_converges_to_the_oracle(name):
    prompt = PrescribedSpectrum(features=4, supports=8, condition=10, outputs=2).draw(2, seed=5)
    found = solve(make_solver(name), prompt, steps=200, ridge=1.0)
    torch.testing.assert_close(found.final, krr(prompt, ridge=1.0), rtol=1e-9, atol=1e-9)


def test_cg_stays_at_the_solution_ten_times_longer_than_needed():
    prompt = PrescribedSpectrum(features=6, supports=20, condition=1e3).draw(8, seed=0)
    found = solve(ConjugateGradient(), prompt, steps=100, ridge=1.0, states=True)
    assert torch.isfinite(found.predictions).all()
    torch.testing.assert_close(found.states["alpha"][-1], krr_coefficients(prompt, ridge=1.0))


def test_zero_targets_give_exactly_zero():
    prompt = PrescribedSpectrum(supports=5).draw(2, seed=0)
    zero = Prompt(prompt.phi, torch.zeros_like(prompt.y), prompt.phi_query)
    assert solve(ConjugateGradient(), zero, steps=5, ridge=1.0).predictions.abs().max() == 0


@pytest.mark.parametrize("ridge", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bad_ridge_is_refused(ridge):
    prompt = PrescribedSpectrum().draw(1, seed=0)
    for call in (
        lambda: krr(prompt, ridge=ridge),
        lambda: solve(GradientDescent(), prompt, steps=1, ridge=ridge),
    ):
        with pytest.raises(Refusal, match="ridge must be positive"):
            call()


@pytest.mark.parametrize(
    ("name", "precondition", "message"),
    [
        ("cgg", "none", "did you mean cg"),
        ("zzzzzz", "none", "choose from"),
        ("gd", "jacobi", "richardson, chebyshev, cg do"),
        ("cg", "diagonal", "choose from none, jacobi"),
    ],
)
def test_unknown_requests_name_the_nearest(name, precondition, message):
    with pytest.raises(Refusal, match=message):
        make_solver(name, precondition)


def test_row_sums_need_a_positive_kernel():
    prompt = PrescribedSpectrum(supports=6).draw(8, seed=0)
    with pytest.raises(Refusal, match="positive row sums"):
        solve(Richardson("row-sum"), prompt, steps=1, ridge=1.0)
