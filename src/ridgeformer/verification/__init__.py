"""Theorems and their measurements, one family per file. `ridgeformer verify` runs them all."""

from ridgeformer.verification.base import Outcome, Theorem, Verdict
from ridgeformer.verification.depth import CGRate, ChebyshevWorstMode, FixedRates
from ridgeformer.verification.exactness import CompiledIsSolver, FiniteTermination
from ridgeformer.verification.mechanism import Ablations, RidgeInTheWeights
from ridgeformer.verification.rates import InexactCG, RowSumRate, SeveralOutputs
from ridgeformer.verification.run import chosen, verify
from ridgeformer.verification.sizes import Sizes
from ridgeformer.verification.softmax import DotProducts, InterpolatedProducts, SmootherLimits
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
        SeveralOutputs(),
        InexactCG(),
        FiniteTermination(),
        CompiledIsSolver(),
        WidthRank(),
        EffectiveDimension(),
        QueryError(),
        FeatureDrift(),
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
