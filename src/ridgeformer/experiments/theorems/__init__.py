"""Theorems and their measurements, one family per file; `ridgeformer verify` runs them all.

A new theorem is an instance of a subclass of `Theorem`, handed to `register`.
"""

from ridgeformer.experiments.theorems import (
    depth,
    doubling,
    drift,
    exactness,
    feature_space,
    general,
    heads,
    knobs,
    knobs_of_data,
    least_width,
    loops,
    mechanism,
    narrow,
    normaliser,
    precision,
    preconditioning,
    probing,
    rates,
    sizes,
    softmax,
    structure,
    width,
)
from ridgeformer.experiments.theorems.base import Outcome, Theorem, Verdict
from ridgeformer.experiments.theorems.own_solver import SolverReport, verify_solver
from ridgeformer.experiments.theorems.run import chosen, verify
from ridgeformer.registry import register

THEOREMS = Theorem.registry
"""Every theorem by its name; `register` adds the user's own."""

for _theorem in (
    general.PolynomialRate(),
    depth.CGRate(),
    depth.FixedRates(),
    depth.ChebyshevWorstMode(),
    doubling.DoublingRates(),
    doubling.DoublingWorstMode(),
    doubling.DepthLaw(),
    feature_space.FeatureCGRate(),
    feature_space.CausalSupports(),
    rates.RowSumRate(),
    preconditioning.DiagonalPreconditioners(),
    rates.SeveralOutputs(),
    general.InexactFixed(),
    rates.InexactCG(),
    exactness.FiniteTermination(),
    general.CompiledIsSolver(),
    loops.LoopedModels(),
    precision.SinglePrecision(),
    precision.SinglePrecisionCG(),
    width.WidthRank(),
    width.EffectiveDimension(),
    width.QueryError(),
    drift.FeatureDrift(),
    narrow.NarrowTruncation(),
    narrow.NarrowWidth(),
    narrow.NarrowQuery(),
    sizes.Sizes(),
    least_width.LeastWidth(),
    general.SizeLaw(),
    structure.Masking(),
    softmax.InterpolatedProducts(),
    softmax.DotProducts(),
    normaliser.Normaliser(),
    softmax.RowSumSpectrum(),
    softmax.SmootherLimits(),
    mechanism.Ablations(),
    mechanism.WithoutReductions(),
    mechanism.RidgeInTheWeights(),
    probing.Probes(),
    heads.SharedHeads(),
    heads.Communication(),
    knobs.KnobDepth(),
    knobs.KnobConditioning(),
    knobs.KnobRidge(),
    knobs_of_data.KnobCollinear(),
    knobs_of_data.KnobTemperature(),
    knobs_of_data.KnobWidth(),
):
    register(_theorem)
