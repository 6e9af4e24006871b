"""Which solver a model runs: the verdict with all evidence, and its calibration on models whose answer is known."""
# mypy: implicit-reexport

from ridgeformer.experiments.identification.answer import identify
from ridgeformer.experiments.identification.calibrate_run import calibrate
from ridgeformer.experiments.identification.calibration import Calibration, shipped
from ridgeformer.experiments.identification.inquiry import Guess
from ridgeformer.experiments.identification.run import identify_model, report
