"""`verify`: theorems hold, planted errors are named, results are the same twice."""

import subprocess
import sys

import numpy as np
import pytest
from selection import first_of_each
from theorem_cases import plant

from ridgeformer.analysis import probes
from ridgeformer.experiments.theorems import THEOREMS, Verdict
from ridgeformer.experiments.theorems import base as base_checks
from ridgeformer.experiments.theorems import depth as depth_checks
from ridgeformer.experiments.theorems import drift as drift_checks
from ridgeformer.experiments.theorems import feature_space as feature_checks
from ridgeformer.experiments.theorems import general as general_checks
from ridgeformer.experiments.theorems import heads as head_checks
from ridgeformer.experiments.theorems import inexact as inexact_checks
from ridgeformer.experiments.theorems import loops as loop_checks
from ridgeformer.experiments.theorems import mechanism as mechanism_checks
from ridgeformer.experiments.theorems import normaliser as normaliser_checks
from ridgeformer.experiments.theorems import probing as probing_checks
from ridgeformer.experiments.theorems import rates as rate_checks
from ridgeformer.experiments.theorems import sizes as size_checks
from ridgeformer.experiments.theorems import softmax as softmax_checks
from ridgeformer.experiments.theorems import width as width_checks
from ridgeformer.experiments.theorems.base import Axes, Line, Outcome
from ridgeformer.solvers import EagerMachine
from ridgeformer.tasks import Prompt

pytestmark = pytest.mark.usefixtures("unchecked")


