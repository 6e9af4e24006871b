"""Gaussian KRR in one softmax head, a ReLU MLP and one block per step: what it takes, measured.

Features are uniform in a ball and targets are drawn from the kernel, so that nothing is clipped but
a rare target. The *floor* is, here and throughout, the RMSE over a prompt's queries between the
compiled model's prediction and that of the solver with the same coefficients after the same number
of steps: what interpolated products cost, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import log, sqrt

import torch
from torch import Tensor

from ridgeformer.compiler import Exact, Interpolated
from ridgeformer.experiments.finding import Collector, Finding, Page, Progress
from ridgeformer.experiments.studies.base import Study
from ridgeformer.experiments.studies.gaussian_page import gaussian_page
from ridgeformer.experiments.studies.gaussian_setting import (
    METHODS,
    RIDGE,
    TARGET,
    Interval,
    Method,
    Scale,
    Setting,
    predictions,
    rmse,
    scale_for,
    spectrum,
)
from ridgeformer.solvers import krr, krr_coefficients
from ridgeformer.statistics import estimate_of, r_squared, slope
from ridgeformer.tasks import Prompt
from ridgeformer.theory import sensitivity

ENOUGH = 1e-3
"""The floor for which a width is asked."""

LEVELS = tuple(10.0**-e for e in range(2, 9))
TOLERANCE = 1e-4

MEASURES = {
    "error": "RMSE over the queries of a prompt to closed-form KRR",
    "set-up blocks": "blocks of the model beyond one for each step",
    "floor": "RMSE over the queries of a prompt between model and solver at the same step",
    "floor slope": "slope of log floor against log width",
    "width needed": "width at which the mean floor is 1e-3, by linear interpolation in logarithms",
    "width exponent": "slope of log width needed against log supports",
    "row sum": "mean of D over the supports of a prompt",
    "largest ÷ promised": "largest |model − solver| over queries ÷ the certified error of the model",
    "exact products": "largest |gated model − solver| over steps, prompts and queries",
    "steps": "steps after which a prompt's RMSE to closed-form KRR stays below a level",
    "steps slope": "slope of the mean number of steps against ln 1/ε, ε from 1e-2 to 1e-8",
    "steps R²": "share of the variance of the mean number of steps that this line explains",
    "hidden factor": "steps slope ÷ mean κ'",
    "hidden factor, √": "steps slope ÷ √(mean κ')",
    "ratio": "mean steps of Richardson ÷ mean steps of Chebyshev, to RMSE 1e-4",
    "condition": "κ' = cond(D⁻¹A)",
    "largest condition": "the largest κ' of the prompts",
    "interval": "the ratio of the ends of the interval that coefficients are tuned to",
    "amplification": "largest effect on a prediction of one constant error of unit D-norm in all steps",
    "amplification bound": "the same, bounded over errors that may differ from step to step",
}


def shown_steps(steps: int) -> list[int]:
    """The steps to draw: all early ones, then ever fewer."""
    found = {min(steps, round(1.15**e)) for e in range(100)}
    return sorted({0, *found})


def measure_blocks(k: int, name: str, steps: int, scale: Scale, out: Collector) -> None:
    """Error per block beside the solver's error per step."""
    setting, solver = Setting(k), METHODS[name].solver
    prompt = setting.draw(out.prompts, out.seed)
    exact = krr(prompt, ridge=RIDGE, kernel=setting.kernel)
    runs = {"solver": setting.solved(solver, prompt, steps, setting.certain).predictions}
    for width in scale.blocks_widths:
        products = Interpolated(TARGET, width=width)
        model = setting.compiled(solver, steps, setting.certain, products)
        method = f"model, width {width}"
        runs[method] = predictions(model, prompt)
        extra = model.transformer.config.n_layers - steps
        out.exact("set-up blocks", method, extra, supports=k, solver=name)
    for method, run in runs.items():
        errors = rmse(run, exact)
        for step in shown_steps(steps):
            control = method == "solver"
            out.add("error", method, errors[step], control, supports=k, solver=name, step=step)


@dataclass(frozen=True)
class Floors:
    """The floors of one solver over the widths, one column for each width."""

    values: Tensor
    worst: list[float | None]
    """The largest |model − solver| over queries ÷ the certified error of the model, if it has one."""


def run_floors(k: int, max_target: float, name: str, scale: Scale, out: Collector) -> Floors:
    setting, solver, steps = Setting(k), METHODS[name].solver, scale.floor_steps
    prompt = setting.draw(out.prompts, out.seed)
    target = setting.solved(solver, prompt, steps, setting.certain).final
    values, worst = [], list[float | None]()
    for width in scale.widths:
        products = Interpolated(max_target, width=width)
        model = setting.compiled(solver, steps, setting.certain, products)
        found = predictions(model, prompt)[-1]
        values.append(rmse(found, target))
        promised = model.certificate.absolute_error
        worst.append(float((found - target).abs().max()) / promised if promised else None)
    return Floors(torch.stack(values, dim=1), worst)


