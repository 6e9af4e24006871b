"""Every planted error, by its name."""

from mutants.mutant import Mutant
from mutants.planted import (
    solvers,
    theory,
    transformer,
)

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for part in (
        solvers,
        theory,
        transformer,
    )
    for mutant in part.MUTANTS
}
