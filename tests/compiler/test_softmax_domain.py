"""The domain of softmax models: certified up to its corners, refused beyond; and what never compiles."""

import numpy as np
import pytest
import torch
from fork_server import cli, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from promise import excess_of

from ridgeformer.compiler import (
    Exact,
    HeadPairs,
    Interpolated,
    LinearAttention,
    SoftmaxAttention,
    compile,
)
from ridgeformer.kernels import Exponential, Gaussian, Linear, Polynomial
from ridgeformer.models import residual_stream, trajectory
from ridgeformer.solvers import make_solver
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

pytestmark = pytest.mark.usefixtures("unchecked")

FEATURES, NORM, SUPPORTS, TARGET, RIDGE, STEPS = 3, 1.5, 12, 2.0, 0.5, 5
RELU, GATED = Interpolated(TARGET, tolerance=1e-2), Exact()
MODELS = {
    "exponential gd relu": ("gd", "none", Exponential(1.0), RELU),
    "exponential chebyshev row-sum relu": ("chebyshev", "row-sum", Exponential(1.0), RELU),
    "gaussian richardson row-sum relu": ("richardson", "row-sum", Gaussian(0.7), RELU),
    "gaussian heavy-ball relu": ("heavy-ball", "none", Gaussian(0.7), RELU),
    "exponential cg reglu": ("cg", "none", Exponential(1.0), GATED),
    "gaussian cg row-sum reglu": ("cg", "row-sum", Gaussian(0.7), GATED),
    "linear cg jacobi reglu": ("cg", "jacobi", Linear(), GATED),
    "linear chebyshev reglu": ("chebyshev", "none", Linear(), GATED),
}
compiled = {}


def model_of(label):
    if label not in compiled:
        name, precondition, kernel, products = MODELS[label]
        compiled[label] = compile(
            make_solver(name, precondition), features=FEATURES, steps=STEPS, ridge=RIDGE,
            kernel=kernel, to=SoftmaxAttention(NORM, SUPPORTS, products),
        )  # fmt: skip
    return compiled[label]


POINTS = ("equal", "antipodal", "zero", "surface", "near", "inside")
TARGETS = ("most", "least", "alternating", "zero", "one", "inside")
QUERIES = ("supports", "opposite", "zero", "surface", "many")


def corner(points, targets, queries, supports, seed):
    rng = np.random.default_rng(seed)
    towards = rng.standard_normal((supports + 200, FEATURES))
    towards *= NORM / np.linalg.norm(towards, axis=1, keepdims=True)
    signs = (-1.0) ** np.arange(supports)[:, None]
    phi = {
        "equal": np.tile(towards[:1], (supports, 1)),
        "antipodal": signs * towards[:1],
        "zero": np.zeros((supports, FEATURES)),
        "surface": towards[:supports],
        "near": 0.9 * towards[:1] + 1e-7 * towards[:supports],
        "inside": rng.uniform(size=(supports, 1)) * towards[:supports],
    }[points]
    y = {
        "most": np.full((supports, 1), TARGET),
        "least": np.full((supports, 1), -TARGET),
        "alternating": TARGET * signs,
        "zero": np.zeros((supports, 1)),
        "one": TARGET * (np.arange(supports) == 0)[:, None],
        "inside": rng.uniform(-TARGET, TARGET, (supports, 1)),
    }[targets]
    query = {
        "supports": phi,
        "opposite": -phi,
        "zero": np.zeros((1, FEATURES)),
        "surface": towards[supports : supports + 3],
        "many": towards[supports:],
    }[queries]
    return Prompt(*(torch.from_numpy(x.astype(float)[None]) for x in (phi, y, query)))


@pytest.mark.parametrize("label", MODELS)
@settings(max_examples=30)
@given(
    points=st.sampled_from(POINTS),
    targets=st.sampled_from(TARGETS),
    queries=st.sampled_from(QUERIES),
    supports=st.sampled_from([1, 2, 7, SUPPORTS]),
    seed=st.integers(0, 99),
)
def test_every_corner_is_certified(label, points, targets, queries, supports, seed):
    model, prompt = model_of(label), corner(points, targets, queries, supports, seed)
    found = trajectory(model, prompt).predictions
    assert torch.isfinite(found).all()
    assert excess_of(model, prompt, found.numpy()).max() <= 1


