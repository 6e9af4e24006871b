"""The simple tools that answer for the suite: probes are better than guesses."""

import json

import pytest

from ridgeformer.suite import BASELINES, Suite, check_predictions, score

pytestmark = pytest.mark.usefixtures("unchecked")  # shapes are checked where answers are


@pytest.fixture(scope="module")
def few(suite):
    """Some small cases, which stand for all."""
    kinds = ("chebyshev-gaussian rotated", "richardson-gaussian channels", "gd++-linear channels",
             "shuffled newton-linear shuffled", "untrained gd++-linear untrained")  # fmt: skip
    chosen = {
        name: case
        for name, case in suite.cases.items()
        if f"{case.labels['kind']} {case.labels['group']}" in kinds
    }
    assert len(chosen) == len(kinds)
    return Suite(suite.path, chosen)


@pytest.mark.filterwarnings("error:Head")
def test_the_baselines_answer_and_probes_are_better_than_guesses(few):
    means = {}
    for baseline in BASELINES:
        answers = baseline(0).answers(few)
        found = score(few, check_predictions(json.loads(json.dumps(answers)), few))
        means[baseline.name] = found["summary"]
    for row in ("subspaces", "directions", "interventions"):
        for group in ("channels", "rotated"):
            best = means["probes"][row][group]["mean"]
            assert best > 0.2 + means["random"][row][group]["mean"]
            assert best > means["pca"][row][group]["mean"]
    assert (
        BASELINES[0](1).answers(few) == BASELINES[0](1).answers(few) != BASELINES[0](2).answers(few)
    )
    assert means["probes"]["subspaces"]["controls"]["mean"] == 1.0
    assert means["random"]["subspaces"]["controls"]["mean"] == 0.0
