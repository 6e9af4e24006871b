"""Activations to trajectories."""

from ridgeformer.readout.compiled import residual_stream
from ridgeformer.readout.reference import reference
from ridgeformer.readout.saved import Model, load, trajectory

__all__ = ["Model", "load", "reference", "residual_stream", "trajectory"]
