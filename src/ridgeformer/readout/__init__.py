"""Activations to trajectories."""

from ridgeformer.readout.compiled import residual_stream, trajectory
from ridgeformer.readout.reference import reference

__all__ = ["reference", "residual_stream", "trajectory"]
