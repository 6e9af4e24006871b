"""Dot products from softmax heads: their error, its floor, and what it does to conjugate gradients.

Features have E|φ|² = 1 and are clipped to norm 2, so that ε is the size of a typical logit. The error
of one mat-vec is read off a model of one gradient step, whose predictions are η·K y.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import HeadPairs, SoftmaxAttention, compile
from ridgeformer.experiments.finding import Collector, Finding, Page
from ridgeformer.experiments.studies.base import Part, StudyInParts
from ridgeformer.experiments.studies.dot_products_page import dot_products_page
from ridgeformer.models import trajectory
from ridgeformer.solvers import ConjugateGradient, GradientDescent, condition_number, krr, solve
from ridgeformer.statistics import UNDEFINED, estimate_of, slope
from ridgeformer.tasks import Prompt
from ridgeformer.tasks.learnable import normal as standard_normal
from ridgeformer.theory import cg_prediction_bound

SUPPORTS, FEATURES, QUERIES, NORM, NOISE = 64, 16, 8, 2.0, 0.3
HEADS = (2, 4, 6, 8)
UNIT = 2.0**-52
SMALL_LOGITS = 0.2
"""The largest ε of a fit: above it the next order shows."""
ABOVE_ROUND_OFF = 100.0
"""A fit takes only errors that exceed the measured round-off c·u/ε by this factor."""

MEASURES = {
    "mat-vec error": "‖computed K v − K v‖ ÷ ‖K v‖ over the supports of a prompt, v = y",
    "slope": "slope of log mean mat-vec error against log ε, where truncation rules",
    "points": "how many ε the slope is fitted to",
    "round-off": "mat-vec error · ε / u at the smallest ε, u = 2⁻⁵²",
    "best ε": "the ε tried with the least mean error",
    "least error": "the mean mat-vec error there",
    "error": "largest |f_t − f*| over the queries of a prompt, f* by closed-form KRR",
    "bound": "largest over queries of 2ρᵗ‖α*‖_A·√(k(x)ᵀA⁻¹k(x)), for exact CG",
    "scale": "largest over queries of ‖α*‖_A·√(k(x)ᵀA⁻¹k(x))",
    "constant": "least C of a prompt with |f_t − f*| ≤ bound + C·t·ε_mv·scale, all t and queries",
    "largest constant": "the largest such C of the prompts",
    "drift": "least C of a prompt with |f_t − exact CG's f_t| ≤ C·t·ε_mv·scale, all t and queries",
    "largest drift": "the largest such C of the prompts",
    "condition": "cond(K + λI)",
}


@dataclass(frozen=True)
class Scale:
    """What is swept."""

    epsilons: tuple[float, ...] = tuple(10 ** (-e / 4) for e in range(2, 21))
    steps: int = 20
    ridge: float = 0.1
    runs: tuple[tuple[int, float], ...] = ((2, 0.1), (2, 0.01), (2, 1e-3), (4, 0.01), (8, 0.03))
    """Heads and ε of the models that run CG."""
    ridges: tuple[float, ...] = (1.0, 0.01)
    """Other ridges, for the constant at other condition numbers."""
    elsewhere: tuple[int, float] = (2, 0.01)
    """Heads and ε of the models there."""


QUICK = Scale(
    epsilons=tuple(10 ** (-e / 4) for e in (3, 4, 5, 6, 8, 12, 16, 20)),
    steps=18,
    runs=((2, 0.1), (4, 0.01)),
    ridges=(1.0,),
)
"""A smaller plan for fewer than 8 prompts, whose intervals would not justify more."""


def scale_for(prompts: int) -> Scale:
    return Scale() if prompts >= 8 else QUICK


def draw(prompts: int, seed: int) -> Prompt:
    normal = partial(standard_normal, torch.Generator().manual_seed(seed))
    phi, query = (normal(prompts, n, FEATURES) / FEATURES**0.5 for n in (SUPPORTS, QUERIES))
    prompt = Prompt(phi, phi, query).inside(NORM)  # targets follow
    y = prompt.phi @ normal(prompts, FEATURES, 1) + NOISE * normal(prompts, SUPPORTS, 1)
    return replace(prompt, y=y)


def target_of(heads: int, epsilon: float) -> SoftmaxAttention:
    return SoftmaxAttention(NORM, SUPPORTS, dot_products=HeadPairs(heads, epsilon))


def matvec_error(prompt: Prompt, heads: int, epsilon: float) -> Tensor:
    """The relative error of one mat-vec, for each prompt."""
    everywhere = Prompt(prompt.phi, prompt.y, prompt.phi)
    target = target_of(heads, epsilon)
    model = compile(GradientDescent(), features=FEATURES, steps=1, ridge=1.0, to=target)
    found = trajectory(model, everywhere).final
    most = model.certificate.max_eigenvalue
    exact = solve(GradientDescent(), everywhere, steps=1, ridge=1.0, max_eigenvalue=most).final
    relative: Tensor = (found - exact).norm(dim=1)[:, 0] / exact.norm(dim=1)[:, 0]
    return relative


def measure_heads(heads: int, scale: Scale, out: Collector) -> None:
    prompt = draw(out.prompts, out.seed)
    name = f"{heads} heads"
    errors = torch.stack([matvec_error(prompt, heads, e) for e in scale.epsilons], dim=1)
    for epsilon, column in zip(scale.epsilons, errors.T, strict=True):
        out.add("mat-vec error", name, column, heads=heads, epsilon=epsilon)
    epsilons = torch.tensor(scale.epsilons, dtype=torch.float64)
    least = int(epsilons.argmin())
    factor = errors[:, least] * epsilons[least] / UNIT
    out.add("round-off", name, factor, True, heads=heads, epsilon=float(epsilons[least]))
    mean = errors.mean(0)
    # With two heads truncation may still be above round-off at the smallest ε: then all of it counts.
    floor = float(factor.mean()) * UNIT / epsilons
    ruled = (mean > ABOVE_ROUND_OFF * floor) & (epsilons <= SMALL_LOGITS)
    x = epsilons[ruled].log()
    fitted = UNDEFINED
    if int(ruled.sum()) >= 2:
        fitted = estimate_of(errors[:, ruled], lambda m: slope(x, m.log()), out.seed)
    out.add("slope", name, fitted, heads=heads)
    out.exact("points", name, int(ruled.sum()), heads=heads)
    best = int(mean.argmin())
    out.exact("best ε", name, float(epsilons[best]), heads=heads)
    out.add("least error", name, errors[:, best], heads=heads)


def measure_cg(
    ridge: float, runs: tuple[tuple[int, float], ...], scale: Scale, out: Collector
) -> None:
    """Models beside exact CG, step by step, and the constant that the bound needs."""
    prompt = draw(out.prompts, out.seed)
    steps = scale.steps
    exact = krr(prompt, ridge=ridge)
    textbook = solve(ConjugateGradient(), prompt, steps=steps, ridge=ridge).predictions
    bound = cg_prediction_bound(prompt, ridge=ridge, steps=steps)
    size = bound[0] / 2
    out.add("condition", "prompts", condition_number(prompt, ridge=ridge), ridge=ridge)
    out.add("scale", "prompts", size.amax((-2, -1)), ridge=ridge)

    def curve(measure: str, method: str, values: Tensor, control: bool) -> None:
        for step, line in enumerate(values.amax((-2, -1))):
            out.add(measure, method, line, control, ridge=ridge, step=step)

    curve("error", "exact CG", (textbook - exact).abs(), True)
    curve("bound", "exact CG", bound, True)
    for heads, epsilon in runs:
        target = target_of(heads, epsilon)
        model = compile(ConjugateGradient(), features=FEATURES, steps=steps, ridge=ridge, to=target)
        found = trajectory(model, prompt).predictions
        name = f"{heads} heads, ε = {epsilon:g}"
        curve("error", name, (found - exact).abs(), False)
        wrong = matvec_error(prompt, heads, epsilon).mean()
        where = {"ridge": ridge, "heads": heads, "epsilon": epsilon, "mat-vec error": float(wrong)}
        count = torch.arange(1, steps + 1, dtype=torch.float64)[:, None, None, None]
        unit = count * wrong * size
        beyonds = {"constant": (found - exact).abs() - bound, "drift": (found - textbook).abs()}
        for measure, beyond in beyonds.items():
            needed = (beyond[1:] / unit).clamp(min=0).amax((0, 2, 3))
            out.add(measure, name, needed, **where)
            out.exact(f"largest {measure}", name, float(needed.max()), **where)


class DotProducts(StudyInParts):
    name = "dot-products"
    summary = "Dot products from softmax heads: error against ε, and CG on them."
    prompts = 16
    seconds = (0.0, 1.4)
    measures = MEASURES

    def parts(self, prompts: int) -> list[Part]:
        scale = scale_for(prompts)
        cases = [(scale.ridge, scale.runs), *((r, (scale.elsewhere,)) for r in scale.ridges)]
        return [
            *(partial(measure_heads, heads, scale) for heads in HEADS),
            *(partial(measure_cg, ridge, runs, scale) for ridge, runs in cases),
        ]

    def settings(self, prompts: int) -> dict[str, Any]:
        return {
            "supports": SUPPORTS,
            "features": FEATURES,
            "queries": QUERIES,
            "largest norm": NORM,
            "noise": NOISE,
            "heads": list(HEADS),
            "largest ε of a fit": SMALL_LOGITS,
            "times above round-off in a fit": ABOVE_ROUND_OFF,
        } | asdict(scale_for(prompts))

    def page(self, finding: Finding) -> Page:
        return dot_products_page(finding)
