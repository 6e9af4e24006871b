"""Theorems and their measurements, one family per file. `ridgeformer verify` runs them all."""

from ridgeformer.verification.base import Outcome, Theorem, Verdict
from ridgeformer.verification.depth import CGRate, ChebyshevWorstMode, FixedRates
from ridgeformer.verification.exactness import CompiledIsSolver, FiniteTermination
from ridgeformer.verification.mechanism import Ablations, RidgeInTheWeights
from ridgeformer.verification.narrow import NarrowQuery, NarrowTruncation, NarrowWidth
from ridgeformer.verification.precision import SinglePrecision, SinglePrecisionCG
from ridgeformer.verification.preconditioning import DiagonalPreconditioners
from ridgeformer.verification.rates import InexactCG, RowSumRate, SeveralOutputs
from ridgeformer.verification.run import chosen, verify
from ridgeformer.verification.softmax import DotProducts, InterpolatedProducts, SmootherLimits
from ridgeformer.verification.structure import Masking, Sizes
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
        SmootherLimits(),
        Ablations(),
        RidgeInTheWeights(),
    )
}

__all__ = ["THEOREMS", "Outcome", "Theorem", "Verdict", "chosen", "verify"]
