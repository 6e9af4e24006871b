"""Sizes: the laws against compiled models, and the parameters of the generic transformer."""

from dataclasses import asdict

import pytest

from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.experiments.theorems.cases import compiled_cases
from ridgeformer.experiments.theorems.general import SizeLaw
from ridgeformer.experiments.theorems.sizes import matvec_widths
from ridgeformer.kernels import Exponential
from ridgeformer.solvers import (
    Chebyshev,
    ConjugateGradient,
    GradientDescent,
    HeavyBall,
    Richardson,
)
from ridgeformer.theory import (
    Shape,
    cg_every_prefix_size,
    cg_linear_size,
    cg_softmax_size,
    parameters,
    semi_iteration_size,
)
from ridgeformer.transformer import Transformer, TransformerConfig

pytestmark = pytest.mark.usefixtures("unchecked")

SIZES = [(3, 1, 3), (3, 2, 5), (5, 1, 5), (5, 2, 3), (20, 6, 4)]
"""Features, outputs and steps."""


def check(expected, model):
    config = model.transformer.config
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(("p", "r", "steps"), SIZES)
@pytest.mark.parametrize("products", [None, Exact()], ids=["plain", "gated"])
class TestLinearAttention:
    """The laws do not depend on λ or on the bound on λ_max(K)."""

    def test_the_laws_of_size_hold(self, p, r, steps, products):
        for ridge, top in ((1.0, 16.0), (0.03, 40.0)):
            to = LinearAttention(top, products=products)
            options = {"features": p, "outputs": r, "steps": steps, "ridge": ridge, "to": to}
            check(cg_linear_size(p, r, steps), compile(ConjugateGradient(), **options))
            for solver, remembers in (
                (GradientDescent(), False),
                (Richardson(), False),
                (Chebyshev(), True),
                (HeavyBall(), True),
            ):
                gated = products is not None
                expected = semi_iteration_size(p, r, steps, remembers=remembers, gated=gated)
                check(expected, compile(solver, **options))


@pytest.mark.parametrize(("p", "r", "steps"), SIZES)
def test_the_law_of_cg_behind_softmax_holds(p, r, steps):
    for ridge, to in ((1.0, SoftmaxAttention(1.0, 16)), (0.03, SoftmaxAttention(0.8, 40))):
        model = compile(
            ConjugateGradient(), features=p, outputs=r, steps=steps, ridge=ridge,
            kernel=Exponential(2.0), to=to,
        )  # fmt: skip
        check(cg_softmax_size(p, r, steps), model)


@pytest.mark.parametrize(("p", "r", "steps"), [*SIZES[:-1], (1, 3, 3), (9, 4, 4)])
def test_the_law_of_cg_at_every_prefix_holds(p, r, steps):
    for ridge, top in ((1.0, 16.0), (0.03, 40.0)):
        to = LinearAttention(top, Exact(), causal=True, every_prefix=True)
        options = {"features": p, "outputs": r, "steps": steps, "ridge": ridge, "to": to}
        check(cg_every_prefix_size(p, r, steps), compile(ConjugateGradient(), **options))


@pytest.mark.parametrize("r", [1, 3])
def test_a_step_of_cg_has_one_matvec_head_for_all_outputs(r):
    model = compile(
        ConjugateGradient(), features=3, outputs=r, steps=4, ridge=1.0, to=LinearAttention(16.0)
    )
    assert matvec_widths(model) == [r] * 4


LAW = SizeLaw()
CASES = [case for case in compiled_cases(fast=False) if LAW.inapplicable(case) is None]


@pytest.mark.parametrize(
    "case",
    [c if n % 3 == 0 else pytest.param(c, marks=pytest.mark.slow) for n, c in enumerate(CASES)],
    ids=lambda c: f"{c.label}, {type(c.to.products).__name__}",
)
def test_every_registered_solver_obeys_the_size_law(case):
    assert LAW.measure_on(case, seed=0, fast=True).ratios.tolist() == [1.0] * 18


def test_short_programs_may_be_narrower():
    """With fewer steps some channels are never needed at the same time: the law needs a few."""
    options = {"features": 3, "outputs": 2, "ridge": 1.0, "kernel": Exponential(1.0)}
    to = SoftmaxAttention(1.0, 16)
    few, many = (compile(Chebyshev("row-sum"), steps=t, to=to, **options) for t in (4, 8))
    assert few.transformer.config.d_model < many.transformer.config.d_model


@pytest.mark.parametrize("mlp", ["relu", "reglu"])
def test_parameters_of_the_generic_transformer(mlp):
    """Shapes that no compiler made, where no two widths agree."""
    shape = Shape(n_layers=3, d_model=11, n_heads=2, d_head=5, d_mlp=17)
    options = {"d_in": 7, "d_out": 2, "mlp": mlp, "norm": "none", "dtype": "float64"}
    model = Transformer(TransformerConfig.from_dict(asdict(shape) | options))
    counted = sum(weight.numel() for weight in model.parameters())
    assert parameters(shape, inputs=7, outputs=2, gated=mlp == "reglu") == counted
