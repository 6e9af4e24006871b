"""What neurons of plain ReLU MLPs read where they must not act, beside the number that silences them there."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.solvers import make_solver

FEATURES, SUPPORTS, SILENCES = 4, 16, -1e13
"""Weights on flags below the last are there to silence: others are ends of clamps, and roots of knots."""


def extreme_prompt(certificate, top, space, rank=3, seed=0):
    """Supports, targets and queries as long as the domain has them, along the same mode."""
    generator = torch.Generator().manual_seed(seed)
    left, right = (
        torch.linalg.qr(torch.randn(4, n, rank, generator=generator, dtype=torch.float64)).Q
        for n in (SUPPORTS, FEATURES)
    )
    values = 0.99 * top * torch.logspace(0, -1, rank, dtype=torch.float64)
    phi = (left * values.sqrt()) @ right.mT
    longest = certificate.max_target_norm
    y = left[..., :1] * (longest if space == "dual" else longest / (0.99 * top) ** 0.5)
    query = certificate.max_query_norm * right[..., 0][:, None]
    return rf.Prompt(phi, 0.99 * y, 0.99 * torch.cat([query, -query, query / 1e6], 1))


def largest_share(model, prompt, steps=None):
    """The largest that a silenced neuron reads, as a part of what silences it."""
    shares = []
    flags = range(FEATURES, FEATURES + 3)

    def look(mlp, inputs):
        (stream,) = inputs
        for flag in flags:
            silenced = mlp.W_in[flag] < SILENCES
            at = stream[stream[..., flag] == 1]
            if at.numel() and silenced.any():
                read = at @ mlp.W_in[:, silenced] - mlp.W_in[flag, silenced]
                shares.append(float((read / mlp.W_in[flag, silenced].abs()).max()))

    hooks = [block.mlp.register_forward_pre_hook(look) for block in model.transformer.blocks]
    try:
        model.predict(prompt, **({} if steps is None else {"steps": steps}))
    finally:
        for hook in hooks:
            hook.remove()
    assert shares
    return max(shares)


LOOPS = ["gd", "chebyshev", "heavy-ball", "cg"]


@pytest.mark.parametrize("space", ["dual", "feature"])
@pytest.mark.parametrize(
    ("name", "looped"),
    [(name, False) for name in (*LOOPS, "cg-predicted")] + [(name, True) for name in LOOPS],
)
def test_no_neuron_reads_half_of_what_silences_it(name, space, looped):
    """Small kernels have long steps, which multiply what a query holds."""
    worst = 0.0
    for top, ratio in ((99.0, 1e-3), (99.0, 1.0), (1e-2, 1e-3), (1e-6, 1.0)):
        to = rf.LinearAttention(top, causal=space == "feature")
        model = rf.compile(
            make_solver(name), features=FEATURES, steps=3, ridge=ratio * top, to=to, looped=looped
        )
        prompt = extreme_prompt(model.certificate, top, space)
        worst = max(worst, largest_share(model, prompt, 3 if looped else None))
    assert worst < 0.5


@pytest.mark.parametrize("name", ["cg", "cg-predicted"])
@pytest.mark.parametrize("space", ["dual", "feature"])
def test_past_convergence_neurons_stay_silent(name, space, monkeypatch):
    """Ranks that are solved after one to three steps, and many steps after that."""
    monkeypatch.setattr(Certificate, "check", lambda *_: None)
    to = rf.LinearAttention(99.0, causal=space == "feature")
    for ridge in (1e-2, 1.0):
        model = rf.compile(make_solver(name), features=FEATURES, steps=15, ridge=ridge, to=to)
        for rank in (1, 2, 3):
            prompt = extreme_prompt(model.certificate, 99.0, space, rank)
            scaled = [scale * prompt.y for scale in (1.0, 1e-6, 1e-20)]
            phi, queries = (torch.cat(3 * [one]) for one in (prompt.phi, prompt.phi_query))
            assert largest_share(model, rf.Prompt(phi, torch.cat(scaled), queries)) < 0.5
