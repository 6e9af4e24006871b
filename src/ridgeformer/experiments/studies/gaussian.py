"""Gaussian KRR in one softmax head, a ReLU MLP and one block per step: what it takes, measured.

Features are uniform in a ball and targets are drawn from the kernel, so that nothing is clipped but
a rare target. The *floor* is, here and throughout, the RMSE over a prompt's queries between the
compiled model's prediction and that of the solver with the same coefficients after the same number
of steps: what interpolated products cost, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from math import log, sqrt
from typing import Any

import torch
from torch import Tensor

from ridgeformer.compiler import Exact, Interpolated
from ridgeformer.experiments.finding import Collector, Finding, Page
from ridgeformer.experiments.studies import gaussian_setting as study
from ridgeformer.experiments.studies.base import Part, StudyInParts
from ridgeformer.experiments.studies.gaussian_page import CERTIFIED, SAME, UNIT_STEP, gaussian_page
from ridgeformer.experiments.studies.gaussian_setting import METHODS, RIDGE, TARGET, Scale, Setting
from ridgeformer.solvers import krr, krr_coefficients
from ridgeformer.statistics import estimate_of, r_squared, slope
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


def rmse(a: Tensor, b: Tensor) -> Tensor:
    """Over the queries of each prompt."""
    return (a - b).square().mean((-1, -2)).sqrt()


def measure_blocks(k: int, name: str, steps: int, scale: Scale, out: Collector) -> None:
    """Error per block beside the solver's error per step."""
    setting = Setting(k)
    prompt = setting.draw(out.prompts, out.seed)
    exact = krr(prompt, ridge=RIDGE, kernel=setting.kernel)
    runs = {"solver": setting.solved(name, prompt, steps)}
    for width in scale.blocks_widths:
        model = setting.compiled(name, steps, Interpolated(TARGET, width=width))
        method = f"model, width {width}"
        runs[method] = study.predictions(model, prompt)
        extra = model.transformer.config.n_layers - steps
        out.exact("set-up blocks", method, extra, supports=k, solver=name)
    for method, run in runs.items():
        errors, control = rmse(run, exact), method == "solver"
        for step in shown_steps(steps):
            out.add("error", method, errors[step], control, supports=k, solver=name, step=step)


Floors = tuple[Tensor, list[float | None]]
"""The floors of one solver, [batch, widths]; and by width the largest |model − solver| over queries ÷ the
certified error of the model, if it has one."""


def run_floors(k: int, max_target: float, name: str, scale: Scale, out: Collector) -> Floors:
    setting, steps = Setting(k), scale.floor_steps
    prompt = setting.draw(out.prompts, out.seed)
    target = setting.solved(name, prompt, steps)[-1]
    values, worst = [], list[float | None]()
    for width in scale.widths:
        model = setting.compiled(name, steps, Interpolated(max_target, width=width))
        found = study.predictions(model, prompt)[-1]
        values.append(rmse(found, target))
        promised = model.certificate.absolute_error
        worst.append(float((found - target).abs().max()) / promised if promised else None)
    return torch.stack(values, dim=1), worst


def report_floors(
    k: int, which: str, name: str, floors: Floors, scale: Scale, out: Collector
) -> None:
    values, control = floors[0], which != CERTIFIED
    for width, column, share in zip(scale.widths, values.T, floors[1], strict=True):
        out.add("floor", which, column, control, supports=k, width=width, solver=name)
        if share is not None:
            out.exact("largest ÷ promised", which, share, supports=k, width=width, solver=name)
    x = torch.tensor(scale.widths, dtype=torch.float64).log()
    fitted = estimate_of(values, lambda means: slope(x, means.log()), out.seed)
    out.add("floor slope", which, fitted, control, supports=k, solver=name)


def measure_widths(k: int, scale: Scale, floors: dict[str, list[Tensor]], out: Collector) -> None:
    """The floors with the certified range and with that of the most supports, which join `floors`."""
    # max_target of the control: the MLP's range Y(1 + 2.2√k) is that of the most supports.
    widened = TARGET * (1 + 2.2 * sqrt(max(scale.supports))) / (1 + 2.2 * sqrt(k))
    certified = run_floors(k, TARGET, "chebyshev", scale, out)
    same = certified if widened == TARGET else run_floors(k, widened, "chebyshev", scale, out)
    for which, found in {CERTIFIED: certified, SAME: same}.items():
        report_floors(k, which, "chebyshev", found, scale, out)
        floors[which].append(found[0])
    setting = Setting(k)
    _, sums = setting.spectrum(setting.draw(out.prompts, out.seed))
    out.add("row sum", "prompts", sums.mean(-1), supports=k)


