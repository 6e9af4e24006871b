"""Bounds with explicit constants, one per function, one family of theorems per file."""

from ridgeformer.theory.depth import (
    cg_prediction_bound,
    cg_rate,
    chebyshev_factor,
    chebyshev_prediction_bound,
    energy_before_termination,
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
from ridgeformer.theory.round_off import (
    UNIT,
    accumulated,
    cg_round_off_bound,
    fixed_round_off_bound,
    residual_round_off_bound,
)
from ridgeformer.theory.sensitivity import Sensitivity, amplification, sensitivity
from ridgeformer.theory.several_outputs import block_cg_energy_bound, block_cg_prediction_bound
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
    "UNIT",
    "Sensitivity",
    "accumulated",
    "amplification",
    "approximate_prediction",
    "block_cg_energy_bound",
    "block_cg_prediction_bound",
    "cg_prediction_bound",
    "cg_rate",
    "cg_round_off_bound",
    "chebyshev_factor",
    "chebyshev_prediction_bound",
    "cross",
    "cross_drift_bound",
    "drift_prediction_bound",
    "eigen_truncation",
    "eigenvalue_after",
    "eigenvalue_bound",
    "energy_before_termination",
    "energy_error",
    "fixed_round_off_bound",
    "gram",
    "gram_drift_bound",
    "heavy_ball_factor",
    "heavy_ball_prediction_bound",
    "jacobi_condition_bound",
    "lipschitz_constant",
    "perturbed_prediction_bound",
    "preconditioned_condition",
    "preconditioned_system",
    "prediction_bound",
    "query_error_bound",
    "query_error_terms",
    "query_weight",
    "rank_error",
    "relative_error_bound",
    "residual_gap_bound",
    "residual_prediction_bound",
    "residual_round_off_bound",
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
]
