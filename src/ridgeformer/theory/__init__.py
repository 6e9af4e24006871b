"""Bounds with explicit constants, one per function, one family of theorems per file."""
# mypy: implicit-reexport

from ridgeformer.theory.compiled_cg import (
    CGErrors,
    compiled_cg_bound,
    compiled_cg_descent_bound,
    compiled_cg_errors,
    compiled_cg_growth_bound,
    effective_scalar_error,
    softmax_cg_growth_bound,
    table_error,
    token_responses,
)
from ridgeformer.theory.compiled_fixed import compiled_fixed_bound, divisor_error
from ridgeformer.theory.depth import (
    cg_prediction_bound,
    cg_rate,
    chebyshev_factor,
    heavy_ball_factor,
    polynomial_prediction_bound,
    prediction_bound,
    richardson_factor,
    richardson_rate,
    termination_steps,
    tuned_prediction_bound,
)
from ridgeformer.theory.digits import (
    MOST_DIGITS,
    digit_error,
    digit_product_bound,
    digit_round_off_bound,
    digits_for,
    unit_of_digits,
)
from ridgeformer.theory.dot_products import (
    HeadPairErrors,
    best_scale,
    derivative_error_bound,
    dot_product_bound,
    extrapolation_weights,
)
from ridgeformer.theory.doubling import (
    gd_plus_factor,
    newton_factor,
    plain_newton_factor,
    reshaped_condition,
    steps_needed,
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
from ridgeformer.theory.failure import (
    chebyshev_condition,
    chebyshev_residual,
    chebyshev_steps,
    least_ridge,
    misfit_bounds,
    richardson_condition,
    richardson_steps,
)
from ridgeformer.theory.feature_space import (
    causal_support_error,
    feature_cg_prediction_bound,
    in_features,
    prefix_prompts,
)
from ridgeformer.theory.heads_fixed import heads_fixed_bound, update_round_off_bound
from ridgeformer.theory.inexact import (
    perturbed_prediction_bound,
    residual_gap_bound,
    residual_prediction_bound,
)
from ridgeformer.theory.inexact_cg import InexactCG, inexact_energy_bound
from ridgeformer.theory.inexact_scalars import (
    CGPath,
    cg_path,
    defect_responses,
    energy_prediction_bound,
    inexact_scalars_bound,
    inexact_scalars_growth_bound,
    largest_scalar_error,
    prediction_responses,
)
from ridgeformer.theory.interpolation import (
    balance,
    interpolated_prediction_bound,
    interpolation_intervals,
    product_error_bound,
)
from ridgeformer.theory.least_width import (
    future_rank,
    indistinct_error,
    semi_iteration_least_width,
    unseen_direction,
)
from ridgeformer.theory.loops import chebyshev_divisors, divisor_error_bound
from ridgeformer.theory.masking import may_depend, state_leak
from ridgeformer.theory.multiplied import largest_multiplied
from ridgeformer.theory.normaliser import (
    RECIPROCAL,
    normaliser_round_off,
    normaliser_terms,
    row_sum_spectrum_bound,
    row_sums,
)
from ridgeformer.theory.preconditioning import jacobi_condition_bound, preconditioned_condition
from ridgeformer.theory.query_error import (
    approximate_prediction,
    query_error_bound,
    query_error_terms,
)
from ridgeformer.theory.reciprocal import reciprocal_error_bound, reciprocal_round_off_bound
from ridgeformer.theory.round_off import (
    UNIT,
    accumulated,
    carried_errors,
    cg_gap_bound,
    cg_round_off_bound,
    fixed_round_off_bound,
    reading_round_off_bound,
    residual_round_off_bound,
    residual_round_off_terms,
)
from ridgeformer.theory.sensitivity import (
    NotFixed,
    Sensitivity,
    long_sensitivity,
    products_taken,
    residual_polynomials,
    semi_iteration_weights,
    sensitivity,
    written_out,
)
from ridgeformer.theory.set_up import (
    Layers,
    logit_error,
    product_error,
    product_round_off,
    square_error,
    squared_reciprocal_error,
    weight_error,
)
from ridgeformer.theory.several_outputs import block_cg_energy_bound, block_cg_prediction_bound
from ridgeformer.theory.sizes import (
    Shape,
    cg_every_prefix_size,
    cg_linear_size,
    cg_softmax_size,
    parameters,
    semi_iteration_size,
)
from ridgeformer.theory.systems import (
    cross,
    energy_error,
    gram,
    preconditioned_system,
    query_weight,
    system_eigenvalues,
    target_energy,
)
from ridgeformer.theory.temperature import (
    cold_bound,
    cold_limit,
    cold_misfit_bounds,
    cold_size_bound,
    cold_temperature,
    hot_bound,
    hot_limit,
    hot_misfit_bound,
    hot_temperature,
    nearest_targets,
    smoother_cold_bound,
    smoother_hot_bound,
)
from ridgeformer.theory.termination import cg_energy_floor, spectral_energies
from ridgeformer.theory.width_law import (
    RowSumLaw,
    kernel_mass_bound,
    relative_responses,
    slope_bound,
)
from ridgeformer.theory.width_rank import (
    eigen_truncation,
    eigenvalue_after,
    rank_error,
    resolvent_bound,
    resolvent_difference,
    tail_bound,
)
