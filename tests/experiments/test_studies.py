"""Studies run from the command line, and say what theory says where theory has a say."""

import json

import numpy as np
import pytest
import torch
from fork_server import cli as ridgeformer

from ridgeformer.compiler import Interpolated, SoftmaxAttention, compile
from ridgeformer.experiments.finding import Finding, Number
from ridgeformer.experiments.studies import STUDIES, run_study
from ridgeformer.experiments.studies.dot_products import draw, matvec_error
from ridgeformer.experiments.studies.gaussian import rmse, steps_to, width_for
from ridgeformer.experiments.studies.gaussian_setting import METHODS, RIDGE, TARGET, Setting
from ridgeformer.experiments.studies.learning_curve import task as curve_task
from ridgeformer.experiments.studies.smoother import (
    FAMILIES,
    SWEEPS,
    hindsight,
    similarity,
    smoother_weights,
)
from ridgeformer.kernels import Exponential, Gaussian
from ridgeformer.solvers import NadarayaWatson, krr, solve
from ridgeformer.tasks import KernelDraw, Prompt
from ridgeformer.tasks.learnable import generator_of
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

FEW = 8


def cli(*arguments):
    return ridgeformer("study", *arguments)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Every study on few prompts: its output, its page and its findings."""
    found = {}
    for name in STUDIES:
        out = tmp_path_factory.mktemp(name)
        result = cli(name, "--out", out, "--seed", 3, "--prompts", FEW)
        assert result.returncode == 0, result.stderr
        page, findings = (out / "index.html").read_text(), (out / "findings.json").read_text()
        found[name] = (result.stdout, page, json.loads(findings))
    return found


@pytest.fixture(scope="module")
def prompt():
    return KernelDraw(kernel=Exponential(1.0), supports=24, queries=12, scale=0.5).draw(5, seed=1)


@pytest.mark.parametrize("name", STUDIES)
def test_findings_are_complete(ran, name):
    _, _, findings = ran[name]
    assert (findings["study"], findings["seed"], findings["prompts"]) == (name, 3, FEW)
    assert findings["settings"]
    assert any(number["control"] for number in findings["numbers"])
    for number in findings["numbers"]:
        assert number["measure"] in findings["measures"]
        assert number["setting"]
        assert number["prompts"] <= FEW
        if number["mean"] is None:
            assert number["low"] is number["high"] is None
            assert number["prompts"] == 0
        else:
            assert number["low"] <= number["mean"] <= number["high"], number


@pytest.mark.parametrize("name", STUDIES)
def test_the_page_is_self_contained_and_says_its_seed(ran, name):
    output, page, _ = ran[name]
    assert "index.html" in output
    assert "findings.json" in output
    assert "seed 3" in page
    for tag in ('<script src="http', "<link"):
        assert tag not in page


def test_the_list_of_studies():
    result = cli()
    assert result.returncode == 0
    lines = result.stdout.strip().splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "] == list(STUDIES)
    assert max(map(len, lines)) <= 80
    start = max(map(len, STUDIES)) + 1
    summaries = " ".join(line[start:] for line in lines)
    assert summaries == " ".join(study.summary for study in STUDIES.values()), "below each other"
    assert {line[start - 1] for line in lines} == {" "}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["smother"], "There is no study 'smother': did you mean smoother?"),
        (["smoother", "--prompts", "1"], "at least 2 prompts"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(arguments, words, tmp_path):
    result = cli("--out", tmp_path, *arguments)
    assert result.returncode == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": 2**63}, "seed must be at least 0"),
        ({"prompts": 0}, "at least 2 prompts"),
        ({"out": __file__}, "cannot be written"),
    ],
)
def test_impossible_runs_are_refused_before_measuring(options, words, tmp_path):
    with pytest.raises(Refusal, match=words):
        run_study(STUDIES["smoother"], **({"out": tmp_path} | options))
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_finds_the_same_numbers(ran):
    finding = STUDIES["smoother"].measure(FEW, 3, list)
    again = json.loads(json.dumps(finding.to_dict(), allow_nan=False))
    first, second = (
        [n["mean"] for n in f["numbers"] if n["measure"] == "error"]
        for f in (ran["smoother"][2], again)
    )
    np.testing.assert_allclose(first, second, rtol=1e-6)


def test_the_truth_at_queries_belongs_to_the_same_function():
    task = KernelDraw(kernel=Gaussian(1.0), supports=3, queries=2, features=1, outputs=20000)
    prompt, truth = task.draw_with_truth(1, seed=0)
    assert torch.equal(task.draw(1, seed=0).y, prompt.y)
    kernel = Gaussian(1.0)
    within = truth[0] @ truth[0].T / 20000
    across = truth[0] @ prompt.y[0].T / 20000
    torch.testing.assert_close(
        within, kernel(prompt.phi_query, prompt.phi_query)[0], rtol=0, atol=0.05
    )
    torch.testing.assert_close(across, kernel(prompt.phi_query, prompt.phi)[0], rtol=0, atol=0.05)


def test_copies_repeat_the_first_support_with_noise_of_their_own():
    prompt = KernelDraw(supports=6, copies=2).draw(1, seed=0)
    assert torch.equal(prompt.phi[0, 4:], prompt.phi[0, :1].expand(2, -1))
    assert len(prompt.y[0, [0, 4, 5]].unique()) == 3
    with pytest.raises(Refusal, match="copies must be"):
        KernelDraw(supports=6, copies=6)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_study_smooths_as_the_solver_does(name, prompt):
    kernel = FAMILIES[name](0.7)
    expected = solve(NadarayaWatson(), prompt, steps=1, ridge=1.0, kernel=kernel).final
    found = smoother_weights(similarity(name, prompt), 0.7) @ prompt.y
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 20.0])
def test_one_softmax_head_is_the_smoother(prompt, temperature):
    model = compile(
        NadarayaWatson(), features=prompt.features, outputs=prompt.outputs,
        kernel=Exponential(temperature), to=SoftmaxAttention(products=None),
    )  # fmt: skip
    expected = smoother_weights(similarity("exponential", prompt), temperature) @ prompt.y
    torch.testing.assert_close(model.predict(prompt), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_hot_smoother_is_the_mean_and_a_cold_one_the_nearest_support(name, prompt):
    similar = similarity(name, prompt)
    hot = smoother_weights(similar, 1e8) @ prompt.y
    mean = prompt.y.mean(1, keepdim=True).expand_as(hot)
    torch.testing.assert_close(hot, mean, rtol=0, atol=1e-6)
    cold = smoother_weights(similar, 1e-8) @ prompt.y
    nearest = prompt.y.gather(1, similar.argmax(-1, keepdim=True))
    torch.testing.assert_close(cold, nearest, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_krr_interpolates_and_the_smoother_does_not(name, prompt):
    at_supports = Prompt(prompt.phi, prompt.y, prompt.phi)
    ridge = krr(at_supports, ridge=1e-9, kernel=FAMILIES[name](0.3))
    torch.testing.assert_close(ridge, prompt.y, rtol=0, atol=1e-4)
    smooth = smoother_weights(similarity(name, at_supports), 0.3) @ prompt.y
    assert float((smooth - prompt.y).abs().mean()) > 0.1


def test_hindsight_never_makes_the_smoother_worse(ran):
    """The temperatures tried hold τ = 1."""
    numbers = ran["smoother"][2]["numbers"]
    errors = {}
    for n in numbers:
        if n["measure"] == "error" and n["setting"]["temperature"] == 1:
            key = (n["setting"]["sweep"], n["setting"]["kernel"], n["setting"]["value"])
            errors.setdefault(key, {})[n["method"]] = n["mean"]
    assert len(errors) == 2 * (sum(len(v) for v, _ in SWEEPS.values()) - 7)
    for found in errors.values():
        assert found["smoother, best τ"] <= found["smoother"] + 1e-12


def test_two_heads_have_the_gain_of_least_squares():
    task = KernelDraw(kernel=Gaussian(1.0), supports=16, queries=8)
    prompt, truth = task.draw_with_truth(4, seed=0)
    _, best = hindsight(similarity("gaussian", prompt), prompt, truth)
    mean = prompt.y.mean(1, keepdim=True)
    spread = truth.std(1, correction=0, keepdim=True)

    def loss(gain):
        prediction = mean + gain / best.gain * (best.prediction - mean)
        return float(((prediction - truth) / spread).square().mean())

    assert loss(best.gain) < min(loss(0.99 * best.gain), loss(1.01 * best.gain))


def test_matched_krr_is_the_best_of_all_on_its_home_ground():
    """The posterior mean minimises the squared error, so that nothing beats it by more than chance."""
    task = KernelDraw(kernel=Gaussian(1.0), supports=32, queries=32, noise=0.3)
    prompt, truth = task.draw_with_truth(64, seed=0)
    ridge = krr(prompt, ridge=0.09, kernel=Gaussian(1.0))
    one, two = hindsight(similarity("gaussian", prompt), prompt, truth)
    other_ridge = krr(prompt, ridge=0.9, kernel=Gaussian(1.0))
    for other in (one.prediction, two.prediction, other_ridge):
        assert float((ridge - truth).square().mean()) < float((other - truth).square().mean())


def test_widths_and_steps_are_read_off_where_they_are_reached():
    floors = torch.tensor([[4.0, 1.0, 0.25], [0.5, 0.2, 0.1], [9.0, 8.0, 7.0]]).double()
    found = width_for(floors, (8, 16, 32), 2.0).exp()
    np.testing.assert_allclose(found[0], 8 * 2**0.5, rtol=1e-9)
    assert found[1:].isnan().all()  # already below, and never
    errors = torch.tensor([[1.0, 1.0], [0.1, 1.0], [0.3, 1.0], [0.1, 1.0]]).double()
    steps = steps_to(errors, 0.2)
    assert steps[0] == 3  # it must stay below
    assert steps[1].isnan()


def number(findings, measure, method, **setting):
    """The one number that agrees, from a findings.json."""
    numbers = [Number(**n) for n in findings["numbers"]]
    read = Finding("", 0, 0, numbers=numbers)
    return read.get(measure, method, **setting)


def test_the_spectrum_lies_in_the_certain_interval():
    setting = Setting(24)
    prompt = setting.draw(8, seed=0)
    values, sums = setting.spectrum(prompt)
    lo, hi = setting.certain
    assert lo <= float(values.min())
    assert float(values.max()) <= hi
    assert float(prompt.phi.norm(dim=-1).max()) <= setting.radius
    system = setting.kernel(prompt.phi, prompt.phi) + RIDGE * torch.eye(24)
    plain = torch.linalg.eigvals(system / sums[:, :, None]).real.sort().values
    torch.testing.assert_close(values, plain, rtol=1e-6, atol=1e-9)


def test_the_floor_falls_with_the_square_of_the_width(ran):
    """Fits over three octaves and 8 prompts: the full study has −2 ± 0.2 in its intervals."""
    for supports in (16, 32):
        fitted = number(ran["gaussian"][2], "floor slope", "certified range", supports=supports,
                        solver="chebyshev")  # fmt: skip
        assert -2.3 < fitted.mean < -1.8


def test_models_follow_the_solver_until_their_floor(ran):
    findings = ran["gaussian"][2]
    for solver in ("chebyshev", "richardson"):
        where = {"supports": 32, "solver": solver, "step": 4}
        model = number(findings, "error", "model, width 256", **where)
        reference = number(findings, "error", "solver", **where)
        assert model.mean == pytest.approx(reference.mean, rel=0.02)
    assert number(findings, "exact products", "gated MLP").mean < 1e-12
    for promised in findings["numbers"]:
        if promised["measure"] == "largest ÷ promised":
            assert promised["high"] <= 1


def test_depth_is_linear_in_the_digits_and_chebyshev_needs_less_of_it(ran):
    findings = ran["gaussian"][2]
    where = {"supports": 32, "features": 2, "lengthscale": 0.5}
    for solver in METHODS:
        for tuning in ("prompts", "certain"):
            assert number(findings, "steps R²", tuning, solver=solver, **where).mean > 0.99
    factor = number(findings, "hidden factor", "unit step", solver="richardson", **where)
    assert 0.8 < factor.mean < 1.2  # (1 − 1/κ)ᵗ takes κ·ln 1/ε steps
    assert number(findings, "ratio", "prompts", **where).low > 2
    effect = number(findings, "amplification", "constant error", **where)
    assert effect.high < number(findings, "amplification bound", "prompts", **where).mean
    largest = number(findings, "largest condition", "prompts", **where)
    assert largest.mean < number(findings, "interval", "certain", solver="chebyshev", **where).mean


@pytest.mark.slow
@pytest.mark.parametrize("supports", [16, 64])
def test_the_floor_of_other_prompts_has_the_same_slope(supports):
    setting, widths = Setting(supports), (64, 128, 256, 512, 1024)
    prompt = setting.draw(8, seed=11)
    target = setting.solved("chebyshev", prompt, 32)[-1]
    floors = []
    for width in widths:
        model = setting.compiled("chebyshev", 32, Interpolated(TARGET, width=width))
        floors.append(float(rmse(model.predict(prompt), target).mean()))
    assert abs(np.polyfit(np.log(widths), np.log(floors), 1)[0] + 2) < 0.2


@pytest.mark.parametrize("heads", [2, 4, 6, 8])
def test_the_error_of_a_mat_vec_has_the_order_of_its_heads(ran, heads):
    findings = ran["dot-products"][2]
    assert number(findings, "slope", f"{heads} heads").mean == pytest.approx(heads, abs=0.3)
    factor = number(findings, "round-off", f"{heads} heads")
    assert 0.1 < factor.mean < 20


def test_eight_heads_reach_twelve_digits():
    assert float(matvec_error(draw(4, seed=5), 8, 0.02).max()) < 1e-12


def test_cg_drifts_in_proportion_to_the_error_of_its_mat_vecs(ran):
    """C·t·ε_mv·scale with a constant of order one, for mat-vecs six orders apart."""
    findings = ran["dot-products"][2]
    for method in ("2 heads, ε = 0.1", "4 heads, ε = 0.01"):
        assert 0.05 < number(findings, "drift", method, ridge=0.1).mean < 10
    last = findings["settings"]["steps"]
    coarse, fine, exact = (
        number(findings, "error", method, ridge=0.1, step=last).mean
        for method in ("2 heads, ε = 0.1", "4 heads, ε = 0.01", "exact CG")
    )
    assert coarse > 1e3 * fine > 1e3 * exact


def test_the_learning_curve_is_that_of_ridge_regression(ran):
    """Closed form on truncated prompts; conjugate gradients end with the pairs, and later come near."""
    numbers = [Number(**n) for n in ran["learning-curve"][2]["numbers"]]
    found = Finding("", 0, 0, numbers=numbers)
    sample = curve_task().sample(FEW, generator_of(3))
    x = torch.cat([sample.prompt.phi, sample.prompt.phi_query], dim=1)
    y = torch.cat([sample.prompt.y, sample.targets], dim=1)
    for pairs in (1, 7, 48):
        before = Prompt(x[:, :pairs], y[:, :pairs], x[:, pairs : pairs + 1])
        apart = krr(before, ridge=curve_task().ridge)[:, 0, 0] - y[:, pairs, 0]
        expected = pytest.approx(float(apart.square().mean() / 1.09), rel=1e-9)
        assert found.get("error", "exact ridge", pairs=pairs).mean == expected
    for pairs in range(9):
        assert found.get("distance", "cg, 8 steps", pairs=pairs).mean < 1e-6
    for method, bound in (("cg, 1 step", "bound, t = 1"), ("cg, 8 steps", "bound, t = 8")):
        for pairs in range(49):
            distance = found.get("distance", method, pairs=pairs).mean
            assert distance <= found.get("bound", bound, pairs=pairs).mean
    near, far = (found.get("distance", f"{s}, 8 steps", pairs=48).mean for s in ("cg", "gd"))
    assert near < 0.5 * far
