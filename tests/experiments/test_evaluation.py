"""`evaluate`: calibrated by a compiled solver, intervals that cover, the same twice, planted errors caught."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from math import isfinite

import pytest
import torch
from rich.console import Console
from tiny_models import LINEAR, PROCESS, cli, compile_cg, recipe_of, refused, train

import ridgeformer as rf
from ridgeformer.baselines import FixedSteps, LeastSquares, TunedFunctionalSteps
from ridgeformer.experiments.evaluation import ScaledInputs, measure, methods, scores, shifts_of
from ridgeformer.experiments.evaluation.measure import Case, run_case
from ridgeformer.experiments.evaluation.methods import Method, of_best, of_model
from ridgeformer.experiments.evaluation.run import evaluate, tasks_of
from ridgeformer.experiments.finding import Collector, Finding
from ridgeformer.solvers import krr
from ridgeformer.statistics import estimate_of
from ridgeformer.tasks import LEARNABLE, GaussianProcess, LinearRegression
from ridgeformer.training import Held
from ridgeformer.training.loop import batch_at
from ridgeformer.training.scores import errors, excess, excess_from_targets
from ridgeformer.types import Refusal

TASK = LinearRegression(features=2, supports=8, queries=4)
PROMPTS = 48


pytestmark = pytest.mark.usefixtures("unchecked")


class Zero:
    """Stands in for a baseline: predicts 0."""

    name, label = "zero", "predicting 0"

    def fit(self, task, seed):
        return self

    def predict(self, prompt):
        return torch.zeros(*prompt.phi_query.shape[:2], 1, dtype=torch.float64)


class Few(Zero):
    """Predicts NaN for one prompt, and refuses long prompts."""

    name, label = "few", "few supports"

    def predict(self, prompt):
        if prompt.supports > 8:
            raise Refusal("Too many supports.")
        found = super().predict(prompt)
        if prompt.supports == 2:
            found[0] = torch.nan
        return found


@pytest.fixture(scope="module", autouse=True)
def stand_ins():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "BASELINES", {"zero": Zero, "few": Few})
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    for layout, task in (("pairs", LINEAR), ("interleaved", PROCESS)):
        (folder / f"for-{layout}").mkdir()
        train(folder / f"for-{layout}", layout, task).rename(folder / layout)
    compile_cg(folder / "cg")
    return folder


@pytest.fixture(scope="module")
def of_cg(home):
    return measure(rf.load(home / "cg"), {"linear": TASK}, PROMPTS, 0)


@pytest.fixture(scope="module")
def of_trained(home, tmp_path_factory):
    """Findings of the trained model, and where they were written."""
    out = tmp_path_factory.mktemp("page")
    quiet = Console(quiet=True)
    return evaluate(home / "pairs", out, prompts=PROMPTS, seed=1, console=quiet), out


def test_a_compiled_solver_has_no_excess(of_cg):
    """CG in p + 1 steps with the task's ridge is the best predictor: the zero of every scale."""
    for number in of_cg.by_kind["excess", "model"] + of_cg.by_kind["excess by condition", "model"]:
        assert 0 <= number.high < 1e-12, number
    for number in of_cg.by_kind["excess from targets", "model"]:
        assert abs(number.mean) < 1e-9
    for number in of_cg.by_kind["R²", "model"] + of_cg.by_kind["correlation", "model"]:
        assert number.low > 1 - 1e-9
    for number in of_cg.by_kind["mse", "model"]:
        best = of_cg.get("mse", "best", **number.setting)
        assert number.mean == pytest.approx(best.mean, abs=1e-9)
        assert number.low == pytest.approx(best.low, abs=1e-9)
    # A solver knows no shift: it pays what the best predictor pays for not being told.
    shifted = of_cg.by_kind["excess under shift", "model"]
    assert {n.setting["shift"] for n in shifted} == {"condition number", "noise", "input scale"}
    for number in shifted:
        unaware = of_cg.get("excess under shift", "unaware", **number.setting)
        assert number.mean == pytest.approx(unaware.mean, rel=1e-6, abs=1e-12)


def test_predicting_nothing_has_excess_one(of_cg):
    for number in of_cg.by_kind["excess from targets", "zero"]:
        assert 1 - 1e-12 < number.mean < 1.1  # the mean itself has 1, and is near 0 here
    for number in of_cg.by_kind["excess", "zero"]:
        assert 0.5 < number.low < number.high < 2.5
    assert of_cg.get("correlation", "zero", supports=8).mean is None  # of a constant


