"""ridgeformer: solvers compiled to transformers, and transformers read back as solvers.

The names below load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "ridgeformer.types": ["Refusal", "Trajectory"],
    "ridgeformer.registry": ["register"],
    "ridgeformer.kernels": [
        "Exponential",
        "FeatureMap",
        "Gaussian",
        "Kernel",
        "Linear",
        "Logits",
        "Monomial",
        "Polynomial",
    ],
    "ridgeformer.tasks": ["KernelDraw", "LearnableTask", "PrescribedSpectrum", "Prompt", "Task"],
    "ridgeformer.baselines": ["Baseline"],
    "ridgeformer.solvers": [
        "BlockCG",
        "Chebyshev",
        "ConjugateGradient",
        "GradientDescent",
        "HeavyBall",
        "GradientDescentPlus",
        "IterativeNewton",
        "NadarayaWatson",
        "Richardson",
        "condition_number",
        "effective_dimension",
        "krr",
        "solve",
        "Solver",
    ],
    "ridgeformer.program": ["interpret", "trace"],
    "ridgeformer.transformer": [
        "Record",
        "Transformer",
        "TransformerConfig",
        "ablate",
        "ablate_head",
    ],
    "ridgeformer.compiler": [
        "CompiledModel",
        "Exact",
        "HeadPairs",
        "Interpolated",
        "LinearAttention",
        "SoftmaxAttention",
        "compile",
        "size_report",
    ],
    "ridgeformer.models": [
        "FromGPT2",
        "GPT2Subject",
        "Importer",
        "ModuleSubject",
        "Reading",
        "Subject",
        "load",
        "reference",
        "residual_stream",
        "subject",
        "trajectory",
    ],
    "ridgeformer.training": ["OutsideTraining", "Recipe", "TrainedModel"],
    "ridgeformer.experiments": ["SolverReport", "evaluate", "identify", "verify_solver"],
    "ridgeformer.export": ["Exporter", "GPT2", "prefix_mask"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'ridgeformer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
