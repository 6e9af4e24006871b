"""Theorems and their measurements, one family per file. `ridgeformer verify` runs them all."""

from ridgeformer.verification.base import Outcome, Theorem, Verdict
from ridgeformer.verification.depth import CGRate, ChebyshevWorstMode, FixedRates
from ridgeformer.verification.exactness import CompiledIsSolver, FiniteTermination
from ridgeformer.verification.heads import Communication, SharedHeads
from ridgeformer.verification.knobs import KnobConditioning, KnobDepth, KnobRidge
from ridgeformer.verification.knobs_of_data import KnobCollinear, KnobTemperature, KnobWidth
from ridgeformer.verification.mechanism import Ablations, RidgeInTheWeights, WithoutReductions
from ridgeformer.verification.narrow import NarrowQuery, NarrowTruncation, NarrowWidth
from ridgeformer.verification.precision import SinglePrecision, SinglePrecisionCG
from ridgeformer.verification.preconditioning import DiagonalPreconditioners
from ridgeformer.verification.probing import Probes
from ridgeformer.verification.rates import InexactCG, InexactFixed, RowSumRate, SeveralOutputs
from ridgeformer.verification.run import chosen, verify
from ridgeformer.verification.sizes import Sizes
from ridgeformer.verification.softmax import (
    DotProducts,
    InterpolatedProducts,
    Normaliser,
    RowSumSpectrum,
    SmootherLimits,
)
from ridgeformer.verification.structure import Masking
from ridgeformer.verification.width import (
    EffectiveDimension,
    FeatureDrift,
    QueryError,
    WidthRank,
)

THEOREMS: dict[str, Theorem] = {
    theorem.name: theorem
    for theorem in (
        CGRate(),
        FixedRates(),
        ChebyshevWorstMode(),
        RowSumRate(),
        DiagonalPreconditioners(),
        SeveralOutputs(),
        InexactFixed(),
        InexactCG(),
        FiniteTermination(),
        CompiledIsSolver(),
        SinglePrecision(),
        SinglePrecisionCG(),
        WidthRank(),
        EffectiveDimension(),
        QueryError(),
        FeatureDrift(),
        NarrowTruncation(),
        NarrowWidth(),
        NarrowQuery(),
        Sizes(),
        Masking(),
        InterpolatedProducts(),
        DotProducts(),
        Normaliser(),
        RowSumSpectrum(),
        SmootherLimits(),
        Ablations(),
        WithoutReductions(),
        RidgeInTheWeights(),
        Probes(),
        SharedHeads(),
        Communication(),
        KnobDepth(),
        KnobConditioning(),
        KnobRidge(),
        KnobCollinear(),
        KnobTemperature(),
        KnobWidth(),
    )
}

__all__ = ["THEOREMS", "Outcome", "Theorem", "Verdict", "chosen", "verify"]
