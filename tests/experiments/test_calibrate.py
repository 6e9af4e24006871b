"""Limits are chosen on known cases, rates are those of others, and a calibration comes back as it was written."""

import json
from importlib.resources import files
from math import inf

import pytest
from browsing import problems_at_every_width
from typer.testing import CliRunner

from ridgeformer.analysis.verdict import Account, Findings, Limits, accepts
from ridgeformer.cli import app
from ridgeformer.experiments.identification import calibrating
from ridgeformer.experiments.identification import measure as measuring
from ridgeformer.experiments.identification.calibrating import (
    FAST,
    FULL,
    calibrated,
    cases_of,
    choose,
)
from ridgeformer.experiments.identification.calibration import FILE, Calibration, Rate, shipped
from ridgeformer.experiments.identification.cases import CONTROLS, PLANTED, Case, spread_of_weights

pytestmark = pytest.mark.usefixtures("unchecked")


def account(name, interior, unexplained=0.0, systematic=0.0):
    return Account(
        name, 6, 2, interior, unexplained, systematic, 1.0, (interior,) * 3, (unexplained,) * 3
    )


def found(*accounts):
    return Findings(accounts, True, inf, ())


def truthful(case):
    """What a good instrument finds: the answer with small errors, another candidate with large ones."""
    if case.is_control:
        return found(account("gd", 0.5, 0.2, 0.1), account("cg", 0.3, 0.1, 0.1))
    noise = 0.01 if case.treatment == "noise" else 0.0
    other = "gd" if case.answer == "cg" else "cg"
    return found(account(case.answer, 1e-3, noise), account(other, 0.8, 0.3, 0.2))


def test_no_case_is_measured_twice_and_the_worlds_are_apart():
    cases = cases_of(FULL, 0)
    assert len(set(cases)) == len(cases)
    known = {(c.answer, c.treatment) for c in cases if c.world == "known"}
    assert {answer for answer, _ in known} == {*PLANTED, *CONTROLS}
    others = cases_of(FULL, 1)
    assert not set(cases) & set(others), "another seed has other models"


def test_the_limits_lie_between_what_is_right_and_what_is_not():
    known = [(c, truthful(c)) for c in cases_of(FULL, 0) if c.world == "known"]
    limits = choose(known)
    assert 1e-3 < limits.interior < 0.3
    assert limits.unexplained > 0.01
    for case, findings in known:
        assert any(accepts(one, limits) for one in findings.accounts) != case.is_control


def test_the_limits_are_among_the_best_even_where_the_middle_is_not():
    """Solvers leave either much inside or much at the end, and a control a little of both."""
    one, other = (Case("gd", seed) for seed in (0, 1))
    known = [
        (one, found(account("gd", 1e-4, 0.09))),
        (other, found(account("gd", 0.09, 0.02))),
        (Case("untrained", 0), found(account("gd", 0.05, 0.05))),
    ]
    limits = choose(known)
    errors = [any(accepts(a, limits) for a in f.accounts) == c.is_control for c, f in known]
    assert sum(errors) == 1, "one solver must be missed, and no more than that"


def test_rates_count_what_is_wrong_on_cases_that_were_held_out():
    cases = cases_of(FULL, 0)
    findings = [truthful(case) for case in cases]
    wrong = next(n for n, c in enumerate(cases) if c.world == "held out" and c.answer == "newton")
    findings[wrong] = found(account("cg", 1e-3), account("newton", 0.8))
    taken = next(n for n, c in enumerate(cases) if c.world == "held out" and c.is_control)
    findings[taken] = found(account("cg", 1e-3))
    calibration, judged = calibrated(cases, findings, 0)
    clean = FULL.clean * len(PLANTED)
    assert calibration.error_rates["another family"] == Rate(1, clean)
    assert calibration.error_rates["the truth not in the set"] == Rate(1, clean)
    assert calibration.error_rates["none of these, for a solver"] == Rate(0, clean)
    controls = FULL.controls * len(CONTROLS)
    assert calibration.error_rates["a control taken for a solver"] == Rate(1, controls)
    assert calibration.confusion["clean"]["newton"] == {"cg": 1, "newton": FULL.clean - 1}
    assert calibration.cases == len(judged) == sum(c.world == "held out" for c in cases)


def test_the_resolution_is_the_largest_noise_at_which_nearly_all_is_right():
    cases = [
        Case(answer, seed, "weights", "held out") for answer in ("gd", "cg") for seed in range(30)
    ]
    limit = sorted(spread_of_weights(seed) for seed in range(30))[19]
    known = [(c, truthful(c)) for c in cases_of(FAST, 0) if c.world == "known"]
    findings = [
        truthful(c)
        if c.answer == "gd" and spread_of_weights(c.seed) <= limit
        else found(account("cg", 0.9))
        for c in cases
    ]
    calibration, _ = calibrated(
        [*(c for c, _ in known), *cases], [*(f for _, f in known), *findings], 0
    )
    assert list(calibration.resolution) == ["gd"]
    assert limit <= calibration.resolution["gd"] <= 2 * limit


def test_the_limits_that_are_shipped_were_calibrated():
    text = (files("ridgeformer.experiments.identification") / FILE).read_text()
    assert shipped().to_dict()["limits"] == json.loads(text)["limits"]
    assert shipped().cases > 0


def test_a_calibration_comes_back_as_it_was():
    calibration, _ = calibrated(cases := cases_of(FAST, 0), [truthful(c) for c in cases], 0)
    again = Calibration.from_dict(json.loads(json.dumps(calibration.to_dict())))
    assert again == calibration
    assert again.limits == Limits(**calibration.to_dict()["limits"])


@pytest.mark.pages
def test_the_page_is_drawn_at_every_width(tmp_path, monkeypatch, browser):
    monkeypatch.setattr(measuring, "measure", truthful)
    done = CliRunner().invoke(app, ["calibrate", "--fast", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert problems_at_every_width(browser, tmp_path / "index.html") == {}


def test_the_command_measures_once_and_writes_the_calibration_and_its_page(tmp_path, monkeypatch):
    asked = []

    def measured(case):
        asked.append(case)
        return truthful(case)

    monkeypatch.setattr(measuring, "measure", measured)
    line = ["calibrate", "--fast", "--seed", "3", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, line)
    assert first.exit_code == 0, first.output
    assert "another family" in first.output
    assert set(asked) == set(cases_of(FAST, 3))
    page = (tmp_path / "index.html").read_text()
    for title in ("Errors", "Verdicts by truth", "What the limits separate", "No verdict is wrong"):
        assert title in page
    assert '"nan"' not in page, "cells without a model are left empty"
    assert Calibration.load(tmp_path / "calibration.json").cases > 0
    count = len(asked)
    assert CliRunner().invoke(app, line).exit_code == 0
    assert len(asked) == count, "what is there is not measured again"


@pytest.mark.slow
def test_a_model_of_each_kind_is_called_what_it_is(tmp_path):
    """The real instrument on one model of each kind; a single error among the clean ones is a failure."""
    cases = [c for c in cases_of(FAST, 7) if c.world == "held out" and c.treatment == "clean"]
    limits = shipped().limits
    for case in cases:
        found = measuring.measure(case)
        verdict = calibrating.judge(found, limits)
        assert calibrating.Judged(case, found, verdict, limits).right, case
