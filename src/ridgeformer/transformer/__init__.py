"""The generic transformer: its configuration, its model, interventions, and storage."""
# mypy: implicit-reexport

from ridgeformer.transformer.config import TransformerConfig
from ridgeformer.transformer.devices import check_precision, device_named
from ridgeformer.transformer.edits import (
    Edit,
    Edits,
    Record,
    ablate,
    ablate_head,
    check_edits,
    patch,
)
from ridgeformer.transformer.model import Transformer
from ridgeformer.transformer.shapes import weight_count
from ridgeformer.transformer.storage import check_writable, load, read_config, save, whole_directory