def run(*arguments, cwd):
    command = [sys.executable, "-m", "ridgeformer.cli", "verify", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


@pytest.mark.parametrize("name", THEOREMS)
def test_the_theorem_holds_and_says_something(fast_report, name):
    (finding,) = (f for f in fast_report[0] if f.name == name)
    worst, cases = (finding.get(measure, name).value for measure in ("worst", "cases"))
    assert finding.holds, (finding.verdict, worst)
    assert cases > 0
    assert np.isfinite(worst)


def test_the_command_line(tmp_path):
    done = run("--fast", "--only", "sizes", "--out", "v", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sizes" in done.stdout
    assert (tmp_path / "v/results.json").exists()
    wrong = run("--only", "gravity", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "There is no theorem 'gravity'" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def outcome(worst):
    return Outcome("", np.array([worst]), [Line("a", [0], [1])], Axes("x", "y"))


def test_violated_and_vacuous_bounds_are_told_apart():
    theorem = THEOREMS["cg-rate"]
    words = [Verdict(theorem, outcome(w)).word for w in (0.5, 1 + 1e-12, 1.001, 0.01)]
    assert words == ["holds", "holds", "VIOLATED", "vacuous"]


def more(size, **others):
    return size | {name: size[name] + by for name, by in others.items()}


PLANTED = [
    ("cg-rate", depth_checks, "cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("cg-rate", depth_checks, "cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) * 100),
    ("feature-cg-rate", feature_checks, "feature_cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("feature-cg-rate", feature_checks, "feature_cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) * 100),
    ("feature-cg-rate", feature_checks, "cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) * 1.4),
    ("feature-cg-rate", feature_checks, "prefix_prompts", lambda f: lambda p: f(Prompt(p.phi, 1.1 * p.y, p.phi_query))),
    ("causal-supports", feature_checks, "causal_support_error", lambda f: lambda *a, **k: f(*a, **k) * 1.01),
    ("causal-supports", feature_checks, "streams", lambda f: lambda t, s: {n: x.roll(-1, 1) for n, x in f(t, s).items()}),
    ("fixed-coefficient-rates", depth_checks, "richardson_factor", lambda f: lambda c, t: f(c, t) * 0.98**t),
    ("fixed-coefficient-rates", depth_checks, "chebyshev_factor", lambda f: lambda c, t: f(c, t + 1)),
    ("fixed-coefficient-rates", depth_checks, "heavy_ball_factor", lambda f: lambda c, t: 1.05 * f(c, t)),
    ("chebyshev-worst-mode", depth_checks, "chebyshev_factor", lambda f: lambda c, t: 2 * f(c, t)),
    ("chebyshev-worst-mode", depth_checks, "chebyshev_factor", lambda f: lambda c, t: f(2 * c, t)),
    ("row-sum-rate", rate_checks, "tuned_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("several-outputs", rate_checks, "block_cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("several-outputs", rate_checks, "block_cg_energy_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("polynomial-rate", general_checks, "polynomial_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("polynomial-rate", general_checks, "polynomial_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) * 20),
    ("inexact-fixed-coefficients", general_checks, "perturbed_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("inexact-cg", rate_checks, "residual_gap_bound", lambda f: lambda *a, **k: f(*a, **k) / 10),
    ("inexact-cg", rate_checks, "residual_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 1.1),
    ("inexact-cg", rate_checks, "residual_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) * 1.1),
    ("amplified-errors", inexact_checks, "InexactCG", lambda f: lambda a, b, e, u: f(a, b, e / 5, u)),
    ("amplified-errors", inexact_checks, "inexact_energy_bound", lambda f: lambda e, t: f(e, t) * 10),
    ("amplified-errors", inexact_checks, "InexactCG", lambda f: lambda a, b, e, u: f(a, b**0.5, e, u)),
    ("amplified-errors", inexact_checks, "inexact_energy_bound", lambda f: lambda e, t: f(e, t) / 2),
    ("width-rank", width_checks, "rank_error", lambda f: lambda *a, **k: f(*a, **k) * 1.001),
    ("width-bounds", width_checks, "resolvent_bound", lambda f: lambda *a, **k: f(*a, **k) * 0.999),
    ("width-bounds", width_checks, "resolvent_bound", lambda f: lambda *a, **k: f(*a, **k) * 1.01),
    ("width-bounds", width_checks, "rank_error", lambda f: lambda *a, rank, **k: f(*a, rank=max(rank - 1, 0), **k)),
    ("effective-dimension", width_checks, "eigenvalue_bound", lambda f: lambda *a, **k: f(*a, **k) / 3),
    ("query-error", width_checks, "query_error_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("feature-drift", drift_checks, "drift_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 200),
    ("temperature", base_checks, "ratios", lambda f: lambda m, b, z: f(m, 0.9 * b, z)),
    ("sizes", size_checks, "matvec_widths", lambda f: lambda model: f(model)[1:]),
    ("sizes", size_checks, "cg_linear_size", lambda f: lambda *a: more(f(*a), n_layers=1)),
    ("sizes", size_checks, "cg_every_prefix_size", lambda f: lambda *a: more(f(*a), d_model=1)),
    ("sizes", size_checks, "cg_softmax_size", lambda f: lambda *a: more(f(*a), d_model=-1)),
    ("sizes", size_checks, "semi_iteration_size", lambda f: lambda p, r, t, **k: more(f(p, r, t, **k), d_mlp=r == 2)),
    pytest.param(
        "size-law", general_checks, "parameters_of", lambda f: lambda *a: (f(*a)[0], f(*a)[1] + 1),
        marks=pytest.mark.slow,
    ),
    ("sizes", size_checks, "parameters", lambda f: lambda *a, **k: f(*a, **k) + 1),
    ("interpolated-products", base_checks, "ratios", lambda f: lambda m, b, z: f(m, b / 10, z)),
    ("dot-products", softmax_checks, "dot_product_bound", lambda f: lambda *a, **k: f(*a, **k) / 4),
    ("normaliser", normaliser_checks, "normaliser_terms", lambda f: lambda *a, **k: {name: term / 5 for name, term in f(*a, **k).items()}),
    ("row-sum-spectrum", softmax_checks, "row_sum_spectrum_bound", lambda f: lambda *a, **k: (2 * f(*a, **k)[0], f(*a, **k)[1])),
    ("row-sum-spectrum", softmax_checks, "row_sums", lambda f: lambda *a, **k: f(*a, **k) - 1),
    ("shared-heads", head_checks, "predicted_heads", lambda f: lambda steps, outputs: f(steps, 1)),
    ("shared-heads", head_checks, "apart_from_dedicated", lambda f: lambda m, a, p: f(m, mechanism_checks.model_of("cg", 1.001, a.certificate.steps), p)),
    ("looped-models", loop_checks, "divisor_error_bound", lambda f: lambda *a: f(*a) / 5),
    ("looped-models", loop_checks, "cg_prediction_bound", lambda f: lambda *a, **k: f(*a, **k) / 2),
    ("looped-models", loop_checks, "richardson_factor", lambda f: lambda c, t: f(c, t) * 0.98**t),
    ("looped-models", loop_checks, "parameters_of", lambda f: lambda *a, **k: (f(*a, **k)[0], f(*a, **k)[1] + 1)),
    ("communication", head_checks, "predicted_connections", lambda f: lambda steps: [*f(steps)[1:], set()]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "module", "attribute", "wrong"), first_of_each(PLANTED))
def test_a_planted_error_is_named(monkeypatch, name, module, attribute, wrong):
    plant(monkeypatch, module, attribute, wrong)
    verdict = Verdict(THEOREMS[name], THEOREMS[name].measure(0, True))
    assert not verdict.holds


def test_a_wrong_chebyshev_start_is_noticed(monkeypatch):
    from ridgeformer.solvers.chebyshev import Chebyshev

    right = Chebyshev.init

    def wrong(self, m):  # ω₁ = 1, from which the general rule gives another second weight
        return right(self, m)._replace(divisor=1.0)

    monkeypatch.setattr(Chebyshev, "init", wrong)
    theorem = THEOREMS["chebyshev-worst-mode"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_wrong_beta_in_cg_is_noticed(monkeypatch):
    from ridgeformer.solvers.conjugate_gradient import ConjugateGradient

    right = ConjugateGradient.step

    def wrong(self, m, s, t):
        slip = 1.01 if isinstance(m, EagerMachine) else 1.0
        return right(self, m, s._replace(inverse_rho=slip * s.inverse_rho), t)

    monkeypatch.setattr(ConjugateGradient, "step", wrong)
    theorem = THEOREMS["finite-termination"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        ("push", 3.0),  # queries read themselves a little
        ("row_sums", (2.0, 3.0)),  # reciprocals beyond the end of their table
    ],
)
def test_a_wrong_construction_is_noticed(monkeypatch, attribute, wrong):
    from ridgeformer.compiler.backends import softmax_attention
    from ridgeformer.compiler.backends.softmax import SoftmaxLowering
    from ridgeformer.compiler.catalogue import attempts

    def build(**options):
        return SoftmaxLowering(**(options | {attribute: wrong}))

    attempts()  # kept for other tests, and so to be made before anything is wrong
    monkeypatch.setattr(softmax_attention, "SoftmaxLowering", build)
    theorem = THEOREMS["compiled-is-solver"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_leaking_mask_is_noticed(monkeypatch):
    from ridgeformer.transformer.attention import Attention

    right = Attention.linear_prefix

    def leaking(self, x, context):
        return right(self, x, x.shape[1])  # queries among what the supports read

    monkeypatch.setattr(Attention, "linear_prefix", leaking)
    theorem = THEOREMS["masking"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_reduction_left_in_place_is_noticed(monkeypatch):
    from ridgeformer.analysis import ablation

    right = ablation.heads_that
    monkeypatch.setattr(ablation, "heads_that", lambda m, **kinds: right(m, **kinds)[1:])
    for name in ("ablations", "without-reductions"):
        theorem = THEOREMS[name]
        assert not Verdict(theorem, theorem.measure(0, True)).holds, name


def test_a_wrong_table_at_zero_is_noticed(monkeypatch):
    right = mechanism_checks.growth_without_reductions
    monkeypatch.setattr(
        mechanism_checks, "growth_without_reductions", lambda m: [1.001 * g for g in right(m)]
    )
    theorem = THEOREMS["without-reductions"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def dealt_like_the_target(self, what, goal, dealt, mine, random):
    return right_probe(self, what, goal, goal, mine, random)


def random_like_the_model(self, what, goal, dealt, mine, random):
    return right_probe(self, what, goal, dealt, mine, mine)


def blind(self, what, goal, dealt, mine, random):
    return right_probe(
        self, what, goal, dealt, {name: x for name, x in mine.items() if name == "embed"}, random
    )


right_probe = probes.Probing.probe


@pytest.mark.parametrize("wrong", [dealt_like_the_target, random_like_the_model, blind])
def test_a_probe_or_control_that_sees_too_much_or_too_little_is_noticed(monkeypatch, wrong):
    monkeypatch.setattr(probes.Probing, "probe", wrong)
    theorem = THEOREMS["probes"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_what_is_new_in_a_step_is_measured(monkeypatch):
    """A wrong β leaves residuals that are not orthogonal to those before, which the probes' targets would not show."""
    from ridgeformer.solvers.conjugate_gradient import ConjugateGradient

    prompt = mechanism_checks.TASK.draw(4, 0)
    assert float(probing_checks.new_directions(prompt, 3).max()) < 1e-10
    right = ConjugateGradient.step
    monkeypatch.setattr(
        ConjugateGradient,
        "step",
        lambda self, m, s, t: right(self, m, s._replace(inverse_rho=1.001 * s.inverse_rho), t),
    )
    assert float(probing_checks.new_directions(prompt, 3).max()) > 1e-5


@pytest.mark.parametrize("connection", [("data", "data"), ("aggregator", "data")])
def test_a_head_that_does_nothing_is_noticed(monkeypatch, connection):
    """Its weights are 0 after compilation, so that silencing it moves nothing."""
    right = head_checks.model_of

    def wrong(*arguments, **options):
        model = right(*arguments, **options)
        at = next(h for h in model.heads() if (h.source, h.to) == connection)
        model.transformer.blocks[at.layer].attn.W_O.data[at.head] = 0
        return model

    monkeypatch.setattr(head_checks, "model_of", wrong)
    theorem = THEOREMS["shared-heads"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


@pytest.mark.parametrize("moved", [("W_K", "W_V"), ("W_Q",)])
def test_a_head_that_hears_or_speaks_elsewhere_is_noticed(monkeypatch, moved):
    right = head_checks.model_of

    def wrong(*arguments, **options):
        model = right(*arguments, **options)
        at = model.heads(role="matvec")[0]
        for name in moved:  # every channel counts a little, and so does the aggregator's flag
            getattr(model.transformer.blocks[at.layer].attn, name).data[at.head] += 1e-3
        return model

    monkeypatch.setattr(head_checks, "model_of", wrong)
    theorem = THEOREMS["communication"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_reference_that_keeps_what_was_ablated_is_noticed(monkeypatch):
    from ridgeformer.analysis.reference import WithoutKernel

    monkeypatch.setattr(WithoutKernel, "kernel_product", EagerMachine.kernel_product)
    theorem = THEOREMS["ablations"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds


def test_a_ridge_left_in_the_weights_is_noticed(monkeypatch):
    from ridgeformer.analysis import ridge

    monkeypatch.setattr(ridge, "with_ridge", lambda model, twin: model)
    theorem = THEOREMS["ridge-in-the-weights"]
    assert not Verdict(theorem, theorem.measure(0, True)).holds