def measure_other_solver(scale: Scale, out: Collector) -> None:
    """The floor belongs to the fixed point, whichever solver leads to it."""
    k, name = max(scale.blocks_supports), "richardson"
    report_floors(k, CERTIFIED, name, run_floors(k, TARGET, name, scale, out), scale, out)


def width_for(means: Tensor, widths: tuple[int, ...], level: float) -> Tensor:
    """log of the width at which floors [..., widths] fall to the level; NaN where they do not."""
    x = torch.tensor(widths, dtype=means.dtype).log()
    y = means.log() - log(level)
    falls = (y[..., :-1] > 0) & (y[..., 1:] <= 0)
    at = x[:-1] + (x[1:] - x[:-1]) * y[..., :-1] / (y[..., :-1] - y[..., 1:])
    first = falls.to(torch.int8).argmax(-1, keepdim=True)
    found = at.gather(-1, first).squeeze(-1)
    return torch.where(falls.any(-1), found, torch.nan)


def measure_width_needed(floors: dict[str, list[Tensor]], scale: Scale, out: Collector) -> None:
    x = torch.tensor(scale.supports, dtype=torch.float64).log()

    def needed(means: Tensor) -> Tensor:
        return width_for(means, scale.widths, ENOUGH)

    for which, by_supports in floors.items():
        control = which != CERTIFIED
        for k, values in zip(scale.supports, by_supports, strict=True):
            found = estimate_of(values, lambda means: needed(means).exp(), out.seed)
            out.add("width needed", which, found, control, supports=k)
        every = torch.stack(by_supports, dim=1)  # [batch, supports, widths]
        exponent = estimate_of(every, lambda means: slope(x, needed(means)), out.seed)
        out.add("width exponent", which, exponent, control)


def measure_all_widths(scale: Scale, out: Collector) -> None:
    """The floors for every number of supports, and the width that each needs."""
    floors: dict[str, list[Tensor]] = {CERTIFIED: [], SAME: []}
    for k in scale.supports:
        measure_widths(k, scale, floors, out)
    measure_width_needed(floors, scale, out)


def measure_gated(scale: Scale, out: Collector) -> None:
    """With exact products a model is the solver, step by step."""
    k, steps = max(scale.blocks_supports), scale.gated_steps
    setting = Setting(k)
    prompt = setting.draw(out.prompts, out.seed)
    gated = study.predictions(setting.compiled("chebyshev", steps, Exact()), prompt)
    apart = (gated - setting.solved("chebyshev", prompt, steps)).abs().max()
    out.exact("exact products", "gated MLP", float(apart), supports=k, steps=steps)


def steps_to(errors: Tensor, level: float) -> Tensor:
    """Steps [batch] after which errors [steps, batch] stay below the level; NaN if they never do."""
    steps = torch.arange(1, len(errors) + 1, dtype=errors.dtype)[:, None]
    last = torch.where(errors > level, steps, 0.0).amax(0)
    return torch.where(last < len(errors), last, torch.nan)