@pytest.mark.parametrize("name", ["linear", "poisson"])
def test_the_mean_has_excess_one(name):
    """Also where the mean is far from 0."""
    held = Held.draw(LEARNABLE[name](features=2, supports=16, queries=4), 128, seed=0)
    targets = held.sample.targets
    found = excess_from_targets(targets.mean().expand_as(targets), held)
    assert found.mean == pytest.approx(1, abs=1e-9)


def test_the_wrong_ridge_has_an_excess(home, tmp_path):
    wrong = compile_cg(tmp_path / "wrong", ridge=100 * TASK.ridge)
    found = at_own(wrong)
    excess = found.get("excess", "model", supports=8)
    literal = found.get("excess from targets", "model", supports=8)
    assert excess.low > 0.05
    assert literal.low < excess.mean < literal.high


def test_what_not_knowing_costs(of_cg):
    # What not knowing of the shift costs is 0 without one, and grows with it.
    cost = [n.mean for n in of_cg.by_kind["excess under shift", "unaware"] if n.setting["shift"] == "noise"]  # fmt: skip
    assert cost[2] == 0
    assert cost[4] > cost[3] > 0.001 < cost[0]


def test_prompts_of_rising_condition_number(of_trained):
    quarters = of_trained[0].by_kind["excess by condition", "model"]
    assert [n.setting["quarter"] for n in quarters] == [1, 2, 3, 4]
    assert sum(n.prompts for n in quarters) == PROMPTS
    for before, after in pairwise(quarters):
        assert before.setting["most"] <= after.setting["least"]
    phi = Held.draw(TASK, 3, 0).sample.prompt.phi
    expected = torch.linalg.cond(phi.mT @ phi + 0.7 * torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(scores.feature_condition(phi, 0.7), expected)


def test_intervals_cover_what_is_known():
    """E y² = 1 + noise² on the linear task: the error of predicting 0."""
    truth, covered, runs = 1 + TASK.noise**2, 0, 150
    for seed in range(runs):
        held = Held.draw(TASK, 150, seed)
        targets = held.sample.targets
        found = estimate_of(errors(0 * targets, targets)[:, None], lambda m: m[:, 0], seed)  # fmt: skip
        covered += found.low <= truth <= found.high
    assert 0.87 * runs <= covered <= 0.99 * runs


def test_intervals_of_the_excess_cover():
    """Of half the best prediction, whose excess is exactly 1/4, by either route."""
    runs, covered = 100, 0
    for seed in range(runs):
        held = Held.draw(TASK, 200, seed)
        found = excess_from_targets(held.best / 2, held, seed)
        covered += found.low <= 0.25 <= found.high
        assert 0.2 < excess(held.best / 2, held, True, seed).mean < 0.3
    assert 0.87 * runs <= covered <= 0.99 * runs


def numbers(findings):
    return [n for n in findings.numbers if n.measure != "prompts per second"]


def test_the_same_seed_gives_the_same_numbers(home):
    model = rf.load(home / "pairs")
    once, again, other = (measure(model, {"linear": TASK}, 16, seed) for seed in (5, 5, 6))
    assert numbers(once) == numbers(again)
    assert once.get("mse", "best", supports=8).mean != other.get("mse", "best", supports=8).mean


def test_held_out_prompts_are_not_those_of_training():
    """torch reads the last 32 bits of a seed alone, so no sum of a seed and an offset is safe."""
    recipe = recipe_of("pairs", LINEAR)
    for seed in range(4):
        held = Held.draw(recipe.task, 16, seed).sample.prompt.phi
        again = recipe.task.draw(16, seed).phi
        assert not torch.allclose(held, again)
        for step in range(6):
            assert not torch.allclose(held[0, :1].float(), batch_at(step, recipe).prompt.phi[0, :1])


def test_results_are_complete_and_finite(of_trained):
    def fail(word):
        raise AssertionError(f"{word} in results.json")

    found, out = of_trained
    values = json.loads((out / "results.json").read_text(), parse_constant=fail)
    assert values["seed"] == 1
    assert values["prompts"] == PROMPTS
    assert values["settings"]["tasks"]["linear"] == json.loads(json.dumps(TASK.to_dict()))
    assert values["settings"]["trained supports"] == 8
    assert {n["measure"] for n in values["numbers"]} == set(values["measures"])
    for measured in ("mse", "excess", "excess from targets", "R²", "squared difference"):
        sizes = [n["setting"]["supports"] for n in values["numbers"] if (n["measure"], n["method"]) == (measured, "model")]  # fmt: skip
        assert sizes == [1, 2, 4, 8, 16, 32]
    for n in values["numbers"]:
        if n["mean"] is not None:
            assert isfinite(n["mean"])
            assert n["low"] <= n["mean"] <= n["high"], n
    assert found.get("above the model", "best", supports=8).mean < 0


def test_what_a_method_refuses_is_written_down(of_trained):
    refusals = of_trained[0].settings["refusals"]
    assert [(r["method"], r["supports"]) for r in refusals] == [
        ("few", 2),
        ("few", 16),
        ("few", 32),
    ]
    assert refusals[0]["reason"] == "Predictions are not finite for 1 of 48 prompts."
    assert "Too many supports." in (of_trained[1] / "index.html").read_text()


def test_the_page_is_self_contained_and_says_what_was_found(of_trained):
    found, out = of_trained
    page = (out / "index.html").read_text()
    text = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    for word in ("Evaluation of pairs", "Shifts of the task", "Condition number:", "Noise:", "Input scale:", "Speed"):  # fmt: skip
        assert word in text
    excess = found.get("excess", "model", supports=8).mean
    assert f"{excess:.3g}" in text
    for tag in ('<script src="http', "<link"):
        assert tag not in page


def test_interleaved_models_end_where_their_positions_end(home):
    found = measure(rf.load(home / "interleaved"), {"gp": GaussianProcess(1, 6, 3)}, 16, 0)
    assert [n.setting["supports"] for n in found.by_kind["mse", "model"]] == [1, 2, 4, 6, 8]
    shifts = {n.setting["shift"] for n in found.by_kind["excess under shift", "model"]}
    assert shifts == {"noise", "lengthscale", "input scale"}
    assert "excess by condition" not in {n.measure for n in found.numbers}


def test_shifted_tasks_keep_the_best_predictor_best():
    tasks = [TASK, GaussianProcess(1, 8, 4, lengthscales=(0.3, 0.6))]
    for task in tasks:
        for variants in shifts_of(task).values():
            assert [v for v, _ in variants] == sorted(v for v, _ in variants)
            assert task in [t for _, t in variants]
            for _, shifted in variants:
                held = Held.draw(shifted, 400, 0)
                unaware = task.best(held.sample.prompt)
                gap = scores.disagreement(unaware, held, 0)
                # Zero up to four standard errors, the width of an interval.
                assert abs(gap.mean) <= gap.high - gap.low + 1e-9, shifted


def test_inputs_in_other_units():
    """Linear: ridge λ·c². Gaussian process: lengthscale c·ℓ."""
    scaled = ScaledInputs.of(TASK, 3.0)
    prompt = Held.draw(scaled, 5, 0).sample.prompt
    torch.testing.assert_close(scaled.best(prompt), krr(prompt, ridge=9 * TASK.ridge))
    process = GaussianProcess(1, 8, 4)
    wide = ScaledInputs.of(process, 2.0)
    prompt = Held.draw(wide, 5, 0).sample.prompt
    longer = replace(process, lengthscales=(1.0,))
    torch.testing.assert_close(wide.best(prompt), longer.best(prompt))
    assert 1 < float(prompt.phi.abs().max()) <= 2


def at_own(directory, prompts=512):
    """What `measure` finds at the task's own number of supports, without the rest."""
    compared = [of_model(rf.load(directory)), of_best(TASK)]
    collector = Collector(prompts, 0)
    assert run_case(Case("linear", TASK, compared, TASK.supports), collector) == []
    return Finding("", 0, prompts, numbers=collector.numbers)


def gap_excludes_zero(findings):
    gap = findings.get("disagreement", "model", supports=8)
    return gap.mean is None or gap.low > 0 or gap.high < 0


def test_right_targets_and_best_pass_the_check(home):
    assert not gap_excludes_zero(at_own(home / "pairs"))


def test_shuffled_targets_are_caught(home, monkeypatch):
    right = Held.draw

    def shuffled(*arguments):
        held = right(*arguments)
        return replace(held, sample=replace(held.sample, targets=held.sample.targets.roll(1, 0)))

    monkeypatch.setattr(Held, "draw", shuffled)
    found = at_own(home / "pairs")
    assert gap_excludes_zero(found)
    assert found.get("excess", "model", supports=8).mean is None  # best is worse than 0


def test_a_wrong_best_predictor_is_caught(home, monkeypatch):
    monkeypatch.setattr(LinearRegression, "best", lambda self, p: krr(p, ridge=30 * self.ridge))
    assert gap_excludes_zero(at_own(home / "pairs"))
    compiled = at_own(home / "cg")
    assert compiled.get("excess from targets", "model", supports=8).high < 0  # better than "best"


def test_a_method_out_of_order_is_caught(home, monkeypatch):
    """Predictions of other prompts, or of other queries, lose all agreement."""
    right = Method.attempt

    def moved(self, prompt):
        found = right(self, prompt)
        return found.roll(1, 1) if self.name == "model" else found

    monkeypatch.setattr(Method, "attempt", moved)
    found = at_own(home / "cg", PROMPTS)
    assert found.get("R²", "model", supports=8).high < 0.5


def test_iterative_baselines_take_the_steps_that_are_asked_for(home, tmp_path, monkeypatch):
    """Others are left alone; predictions are those of baselines that were made with so many steps."""
    several = {"gd": FixedSteps, "kernel-gd": TunedFunctionalSteps, "least-squares": LeastSquares}
    monkeypatch.setattr(methods, "BASELINES", several)
    prompt = TASK.draw(4, seed=0)
    for steps in (None, 1, 3):
        number = {} if steps is None else {"steps": steps}
        for method in methods.of_baselines(TASK, 0, None, steps):
            made = several[method.name](**({} if method.name == "least-squares" else number))
            torch.testing.assert_close(method.predict(prompt), made.fit(TASK, 0).predict(prompt))
    few, more = (methods.of_baselines(TASK, 0, ["gd"], n)[0].predict(prompt) for n in (1, 3))
    assert not torch.allclose(few, more, rtol=1e-3)
    command = ["evaluate", home / "pairs", "--out", tmp_path / "e", "--baseline", "gd"]
    refused(cli(*command, "--steps", "0"), "at least one step")


def test_names_of_tasks(home, tmp_path):
    trained, compiled = rf.load(home / "pairs"), rf.load(home / "cg")
    assert tasks_of(trained, []) == {"linear": TASK} == tasks_of(trained, ["linear"])
    assert tasks_of(compiled, ["linear"]) == {"linear": LinearRegression(features=2)}
    (tmp_path / "r.toml").write_text('name = "mine"\n[task]\nname = "gp"\nsupports = 5\n')
    both = tasks_of(trained, ["linear", str(tmp_path / "r.toml")])
    assert both == {"linear": TASK, "mine": GaussianProcess(supports=5)}
    with pytest.raises(Refusal, match="twice"):
        tasks_of(trained, ["linear", "linear"])
    with pytest.raises(Refusal, match="no baseline 'magic': choose from zero, few, or none"):
        measure(trained, {"linear": TASK}, 8, 0, baselines=["magic"])


def test_the_command_line(home, tmp_path):
    (tmp_path / "r.toml").write_text('name = "mine"\n[task]\nname = "gp"\nsupports = 5\n')
    arguments = ["--task", "linear", "--task", "r.toml", "--baseline", "none", "--prompts", "16"]
    command = [sys.executable, "-m", "ridgeformer.cli", "evaluate", str(home / "pairs"), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "linear, 8 supports" in done.stdout
    assert "mine, 5 supports" in done.stdout
    assert (tmp_path / "results/evaluate-pairs/index.html").exists()
    values = json.loads((tmp_path / "results/evaluate-pairs/results.json").read_text())
    assert set(values["settings"]["methods"]) == {"model", "best", "unaware"}


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        ("cg", [], "no task of its own"),
        ("cg", ["--task", "wide.toml"], "compiled for 2 features, the prompt has 5"),
        ("pairs", ["--task", "wide.toml"], "trained on 2 features"),
        ("pairs", ["--task", "chess"], "no task 'chess': choose from linear"),
        ("pairs", ["--task", "none.toml"], "no recipe at none.toml"),
        ("pairs", ["--prompts", "4"], "at least 8, got 4"),
        ("pairs", ["--seed", "-1"], "seed must be at least 0"),
        ("pairs", ["--out", "wide.toml"], "cannot be written"),
        ("nothing", [], "holds no saved model"),
    ],
)
def test_bad_requests(home, tmp_path, model, arguments, words):
    (tmp_path / "wide.toml").write_text('name = "wide"\n[task]\nname = "linear"\nfeatures = 5\n')
    result = cli("evaluate", home / model, *arguments, "--baseline", "none", cwd=tmp_path)
    refused(result, words)
