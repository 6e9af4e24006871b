"""Sizes: the formulas against compiled models, tables and the generic transformer."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from ridgeformer.compiler import compile
from ridgeformer.compiler.catalogue import Entry, compiled_entries
from ridgeformer.compiler.domain import Domain
from ridgeformer.compiler.multiply import fine_grid
from ridgeformer.experiments.theorems.sizes import construction_of, least_steps, matvec_widths
from ridgeformer.kernels import Exponential, Gaussian, Linear, Polynomial
from ridgeformer.program.tables import reciprocal_table, unit_table
from ridgeformer.solvers import make_solver
from ridgeformer.theory import (
    Construction,
    Shape,
    parameters,
    predicted_shape,
    reciprocal_neurons,
    unit_neurons,
)
from ridgeformer.theory.shape import FINE_NEURONS, RHO_NEURONS, fine_intervals, fine_layers
from ridgeformer.transformer import Transformer, TransformerConfig
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")


def shape_of(model):
    config = model.transformer.config
    return Shape(**{name: getattr(config, name) for name in Shape.__dataclass_fields__})


@pytest.mark.parametrize("entry", compiled_entries(), ids=lambda e: e.label)
def test_every_compiled_model_has_the_predicted_shape(entry):
    """Two numbers of features, of outputs and of steps, every pair of them once."""
    least = least_steps(entry)
    later = least + (entry.solver != "nadaraya-watson") * 2
    for p, r, steps in ((3, 1, least), (3, 2, later), (5, 1, later), (5, 2, least)):
        model = entry.compile(features=p, outputs=r, steps=steps)
        shape = predicted_shape(construction_of(entry, p, r, steps))
        assert shape == shape_of(model), (p, r, steps)
        counted = sum(weight.numel() for weight in model.transformer.parameters())
        gated = entry.mlp == "reglu"
        assert parameters(shape, inputs=p + r + 3, outputs=r, gated=gated) == counted


CG = Construction("cg", "none", "linear", "linear", "relu", False, 3, 2, 4)
ELSEWHERE = [
    (CG, Linear(), {}),
    (replace(CG, causal=True, features=9), Linear(), {}),
    (replace(CG, mlp="reglu", precondition="jacobi", steps=5), Linear(), {}),
    (
        replace(CG, solver="chebyshev", mlp="reglu", precondition="jacobi", features=20),
        Linear(),
        {},
    ),
    (replace(CG, solver="gd", mlp="reglu", degree=3, features=5), Polynomial(3), {}),
    (replace(CG, attention="softmax", mlp="reglu", kernel="exponential"), Exponential(2.0), {}),
    (replace(CG, attention="softmax", mlp="reglu", kernel="gaussian"), Gaussian(0.7), {}),
    (replace(CG, attention="softmax", mlp="reglu", derivative_heads=4), Linear(), {"heads": 4}),
    (replace(CG, attention="softmax", mlp="reglu", features=40, steps=3), Linear(), {}),
]


@pytest.mark.parametrize(("c", "kernel", "options"), ELSEWHERE)
def test_the_shape_follows_the_domain(c, kernel, options):
    """Another λ, other bounds: the tables change, and with them the neurons, as the formulas say."""
    domain = Domain(kernel, 0.8, 40)
    c = replace(
        c,
        ridge=0.03,
        max_eigenvalue=domain.max_eigenvalue,
        max_supports=40,
        row_sums=domain.row_sums,
    )
    bounds = {"max_eigenvalue": domain.max_eigenvalue}
    if c.attention == "softmax":
        bounds = {"max_norm": 0.8, "max_supports": 40}
    model = compile(
        make_solver(c.solver, c.precondition), features=c.features, outputs=c.outputs,
        steps=c.steps, ridge=c.ridge, kernel=kernel, attention=c.attention, mlp=c.mlp,
        causal=c.causal, **bounds, **options,
    )  # fmt: skip
    assert predicted_shape(c) == shape_of(model)


@pytest.mark.parametrize(("degree", "p", "r", "more"), [(2, 7, 2, 1), (3, 2, 2, 1), (2, 8, 2, 0)])
def test_first_fit_leaves_a_hole_where_the_formula_says(degree, p, r, more):
    entry = Entry("cg", "none", f"polynomial, degree {degree}", "linear", "reglu", False)
    c = construction_of(entry, p, r, 3)
    assert predicted_shape(c).d_model == c.feature_channels + p + 10 * r + 3 + more
    assert predicted_shape(c) == shape_of(entry.compile(features=p, outputs=r, steps=3))


@pytest.mark.parametrize("r", [1, 3])
def test_a_step_of_cg_has_one_matvec_head_for_all_outputs(r):
    entry = Entry("cg", "none", "linear", "linear", "relu", False)
    assert matvec_widths(entry.compile(features=3, outputs=r, steps=4)) == [r] * 4


def test_short_programs_are_refused():
    """With fewer steps some channels are never needed at the same time, and no formula is stated."""
    for steps in (1, 2):
        with pytest.raises(Refusal, match="3 steps or more"):
            predicted_shape(replace(CG, steps=steps))
    entry = Entry("chebyshev", "row-sum", "exponential", "softmax", "reglu", False)
    full = predicted_shape(construction_of(entry, 3, 2, 7))
    assert shape_of(entry.compile(features=3, outputs=2, steps=4)).d_model < full.d_model


def test_tables_have_the_neurons_of_the_formula():
    rng = np.random.default_rng(0)
    for decades in rng.uniform(0, 60, 200):
        lo = float(10 ** rng.uniform(-30, 5))
        hi = lo * float(10**decades)
        # a neuron per knot, and one for the constant
        assert reciprocal_neurons(lo, hi) == len(reciprocal_table(lo, hi).table.knots) + 1
        assert unit_neurons(lo, hi) == len(unit_table(lo, hi).knots) + 1
    assert reciprocal_neurons(1 / 16, 16.0) == RHO_NEURONS


def test_fine_squares_have_the_grid_of_the_formula():
    for squares in range(1, 200):
        grid = fine_grid(FINE_NEURONS // squares)
        assert (fine_intervals(squares), fine_layers(squares)) == (grid.intervals, grid.layers)


@pytest.mark.parametrize("mlp", ["relu", "reglu"])
def test_parameters_of_the_generic_transformer(mlp):
    """Shapes that no compiler made, where no two widths agree."""
    shape = Shape(n_layers=3, d_model=11, n_heads=2, d_head=5, d_mlp=17)
    options = {"d_in": 7, "d_out": 2, "mlp": mlp, "norm": "none", "dtype": "float64"}
    model = Transformer(TransformerConfig.from_dict(asdict(shape) | options))
    counted = sum(weight.numel() for weight in model.parameters())
    assert parameters(shape, inputs=7, outputs=2, gated=mlp == "reglu") == counted
