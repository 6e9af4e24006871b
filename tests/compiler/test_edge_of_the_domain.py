"""Prompts in float32 that were rounded out of the domain are served, and the promise holds for them."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.domain import ROUNDED, largest_eigenvalue
from ridgeformer.kernels import Linear
from ridgeformer.models import trajectory
from ridgeformer.solvers import make_solver
from ridgeformer.types import Refusal

TOP, FEATURES, SUPPORTS = 99.0, 4, 16


def at_the_top(top, rank, dtype, seed=0, scale=1.0):
    """Prompts with λ_max(K) = top, of a rank; where it is 1, everything lies along the worst mode."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape):
        return torch.randn(16, *shape, generator=generator, dtype=torch.float64)

    left, right = (torch.linalg.qr(drawn(n, rank)).Q for n in (SUPPORTS, FEATURES))
    phi = left * (top * torch.linspace(1.0, 0.3, rank, dtype=torch.float64)).sqrt() @ right.mT
    y = phi @ drawn(FEATURES, 1) if rank == 1 else drawn(SUPPORTS, 1)
    return rf.Prompt(phi, scale * y, drawn(3, FEATURES)).to(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounded_prompts_are_served(dtype):
    to = rf.LinearAttention(TOP)
    model = rf.compile(make_solver("gd"), features=FEATURES, steps=2, ridge=1.0, to=to, dtype=dtype)
    over = 0
    for seed in range(4):
        prompt = at_the_top(TOP, 3, torch.float32, seed)
        over += int((largest_eigenvalue(prompt, Linear()) > TOP * (1 + 1e-9)).sum())
        model.check(prompt)
    assert over > 10
    with pytest.raises(Refusal, match="outside the domain"):
        model.check(at_the_top(TOP * (1 + 2e-5), 3, torch.float32))
    if dtype == "float64":
        with pytest.raises(Refusal, match="outside the domain"):
            model.check(at_the_top(TOP * (1 + 1e-7), 3, torch.float64))


def test_rounded_norms_are_served():
    to = rf.SoftmaxAttention(max_norm=1.7, max_supports=SUPPORTS)
    model = rf.compile(
        make_solver("cg"), features=FEATURES, steps=1, ridge=1.0, kernel=rf.Gaussian(1.0), to=to
    )
    prompt = at_the_top(TOP, 3, torch.float64)

    def long(factor):
        phi, query = (
            factor * 1.7 * x / x.norm(dim=-1, keepdim=True) for x in (prompt.phi, prompt.phi_query)
        )
        return rf.Prompt(phi, prompt.y, query).to(torch.float32)

    assert float(long(1.0).phi.double().norm(dim=-1).max()) > 1.7 * (1 + 1e-9)
    model.check(long(1.0))
    with pytest.raises(Refusal, match=r"\|φ\| reaches"):
        model.check(long(1 + 4 * ROUNDED))


METHODS = {
    "cg": (rf.ConjugateGradient(), None),
    "cg-predicted": (make_solver("cg-predicted"), None),
    "cg with jacobi": (rf.ConjugateGradient("jacobi"), rf.Exact()),
    "chebyshev": (rf.Chebyshev(), None),
    "chebyshev with jacobi": (rf.Chebyshev("jacobi"), rf.Exact()),
    "newton": (rf.IterativeNewton(), None),
}


@pytest.mark.parametrize("name", METHODS)
def test_the_promise_holds_beyond_the_bound(name, monkeypatch):
    """Tables and clamps have room above the range that follows from the bound, a hundred times the slack.

    Targets go through all sizes, since CG's unit is a power of two, and clamps matter at its ends.
    """
    solver, products = METHODS[name]
    to = rf.LinearAttention(TOP, products)
    model = rf.compile(solver, features=FEATURES, steps=3, ridge=1.0, to=to)
    monkeypatch.setattr(Certificate, "check", lambda *_: None)
    for scale in torch.logspace(0, 0.6, 12).tolist():
        for rank in (1, 2):
            prompt = at_the_top(TOP * (1 + 1e-3), rank, torch.float64, scale=scale)
            found = trajectory(model, prompt).predictions
            exact = rf.solve(solver, prompt, steps=3, ridge=1.0, max_eigenvalue=TOP).predictions
            off = (found - exact).abs().amax((2, 3)) / exact.abs().amax((2, 3)).clamp(min=1e-300)
            assert float(off[1:].max()) < model.certificate.relative_error


@pytest.mark.parametrize("products", [rf.Exact(), rf.Interpolated(max_target=2.0, tolerance=1e-3)])
@pytest.mark.parametrize("kernel", [rf.Gaussian(0.3), rf.Exponential(0.5)])
def test_the_promise_holds_beyond_a_norm(kernel, products, monkeypatch):
    """Where row sums are the largest, since all supports are the same, as far out as a norm may be."""
    solver = (
        rf.Richardson("row-sum")
        if isinstance(products, rf.Interpolated)
        else rf.ConjugateGradient()
    )
    longest, supports = 1.5, 8
    to = rf.SoftmaxAttention(longest, supports, products)
    model = rf.compile(solver, features=FEATURES, steps=4, ridge=1.0, kernel=kernel, to=to)
    prompt = at_the_top(TOP, 3, torch.float64)
    far = longest * (1 + ROUNDED)
    one, query = (
        far * x / x.norm(dim=-1, keepdim=True) for x in (prompt.phi[:, :1], prompt.phi_query)
    )
    y = prompt.y[:, :supports].clamp(-2, 2)
    prompt = rf.Prompt(one.expand(-1, supports, -1).clone(), y, torch.cat([one, query], 1))
    monkeypatch.setattr(Certificate, "check", lambda *_: None)
    found, exact = trajectory(model, prompt).predictions, rf.reference(model, prompt).predictions
    off, c = float((found - exact).abs().max()), model.certificate
    allowed = (
        c.absolute_error
        if c.relative_error is None
        else c.relative_error * float(exact.abs().max())
    )
    assert off < allowed


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
@pytest.mark.parametrize("space", ["dual", "feature"])
@pytest.mark.parametrize("name", ["gd", "chebyshev", "cg", "cg-predicted"])
def test_neurons_are_silent_at_the_longest_queries(name, space, ridge):
    """Queries as long and targets as large as the domain has them, all along the largest mode."""
    to = rf.LinearAttention(TOP, causal=space == "feature")
    solver = make_solver(name)
    model = rf.compile(solver, features=FEATURES, steps=3, ridge=ridge, to=to)
    c, drawn = model.certificate, at_the_top(0.99 * TOP, 3, torch.float64)
    left, _, right = torch.linalg.svd(drawn.phi, full_matrices=False)
    longest = c.max_target_norm if space == "dual" else c.max_target_norm / TOP**0.5
    query = 0.99 * c.max_query_norm * right[:, :1]
    prompt = rf.Prompt(
        drawn.phi, 0.99 * longest * left[..., :1], torch.cat([query, -query, query / 1e6], 1)
    )
    found, exact = trajectory(model, prompt).predictions, rf.reference(model, prompt).predictions
    off = (found - exact).abs().amax((1, 3)) / exact.abs().amax((1, 3)).clamp(min=1e-300)
    assert float(off[1:].max()) < c.relative_error, "each query beside predictions of its size"


def test_in_feature_space_the_right_hand_side_has_the_range():
    """‖y‖ in range is not enough if ‖Φᵀy‖ is not."""
    to = rf.LinearAttention(TOP, causal=True)
    model = rf.compile(rf.ConjugateGradient(), features=FEATURES, steps=2, ridge=1.0, to=to)
    prompt, c = at_the_top(0.9 * TOP, 2, torch.float64), model.certificate
    left = torch.linalg.svd(prompt.phi)[0]
    along, across = left[..., :1], left[..., -1:]  # the largest mode, and Φᵀ across = 0
    model.check(rf.Prompt(prompt.phi, along, prompt.phi_query))
    small = c.min_target_norm * (1e3 * across + 1e-4 * along)
    for y in (small, 1.2 * c.max_target_norm / TOP**0.5 * along):
        outside = rf.Prompt(prompt.phi, y, prompt.phi_query)
        with pytest.raises(Refusal, match="‖Φᵀy‖ is"):
            model.check(outside)
