"""The experiments that commands run, imported when a command asks for them."""

from ridgeformer.experiments.demo import run as demo
from ridgeformer.experiments.evaluation import evaluate
from ridgeformer.experiments.studies import STUDIES, find_study, run_study
from ridgeformer.experiments.theorems import THEOREMS, chosen, verify

__all__ = ["STUDIES", "THEOREMS", "chosen", "demo", "evaluate", "find_study", "run_study", "verify"]
