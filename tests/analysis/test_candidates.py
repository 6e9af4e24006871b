"""Candidates run as solvers do, whichever way their operators are kept."""

import pytest
import torch

import ridgeformer as rf
from ridgeformer.analysis.candidates import Candidate, Setting
from ridgeformer.analysis.removal import without_product
from ridgeformer.kernels import Gaussian, Linear, Polynomial
from ridgeformer.solvers import EagerMachine, make_solver

TASK = rf.PrescribedSpectrum(features=4, supports=9, queries=3, condition=30.0, ridge=0.5)
PROMPT = TASK.draw(5, seed=0)
KERNELS = (Linear(), Polynomial(2), Gaussian(0.8))


def dense_states(solver, setting, steps):
    """The states of a solver whose operators are k×k matrices."""
    ends = (setting.lo, setting.hi)
    machine = EagerMachine(PROMPT, setting.kernel, setting.ridge, interval=ends)
    states = [solver.init(machine)]
    for t in range(1, steps + 1):
        states.append(solver.step(machine, states[-1], t))
    return machine, states


@pytest.mark.parametrize("name", ["newton", "gd++"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_operators_in_an_eigenbasis_are_the_matrices(name, kernel):
    solver = make_solver(name)
    setting = Setting.around(PROMPT, kernel, 0.5)
    found = Candidate(solver).signals(PROMPT, setting, 5)
    machine, states = dense_states(solver, setting, 5)
    predictions = torch.stack([solver.predict(machine, s) for s in states])
    torch.testing.assert_close(found["predictions"][1], predictions, rtol=1e-9, atol=1e-11)
    operator = {"newton": "inverse", "gd++": "features"}[name]
    mapped = kernel.dot_product(PROMPT.features)
    assert (f"images under {operator}" in found) == (mapped is not None)
    if mapped is not None:
        images = getattr(states[-1], operator) @ mapped(PROMPT.phi)
        told = found[f"images under {operator}"][1][-1]
        torch.testing.assert_close(told, images, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["newton", "gd++", "cg"])
def test_a_step_without_products_is_the_step_at_a_kernel_of_zeros(name):
    """Where every step goes without them, the candidate runs on λI, and its coefficients are those of y/λ."""
    setting = Setting(Linear(), 0.5, 0.5, 0.5 * (1 + 1e-9))
    found = without_product(Candidate(make_solver(name)), setting, PROMPT, 1, 1)
    torch.testing.assert_close(
        found, PROMPT.phi_query @ PROMPT.phi.mT @ PROMPT.y / 0.5, rtol=1e-6, atol=1e-9
    )
