"""Bars that move and have a time, and what is said beforehand of how long things take."""

import io
from importlib import import_module

import pytest
from rich.console import Console

from ridgeformer.experiments.evaluation.measure import TRIED, Case, seconds_of
from ridgeformer.experiments.run import Run
from ridgeformer.experiments.studies import STUDIES, run_study
from ridgeformer.experiments.studies import base as studies
from ridgeformer.experiments.studies.base import Study
from ridgeformer.experiments.timing import in_words, one_unit
from ridgeformer.tasks import LinearRegression


def shown_by(tmp_path, action):
    """What a terminal of 80 columns is sent."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, color_system=None)
    action(Run(tmp_path, "numbers.json", console))
    return screen.getvalue()


@pytest.mark.parametrize("count", [1, 3])
def test_bars_have_the_time_that_has_passed_and_that_is_left(tmp_path, count):
    seen = []
    text = shown_by(tmp_path, lambda run: seen.extend(run.track(range(count), "working")))
    assert seen == list(range(count))
    assert "working" in text
    assert "0:00:00 so far" in text
    assert "left" in text


def test_a_bar_of_a_single_case_moves(tmp_path):
    # It has no total, so that rich lets it go back and forth.
    assert "0/?" in shown_by(tmp_path, lambda run: list(run.track([1], "working")))
    assert "0/?" not in shown_by(tmp_path, lambda run: list(run.track([1, 2], "working")))


def test_durations_are_said_as_one_says_them():
    said = [in_words(s) for s in (0.1, 12, 70, 200, 5000, 10_000)]
    assert said == ["5 seconds", "10 seconds", "70 seconds", "3 minutes", "83 minutes", "3 hours"]


def test_the_unit_of_speed_takes_some_time():
    assert 0 < min(one_unit() for _ in range(3)) < 5


def test_every_study_knows_its_time_and_has_a_fast_run():
    for study in STUDIES.values():
        assert study.seconds is not None
        assert all(seconds >= 0 for seconds in study.seconds)
        assert 2 <= study.few < study.prompts


class Slow(Study):
    """A study that says that it takes 100 seconds and 2 for each prompt."""

    name, summary, prompts, seconds = "slow", "", 50, (100.0, 2.0)

    def measure(self, prompts, seed, progress):
        raise KeyboardInterrupt

    def page(self, finding):
        raise AssertionError


@pytest.mark.parametrize(
    ("prompts", "said"), [(50, "slow, 50 prompts, takes about 7 minutes"), (8, "about 4 minutes")]
)
def test_a_study_says_beforehand_how_long_it_takes(tmp_path, monkeypatch, prompts, said):
    monkeypatch.setattr(studies, "slowness", lambda: 2.0)
    screen = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        run_study(Slow(), tmp_path, 0, prompts, Console(file=screen, width=200))
    assert said in screen.getvalue()
    assert ("The fast form takes less" in screen.getvalue()) == (prompts == 50)


def test_the_trial_of_an_evaluation_is_linear_in_prompts_and_supports(monkeypatch):
    """Measuring takes 3 seconds and 0.1 for each prompt by the clock of this test."""
    clock = [0.0]
    measuring = import_module("ridgeformer.experiments.evaluation.measure")
    monkeypatch.setattr(measuring, "perf_counter", lambda: clock[0])

    def run_case(case, out):
        clock[0] += 3 + 0.1 * out.prompts

    monkeypatch.setattr(measuring, "run_case", run_case)
    task = LinearRegression(features=2, supports=8)
    cases = [Case("linear", task, [], supports) for supports in (4, 8, 16)]
    assert seconds_of(cases, 100) == pytest.approx(3 * 3 + 0.1 * 100 * (0.5 + 1 + 2))
    assert clock[0] < 10 + 0.1 * 3 * TRIED[1]
