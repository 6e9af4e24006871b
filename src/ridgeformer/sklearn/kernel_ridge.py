"""Kernel ridge regression by a transformer into whose weights a solver is compiled."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.domain import SLACK, largest_eigenvalue
from ridgeformer.kernels import Kernel
from ridgeformer.models.compiled import predicted_with_alpha
from ridgeformer.sklearn.compiled import Compiled
from ridgeformer.sklearn.geometry import Geometry, chosen_kernel
from ridgeformer.sklearn.passes import passes, predictions
from ridgeformer.sklearn.regressor import ModelRegressor
from ridgeformer.sklearn.steps import Progress, adapts
from ridgeformer.solvers import EagerMachine, Solver, make_solver
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal, counted

SMALLEST, LARGEST = 1e-290, 1e290
"""Between these, units of y change no bit of a prediction: queries are so short that none is 10¹⁸ times as large as y."""


class TransformerKernelRidge(ModelRegressor):
    """Kernel ridge regression whose predictions are a transformer's.

    `fit` chooses the domain and the number of steps from the data and compiles the solver to weights.
    `predict` gives the transformer the training pairs as supports and the rows of X as queries.
    Predictions are those of `sklearn.kernel_ridge.KernelRidge` with the same alpha, kernel, gamma,
    degree and coef0, to within `tolerance`; like there, there is no intercept.

    alpha      λ, one positive number for all outputs
    kernel     "linear", "polynomial", "rbf" or "exponential", exp(γ⟨x, x'⟩); "poly" and "gaussian" are
               other names; or a `Kernel` of ridgeformer, which has parameters of its own
    gamma      1/n_features if left out
    solver     the name of a registered solver, or one with options, such as `rf.Chebyshev("jacobi")`
    steps      the number of steps; left out, as many as `tolerance` needs
    tolerance  how far predictions may be from kernel ridge regression, in units of the largest |y| of
               an output, where k(x, x) is no larger than in the training data

    After `fit`: `model_`, the compiled model; `certificate_`, what it promises; `n_steps_`;
    `X_fit_`, `y_fit_`, `n_features_in_`, and `feature_names_in_` where X has names.
    """

    model_: CompiledModel
    certificate_: Certificate
    n_steps_: int

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: str | Kernel = "linear",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        solver: str | Solver = "cg",
        steps: int | None = None,
        tolerance: float = 1e-6,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.steps = steps
        self.tolerance = tolerance

    def fit(self, X: Any, y: Any) -> TransformerKernelRidge:
        """Chooses domain and steps from the training data, and compiles the transformer."""
        self._keep(X, y)
        self._check_parameters()
        made = chosen_kernel(self.kernel, self.gamma, self.degree, self.coef0, self.n_features_in_)
        with np.errstate(over="ignore", invalid="ignore"):
            self._geometry = Geometry.of(*made, self.X_fit_)
            height = float(self._geometry.heights(self._geometry.features(self.X_fit_)).max())
        if not len(self.X_fit_) * height * height < inf:
            raise Refusal(
                "Kernel values leave the range of float64: scale the features down, or lower `gamma`."
            )
        largest = np.abs(self._targets).max(0)
        if outside := [y for y in largest if y and not SMALLEST <= y <= LARGEST]:
            raise Refusal(
                f"The largest |y| of an output is {outside[0]:.3g}, too near the ends of the range of float64 for its "
                f"predictions: scale y to between {SMALLEST:.0e} and {LARGEST:.0e}."
            )
        # Powers of two, so that no bit of a prediction depends on the unit.
        self._unit = power_of_two(largest)
        phi, targets = self._supports()
        self._compile(Prompt(phi, targets, phi[:1]), height)
        return self

    def _supports(self) -> tuple[np.ndarray, np.ndarray]:
        """The training pairs as the model reads them."""
        return self._geometry.features(self.X_fit_), self._targets / self._unit

    def _check_parameters(self) -> None:
        for name, value in (("alpha", self.alpha), ("tolerance", self.tolerance)):
            if not isinstance(value, Real) or not 0 < value < inf:
                raise Refusal(f"`{name}` must be one positive, finite number; got {value!r}.")
        if self.steps is not None and not (isinstance(self.steps, Integral) and self.steps >= 1):
            raise Refusal(f"`steps` must be a whole number ≥ 1, or None; got {self.steps!r}.")

    def _compile(self, prompt: Prompt, height: float) -> None:
        ridge, kernel = float(self.alpha), self._geometry.kernel
        top = float(largest_eigenvalue(prompt, kernel))
        to = self._geometry.target(top, ridge, prompt.supports)
        asked = None if self.steps is None else int(self.steps)
        compiled = Compiled.of(self._solver(), prompt, kernel, ridge, to, asked)
        allowed = self.tolerance * prompt.y.abs().amax((0, 1)).numpy()
        progress = compiled.run(allowed, height, asked)
        self._report(progress, allowed, height)
        self._progress, self.n_steps_ = progress, progress.steps
        self._adaptive = adapts(compiled.solver, ridge)
        self.model_ = compiled.model(progress.steps)
        self.certificate_ = self.model_.certificate

    def _solver(self) -> Solver:
        solver = make_solver(self.solver) if isinstance(self.solver, str) else self.solver
        if not isinstance(solver, Solver):
            raise Refusal(f"`solver` must be a name or a Solver; got {solver!r}.")
        if solver.smooths:
            raise Refusal(
                f"{solver.name} averages targets and solves no ridge regression: choose another solver."
            )
        return solver

    def _report(self, progress: Progress, allowed: np.ndarray, height: float) -> None:
        """Warns if the tolerance is not promised, and refuses a solver that diverges."""
        errors = progress.errors(height, float(self.alpha))
        if progress.within(allowed, height, float(self.alpha)):
            return
        if not np.isfinite(errors).all():
            raise Refusal(
                f"The solver diverges on these data within {counted(progress.steps, 'step')}: choose another, or a "
                "wider `interval`."
            )
        units = allowed / self.tolerance
        reached = float(np.divide(errors, units, out=np.zeros_like(errors), where=units > 0).max())
        remedy = (
            "No number of steps that the model may have is promised to do better: raise `alpha` or `tolerance`, "
            "scale the features, or choose another `solver`."
            if self.steps is None
            else "Raise `steps` or `tolerance`, or leave `steps` out."
        )
        warnings.warn(
            f"After {counted(progress.steps, 'step')}, predictions are promised to be within {reached:.2g} of kernel "
            f"ridge regression, in units of the largest |y|, and `tolerance` asks for {self.tolerance:g}. {remedy}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def predict(self, X: Any) -> np.ndarray:
        """The transformer's predictions, in the shape of the targets."""
        queries = self._queries(X)
        model = self.model_
        steps = self.n_steps_ if self.certificate_.looped else None
        phi, targets = self._supports()
        found = predictions(
            partial(model.predict, steps=steps), model.cost, phi, targets[None], queries
        )
        return self._shaped(found[0] * self._unit)

    def error_bound(self, X: Any) -> np.ndarray:
        """How far `predict(X)` may be from kernel ridge regression, in its shape.

        It is ½√(k(x, x)/λ)·‖r‖, r the residual after the last step, and what the certificate promises of
        the transformer: its relative error times the largest prediction. Where coefficients depend on the data, r is
        the largest of the passes in which `predict(X)` is made, so that this takes as long as `predict`. Where 100 times the
        solver's own round-off is larger than that, as on ill-conditioned data, the certificate allows so much.
        """
        queries, ridge = self._queries(X), self.certificate_.ridge
        heights = self._geometry.heights(queries)[:, None]
        assert ridge is not None, "it is the alpha of `fit`, which may have been set anew since"
        steps = heights * self._standing(queries).errors(1.0, ridge)
        largest = float((heights.max() * self._progress.size).max())
        relative = self.certificate_.relative_error
        assert relative is not None, "products are exact"
        return self._shaped((steps + relative * largest) * self._unit)

    def _standing(self, queries: np.ndarray) -> Progress:
        """Where the solver stands in the passes that predict at these queries.

        CG amplifies round-off, which depends on the size of a pass, so each is asked for its own coefficients.
        """
        if not self._adaptive:
            return self._progress
        steps = self.n_steps_ if self.certificate_.looped else None
        phi, targets = self._supports()
        ridge = self.certificate_.ridge
        assert ridge is not None, "it is the alpha of `fit`"
        machine = EagerMachine(Prompt(phi, targets, phi[:1]), self._geometry.kernel, ridge)
        found = [
            self._progress.with_alpha(machine, alpha, self.n_steps_).residuals
            for line in passes(self.model_.cost, phi, targets[None], queries)
            for prompt in line
            if (alpha := predicted_with_alpha(self.model_, prompt, steps=steps)[1]) is not None
        ]
        return replace(self._progress, residuals=np.max([self._progress.residuals, *found], axis=0))

    def _queries(self, X: Any) -> np.ndarray:
        rows = self._rows(X)
        queries, limit = self._geometry.features(rows), self.certificate_.max_norm
        longest = float(np.linalg.norm(queries, axis=1).max())
        if limit is not None and longest > limit * (1 + SLACK[self.certificate_.dtype]):
            raise Refusal(
                f"A row of X has norm {longest:.3g}, and with this kernel the model serves norms up to {limit:.3g}, a "
                f"little beyond the longest training row ({self._geometry.longest:.3g}): leave such rows out, or scale "
                "them down."
            )
        return queries


def power_of_two(values: np.ndarray) -> np.ndarray:
    """The largest power of two that is not above each value; 1 for 0."""
    found: np.ndarray = np.where(values > 0, 2.0 ** (np.frexp(values)[1] - 1), 1.0)
    return found
