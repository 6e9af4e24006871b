"""`identify`: a compiled solver is called by its name, all evidence is written down, bad requests are refused."""

import json
from dataclasses import replace
from math import isfinite

import pytest
import torch
from browsing import problems_at_every_width
from rich.console import Console
from tiny_models import LINEAR, cli, refused, train

import ridgeformer as rf
from ridgeformer.analysis.candidates import Setting, candidates
from ridgeformer.analysis.verdict import Account, Findings, Limits, Verdict, judge
from ridgeformer.experiments.finding import Collector, Finding, Number
from ridgeformer.experiments.identification import answer, inquiry, parts
from ridgeformer.experiments.identification.answer import identify, what_would_change
from ridgeformer.experiments.identification.calibration import (
    Calibration,
    Rate,
    shipped,
)
from ridgeformer.experiments.identification.inquiry import Guess, InParts, remembered
from ridgeformer.experiments.identification.measure import METHOD
from ridgeformer.experiments.identification.page import SECTIONS, page_of
from ridgeformer.experiments.identification.parts import PARTS
from ridgeformer.experiments.identification.run import guess_of, report
from ridgeformer.experiments.named import chosen_model
from ridgeformer.kernels import Linear
from ridgeformer.models import Reading, Subject, subject
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import GaussianProcess, LinearRegression, SparseRegression

pytestmark = pytest.mark.usefixtures("unchecked")

RECIPE = 'name = "small"\n[task]\nname = "linear"\nfeatures = 3\nsupports = 12\ncondition = 10.0\n'
RIDGE, BOUND, STEPS, PROMPTS = 0.35, 100.0, 5, 48
LIMITS = Limits(0.05, 0.03, 1e-3)
QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with compiled models, a trained one, and recipes."""
    folder = tmp_path_factory.mktemp("identified")
    (folder / "small.toml").write_text(RECIPE)
    (folder / "wide.toml").write_text(RECIPE.replace("features = 3", "features = 5"))
    model = rf.compile(
        rf.GradientDescent(), features=3, steps=STEPS, ridge=RIDGE, to=rf.LinearAttention(BOUND)
    )
    model.save(folder / "gd")
    looped = rf.compile(
        rf.GradientDescent(), features=3, ridge=RIDGE, to=rf.LinearAttention(BOUND), looped=True
    )
    looped.save(folder / "loop")
    train(folder, "pairs", LINEAR)
    return folder


@pytest.fixture(scope="module")
def written(home):
    """The command on compiled gradient descent, and what it wrote."""
    result = cli("identify", "gd", "--task", "small.toml", "--prompts", PROMPTS, "--out", "page", cwd=home)  # fmt: skip
    assert result.exit_code == 0, result.output

    def fail(word):
        raise AssertionError(f"{word} in findings.json")

    values = json.loads((home / "page/findings.json").read_text(), parse_constant=fail)
    return result.output, values, (home / "page/index.html").read_text()


def test_compiled_gradient_descent_is_called_by_its_name(written):
    output, values, page = written
    verdict = values["settings"]["verdict"]
    assert (verdict["kind"], verdict["names"][0]) == ("solver", "gd")
    fit = values["settings"]["parts"]["candidates"]["fits"]["gd"]
    assert fit["steps"] == STEPS
    assert fit["fitted"]["λ"] == pytest.approx(RIDGE, rel=0.05)
    assert fit["fitted"]["step size"] == pytest.approx(2 / (2 * RIDGE + BOUND), rel=0.05)
    said = " ".join(output.split())
    assert verdict["sentence"] in said
    assert verdict["what would change it"] in said
    assert verdict["sentence"] in page


def test_the_verdict_does_not_know_the_name_of_the_model(home):
    """The certificate gives the search its kernel and λ, and nothing else."""
    model = rf.load(home / "gd")
    renamed = replace(model.certificate, solver="cg", interval=None)
    object.__setattr__(model, "certificate", renamed)
    guess = guess_of(model, LinearRegression(features=3))
    assert (guess.kernel.to_dict(), guess.ridge) == (Linear().to_dict(), RIDGE)
    assert vars(guess).keys() == {"kernel", "ridge", "source"}


def test_the_findings_are_complete(written):
    _, values, _ = written
    assert values["seed"] == 0
    assert values["prompts"] == PROMPTS
    assert values["settings"]["guess"]["source"] == "the model's certificate"
    assert not [p for p in values["settings"]["parts"].values() if "left out" in p]
    told = {n["measure"] for n in values["numbers"]}
    assert told == set(values["measures"])
    promised = {name for part in PARTS for name in part.measures}
    assert promised - told == {"effective ridge by noise", "follows the noise"}
    for n in values["numbers"]:
        if n["mean"] is not None:
            assert isfinite(n["mean"])
            assert n["low"] <= n["mean"] <= n["high"], n
    layers = values["settings"]["layers"]
    for measure in ("additivity", "effective ridge"):
        found = [n for n in values["numbers"] if (n["measure"], n["method"]) == (measure, "model")]
        assert len(found) == layers + 1


def test_numbers_of_the_table_are_those_that_judge(written):
    """The interior is estimated with an interval on the page, and must be the verdict's own."""
    _, values, _ = written
    accounts = {n["method"]: n["mean"] for n in values["numbers"] if n["measure"] == "interior"}
    accepted = set(values["settings"]["verdict"]["accepted"])
    assert "gd" in accepted
    assert all(accounts[name] <= LIMITS.interior for name in accepted)