@pytest.mark.parametrize("label", MODELS)
def test_supports_never_see_the_queries(label):
    model = model_of(label)
    first, second = (corner("inside", "inside", q, 9, 3) for q in ("many", "zero"))
    many, one = (residual_stream(model, p)[:, :, :10] for p in (first, second))
    # Bitwise, but for the order in which a batch of another size is summed.
    changed = Prompt(first.phi, first.y, first.phi_query.flip(1) * 0.5)
    assert torch.equal(many, residual_stream(model, changed)[:, :, :10])
    torch.testing.assert_close(many, one, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: Prompt(1.001 * p.phi, p.y, p.phi_query), r"\|φ\| reaches 1.5015, .* `max_norm`"),
        (lambda p: Prompt(p.phi, p.y, 1.001 * p.phi_query), r"\|φ\| reaches .* `max_norm`"),
        (
            lambda p: Prompt(p.phi, 1.001 * p.y, p.phi_query),
            r"\|y\| reaches 2.002, .* `max_target`",
        ),
        (
            lambda p: Prompt(*(torch.cat([x, x[:, :1]], 1) for x in (p.phi, p.y, p.phi_query))),
            "13 supports, outside the domain k ≤ 12: compile with a larger `max_supports`",
        ),
    ],
)
def test_just_outside_is_refused(change, message):
    model = model_of("exponential gd relu")
    prompt = corner("surface", "most", "surface", SUPPORTS, 0)
    model.predict(prompt)  # the edge itself is inside
    for call in (model.predict, lambda p: trajectory(model, p)):
        with pytest.raises(Refusal, match=message):
            call(change(prompt))


def test_a_spectrum_beyond_the_chosen_interval_is_refused():
    model = compile(
        make_solver("chebyshev", "row-sum", (0.1, 0.9)), features=FEATURES, steps=2, ridge=RIDGE,
        kernel=Gaussian(0.7), to=SoftmaxAttention(NORM, SUPPORTS),
    )  # fmt: skip
    message = r"largest eigenvalue is 0.96\d+, above the interval's end 0.9, .* wider `interval`"
    with pytest.raises(Refusal, match=message):
        model.predict(corner("equal", "most", "zero", SUPPORTS, 0))
    model.predict(corner("surface", "most", "zero", 1, 0))


# ---------------------------------------------------------------------- what never compiles


def softmax(max_norm=1.0, max_supports=8, products=GATED, **options):
    return SoftmaxAttention(max_norm, max_supports, products, **options)


def linear(products=None, **options):
    return LinearAttention(9.0, products, **options)


WIDE = torch.ones(2, 5, dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "to", "settings", "message"),
    [
        ("cg", softmax(products=RELU), {}, "cg with interpolated products has no honest certificate"),
        ("richardson jacobi", softmax(), {}, 'use `precondition="row-sum"`'),
        ("gd", softmax(max_norm=None), {}, "the domain is needed: `max_norm`"),
        ("gd", softmax(max_supports=None), {}, "the domain is needed: `max_norm`"),
        ("gd", softmax(products=None), {}, r"use `products=Exact\(\)`"),
        ("gd", softmax(products=RELU), {"dtype": "float32"}, 'use `dtype="float64"`'),
        ("gd", softmax(products=Interpolated(1.0, width=3)), {}, "`width` must be at least 32"),
        (
            "gd", softmax(products=Interpolated(1.0, tolerance=1e-14)), {},
            r"below the \d\S+ that round-off",
        ),
        (
            "chebyshev row-sum", softmax(products=Interpolated(1.0, tolerance=2e-7)), {},
            r"would take [\d,]+ neurons a layer",
        ),
        (
            "chebyshev row-sum", softmax(products=Interpolated(1.0, tolerance=2e-9)), {},
            "leaves no room for the round-off",
        ),
        ("gd", softmax(max_norm=7.0), {}, r"would reach 1.53e\+22, beyond 1e\+15"),
        ("gd", softmax(max_norm=90.0), {}, r"would reach exp\(8100\)"),
        ("gd", softmax(), {"ridge": None}, "`ridge` is needed for gd"),
        ("gd", softmax(), {"interval": (2.0, 1.0)}, "0 < LO ≤ HI"),
        ("gd", softmax(), {"kernel": Gaussian(1e-3)}, r"Logits would reach 2e\+06, beyond 1e\+06"),
        ("cg", softmax(products=None), {"kernel": Linear()}, r"use `products=Exact\(\)`"),
        (
            "gd", softmax(), {"kernel": Exponential(1.0, WIDE)},
            "reads 5 features, not 3: use `features=5`",
        ),
        ("gd", softmax(dot_products=HeadPairs(4)), {}, "`dot_products` means nothing"),
        ("nadaraya-watson", softmax(products=RELU), {"steps": 1}, "multiplies no targets"),
        ("nadaraya-watson", softmax(), {}, "leave `steps` out"),
        ("nadaraya-watson", softmax(), {"kernel": Linear(), "steps": 1}, "needs a positive kernel"),
        (
            "nadaraya-watson", softmax(max_norm=50.0), {"kernel": Gaussian(0.01), "steps": 1},
            r"Logits would reach 5e\+07",
        ),
        (
            "nadaraya-watson", softmax(max_norm=None, products=None),
            {"kernel": Gaussian(0.01), "steps": 1}, "give `max_norm`",
        ),
        ("cg", linear(), {"kernel": Polynomial(2)}, r"use `products=Exact\(\)`"),
        ("cg", linear(GATED), {"kernel": Polynomial(4)}, "up to degree 3, got 4"),
        (
            "cg", linear(GATED), {"kernel": Polynomial(3), "features": 40},
            "12,341 monomials would be needed",
        ),
        ("cg", linear(), {"kernel": Gaussian(1.0)}, "the gaussian kernel is not one"),
        ("cg", "softmax", {}, "`to` must be LinearAttention"),
    ],
)  # fmt: skip
def test_what_cannot_compile_is_refused_with_the_reason(name, to, settings, message):
    chosen = {"features": FEATURES, "steps": 3, "ridge": 1.0, "kernel": Exponential(1.0)} | settings
    solver = make_solver(*name.split(), interval=chosen.pop("interval", None))
    with pytest.raises(Refusal, match=message):
        compile(solver, to=to, **chosen)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Interpolated(1.0), "either `tolerance`"),
        (lambda: Interpolated(1.0, tolerance=1e-2, width=64), "either `tolerance`"),
        (lambda: Interpolated(1.0, tolerance=-1.0), "`tolerance` must be positive .*, got -1"),
        (lambda: Interpolated(0.0, tolerance=1e-2), "`max_target` must be positive"),
        (lambda: HeadPairs(5), "2, 4, … or 12, .* got 5"),
        (lambda: HeadPairs(4, epsilon=0.0), "`epsilon` must be positive"),
        (lambda: SoftmaxAttention(-1.0, 8), "`max_norm` must be positive"),
        (lambda: SoftmaxAttention(1.0, 0), "`max_supports` must be at least 1"),
        (lambda: LinearAttention(float("nan")), "`max_eigenvalue` must be positive"),
        (lambda: make_solver("cg", interval=(0.1, 1.0)), "cg has none: leave it out"),
    ],
)
def test_targets_refuse_impossible_options(make, message):
    with pytest.raises(Refusal, match=message):
        make()


