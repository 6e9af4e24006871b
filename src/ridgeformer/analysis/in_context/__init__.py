"""Ridge regression, similarity or neighbours? Told from features and responses alone, of any model.

`choose` fixes view and numbers on prompts of one seed, and `judge` gives the verdict on those of another.
"""
# mypy: implicit-reexport

from ridgeformer.analysis.in_context.agreement import (
    Agreement,
    agreement_by_layer,
    find_agreement,
)
from ridgeformer.analysis.in_context.choice import Choice, choose
from ridgeformer.analysis.in_context.copies import (
    Copies,
    Discount,
    discount_spread,
    find_discount,
    power_of_test,
    prompts_needed,
    with_copies,
)
from ridgeformer.analysis.in_context.drift_of_states import (
    DriftEffect,
    FrozenSubspace,
    drift_by_layer,
    drift_of,
    effect_of_drift,
    find_frozen_subspace,
)
from ridgeformer.analysis.in_context.influence import (
    Comparison,
    Shares,
    additivity_of_changes,
    compared,
    influence_agreement,
    interactions,
    recency,
    shares_of,
)
from ridgeformer.analysis.in_context.observations import Observations
from ridgeformer.analysis.in_context.predictors import (
    Centroids,
    FixedMetric,
    GivenWeights,
    LastTarget,
    MeanTarget,
    OfBaseline,
    Predictor,
    Ridge,
    Smoothing,
    likeliest_process,
    neighbours,
    responses,
    ridge_influence,
    ridge_on_inputs,
)
from ridgeformer.analysis.in_context.ridge_profile import (
    RIDGES,
    BestRidge,
    RidgeProfile,
    diagonal_unit,
    find_ridge_profile,
)
from ridgeformer.analysis.in_context.verdict import Claim, Verdict, judge
from ridgeformer.analysis.in_context.views import View, standard_views
