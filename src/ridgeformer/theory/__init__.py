"""Bounds with explicit constants, one per function."""

from ridgeformer.theory.depth import (
    cg_prediction_bound,
    cg_rate,
    chebyshev_factor,
    richardson_rate,
)
from ridgeformer.theory.sensitivity import Sensitivity, amplification, sensitivity

__all__ = [
    "Sensitivity",
    "amplification",
    "cg_prediction_bound",
    "cg_rate",
    "chebyshev_factor",
    "richardson_rate",
    "sensitivity",
]
