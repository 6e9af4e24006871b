"""Bounds with explicit constants, one per function."""

from ridgeformer.theory.depth import (
    cg_prediction_bound,
    cg_rate,
    chebyshev_factor,
    richardson_rate,
)

__all__ = ["cg_prediction_bound", "cg_rate", "chebyshev_factor", "richardson_rate"]
