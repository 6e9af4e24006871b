"""What a model that holds one step promises for each number of steps, and what is refused."""

from dataclasses import replace

import pytest

from ridgeformer.compiler import Interpolated, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Gaussian, Linear
from ridgeformer.models import reference, residual_stream, trajectory
from ridgeformer.solvers import IterativeNewton, make_solver
from ridgeformer.tasks import PrescribedSpectrum
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = PrescribedSpectrum(features=4, supports=12, condition=60)
PROMPT = TASK.draw(4, seed=0)


def make(name, **settings):
    return compile(
        make_solver(name), features=4, ridge=1.0, to=LinearAttention(TASK.max_eigenvalue),
        **{"looped": True} | settings,
    )  # fmt: skip


def test_the_certificate_is_a_function_of_the_steps():
    certificate = make("cg", steps=300).certificate
    for steps in (1, 17, 300):
        at = certificate.at(steps)
        assert (at.steps, at.looped, at.relative_error) == (steps, False, 1e-9)
    assert "1 to 300 steps, a loop, of cg" in certificate.summary()
    assert certificate.to_dict()["looped"]
    assert "looped" not in certificate.at(3).to_dict()
    assert certificate.from_dict(certificate.to_dict()) == certificate
    # Errors of dot products from softmax heads add up, and what holds for all steps holds for fewer.
    to = SoftmaxAttention(1.0, 16)
    loop = compile(make_solver("gd"), features=2, ridge=1e-3, to=to, steps=1000, looped=True)
    assert loop.certificate.relative_error > 1e-9
    for steps in (1, 10):
        alone = compile(make_solver("gd"), features=2, ridge=1e-3, to=to, steps=steps)
        promised = loop.certificate.at(steps).relative_error
        assert alone.certificate.relative_error <= promised == loop.certificate.relative_error
    with pytest.raises(Refusal, match="at most 2 steps of cg can be promised"):
        compile(make_solver("cg"), features=2, ridge=1e-3, to=to, steps=1000, looped=True)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (None, r"choose `steps`, how often it runs, from 1 to 50\."),
        (0, "`steps` is 0, outside the 1 to 50 for which the model is certified"),
        (-3, "outside the 1 to 50"),
        (51, "compile with a larger `steps`"),
    ],
)
def test_steps_outside_the_certified_range_are_refused(steps, message):
    model = make("gd", steps=50)
    calls = [model.predict, model, lambda p, steps: trajectory(model, p, steps=steps)]
    calls += [lambda p, steps: reference(model, p, steps=steps)]
    calls += [lambda p, steps: residual_stream(model, p, steps=steps)]
    for call in calls:
        with pytest.raises(Refusal, match=message):
            call(PROMPT, steps=steps)
    if steps is not None:
        with pytest.raises(Refusal, match=message):
            model.unrolled(steps)


def test_a_model_without_a_loop_leaves_no_choice():
    model = make("gd", looped=False, steps=3)
    for call in (model.predict, lambda p, steps: trajectory(model, p, steps=steps)):
        with pytest.raises(
            Refusal, match="has no loop and always takes 3 steps: leave `steps` out"
        ):
            call(PROMPT, steps=3)
    with pytest.raises(Refusal, match="has no loop"):
        model.unrolled(3)


@pytest.mark.parametrize(
    ("solver", "kernel", "to", "message"),
    [
        (
            make_solver("richardson", "row-sum"),
            Gaussian(),
            SoftmaxAttention(1.0, 8, Interpolated(2.0, tolerance=0.1)),
            "Interpolated products err in every step",
        ),
        (
            make_solver("nadaraya-watson"),
            Gaussian(),
            SoftmaxAttention(1.0),
            "one head, not an iteration, and there is nothing to repeat: leave `looped` out",
        ),
        (make_solver("block-cg"), Linear(), LinearAttention(9.0), "its state is a matrix"),
        (
            make_solver("newton"),
            Linear(),
            LinearAttention(9.0),
            "use `plain=True`, whose steps are",
        ),
        (make_solver("gd++"), Linear(), LinearAttention(9.0), "constants of its own"),
        (
            IterativeNewton(plain=True),
            Linear(),
            SoftmaxAttention(1.0, 8),
            "only where linear attention lets each of them read all supports",
        ),
    ],
    ids=["interpolated", "smoother", "matrix", "centred", "reshaped", "registers"],
)
def test_what_cannot_be_looped_is_refused(solver, kernel, to, message):
    with pytest.raises(Refusal, match=message):
        compile(solver, features=2, ridge=1.0, kernel=kernel, to=to, looped=True)


def test_the_domain_is_that_of_every_model():
    model = make("cg")
    with pytest.raises(Refusal, match="outside the domain"):
        model.predict(replace(PROMPT, phi=2 * PROMPT.phi), 5)
