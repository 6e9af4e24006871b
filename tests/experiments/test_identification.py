"""Cases of a calibration: drawn alike every time, and measured once."""

from math import inf

import torch

from ridgeformer.analysis.verdict import Account, Findings
from ridgeformer.experiments.identification import measure as measuring
from ridgeformer.experiments.identification.cases import Case
from ridgeformer.experiments.identification.measure import Store, measure_all

FOUND = Findings(
    (Account("gd", 5, 2, 0.1, 0.2, 0.0, (0.5, 0.25), (0.1, 0.2)),), True, inf, ("gd", "cg")
)


def test_a_case_is_the_same_every_time_and_another_seed_is_another():
    first, again, other = (Case("gd", seed).drawn() for seed in (3, 3, 4))
    once, twice = (one.subject.predict(one.prompt) for one in (first, again))
    torch.testing.assert_close(once, twice, rtol=0, atol=0)
    assert other.ridge != first.ridge


def test_findings_come_back_as_they_were_put(tmp_path):
    store, case = Store(tmp_path), Case("gd", 0)
    assert case not in store
    store.put(case, FOUND)
    assert store.get(case) == FOUND
    assert Case("gd", 0, "noise") not in store
    assert Case("gd", 1) not in store


def test_what_is_there_is_not_measured_again(tmp_path, monkeypatch):
    store, cases = Store(tmp_path), [Case("gd", seed) for seed in range(3)]
    store.put(cases[1], FOUND)
    asked = []

    def measured(case):
        asked.append(case)
        return FOUND

    monkeypatch.setattr(measuring, "measure", measured)
    measure_all(cases, store)
    assert asked == [cases[0], cases[2]]
    assert all(case in store for case in cases)
