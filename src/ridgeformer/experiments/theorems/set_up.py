"""What set-up and round-off cost in a plain ReLU MLP, part by part: norms, attention, D, and one mat-vec."""

from __future__ import annotations

import torch

from ridgeformer import theory
from ridgeformer.compiler import Interpolated, SoftmaxAttention
from ridgeformer.compiler.backends.multiply import Grid, SquareMultiplier
from ridgeformer.compiler.backends.set_up import SetUp
from ridgeformer.compiler.backends.softmax_attention import InterpolatedBackend
from ridgeformer.compiler.compile import backend_for
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.job import Job
from ridgeformer.experiments.theorems.base import Measurement
from ridgeformer.experiments.theorems.cases import ball, compiled
from ridgeformer.experiments.theorems.normaliser import held, reciprocal_errors
from ridgeformer.kernels import Exponential, Gaussian, Kernel
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import Richardson
from ridgeformer.tasks import Prompt

SOLVER = Richardson()
SOFT, COLD = Gaussian(0.25), Exponential(0.1)
RIDGE = {SOFT: 100.0, COLD: 1e5}
"""So large that iterates are small, and what a query reads is nearly all of the error."""

# In the bound all roundings of a sum of some hundred terms conspire, and all squares err to one side; in models
# they do neither. D is judged where it is large, since elsewhere a few units of its bound are left.
REACH = {"1/D, gaussian": 0.009, "1/D, exponential": 0.08, "D, exponential": 0.0017}


def set_up(m: Measurement, prompts: int, seed: int) -> None:
    for kernel in (SOFT, COLD):
        parts(m, kernel, prompts, seed)


def finest(kernel: Kernel, supports: int) -> SoftmaxAttention:
    """Products so fine that round-off and set-up are most of the certified error."""
    ridge, coarse = RIDGE[kernel], SoftmaxAttention(1.0, supports, Interpolated(1.0, tolerance=1.0))
    backend = backend_for(Job(SOLVER, kernel, 2, 1, 1, ridge, "float64"), coarse)
    assert isinstance(backend, InterpolatedBackend)
    tolerance = 1.5 * backend.budget.spent(Grid(128, 3))
    return SoftmaxAttention(1.0, supports, Interpolated(1.0, tolerance=tolerance))


def parts(m: Measurement, kernel: Kernel, prompts: int, seed: int) -> None:
    """1/D against ω, D against ρ, and predictions against a certificate that is little but round-off."""
    generator = torch.Generator().manual_seed(seed)
    supports, ridge = 3, RIDGE[kernel]
    phi, query = (ball(generator, 1.0, prompts, n, 2) for n in (supports, 8))
    # Half have all points together at the edge, where D and logits are largest.
    few = prompts // 2
    together = phi[:few, :1] / phi[:few, :1].norm(dim=-1, keepdim=True)
    phi[:few] = together * (1 - 1e-3 * torch.rand(few, supports, 1, generator=generator))
    query[:few] = together * (1 - 1e-3 * torch.rand(few, 8, 1, generator=generator))
    y = torch.randn(prompts, supports, 1, generator=generator, dtype=torch.float64).sign()
    prompt = Prompt(phi, y, query)
    made = SetUp(Domain(kernel, 1.0, supports, 1.0), 2, 1, SquareMultiplier().neurons)
    model = compiled(SOLVER, prompt, finest(kernel, supports), ridge=ridge, kernel=kernel)
    inside = held(model, prompt, torch.float64)
    exact = 1 / (1 + theory.cross(prompt, kernel).sum(-1))
    name = kernel.name
    lost = {
        "1/D": ((inside.sink / exact - 1).abs().numpy(), made.weights),
        "D": (reciprocal_errors(inside.sink, inside.normaliser), made.division),
    }
    for what, (error, most) in lost.items():
        part = f"{what}, {name}"
        m.compare(error, most, part=part if part in REACH else "", reach=REACH.get(part))
    apart = (trajectory(model, prompt).predictions - reference(model, prompt).predictions).abs()
    bound = model.certificate.absolute_error
    assert bound is not None
    m.compare(apart, bound, part=f"fine products, {name}", reach=0.13)
