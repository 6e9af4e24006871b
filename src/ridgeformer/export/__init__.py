"""Compiled models as checkpoints of other people's classes."""

from ridgeformer.export.gpt2 import prefix_mask, save_gpt2

__all__ = ["prefix_mask", "save_gpt2"]
