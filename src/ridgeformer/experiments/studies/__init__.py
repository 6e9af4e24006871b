"""Studies: each answers one question with numbers and draws one page.

A new study is an instance of a subclass of `Study`, handed to `register`.
"""
# mypy: implicit-reexport

from ridgeformer.experiments.studies.base import Study, run_study
from ridgeformer.experiments.studies.cg_variants import CGVariants
from ridgeformer.experiments.studies.dot_products import DotProducts
from ridgeformer.experiments.studies.gaussian import GaussianStudy
from ridgeformer.experiments.studies.interchange import Interchange
from ridgeformer.experiments.studies.learning_curve import LearningCurve
from ridgeformer.experiments.studies.smoother import Smoother
from ridgeformer.experiments.studies.told_apart import ToldApart
from ridgeformer.registry import register

STUDIES = Study.registry
"""Every study by its name; `register` adds the user's own."""

for _study in (
    Smoother(),
    GaussianStudy(),
    DotProducts(),
    LearningCurve(),
    CGVariants(),
    ToldApart(),
    Interchange(),
):
    register(_study)
