"""A suite of models whose inner workings are known, for tools that look for them: exported, scored, and tried on baselines."""
# mypy: implicit-reexport

from ridgeformer.suite.baselines import BASELINES, SuiteBaseline
from ridgeformer.suite.export import export
from ridgeformer.suite.reading import StoredCase, Suite
from ridgeformer.suite.score import score, similarity
from ridgeformer.suite.submission import check_predictions, read_predictions
