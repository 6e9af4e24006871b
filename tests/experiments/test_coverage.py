"""Everything that compiles has a theorem on its distance from f*, and one on that from its solver."""

from dataclasses import replace

import pytest

from ridgeformer.compiler import catalogue
from ridgeformer.experiments.theorems import THEOREMS
from ridgeformer.experiments.theorems.coverage import (
    CONSTRUCTIONS,
    LOOPED,
    SINGLE,
    construction_of,
)
from ridgeformer.experiments.theorems.statements import ORDER
from ridgeformer.solvers import GradientDescent
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


def test_every_construction_that_compiles_is_covered():
    found = {construction_of(entry).name for entry in catalogue.compiled_entries()}
    assert found == set(CONSTRUCTIONS), "and no construction is listed that does not compile"


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_its_theorems_are_stated_and_measured(name):
    construction = CONSTRUCTIONS[name]
    assert construction.converges
    assert construction.equals
    assert construction.norm
    for statement in (*construction.converges, *construction.equals, *LOOPED, *SINGLE):
        assert statement in ORDER
        assert any(statement in theorem.states for theorem in THEOREMS.values())


def test_a_construction_without_theorems_is_refused():
    class Unproved(GradientDescent):
        name = "unproved"

    entry = replace(next(iter(catalogue.compiled_entries())), solver=Unproved())
    with pytest.raises(Refusal, match="No theorem covers unproved"):
        construction_of(entry)