BASE = ["--features", "3", "--ridge", "1", "--attention", "softmax", "--kernel", "exponential"]
ROOM = ["--max-norm", "1", "--max-supports", "8"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cg", *BASE, *ROOM, "--steps", "2", "--max-target", "1", "--tolerance", "0.01"],
         ["no honest certificate"]),
        (["cg", *BASE, *ROOM, "--mlp", "reglu"], ["--steps"]),
        (["gd", *BASE, "--mlp", "reglu", "--steps", "2"], ["the domain is needed"]),
        (["gd", *BASE, *ROOM, "--steps", "2", "--max-target", "1", "--tolerance", "1e-15"],
         ["--tolerance 1e-15 is below the"]),
        (["gd", *BASE, "--max-norm", "7", "--max-supports", "8", "--mlp", "reglu", "--steps", "2"],
         ["would reach 1.53e+22"]),
        (["gd", *BASE, *ROOM, "--mlp", "swiglu", "--steps", "2"], ["swiglu"]),
    ],
)  # fmt: skip
def test_the_command_line_says_so_in_one_sentence(tmp_path, arguments, words):
    refused(cli("compile", *arguments, "--out", tmp_path / "m"), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.portable
@pytest.mark.parametrize("largest_logit", [200.0, 9.9e5])
@pytest.mark.parametrize(
    ("name", "precondition", "products"),
    [
        ("nadaraya-watson", "none", None),
        ("nadaraya-watson", "none", GATED),
        ("chebyshev", "row-sum", GATED),
        ("cg", "none", GATED),
    ],
)
def test_targets_that_cancel_far_from_the_origin(name, precondition, products, largest_logit):
    """A logit is a difference of numbers up to L, whose round-off a solver that forms |a − b|² does not have. It
    is not small beside a prediction in which targets cancel."""
    radius, features, prompts = 8.0, 3, 24
    lengthscale = (2 * radius**2 / largest_logit) ** 0.5
    domain = {"max_norm": radius} | ({} if name == "nadaraya-watson" else {"max_supports": 2})
    steps = {} if name == "nadaraya-watson" else {"steps": 3, "ridge": 0.01}
    model = compile(
        make_solver(name, precondition), features=features, kernel=Gaussian(lengthscale),
        to=SoftmaxAttention(**domain, products=products), **steps,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    place = rng.standard_normal((prompts, 1, features))
    place *= 0.85 * radius / np.linalg.norm(place, axis=2, keepdims=True)
    near = min(0.3 * lengthscale, 0.02 * radius) * rng.standard_normal((prompts, 2, features))
    y = np.stack([np.ones(prompts), -1 + 10.0 ** -rng.uniform(2, 6, prompts)], axis=1)[..., None]
    query = (place + near).mean(axis=1, keepdims=True)
    prompt = Prompt(*map(torch.from_numpy, (place + near, y, query)))
    found = trajectory(model, prompt).predictions.numpy()
    alone = [
        Prompt(*(t[i : i + 1] for t in (prompt.phi, prompt.y, prompt.phi_query)))
        for i in range(prompts)
    ]
    worst = max(excess_of(model, one, found[:, i : i + 1]).max() for i, one in enumerate(alone))
    assert worst < 1
    if largest_logit > 1e5:  # a hundred times the solver's own round-off would not do
        assert worst > 100 / model.certificate.round_off_factor
