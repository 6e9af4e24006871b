"""Models too large to build are refused before they are, with what to do instead; widths are used in full."""

import warnings

import pytest

import ridgeformer as rf
from conftest import without_checks
from ridgeformer.compiler import size, size_report
from ridgeformer.solvers import make_solver
from ridgeformer.types import Refusal

TO = rf.LinearAttention(19.0)


def compiled(name, steps, to=TO, features=3, **more):
    return rf.compile(make_solver(name), features=features, steps=steps, ridge=1.0, to=to, **more)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "cg",
            r"`steps` 100,000 would take 700,001 layers.*hold one step, with `looped=True`, or use at most 4,6",
        ),
        ("gd", r"100,001 layers.*hold one step, with `looped=True`, or use at most 32,767"),
        ("newton", r"100,002 layers.*built: use at most 32,76"),
    ],
)
def test_too_many_steps(name, words):
    with without_checks(), pytest.raises(Refusal, match=words):
        compiled(name, 100_000)


def test_sizes_are_foreseen_exactly(monkeypatch):
    """A model of 300 steps has the layers and weights that two short ones promise."""
    monkeypatch.setattr(size, "MOST_LAYERS", 10)
    with without_checks():
        with pytest.raises(Refusal) as refusal:
            compiled("gd", 300)
        monkeypatch.undo()
        report = size_report(compiled("gd", 300))
    said = f"{report['layers']:,} layers with {report['parameters']:,} weights"
    assert said in str(refusal.value)


def test_too_wide_models():
    with pytest.raises(Refusal, match="weights, more than the 536,870,912"):
        compiled("gd", 1, features=12_000)
    with without_checks(), pytest.raises(Refusal, match="20,000 outputs would take more than"):
        compiled("gd", 1, outputs=20_000)
    with pytest.raises(Refusal, match="at most 32,768"):
        compiled("gd", 1, features=10**9)


def interpolated(name, width, **more):
    products = rf.Interpolated(max_target=4.0, width=width)
    return rf.compile(
        make_solver(name, **more), features=2, steps=12, ridge=0.1, kernel=rf.Gaussian(0.5),
        to=rf.SoftmaxAttention(1.5, 64, products),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["chebyshev", "richardson"])
def test_a_width_is_used_in_full(name):
    """Within two neurons for each interval; and the wider, the better."""
    errors = []
    with without_checks():
        for width in (256, 512, 1024):
            model = interpolated(name, width)
            assert width - 8 <= model.transformer.config.d_mlp <= width or width == 256
            assert model.transformer.config.d_mlp <= width
            errors.append(model.certificate.absolute_error)
    assert errors[2] < errors[1] / 4
    assert errors[0] is None or errors[1] < errors[0] / 4


def test_a_model_that_promises_nothing_says_so():
    with without_checks():
        with pytest.warns(rf.NoPromise, match="raise `width`, or give the `tolerance`"):
            model = interpolated("chebyshev", 64, precondition="row-sum")
        assert model.certificate.promise().startswith("none")
        to = rf.SoftmaxAttention(2.0, 64, rf.Exact(), rf.HeadPairs(heads=2, epsilon=0.5))
        with pytest.warns(rf.NoPromise, match="leave `epsilon` out"):
            compiled("cg", 6, to)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            interpolated("richardson", 512, precondition="row-sum")
