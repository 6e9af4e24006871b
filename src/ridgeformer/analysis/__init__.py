"""What a compiled model's parts do, found by taking them away, changing them, or probing for them."""

from ridgeformer.analysis.ablation import (
    AggregatorAblation,
    MatvecAblation,
    ablate_aggregator,
    ablate_matvecs,
    growth_without_reductions,
    matvec_heads,
)
from ridgeformer.analysis.heads import (
    HeadEffect,
    Message,
    Sharing,
    communication,
    head_effects,
    sharing,
)
from ridgeformer.analysis.probes import (
    Probe,
    Score,
    probe,
    probe_new_parts,
    probe_vectors,
)
from ridgeformer.analysis.ridge import RidgeChange, change_ridge, with_ridge

__all__ = [
    "AggregatorAblation",
    "HeadEffect",
    "MatvecAblation",
    "Message",
    "Probe",
    "RidgeChange",
    "Score",
    "Sharing",
    "ablate_aggregator",
    "ablate_matvecs",
    "change_ridge",
    "communication",
    "growth_without_reductions",
    "head_effects",
    "matvec_heads",
    "probe",
    "probe_new_parts",
    "probe_vectors",
    "sharing",
    "with_ridge",
]
