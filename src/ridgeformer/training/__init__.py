"""Training transformers on in-context regression: recipes, the loop, checkpoints, trained models."""
# mypy: implicit-reexport

from ridgeformer.training.layouts import LAYOUTS, Layout
from ridgeformer.training.loop import Run, finish, started
from ridgeformer.training.outside import OutsideTraining
from ridgeformer.training.parallel import Group
from ridgeformer.training.recipe import Architecture, Recipe, TrainingOptions
from ridgeformer.training.scores import Held, predictions, score
from ridgeformer.training.trained import TrainedModel
