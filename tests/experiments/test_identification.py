"""Cases of a calibration: drawn alike every time, and measured once."""

from dataclasses import asdict
from math import inf

import torch

from ridgeformer.analysis.verdict import Account, Findings
from ridgeformer.experiments.identification import measure as measuring
from ridgeformer.experiments.identification.cases import Case
from ridgeformer.experiments.identification.measure import Measurement, findings_from, measure_all
from ridgeformer.experiments.jobs import Store

FOUND = Findings(
    (Account("gd", 5, 2, 0.1, 0.2, 0.0, 1.0, (0.5, 0.25), (0.1, 0.2)),), True, inf, ("gd", "cg")
)


def test_a_case_is_the_same_every_time_and_another_seed_is_another():
    first, again, other = (Case("gd", seed).drawn() for seed in (3, 3, 4))
    once, twice = (one.subject.predict(one.prompt) for one in (first, again))
    torch.testing.assert_close(once, twice, rtol=0, atol=0)
    assert other.ridge != first.ridge


def test_findings_come_back_as_they_were_put(tmp_path):
    store, task = Store(tmp_path), Measurement(Case("gd", 0))
    assert task not in store
    store.put(task, asdict(FOUND))
    assert findings_from(store.get(task)) == FOUND
    assert Measurement(Case("gd", 0, "noise")) not in store
    assert Measurement(Case("gd", 1)) not in store


def test_what_is_there_is_not_measured_again(tmp_path, monkeypatch):
    store, cases = Store(tmp_path), [Case("gd", seed) for seed in range(3)]
    store.put(Measurement(cases[1]), asdict(FOUND))
    asked = []

    def measured(case):
        asked.append(case)
        return FOUND

    monkeypatch.setattr(measuring, "measure", measured)
    assert measure_all(cases, store) == [FOUND] * 3
    assert asked == [cases[0], cases[2]]
    assert all(Measurement(case) in store for case in cases)


def test_another_method_has_other_results(tmp_path, monkeypatch):
    store, task = Store(tmp_path), Measurement(Case("gd", 0))
    store.put(task, asdict(FOUND))
    monkeypatch.setattr(measuring, "METHOD", measuring.METHOD + 1)
    assert task not in store
