"""Equalities up to round-off: CG terminates, and compiled models are their solvers."""

from __future__ import annotations

import numpy as np

from ridgeformer.compiler import compile
from ridgeformer.compiler.catalogue import FEATURES, MAX_NORM, MAX_SUPPORTS, MAX_TARGET, Entry
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome, Theorem, ratios
from ridgeformer.models import reference, trajectory
from ridgeformer.solvers import ConjugateGradient, krr, solve
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.theory import UNIT, cg_energy_floor, energy_error, spectral_energies

HALF_THE_DIGITS = UNIT["float64"] ** 0.5
"""√u. Exact arithmetic would leave 0; how much of u finite CG loses to κ is measured, not proved."""


class FiniteTermination(Theorem):
    name = "finite-termination"
    title = "CG is exact after rank K + 1 steps, and not before"
    statement = (
        "α_d = α*, d = rank K + 1 the number of distinct eigenvalues σ_i of A, and "
        "‖α_{d−1} − α*‖_A = (Σ ℓ_i²σ_i/y_i²)<sup>−1/2</sup>, ℓ_i = Π<sub>j≠i</sub> σ_j/(σ_j − σ_i), y_i the length of y's "
        "part in each eigenspace: no earlier iterate is nearer. "
        "In float64 for κ = 20 the first is taken as |f_t − f*| ≤ √u·max|f*|, t ≥ d: half of the digits."
    )
    see = "The error falls to round-off at step p + 1, for the numerics and for the compiled model."

    def measure(self, seed: int, fast: bool) -> Outcome:
        found, lines = [], []
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
                max_eigenvalue=task.max_eigenvalue,
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
                found.append(ratios(error[p + 1 :], np.array(HALF_THE_DIGITS), 0.0))
                found.append(ratios(left.numpy(), energy.numpy(), 0.0))  # α_t is not nearer
                found.append(ratios(energy[p].numpy(), left.numpy(), 0.0))  # α_p is as near
                worst = np.maximum(error.reshape(steps + 1, -1).max(1), 1e-17)
                lines.append(Line(f"{name}, rank {p}", list(range(steps + 1)), worst.tolist()))
        settings = f"rank 2, 4, 6, {prompts} prompts of 16 supports"
        axes = Axes("step", "|f_t − f*| / max|f*|")
        return Outcome(settings, np.concatenate(found), lines, axes)


MODELS = (
    Entry("cg", "none", "linear", "linear", "relu", False),
    Entry("cg", "jacobi", "linear", "linear", "reglu", False),
    Entry("chebyshev", "none", "linear", "linear", "relu", False),
    Entry("heavy-ball", "none", "linear", "linear", "relu", False),
    Entry("cg", "none", "polynomial, degree 2", "linear", "reglu", False),
    Entry("cg", "none", "exponential", "softmax", "reglu", False),
    Entry("cg", "row-sum", "gaussian", "softmax", "reglu", False),
    Entry("chebyshev", "row-sum", "gaussian", "softmax", "relu", False),
    Entry("gd", "none", "exponential", "softmax", "relu", False),
    Entry("nadaraya-watson", "none", "exponential", "softmax", "relu", False),
)


class CompiledIsSolver(Theorem):
    name = "compiled-is-solver"
    title = "A compiled transformer is its solver, at every step"
    statement = (
        "Inside its domain the predictions that a compiled model holds after each step differ from the "
        "solver's by at most what its certificate says: 1e-9 of the largest prediction where products "
        "are exact, the certified tolerance where they are interpolated."
    )
    see = "Largest difference per step; interpolated products settle far below their certificate."
    attained = 0.0

    def measure(self, seed: int, fast: bool) -> Outcome:
        steps, prompts = 4, 8 if fast else 64
        task = PrescribedSpectrum(features=FEATURES, supports=MAX_SUPPORTS, condition=10)
        prompt = task.draw(prompts, seed).inside(MAX_NORM, MAX_TARGET)
        found, lines = [], []
        for entry in MODELS:
            model = entry.compile(steps=steps)
            certificate = model.certificate
            solution = reference(model, prompt)
            ours = trajectory(model, prompt)
            apart = (ours.predictions - solution.predictions).abs().numpy()
            largest = float(solution.predictions.abs().max())
            promise = certificate.absolute_error
            if promise is None:
                assert certificate.relative_error is not None
                promise = certificate.relative_error * largest
            found.append(ratios(apart, np.array(promise), 0.0))
            worst = np.maximum(apart.reshape(len(apart), -1).max(1), 1e-17)
            lines.append(
                Line(entry.label.replace(" none", ""), list(range(len(worst))), worst.tolist())
            )
        settings = (
            f"{len(MODELS)} models, {prompts} prompts of {MAX_SUPPORTS} supports, {steps} steps"
        )
        axes = Axes("step", "|model − solver|")
        return Outcome(settings, np.concatenate(found), lines, axes)
