"""Models, compiled or trained: loaded from the disk, and read as trajectories."""

from ridgeformer.models.compiled import residual_stream
from ridgeformer.models.reference import reference
from ridgeformer.models.saved import Model, load, predict, trajectory
from ridgeformer.models.subject import Change, Reading, Subject, TransformerSubject, subject
