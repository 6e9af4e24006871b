"""What models compute, found by reading their layers, probing for states, changing them, and taking parts away."""
# mypy: implicit-reexport

from ridgeformer.analysis.ablation import (
    AggregatorAblation,
    MatvecAblation,
    ablate_aggregator,
    ablate_matvecs,
    growth_without_reductions,
    matvec_heads,
)
from ridgeformer.analysis.additivity import Additivity, find_additivity
from ridgeformer.analysis.degree import Degrees, Growth, find_degrees
from ridgeformer.analysis.effective_ridge import (
    EffectiveRidge,
    RidgeByNoise,
    find_effective_ridge,
    ridge_by_noise,
)
from ridgeformer.analysis.ends import End, find_ends
from ridgeformer.analysis.filters import Filters, find_filters
from ridgeformer.analysis.heads import (
    HeadEffect,
    Message,
    Sharing,
    communication,
    head_effects,
    sharing,
)
from ridgeformer.analysis.interchange import (
    Interchange,
    Interchanges,
    OtherLayer,
    find_interchanges,
)
from ridgeformer.analysis.probes import Probe, Score, probe, probe_new_parts, probe_vectors
from ridgeformer.analysis.removal import (
    HeadRemoval,
    HeadRemovals,
    effect_of_aggregator,
    remove_aggregator,
    remove_heads,
)
from ridgeformer.analysis.ridge import RidgeChange, change_ridge, with_ridge
from ridgeformer.analysis.state_probe_words import sentence as describe_state_probes
from ridgeformer.analysis.state_probes import StateProbe, StateProbes, find_state_probes
from ridgeformer.analysis.symmetries import OutOfRange, Symmetries, Symmetry, find_symmetries