def test_fixed_coefficients_are_additive_and_conjugate_gradients_are_not(written):
    _, values, _ = written
    finding = finding_of(values)
    assert all(n.high < 1e-9 for n in finding.select("additivity", "model"))
    assert finding.get("effective ridge", "model", at="prediction").mean > RIDGE
    errors = finding.select("error of a step", "gd")
    fit = values["settings"]["parts"]["candidates"]["fits"]["gd"]
    chosen = dict(zip(range(1, STEPS + 1), fit["layers"], strict=True))
    found = [n.mean for n in errors if chosen[n.setting["step"]] == n.setting["layer"]]
    assert max(found) < 1e-6
    assert max(n.mean for n in errors) > 1e-2, "other layers do not hold these steps"


def finding_of(values):
    numbers = [Number(**n) for n in values["numbers"]]
    return Finding("identify", values["seed"], values["prompts"], values["settings"], values["measures"], numbers)  # fmt: skip


def test_the_page_has_every_section_and_comes_from_the_findings_alone(written):
    _, values, page = written
    made = page_of(finding_of(values))
    titles = [section.title for section in made.sections]
    assert len(titles) == len(SECTIONS) + 2  # the verdict and the calibration
    assert set(SECTIONS) == {part.name for part in PARTS}
    for title in titles:
        assert f"<h2>{title}</h2>" in page
    assert page.count("Plotly.newPlot") >= 7
    assert (f"{shipped().cases} models" if shipped().cases else "uncalibrated") in page


@pytest.mark.pages
def test_the_page_is_drawn_at_every_width(written, home, browser):
    assert problems_at_every_width(browser, home / "page/index.html") == {}


def test_the_page_has_the_confusion_matrix(written):
    _, values, _ = written
    counts = {"clean": {"gd": {"gd": 9, "none": 1}, "untrained": {"none": 10}}}
    known = Calibration(LIMITS, counts, {"wrong family": Rate(1, 20)}, {}, 3, METHOD, 20)
    settings = {**values["settings"], "calibration": known.to_dict() | {"sentence": known.sentence}}
    (section,) = page_of(replace(finding_of(values), settings=settings)).sections[-1:]
    (figure,) = [block for block in section.content if hasattr(block, "panels")]
    (panel,) = figure.panels
    assert (panel.rows, panel.columns) == (["gd", "untrained"], ["gd", "none"])
    assert panel.values[0] == [9.0, 1.0]
    assert "1 of 20" in known.sentence


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gd"], "no task of its own"),
        (["gd", "--task", "wide.toml"], "compiled for 3 features, the prompt has 5"),
        (["pairs", "--task", "wide.toml"], "trained on 2 features"),
        (["gd", "--task", "chess"], "no task 'chess'"),
        (["gd", "--task", "small.toml", "--prompts", "8"], "--prompts of at least 32, got 8"),
        (["gd", "--task", "small.toml", "--seed", "-1"], "seed must be at least 0"),
        (["gd", "--task", "small.toml", "--out", "wide.toml"], "cannot be written"),
        (["gd", "--task", "small.toml", "--steps", "3"], "has no loop"),
        (["loop", "--task", "small.toml"], "choose --steps"),
        (["gd", "--task", "small.toml", "--calibration", "small.toml"], "as a calibration"),
        (["nothing"], "holds no saved model"),
    ],
)
def test_bad_requests(home, arguments, words):
    refused(cli("identify", *arguments, cwd=home), words)


