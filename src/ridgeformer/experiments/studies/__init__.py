"""Studies, one per file: each answers one question with numbers and draws one page.

A new study is a subclass of `Study` in a file of its own and an entry in `STUDIES`.
"""

from ridgeformer.experiments.studies.base import (
    Findings,
    Number,
    Page,
    Study,
    find_study,
    run_study,
)
from ridgeformer.experiments.studies.dot_products import DotProducts
from ridgeformer.experiments.studies.gaussian import GaussianStudy
from ridgeformer.experiments.studies.smoother import Smoother

STUDIES: dict[str, Study] = {
    study.name: study for study in (Smoother(), GaussianStudy(), DotProducts())
}

__all__ = ["STUDIES", "Findings", "Number", "Page", "Study", "find_study", "run_study"]
