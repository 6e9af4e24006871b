"""Models, compiled, trained or others': loaded from the disk, and read as trajectories or as subjects."""
# mypy: implicit-reexport

from ridgeformer.models.adapters import GPT2Subject, ModuleSubject
from ridgeformer.models.compiled import residual_stream
from ridgeformer.models.importers import IMPORTERS, FromGPT2, Importer
from ridgeformer.models.reference import reference
from ridgeformer.models.saved import Model, load, predict, trajectory
from ridgeformer.models.subject import Change, Reading, Subject, TransformerSubject, subject
