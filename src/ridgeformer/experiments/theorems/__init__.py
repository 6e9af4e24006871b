"""Theorems and their measurements, one family per file; `ridgeformer verify` runs them all.

A new theorem is an instance of a subclass of `Theorem`, handed to `register`.
"""

from ridgeformer.experiments.theorems.base import Outcome, Theorem, Verdict
from ridgeformer.experiments.theorems.depth import CGRate, ChebyshevWorstMode, FixedRates
from ridgeformer.experiments.theorems.exactness import FiniteTermination
from ridgeformer.experiments.theorems.general import (
    CompiledIsSolver,
    InexactFixed,
    PolynomialRate,
    SizeLaw,
)
from ridgeformer.experiments.theorems.heads import Communication, SharedHeads
from ridgeformer.experiments.theorems.knobs import KnobConditioning, KnobDepth, KnobRidge
from ridgeformer.experiments.theorems.knobs_of_data import KnobCollinear, KnobTemperature, KnobWidth
from ridgeformer.experiments.theorems.mechanism import (
    Ablations,
    RidgeInTheWeights,
    WithoutReductions,
)
from ridgeformer.experiments.theorems.narrow import NarrowQuery, NarrowTruncation, NarrowWidth
from ridgeformer.experiments.theorems.own_solver import SolverReport, verify_solver
from ridgeformer.experiments.theorems.precision import SinglePrecision, SinglePrecisionCG
from ridgeformer.experiments.theorems.preconditioning import DiagonalPreconditioners
from ridgeformer.experiments.theorems.probing import Probes
from ridgeformer.experiments.theorems.rates import (
    InexactCG,
    RowSumRate,
    SeveralOutputs,
)
from ridgeformer.experiments.theorems.run import chosen, verify
from ridgeformer.experiments.theorems.sizes import Sizes
from ridgeformer.experiments.theorems.softmax import (
    DotProducts,
    InterpolatedProducts,
    Normaliser,
    RowSumSpectrum,
    SmootherLimits,
)
from ridgeformer.experiments.theorems.structure import Masking
from ridgeformer.experiments.theorems.width import (
    EffectiveDimension,
    FeatureDrift,
    QueryError,
    WidthRank,
)
from ridgeformer.registry import register

THEOREMS = Theorem.registry
"""Every theorem by its name; `register` adds the user's own."""

for _theorem in (
    PolynomialRate(),
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
    SizeLaw(),
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
):
    register(_theorem)
