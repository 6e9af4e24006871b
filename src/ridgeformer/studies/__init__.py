"""Studies, one per file: each answers one question with numbers and draws one page.

A new study is a subclass of `Study` in a file of its own and an entry in `STUDIES`.
"""

from ridgeformer.studies.base import Findings, Number, Page, Study, find_study, run_study
from ridgeformer.studies.dot_products import DotProducts
from ridgeformer.studies.gaussian import GaussianStudy
from ridgeformer.studies.smoother import Smoother

STUDIES: dict[str, Study] = {
    study.name: study for study in (Smoother(), GaussianStudy(), DotProducts())
}

__all__ = ["STUDIES", "Findings", "Number", "Page", "Study", "find_study", "run_study"]
