"""Finite termination of CG, on the numerics and on compiled models."""

from __future__ import annotations

import numpy as np

from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.theory import UNIT, cg_energy_floor, energy_error, spectral_energies

HALF_THE_DIGITS = UNIT["float64"] ** 0.5
"""√u. Exact arithmetic would leave 0; how much of u finite CG loses to κ is measured, not proved."""


class FiniteTermination(Theorem):
    name = "finite-termination"
    title = "CG is exact after rank K + 1 steps, and not before"
    states = ("finite-termination",)
    measured = (
        "In float64 and for κ = 20 termination is taken as |f_t − f*| ≤ √u·max|f*| for t ≥ d, which is "
        "half of the digits; on the numerics and on compiled models."
    )
    see = "The error falls to round-off at step p + 1, for the numerics and for the compiled model."

    def measure(self, seed: int, fast: bool) -> Outcome:
        collected, lines = [], []
        prompts = 8 if fast else 64
        for p in (2, 4, 6):
            steps = p + 3
            task = PrescribedSpectrum(features=p, supports=16, condition=20)
            prompt = task.draw(prompts, seed)
            model = compile(
                ConjugateGradient(),
                features=p,
                steps=steps,
                ridge=1.0,
                to=LinearAttention(task.max_eigenvalue),
            )
            exact = krr(prompt, ridge=1.0)
            spectrum = spectral_energies(prompt, ridge=1.0, rank=p)
            left = cg_energy_floor(*spectrum, steps=p)[:, None]
            for name, run in (
                (
                    "numerics",
                    solve(ConjugateGradient(), prompt, steps=steps, ridge=1.0, states=True),
                ),
                ("compiled", trajectory(model, prompt, states=True)),
            ):
                error = (run.predictions - exact).abs().numpy() / float(exact.abs().max())
                energy = energy_error(run.states["alpha"], prompt, ridge=1.0)[: p + 1]
                collected.append(ratios(error[p + 1 :], np.array(HALF_THE_DIGITS), 0.0))
                collected.append(ratios(left.numpy(), energy.numpy(), 0.0))  # α_t is not nearer
                collected.append(ratios(energy[p].numpy(), left.numpy(), 0.0))  # α_p is as near
                worst = np.maximum(error.reshape(steps + 1, -1).max(1), 1e-17)
                lines.append(Line(f"{name}, rank {p}", list(range(steps + 1)), worst.tolist()))
        settings = f"rank 2, 4, 6, {prompts} prompts of 16 supports"
        axes = Axes("step", "|f_t − f*| / max|f*|")
        return Outcome(settings, np.concatenate(collected), lines, axes)
