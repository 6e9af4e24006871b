"""Every planted error, by its name."""

from mutants.mutant import Mutant
from mutants.planted import (
    analysis,
    compiler,
    constants,
    solvers,
    theory,
    training,
    transformer,
)

PARTS = (solvers, theory, constants, compiler, transformer, training, analysis)

MUTANTS: dict[str, Mutant] = {m.name: m for part in PARTS for m in part.MUTANTS}
