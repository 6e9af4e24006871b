"""From a solver to the weights of a transformer, one pass after the other."""

from __future__ import annotations

import warnings

from ridgeformer.compiler.backends.base import Backend
from ridgeformer.compiler.backends.every_prefix import EveryPrefixBackend
from ridgeformer.compiler.backends.linear_attention import LinearBackend
from ridgeformer.compiler.backends.softmax_attention import softmax_backend
from ridgeformer.compiler.certificate import NoPromise
from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.job import Dtype, Job
from ridgeformer.compiler.passes import assemble, describe, erase, make_way, place, reuse, tie
from ridgeformer.compiler.size import check_size
from ridgeformer.compiler.targets import LinearAttention, SoftmaxAttention, Target, check_target
from ridgeformer.kernels import Kernel, kernel_or_default
from ridgeformer.program import ranges
from ridgeformer.solvers import Solver

LONGEST_LOOP = 10_000
"""How many steps a looped model serves if nothing is said."""


def compile(
    solver: Solver,
    *,
    features: int,
    to: Target,
    steps: int | None = None,
    ridge: float | None = None,
    outputs: int = 1,
    kernel: Kernel | None = None,
    dtype: Dtype = "float64",
    looped: bool = False,
) -> CompiledModel:
    """A transformer of the kind that `to` names, which runs `steps` steps of the solver.

    It solves (K + λI)α = y for λ = `ridge` and any prompt of `features` features and `outputs` outputs
    inside the domain of the target. A smoother needs neither `steps` nor `ridge`. With `looped=True` the
    model holds one step, which is repeated as often as a caller of `predict` says, up to `steps` times.
    A model that promises no error comes with the warning `NoPromise`, and what cannot be compiled is
    refused with the reason (`Refusal`).

    solver   an instance of a registered solver, such as `ConjugateGradient()`
    features   p, the number of features of every support and query
    to   the target: `LinearAttention` or `SoftmaxAttention`, with the domain that the model serves
    steps   how many steps of the solver the model runs
    ridge   λ, which must be positive
    outputs   r, the number of targets of every support
    kernel   the kernel, `Linear()` if it is left out
    dtype   the precision of the weights, float64 or float32
    looped   whether one step is held and repeated
    """
    if steps is None:
        steps = LONGEST_LOOP if looped else 1
    job = Job(solver, kernel_or_default(kernel), features, outputs, steps, ridge, dtype, looped)
    check_size(job, lambda smaller: compiled(smaller, to))
    model = compiled(job, to)
    if missing := model.certificate.no_promise():
        warnings.warn(f"The model {missing}.", NoPromise, stacklevel=2)
    return model


def compiled(job: Job, to: Target) -> CompiledModel:
    """The passes, one after the other."""
    backend = backend_for(job, to)  # refuses what the target cannot do
    program = backend.trace()  # the recurrence as operations on vectors and scalars
    bounds = ranges(program)  # how large each of its values can become
    circuit = backend.lower(program, bounds)  # heads and neurons, as early as their inputs allow
    circuit = make_way(circuit)  # in a loop, new values must not meet the old ones
    circuit = reuse(circuit)  # values continue in the channels of those that they replace
    circuit = tie(circuit)  # a pass leaves its variables where it found them
    circuit = erase(circuit)  # channels are cleared after their last reader
    placement = place(circuit)  # a channel for each value
    transformer = assemble(
        circuit,
        placement,
        attention=backend.attention,
        causal=backend.causal,
        gated=backend.gated,
        dtype=job.dtype,
        embedding=backend.feature_map.projection,
    )
    certificate = backend.certify(program)  # what is promised, and for which prompts
    return CompiledModel(transformer, certificate, describe(circuit, placement, backend.gated))


def backend_for(job: Job, to: Target) -> Backend:
    check_target(to)
    match to:
        case LinearAttention(every_prefix=True):
            return EveryPrefixBackend(job, to)
        case LinearAttention():
            return LinearBackend(job, to)
        case SoftmaxAttention():
            return softmax_backend(job, to)