class Broken(Subject):
    """Its predictions are what they are told to be, and its stream has a few layers."""

    name = "broken"

    def __init__(self, value, layers=2, width=4):
        self.value, self.layers, self.width = value, layers, width

    def read(self, prompt):
        said = torch.full((*prompt.phi_query.shape[:2], 1), self.value, dtype=torch.float64)
        shapes = ((1 + self.layers, len(prompt), n, self.width) for n in (said.shape[1], prompt.supports))  # fmt: skip
        return Reading(said, *(torch.zeros(shape, dtype=torch.float64) for shape in shapes))


TASK = LinearRegression(features=2, supports=6, queries=2)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Broken(torch.nan), "broken are not finite for 40 of 40 prompts"),
        (Broken(0.0, layers=0), "broken has no layer to read"),
        (Broken(0.0, width=64), "of width 64 needs twice as many tokens: give `prompts` of at least 130"),
    ],
    ids=["not finite", "no layers", "too wide"],
)  # fmt: skip
def test_subjects_that_cannot_be_identified(one, words):
    with pytest.raises(rf.Refusal, match=words):
        identify(one, TASK, prompts=40)


@pytest.fixture
def four_steps(monkeypatch):
    """Four steps of gradient descent as a subject; nothing else is a candidate."""
    only = lambda prompt, around: candidates(prompt, around, ["gd"])[:1]  # noqa: E731
    monkeypatch.setattr(inquiry, "candidates", only)
    to = rf.LinearAttention(30.0)
    return subject(rf.compile(rf.GradientDescent(), features=2, steps=4, ridge=0.3, to=to))


NEAR = Guess(Linear(), 0.3, "a test")


def test_what_needs_one_law_says_so_and_the_rest_is_measured(four_steps, tmp_path):
    """A subject from Python, on a task with several laws."""
    several = GaussianProcess(supports=6, queries=2, noise_variances=(0.01, 1.0))
    found = report(four_steps, several, tmp_path, prompts=32, guess=NEAR, console=QUIET)
    left_out = {n: p["left out"] for n, p in found.settings["parts"].items() if "left out" in p}
    assert set(left_out) == {"filters", "additivity", "degree", "probes", "interchange"}
    assert all("has 2 of them" in reason for reason in left_out.values())
    assert len(found.select("effective ridge by noise", "model")) == 2
    page = (tmp_path / "index.html").read_text()
    assert "Degree: not measured" in page
    assert "against the log of the level" in page


def test_a_task_without_a_law_is_searched_from_a_linear_kernel(four_steps):
    sparse = SparseRegression(features=2, supports=6, queries=2, nonzero=1)
    found = identify(four_steps, sparse, prompts=32)
    assert "no Gaussian law" in found.settings["guess"]["source"]
    assert found.settings["verdict"]["names"] == ["gd"]
    assert found.select("symmetry", "model")
    assert page_of(found).sections


def test_where_a_search_begins():
    task = GaussianProcess(supports=6, lengthscales=(0.3, 0.6, 0.9))
    guess = Guess.of(task, task.draw(2, 0))
    assert guess.kernel.to_dict() == {"name": "gaussian", "lengthscale": 0.6}
    assert guess.source == "the middle one of the task's 3 laws"
    assert Guess.of(TASK, TASK.draw(2, 0)).ridge == TASK.ridge


def test_the_same_seed_gives_the_same_findings(four_steps, monkeypatch):
    monkeypatch.setattr(answer, "PARTS", [part for part in PARTS if part.name == "candidates"])
    first, again, other = (
        identify(four_steps, TASK, prompts=32, seed=s, guess=NEAR) for s in (1, 1, 2)
    )
    assert first.to_dict() == again.to_dict()
    assert first.numbers != other.numbers


ACCOUNTS = (
    Account("gd", 5, 2, 0.01, 0.001, 1e-5, 1.0, (0.01, 0.02, 0.015), (0.001,) * 3),
    Account("cg", 5, 1, 0.2, 0.02, 5e-4, 1.0, (0.3, 0.2, 0.25), (0.02,) * 3),
)


