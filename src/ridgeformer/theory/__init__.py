"""Bounds with explicit constants, one per function, one family of theorems per file."""

from ridgeformer.theory.depth import (
    cg_prediction_bound,
    cg_rate,
    chebyshev_factor,
    chebyshev_prediction_bound,
    heavy_ball_factor,
    heavy_ball_prediction_bound,
    prediction_bound,
    richardson_prediction_bound,
    richardson_rate,
    termination_steps,
)
from ridgeformer.theory.drift import (
    cross_drift_bound,
    drift_prediction_bound,
    gram_drift_bound,
    lipschitz_constant,
)
from ridgeformer.theory.effective_dimension import (
    eigenvalue_bound,
    relative_error_bound,
    sufficient_width,
)
from ridgeformer.theory.inexact import (
    perturbed_prediction_bound,
    residual_gap_bound,
    residual_prediction_bound,
)
from ridgeformer.theory.preconditioning import jacobi_condition_bound, preconditioned_condition
from ridgeformer.theory.query_error import (
    approximate_prediction,
    query_error_bound,
    query_error_terms,
)
from ridgeformer.theory.sensitivity import Sensitivity, amplification, sensitivity
from ridgeformer.theory.several_outputs import block_cg_energy_bound, block_cg_prediction_bound
from ridgeformer.theory.shape import (
    Construction,
    Shape,
    parameters,
    reciprocal_neurons,
    unit_neurons,
)
from ridgeformer.theory.sizes import predicted_shape
from ridgeformer.theory.systems import (
    cross,
    energy_error,
    gram,
    preconditioned_system,
    query_weight,
    system_eigenvalues,
    target_energy,
)
from ridgeformer.theory.width_rank import (
    eigen_truncation,
    eigenvalue_after,
    rank_error,
    resolvent_bound,
    resolvent_difference,
    tail_bound,
)

__all__ = [
    "Construction",
    "Sensitivity",
    "Shape",
    "amplification",
    "approximate_prediction",
    "block_cg_energy_bound",
    "block_cg_prediction_bound",
    "cg_prediction_bound",
    "cg_rate",
    "chebyshev_factor",
    "chebyshev_prediction_bound",
    "cross",
    "cross_drift_bound",
    "drift_prediction_bound",
    "eigen_truncation",
    "eigenvalue_after",
    "eigenvalue_bound",
    "energy_error",
    "gram",
    "gram_drift_bound",
    "heavy_ball_factor",
    "heavy_ball_prediction_bound",
    "jacobi_condition_bound",
    "lipschitz_constant",
    "parameters",
    "perturbed_prediction_bound",
    "preconditioned_condition",
    "preconditioned_system",
    "predicted_shape",
    "prediction_bound",
    "query_error_bound",
    "query_error_terms",
    "query_weight",
    "rank_error",
    "reciprocal_neurons",
    "relative_error_bound",
    "residual_gap_bound",
    "residual_prediction_bound",
    "resolvent_bound",
    "resolvent_difference",
    "richardson_prediction_bound",
    "richardson_rate",
    "sensitivity",
    "sufficient_width",
    "system_eigenvalues",
    "tail_bound",
    "target_energy",
    "termination_steps",
    "unit_neurons",
]
