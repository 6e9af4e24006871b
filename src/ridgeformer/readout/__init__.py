"""Activations to trajectories."""

from ridgeformer.readout.compiled import residual_stream, trajectory

__all__ = ["residual_stream", "trajectory"]