def report_floors(
    k: int, which: str, name: str, floors: Floors, scale: Scale, out: Collector
) -> None:
    control = which != "certified range"
    for i, width in enumerate(scale.widths):
        where: dict[str, float | str] = {"supports": k, "width": width, "solver": name}
        out.add("floor", which, floors.values[:, i], control, **where)
        share = floors.worst[i]
        if share is not None:
            out.exact("largest ÷ promised", which, share, **where)
    x = torch.tensor(scale.widths, dtype=torch.float64).log()
    fitted = estimate_of(floors.values, lambda means: slope(x, means.log()), out.seed)
    out.add("floor slope", which, fitted, control, supports=k, solver=name)


def measure_widths(k: int, scale: Scale, out: Collector) -> dict[str, Floors]:
    found: dict[str, Floors] = {}
    for which, target in ranges(k, scale).items():
        same = found.get("certified range") if target == TARGET else None
        found[which] = same or run_floors(k, target, "chebyshev", scale, out)
        report_floors(k, which, "chebyshev", found[which], scale, out)
    setting = Setting(k)
    sums = spectrum(setting, setting.draw(out.prompts, out.seed))[1]
    out.add("row sum", "prompts", sums.mean(-1), supports=k)
    return found


def ranges(k: int, scale: Scale) -> dict[str, float]:
    """max_target; in the control so that the MLP's range Y(1 + 2.2√k) is that of the most supports."""
    widened = TARGET * (1 + 2.2 * sqrt(max(scale.supports))) / (1 + 2.2 * sqrt(k))
    return {"certified range": TARGET, "same range": widened}


def measure_other_solver(scale: Scale, out: Collector) -> None:
    """The floor belongs to the fixed point, whichever solver leads to it."""
    k, name = max(scale.blocks_supports), "richardson"
    floors = run_floors(k, TARGET, name, scale, out)
    report_floors(k, "certified range", name, floors, scale, out)


def width_for(means: Tensor, widths: tuple[int, ...], level: float) -> Tensor:
    """log of the width at which floors [..., widths] fall to the level; NaN where they do not."""
    x = torch.tensor(widths, dtype=means.dtype).log()
    y = means.log() - log(level)
    falls = (y[..., :-1] > 0) & (y[..., 1:] <= 0)
    at = x[:-1] + (x[1:] - x[:-1]) * y[..., :-1] / (y[..., :-1] - y[..., 1:])
    first = falls.to(torch.int8).argmax(-1, keepdim=True)
    found = at.gather(-1, first).squeeze(-1)
    return torch.where(falls.any(-1), found, torch.nan)


def measure_width_needed(which: str, floors: list[Floors], scale: Scale, out: Collector) -> None:
    control = which != "certified range"
    values = torch.stack([f.values for f in floors], dim=1)  # [batch, supports, widths]
    x = torch.tensor(scale.supports, dtype=torch.float64).log()

    def needed(means: Tensor) -> Tensor:
        return width_for(means, scale.widths, ENOUGH)

    for i, k in enumerate(scale.supports):
        found = estimate_of(values[:, i], lambda means: needed(means).exp(), out.seed)
        out.add("width needed", which, found, control, supports=k)
    exponent = estimate_of(values, lambda means: slope(x, needed(means)), out.seed)
    out.add("width exponent", which, exponent, control)


def measure_gated(scale: Scale, out: Collector) -> None:
    """With exact products a model is the solver, step by step."""
    k, steps = max(scale.blocks_supports), scale.gated_steps
    setting, solver = Setting(k), METHODS["chebyshev"].solver
    prompt = setting.draw(out.prompts, out.seed)
    gated = setting.compiled(solver, steps, setting.certain, Exact())
    run = setting.solved(solver, prompt, steps, setting.certain).predictions
    apart = (predictions(gated, prompt) - run).abs().max()
    out.exact("exact products", "gated MLP", float(apart), supports=k, steps=steps)


def steps_to(errors: Tensor, level: float) -> Tensor:
    """Steps [batch] after which errors [steps, batch] stay below the level; NaN if they never do."""
    steps = torch.arange(1, len(errors) + 1, dtype=errors.dtype)[:, None]
    last = torch.where(errors > level, steps, 0.0).amax(0)
    return torch.where(last < len(errors), last, torch.nan)


def tunings(setting: Setting, own: Interval, method: Method) -> dict[str, Interval]:
    """The intervals that coefficients are tuned to; η = 2/(lo + hi) is 1 for (1, 1)."""
    intervals = {"prompts": own, "certain": setting.certain}
    return intervals | ({"unit step": (1.0, 1.0)} if method.unit_step else {})


