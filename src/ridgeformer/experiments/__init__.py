"""What is measured with the library: theorems, studies, evaluations, identifications and the demo, and their pages.

This is the only door to the experiments; each is imported when it is asked for.
"""
# mypy: implicit-reexport

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeformer.experiments.demonstration import demo
    from ridgeformer.experiments.evaluation import evaluate
    from ridgeformer.experiments.finding import Finding
    from ridgeformer.experiments.identification import calibrate, identify, identify_model, report
    from ridgeformer.experiments.studies import STUDIES, Study, run_study
    from ridgeformer.experiments.theorems import (
        THEOREMS,
        SolverReport,
        Theorem,
        chosen,
        verify,
        verify_solver,
    )

_HOMES = {
    "demonstration": ["demo"],
    "evaluation": ["evaluate"],
    "finding": ["Finding"],
    "identification": ["calibrate", "identify", "identify_model", "report"],
    "studies": ["STUDIES", "Study", "run_study"],
    "theorems": ["THEOREMS", "SolverReport", "Theorem", "chosen", "verify", "verify_solver"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
