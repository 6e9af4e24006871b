"""Exporters, one per file. The suites run over `EXPORTERS`, so that a new one inherits every test."""
# mypy: implicit-reexport

from ridgeformer.export.base import Exporter
from ridgeformer.export.gpt2 import GPT2, prefix_mask
from ridgeformer.registry import register

EXPORTERS = Exporter.registry
"""Every exporter by its name; `register` adds the user's own."""

register(GPT2)
