"""Importers, one per file: checkpoints of other software as saved models of this project."""
# mypy: implicit-reexport

from ridgeformer.models.importers.base import Importer
from ridgeformer.models.importers.gpt2 import FromGPT2
from ridgeformer.registry import register

IMPORTERS = Importer.registry
"""Every importer by its name; `register` adds the user's own."""

register(FromGPT2)