def measure_constants(case: tuple[int, int, float], out: Collector) -> None:
    setting = Setting(*case)
    where: dict[str, float | str] = dict(
        zip(("supports", "features", "lengthscale"), case, strict=True)
    )
    prompt = setting.draw(out.prompts, out.seed)
    values, sums = spectrum(setting, prompt)
    own = (float(values[:, 0].min()), float(values[:, -1].max()))
    condition = values[:, -1] / values[:, 0]
    out.add("condition", "prompts", condition, **where)
    out.exact("largest condition", "prompts", float(condition.max()), **where)
    exact = krr(prompt, ridge=RIDGE, kernel=setting.kernel)
    reached: dict[tuple[str, str], Tensor] = {}
    x = -torch.tensor(LEVELS, dtype=torch.float64).log()
    for name, method in METHODS.items():
        for tuning, interval in tunings(setting, own, method).items():
            out.exact("interval", tuning, interval[1] / interval[0], **where, solver=name)
            run = setting.solved(method.solver, prompt, method.steps(interval, own), interval)
            errors = rmse(run.predictions, exact)
            found = torch.stack([steps_to(errors, level) for level in LEVELS], dim=1)
            reached[name, tuning] = found
            at: dict[str, float | str] = where | {"solver": name}
            for level, column in zip(LEVELS, found.T, strict=True):
                out.add("steps", tuning, column, tuning == "unit step", **at, level=level)
            add_fits(out, tuning, found, condition, x, at)
    to = LEVELS.index(TOLERANCE)
    chebyshev = {"prompts": "prompts", "certain": "certain", "unit step": "prompts"}
    for tuning, other in chebyshev.items():
        both = torch.stack(
            [reached["richardson", tuning][:, to], reached["chebyshev", other][:, to]], dim=1
        )
        ratio = estimate_of(both, lambda means: means[:, 0] / means[:, 1], out.seed)
        out.add("ratio", tuning, ratio, tuning == "unit step", **where)
    add_amplification(out, setting, prompt, sums, own, where)


def add_fits(
    out: Collector, tuning: str, found: Tensor, condition: Tensor, x: Tensor,
    at: dict[str, float | str],
) -> None:  # fmt: skip
    both = torch.cat([found, condition[:, None]], dim=1)
    for measure, of in {
        "steps slope": lambda m: slope(x, m[:, :-1]),
        "steps R²": lambda m: r_squared(x, m[:, :-1]),
        "hidden factor": lambda m: slope(x, m[:, :-1]) / m[:, -1],
        "hidden factor, √": lambda m: slope(x, m[:, :-1]) / m[:, -1].sqrt(),
    }.items():
        out.add(measure, tuning, estimate_of(both, of, out.seed), tuning == "unit step", **at)


def add_amplification(
    out: Collector, setting: Setting, prompt: Prompt, sums: Tensor, own: Interval,
    where: dict[str, float | str],
) -> None:  # fmt: skip
    """A constant error ê in D⁻¹(y − Aα) moves f by k(x)ᵀA⁻¹Dê, at most ‖D^{1/2}A⁻¹k(x)‖·‖D^{1/2}ê‖."""
    cross = setting.kernel(prompt.phi_query, prompt.phi)
    weights = krr_coefficients(
        Prompt(prompt.phi, cross.mT, prompt.phi_query), ridge=RIDGE, kernel=setting.kernel
    )
    worst = (sums[:, :, None].sqrt() * weights).norm(dim=1).amax(-1)
    out.add("amplification", "constant error", worst, **where)
    steps = 48
    chosen = METHODS["chebyshev"].solver
    top = 1 - (1 - RIDGE) / (setting.supports + 1)  # no row of D⁻¹A sums to more
    for method, within in (("domain", (setting.certain[0], top)), ("prompts", own)):
        bound = sensitivity(chosen, steps=steps, tuned=setting.certain, spectrum=within)
        out.exact("amplification bound", method, bound.prediction, **where)


class GaussianStudy(Study):
    name = "gaussian"
    summary = "Gaussian KRR in one softmax head and a ReLU MLP: blocks, width, constants."
    prompts = 16

    def measure(self, prompts: int, seed: int, progress: Progress) -> Finding:
        scale = scale_for(prompts)
        parts = {
            name: Collector(prompts, seed, {"part": name})
            for name in ("blocks", "width", "constants")
        }
        floors: list[dict[str, Floors]] = []
        jobs: list[Callable[[], object]] = [
            *(
                partial(measure_blocks, k, name, steps, scale, parts["blocks"])
                for k in scale.blocks_supports
                for name, steps in scale.blocks_steps
            ),
            partial(measure_gated, scale, parts["blocks"]),
            partial(measure_other_solver, scale, parts["width"]),
            *(partial(measure_constants, case, parts["constants"]) for case in scale.constants),
            *(
                lambda k=k: floors.append(measure_widths(k, scale, parts["width"]))
                for k in scale.supports
            ),
        ]
        for job in progress(jobs):
            job()
        for which in floors[0]:
            measure_width_needed(which, [f[which] for f in floors], scale, parts["width"])
        settings = {
            "ridge": RIDGE,
            "max target": TARGET,
            "largest norm": Setting(1).radius,
            "lengthscale": 0.5,
            "features": 2,
            "floor for which a width is asked": ENOUGH,
            "levels": list(LEVELS),
        } | {name.replace("_", " "): value for name, value in asdict(scale).items()}
        numbers = [number for part in parts.values() for number in part.numbers]
        return Finding(self.name, seed, prompts, settings, MEASURES, numbers)

    def page(self, finding: Finding) -> Page:
        return gaussian_page(finding)
