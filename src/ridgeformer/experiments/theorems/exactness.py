"""Finite termination of CG, on the numerics and on compiled models."""

from __future__ import annotations

from ridgeformer.compiler import LinearAttention
from ridgeformer.experiments.theorems.base import RATES, Axes, Measurement, Outcome, Theorem
from ridgeformer.experiments.theorems.cases import compiled
from ridgeformer.experiments.theorems.hard import NEARLY
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.theory import UNIT, cg_energy_floor, energy_error, spectral_energies

HALF_THE_DIGITS = UNIT["float64"] ** 0.5
"""√u. Exact arithmetic would leave 0; how much of u finite CG loses to κ is measured, not proved."""


class FiniteTermination(Theorem):
    name = "finite-termination"
    group = RATES
    title = "CG is exact after rank K + 1 steps, and not before"
    states = ("finite-termination",)
    measured = (
        "In float64 and for κ = 20 termination is taken as |f_t − f*| ≤ √u·max|f*| for t ≥ d, which is "
        "half of the digits; on the numerics and on compiled models."
    )
    see = "The error falls to round-off at step p + 1, for the numerics and for the compiled model."

    def measure(self, seed: int, fast: bool) -> Outcome:
        m, prompts = Measurement(), 8 if fast else 64
        for p in (2, 4, 6):
            solver, steps = ConjugateGradient(), p + 3
            task = PrescribedSpectrum(features=p, supports=16, condition=20)
            prompt = task.draw(prompts, seed)
            model = compiled(solver, prompt, LinearAttention(task.max_eigenvalue), steps=steps)
            exact = krr(prompt, ridge=1.0)
            spectrum = spectral_energies(prompt, ridge=1.0, rank=p)
            left = cg_energy_floor(*spectrum, steps=p)[:, None]
            for name, run in {
                "numerics": solve(solver, prompt, steps=steps, ridge=1.0, states=True),
                "compiled": trajectory(model, prompt, states=True),
            }.items():
                error = (run.predictions - exact).abs() / float(exact.abs().max())
                energy = energy_error(run.states["alpha"], prompt, ridge=1.0)[: p + 1]
                m.compare(error[p + 1 :], HALF_THE_DIGITS)
                part = f"{name}, rank {p}, α_p"
                m.compare(left, energy)  # α_t is not nearer
                m.compare(left, energy[p], part=f"{part}: at least", reach=NEARLY)
                m.compare(energy[p], left, part=f"{part}: at most", reach=NEARLY)
                m.draw_steps(f"{name}, rank {p}", error)
        settings = f"rank 2, 4, 6, {prompts} prompts of 16 supports"
        return m.outcome(settings, Axes("step", "|f_t − f*| / max|f*|"))
