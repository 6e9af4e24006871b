"""Bounds are judged by line, step and term: one that is ten times too large in any of them is vacuous."""

import numpy as np
import pytest

from ridgeformer.compiler.catalogue import attempts, looped_attempts
from ridgeformer.experiments.theorems import THEOREMS
from ridgeformer.experiments.theorems.base import Axes, Measurement, Theorem, Verdict
from ridgeformer.experiments.theorems.kinds import kind_of, kinds
from ridgeformer.experiments.theorems.page import parts_of, shortfalls

pytestmark = pytest.mark.usefixtures("unchecked")


class Mine(Theorem):
    name, title, statement, see = "mine", "A bound", "error ≤ bound", "A line."

    def __init__(self, fill):
        self.fill = fill

    def measure(self, seed, fast):
        m = Measurement()
        self.fill(m)
        return m.outcome("a few", Axes("x", "y"))


def judged(fill):
    theorem = Mine(fill)
    return Verdict(theorem, theorem.measure(0, True))


ERRORS = np.array([1.0, 0.5, 0.25, 0.125])


@pytest.mark.parametrize("at", [1, 2, 3])
def test_one_step_that_is_ten_times_too_large_is_vacuous(at):
    bound = ERRORS.copy()
    assert judged(lambda m: m.by_step("line", ERRORS, bound)).holds
    bound[at] *= 10
    verdict = judged(lambda m: m.by_step("line", ERRORS, bound))
    assert verdict.word == "vacuous"
    assert verdict.loosest.name == f"line, t = {at}"
    finding = verdict.finding(0)
    (said,) = shortfalls(finding)
    assert said == f"line, t = {at} reaches 0.1 of its bound and must reach 0.25"
    assert {"name": f"line, t = {at}", "reached": 0.1, "must reach": 0.25} in parts_of(finding)
    # As a whole the line is near its bound.
    assert judged(lambda m: m.by_step("line", ERRORS, bound, whole=True)).holds


def test_step_0_alone_does_not_save_a_bound():
    verdict = judged(lambda m: m.by_step("line", ERRORS, np.ones(4) * [1, 10, 10, 10], first=0))
    assert verdict.word == "vacuous"


def test_one_line_of_several_is_judged_by_itself():
    def fill(m):
        m.at("tight", 1, 1.0, 1.0)
        m.at("loose", 1, 1.0, 10.0)

    assert judged(fill).loosest.name == "loose"
    assert not judged(fill).holds


def test_a_line_may_say_itself_what_it_reaches():
    assert judged(lambda m: m.at("loose", 1, 1.0, 10.0, reach=0.07)).holds
    assert judged(lambda m: m.at("loose", 1, 1.0, 100.0, reach=0.07)).vacuous


@pytest.mark.parametrize("wrong", ["first", "second"])
def test_a_term_is_judged_where_it_is_nearly_all_of_the_bound(wrong):
    """In the third case the other term dominates, and the sum is near what is measured throughout."""
    terms = {"first": np.array([1.0, 0.01, 0.5]), "second": np.array([0.01, 1.0, 0.5])}
    measured = np.array([1.0, 1.0, 0.9])

    def fill(m, **factors):
        m.compare_terms("sum", measured, {n: factors.get(n, 1) * t for n, t in terms.items()})

    assert judged(fill).holds
    verdict = judged(lambda m: fill(m, **{wrong: 10}))
    assert verdict.outcome.worst > 0.9, "the other term hides it from a worst case over all"
    assert verdict.word == "vacuous"
    assert verdict.loosest.name == f"sum, {wrong}"


def test_a_line_of_which_nothing_is_compared_is_vacuous():
    verdict = judged(lambda m: (m.at("good", 1, 1.0, 1.0), m.by_step("line", ERRORS, ERRORS, 10.0)))
    assert verdict.word == "vacuous"
    assert verdict.loosest.name == "line"


def test_both_sides_are_parts_where_they_say_something():
    verdict = judged(lambda m: m.between(1.0, 0.05, 1.0, 0.0, part="x"))
    assert verdict.loosest.name == "x, at least"
    assert not verdict.holds
    assert judged(lambda m: m.between(1.0, 0.0, 1.0, 0.0, part="x")).holds


def test_every_kind_of_compiled_model_has_its_case():
    """A kind that the catalogue has and `kinds` has not would be measured by no theorem about all of them."""
    there = {kind_of(case.model()) for case in kinds().values()}
    every = [
        tried for tried in (*attempts(), *looped_attempts().values()) if tried.model is not None
    ]
    missing = {tried.entry.label for tried in every if kind_of(tried.model) not in there}
    assert not missing
    for word in (
        "float32",
        "two outputs",
        "projected",
        "every prefix",
        "causal",
        "registers",
        "looped",
    ):
        assert any(word in name for name in kinds())


@pytest.mark.parametrize("name", ["compiled-is-solver", "masking", "rate-of-every-kind"])
def test_what_holds_of_all_kinds_is_measured_on_each(name):
    theorem = THEOREMS[name]
    tried = {case.label for case in theorem.cases(True) if theorem.inapplicable(case) is None}
    missing = {label for label, case in kinds().items() if not case.solver.smooths} - tried
    assert not missing