def measure_constants(case: tuple[int, int, float], out: Collector) -> None:
    setting = Setting(*case)
    where = asdict(setting)
    prompt = setting.draw(out.prompts, out.seed)
    values, sums = setting.spectrum(prompt)
    own = (float(values[:, 0].min()), float(values[:, -1].max()))
    condition = values[:, -1] / values[:, 0]
    out.add("condition", "prompts", condition, **where)
    out.exact("largest condition", "prompts", float(condition.max()), **where)
    exact = krr(prompt, ridge=RIDGE, kernel=setting.kernel)
    # η = 2/(lo + hi) is 1 for the last of the intervals.
    intervals = {"prompts": own, "certain": setting.certain, UNIT_STEP: (1.0, 1.0)}
    reached: dict[tuple[str, str], Tensor] = {}
    for name, method in METHODS.items():
        for tuning in method.tunings:
            interval, at = intervals[tuning], where | {"solver": name}
            out.exact("interval", tuning, interval[1] / interval[0], **at)
            run = setting.solved(name, prompt, method.steps(interval, own), interval)
            errors = rmse(run, exact)
            found = torch.stack([steps_to(errors, level) for level in LEVELS], dim=1)
            reached[name, tuning] = found[:, LEVELS.index(TOLERANCE)]
            for level, column in zip(LEVELS, found.T, strict=True):
                out.add("steps", tuning, column, tuning == UNIT_STEP, **at, level=level)
            add_fits(out, tuning, torch.cat([found, condition[:, None]], dim=1), at)
    for tuning in intervals:
        other = reached["chebyshev", "prompts" if tuning == UNIT_STEP else tuning]
        both = torch.stack([reached["richardson", tuning], other], dim=1)
        ratio = estimate_of(both, lambda means: means[:, 0] / means[:, 1], out.seed)
        out.add("ratio", tuning, ratio, tuning == UNIT_STEP, **where)
    # A constant error ê in D⁻¹(y − Aα) moves f by k(x)ᵀA⁻¹Dê, at most ‖D^{1/2}A⁻¹k(x)‖·‖D^{1/2}ê‖.
    cross = replace(prompt, y=setting.kernel(prompt.phi, prompt.phi_query))
    weights = krr_coefficients(cross, ridge=RIDGE, kernel=setting.kernel)
    worst = (sums[:, :, None].sqrt() * weights).norm(dim=1).amax(-1)
    out.add("amplification", "constant error", worst, **where)
    top = 1 - (1 - RIDGE) / (setting.supports + 1)  # no row of D⁻¹A sums to more
    solver, tuned = METHODS["chebyshev"].solver, setting.certain
    for among, within in {"domain": (tuned[0], top), "prompts": own}.items():
        bound = sensitivity(solver, steps=48, tuned=tuned, spectrum=within).prediction
        out.exact("amplification bound", among, bound, **where)


def add_fits(out: Collector, tuning: str, values: Tensor, where: Mapping[str, Any]) -> None:
    """Lines through the mean numbers of steps; the last column of `values` is κ'."""
    x = -torch.tensor(LEVELS, dtype=torch.float64).log()
    for measure, of in {
        "steps slope": lambda m: slope(x, m[:, :-1]),
        "steps R²": lambda m: r_squared(x, m[:, :-1]),
        "hidden factor": lambda m: slope(x, m[:, :-1]) / m[:, -1],
        "hidden factor, √": lambda m: slope(x, m[:, :-1]) / m[:, -1].sqrt(),
    }.items():
        out.add(measure, tuning, estimate_of(values, of, out.seed), tuning == UNIT_STEP, **where)


def scale_for(prompts: int) -> Scale:
    return Scale() if prompts >= 8 else study.QUICK


def inside(name: str, part: Part, out: Collector) -> None:
    """A measurement whose numbers all say to which part of the page they belong."""
    part(out.within(part=name))


class GaussianStudy(StudyInParts):
    name = "gaussian"
    summary = "Gaussian KRR in one softmax head and a ReLU MLP: blocks, width, constants."
    prompts = 16
    seconds = (1.0, 0.7)
    measures = MEASURES

    def parts(self, prompts: int) -> list[Part]:
        scale = scale_for(prompts)
        blocks: list[Part] = [
            partial(measure_blocks, k, name, steps, scale)
            for k in scale.blocks_supports
            for name, steps in scale.blocks_steps
        ]
        by_name: dict[str, list[Part]] = {
            "blocks": [*blocks, partial(measure_gated, scale)],
            "width": [partial(measure_other_solver, scale), partial(measure_all_widths, scale)],
            "constants": [partial(measure_constants, case) for case in scale.constants],
        }
        return [partial(inside, name, part) for name, of in by_name.items() for part in of]

    def settings(self, prompts: int) -> dict[str, Any]:
        return {
            "ridge": RIDGE,
            "max target": TARGET,
            "largest norm": Setting(1).radius,
            "lengthscale": 0.5,
            "features": 2,
            "floor for which a width is asked": ENOUGH,
            "levels": list(LEVELS),
        } | {name.replace("_", " "): v for name, v in asdict(scale_for(prompts)).items()}

    def page(self, finding: Finding) -> Page:
        return gaussian_page(finding)
