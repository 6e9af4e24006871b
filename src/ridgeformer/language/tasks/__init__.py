"""Tasks in words and written numbers, one per file. The suites run over `LANGUAGE_TASKS`."""
# mypy: implicit-reexport

from ridgeformer.language.tasks.animal_tool import AnimalTool
from ridgeformer.language.tasks.base import LanguageTask, Problems
from ridgeformer.language.tasks.classes import ClassTask
from ridgeformer.language.tasks.clothing_vehicle import ClothingVehicle
from ridgeformer.language.tasks.even_odd import EvenOdd
from ridgeformer.language.tasks.flipped_labels import FlippedLabels
from ridgeformer.language.tasks.fruit_country import FruitCountry
from ridgeformer.language.tasks.gaussian_process import GaussianProcessNumbers
from ridgeformer.language.tasks.linear import LinearNumbers
from ridgeformer.language.tasks.linear_2d import LinearPairs
from ridgeformer.language.tasks.numeric import NumericTask
from ridgeformer.language.tasks.positive_negative import PositiveNegative
from ridgeformer.language.tasks.quadratic import QuadraticNumbers
from ridgeformer.language.tasks.random_labels import RandomLabels
from ridgeformer.language.tasks.relabelled import RelabelledTask
from ridgeformer.language.tasks.sinusoid import SinusoidNumbers
from ridgeformer.language.tasks.small_large import SmallLarge
from ridgeformer.language.tasks.verb_adjective import VerbAdjective
from ridgeformer.registry import register

LANGUAGE_TASKS = LanguageTask.registry
"""Every task for language models by its name; `register` adds the user's own."""

for _task in (
    AnimalTool,
    FruitCountry,
    PositiveNegative,
    ClothingVehicle,
    VerbAdjective,
    SmallLarge,
    EvenOdd,
    RandomLabels,
    FlippedLabels,
    LinearNumbers,
    QuadraticNumbers,
    SinusoidNumbers,
    LinearPairs,
    GaussianProcessNumbers,
):
    register(_task)
