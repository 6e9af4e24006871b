"""Compiled CG against textbook CG on random problems, to the digits that the textbook has."""

import numpy as np
import pytest
import torch
from promise import excess
from textbook import dual_predictions

from ridgeformer.compiler import compile
from ridgeformer.compiler.targets import LinearAttention
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, PredictedCG
from ridgeformer.tasks import PrescribedSpectrum

pytestmark = pytest.mark.usefixtures("unchecked")

SOLVERS = pytest.mark.parametrize("solver", [ConjugateGradient(), PredictedCG()])
COUNTS = pytest.mark.parametrize(
    ("solver", "count"),
    [
        (ConjugateGradient(), 1),
        pytest.param(PredictedCG(), 1, marks=pytest.mark.slow),
        pytest.param(ConjugateGradient(), 5, marks=pytest.mark.slow),
        pytest.param(PredictedCG(), 2, marks=pytest.mark.slow),
    ],
)
SHAPES = ("geometric", "uniform", "clustered")


def problems(count, batch, max_condition, seed):
    """`count` tasks of random size, spectrum and condition number, `batch` prompts of each."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        task = PrescribedSpectrum(
            features=int(rng.integers(1, 33)),
            supports=int(rng.integers(2, 257)),
            outputs=int(rng.choice([1, 3])),
            condition=float(10 ** rng.uniform(0.3, np.log10(max_condition))),
            shape=SHAPES[index % 3],
        )
        yield task, task.draw(batch, seed=index)


def compiled(solver, task, steps, max_condition, dtype="float64"):
    return compile(
        solver, features=task.features, outputs=task.outputs, steps=steps,
        ridge=1.0, dtype=dtype, to=LinearAttention(max_eigenvalue=max_condition - 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("solver", "seed", "count"),
    [
        (ConjugateGradient(), 0, 2),
        (PredictedCG(), 0, 2),
        *(
            pytest.param(solver, seed, 9, marks=pytest.mark.slow)
            for solver in (ConjugateGradient(), PredictedCG())
            for seed in (0, 1, 2, 3)
        ),
    ],
)
def test_every_step_equals_the_textbook(solver, seed, count):
    for task, prompt in problems(count, batch=8, max_condition=1e3, seed=seed):
        steps = min(task.features, 20)
        found = trajectory(compiled(solver, task, steps, 1e3), prompt).predictions.numpy()
        assert excess(found, dual_predictions, prompt, 1.0).max() < 1, task


def final_errors(solver, task, prompt, max_condition, dtype):
    """Errors of model and textbook after 5p steps against the closed form, and round-off itself.

    The closed form is refined in extended precision. Round-off is what the sum φ(x)ᵀΦᵀα of p + k
    terms loses with the exact α, √(p + k)·u of its terms (Higham & Mary 2019): no float answer is
    better than that except by luck.
    """
    steps = 5 * task.features
    numpy_dtype = np.float64 if dtype == "float64" else np.float32
    prompt = prompt.to(getattr(torch, dtype))
    model = compiled(solver, task, steps, max_condition, dtype)
    found = trajectory(model, prompt).predictions.numpy()
    assert np.isfinite(found).all()
    textbook = dual_predictions(prompt, 1.0, steps, numpy_dtype)[-1]
    phi, y, query = (
        x.double().numpy().astype(np.longdouble) for x in (prompt.phi, prompt.y, prompt.phi_query)
    )
    transposed = phi.swapaxes(1, 2)
    system = prompt.phi.double() @ prompt.phi.double().mT
    system += torch.eye(task.supports, dtype=torch.float64)
    alpha = np.zeros_like(y)
    for _ in range(4):
        residual = y - phi @ (transposed @ alpha) - alpha
        alpha = alpha + torch.linalg.solve(system, torch.from_numpy(residual.astype(float))).numpy()
    exact = query @ (transposed @ alpha)
    terms = np.abs(query) @ (np.abs(transposed) @ np.abs(alpha))
    errors = [np.abs(x - exact).max(axis=(1, 2)).astype(float) for x in (found[-1], textbook)]
    # Long after convergence, textbook CG divides by numbers that underflow, and may end as NaN.
    errors[1] = np.where(np.isfinite(errors[1]), errors[1], np.inf)
    units = max(1.0, np.sqrt(task.features + task.supports) / 2)
    round_off = np.finfo(numpy_dtype).eps * units * terms.max(axis=(1, 2)).astype(float)
    return *errors, round_off


def check_final_errors(solver, count, batch, max_condition, dtype, seed):
    found = [
        final_errors(solver, task, prompt, max_condition, dtype)
        for task, prompt in problems(count, batch, max_condition, seed)
    ]
    model, textbook, round_off = (np.concatenate(x) for x in zip(*found, strict=True))
    assert np.median(model / np.maximum(textbook, 1e-300)) < 1.1
    assert (model <= 3 * np.maximum(textbook, round_off)).all()
    return len(model)


@COUNTS
def test_final_error_after_running_on_past_convergence(solver, count):
    found = check_final_errors(solver, count, 12, max_condition=1e6, dtype="float64", seed=10)
    assert found == 12 * count


@COUNTS
def test_final_error_in_single_precision(solver, count):
    found = check_final_errors(solver, count, 12, max_condition=1e3, dtype="float32", seed=11)
    assert found == 12 * count


@pytest.mark.slow
@SOLVERS
@pytest.mark.parametrize(("dtype", "max_condition"), [("float64", 1e6), ("float32", 1e3)])
def test_final_error_on_five_hundred_problems(solver, dtype, max_condition):
    assert check_final_errors(solver, 50, 10, max_condition, dtype, seed=12) == 500