def test_what_would_change_the_verdict():
    found = Findings(ACCOUNTS, True, 0.5, ())
    said = what_would_change(judge(found, LIMITS), found, LIMITS)
    assert "would fall if gd had interior > 0.05 (it has 0.01)" in said
    assert "If cg had interior ≤ 0.05 (it has 0.2), it would be accepted" in said
    strict = Limits(1e-3, 0.03, 1e-3)
    none = what_would_change(Verdict("none", (), ""), found, strict)
    assert none == "If gd had interior ≤ 0.001 (it has 0.01), it would be accepted."
    mixed = what_would_change(Verdict("mixture", ("gd", "cg"), ""), found, strict)
    assert "the combination left more than 0.001" in mixed


def test_calibrations_come_back_as_they_were_written(tmp_path):
    known = Calibration(LIMITS, {"clean": {"gd": {"gd": 3}}}, {"false none": Rate(0, 3)}, {"gap": 0.1}, 5, METHOD, 3)  # fmt: skip
    path = tmp_path / "c.json"
    path.write_text(json.dumps(known.to_dict()))
    assert Calibration.load(path) == known
    low, high = Rate(0, 100).ends
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 100))  # of Clopper and Pearson, without an error
    for broken, words in (({"limits": {}}, "no calibration"), ([1], "no calibration")):
        path.write_text(json.dumps(broken))
        with pytest.raises(rf.Refusal, match=words):
            Calibration.load(path)
    path.write_text(json.dumps(known.to_dict() | {"method": METHOD + 1}))
    with pytest.raises(rf.Refusal, match=f"version {METHOD + 1} of the method"):
        Calibration.load(path)
    assert shipped().method == METHOD


def test_a_reader_remembers_prompts_by_their_content():
    asked = []

    def read(prompt):
        asked.append(prompt)
        return prompt.y[None].clone()

    again, prompt = remembered(read), TASK.draw(4, 0)
    torch.testing.assert_close(again(prompt[:2]), again(prompt[:2]), rtol=0, atol=0)
    assert len(asked) == 1
    torch.testing.assert_close(again(prompt[2:]), prompt.y[None, 2:])
    assert len(asked) == 2


def test_a_subject_that_is_read_in_parts_is_the_same(four_steps, monkeypatch):
    monkeypatch.setattr(inquiry, "AT_ONCE", 5)
    prompt, parts_ = TASK.draw(7, 0), InParts(four_steps)
    assert [len(part) for part in inquiry.parts_of(prompt)] == [2, 2, 2, 1]
    whole, again = four_steps.read(prompt), parts_.read(prompt)
    for name in ("predictions", "queries", "supports"):
        torch.testing.assert_close(getattr(again, name), getattr(whole, name))
    torch.testing.assert_close(parts_.predict(prompt), whole.predictions)
    assert parts_.name == four_steps.name


def test_candidates_are_read_where_their_steps_were_found():
    """Every second step, if so many lie between those that were looked for."""
    prompt = TASK.draw(8, 0).to(torch.float64)
    around = Setting.around(prompt, Linear(), 0.3)
    candidate = candidates(prompt, around, ["cg"])[0]
    zeros = torch.zeros(2, 3)
    fit = inquiry.Fit(candidate, around, 4, 2, (1, 3), ("predictions",) * 2, 1, zeros, zeros[0], zeros, 0.0)  # fmt: skip
    reader = inquiry.reader_of(fit)
    exact = rf.solve(make_solver("cg"), prompt, steps=4, ridge=0.3).predictions
    torch.testing.assert_close(reader.read(prompt), exact[[2, 4]])
    assert reader.places == ({"step": 2, "layer": 1}, {"step": 4, "layer": 3})


def test_an_interior_that_is_not_a_number_is_undefined():
    zeros, ones = torch.zeros(2, 3), torch.ones(2, 3)
    prompt = TASK.draw(8, 0).to(torch.float64)
    around = Setting.around(prompt, Linear(), 0.3)
    candidate = candidates(prompt, around, ["cg"])[0]
    fit = inquiry.Fit(candidate, around, 2, 1, (1, 2), ("predictions",) * 2, 1, ones, zeros[0], zeros, 0.0)  # fmt: skip
    assert parts.interior(fit, 0).mean is None
    out = Collector(3, 0)
    parts.add_exact(out, "systematic", "cg", float("inf"))
    assert out.numbers[0].mean is None


def test_shipped_models_have_names(home):
    """A name is taken from the shipped models only where no model is."""
    assert chosen_model("linear-attention").recipe.task.name == "linear"
    assert chosen_model(home / "gd").certificate.solver == "gd"
