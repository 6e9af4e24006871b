"""How good a model is: against its task's best predictor, baselines, and shifted tasks."""
# mypy: implicit-reexport

from ridgeformer.experiments.evaluation.measure import measure
from ridgeformer.experiments.evaluation.run import evaluate
from ridgeformer.experiments.evaluation.shifts import ScaledInputs, shifts_of
