"""The page of the Gaussian study: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from math import log10
from typing import NamedTuple

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, SHADES, SOLVER, line, plain, spread, within

PROSE = Prose("gaussian")
CERTIFIED, SAME, UNIT_STEP = "certified range", "same range", "unit step"
RICHARDSON, CHEBYSHEV = "richardson", "chebyshev"


class Tuning(NamedTuple):
    """A solver, the interval that it is tuned to, and how it is shown."""

    solver: str
    interval: str
    label: str
    color: str


TUNINGS = (
    Tuning(RICHARDSON, UNIT_STEP, "Richardson, η = 1", "#f3c6a5"),
    Tuning(RICHARDSON, "certain", "Richardson, certain interval", "#e07b39"),
    Tuning(RICHARDSON, "prompts", "Richardson, prompts' interval", "#9c4a12"),
    Tuning(CHEBYSHEV, "certain", "Chebyshev, certain interval", "#7fa3f0"),
    Tuning(CHEBYSHEV, "prompts", "Chebyshev, prompts' interval", "#2f5fd0"),
)


def blocks_section(finding: f.Finding) -> f.Section:
    s = finding.settings
    axes = f.Axes("step", "RMSE to KRR", y_limits=(1e-6, 2.0))
    grid, rows = [], []
    for name in dict(s["blocks steps"]):
        panels = []
        for k in s["blocks supports"]:
            where: f.Setting = {"supports": k, "solver": name}
            title = f"{name}, k = {k}"
            solver = finding.select("error", "solver", **where)
            steps = [int(n.setting["step"]) for n in solver]
            lines = [line("solver", steps, solver, SOLVER, bars=False, mode="lines")]
            for width, color in zip(s["blocks widths"], SHADES, strict=False):
                method = f"model, width {width}"
                numbers = finding.select("error", method, **where)
                lines.append(line(method, steps, numbers, color, mode="lines"))
                both = zip(steps, numbers, solver, strict=True)
                parts = next((t for t, a, b in both if a.value > 1.1 * b.value), "not yet")
                extra = plain(finding.get("set-up blocks", method, **where).value)
                rows.append([title, method, extra, str(parts), spread(numbers[-1])])
            panels.append(f.Panel(title, lines, axes))
        grid.append(panels)
    header = ["solver", "model", "set-up blocks", "parts at step", "last error"]
    table = f.Table(header, rows, words=2)
    exact = finding.get("exact products", "gated MLP")
    return PROSE.section("blocks", f.Figure(grid), table, exact=exact)


def floor_section(finding: f.Finding) -> f.Section:
    s = finding.settings
    widths, k_other = s["widths"], max(s["blocks supports"])

    def floors(solver: str, which: str, k: int) -> list[f.Number]:
        return finding.select("floor", which, supports=k, solver=solver)

    lines = [
        line(f"{CHEBYSHEV}, k = {k}", widths, floors(CHEBYSHEV, CERTIFIED, k), color)
        for k, color in zip(s["supports"], SHADES, strict=False)
    ]
    other, beside = (floors(solver, CERTIFIED, k_other) for solver in (RICHARDSON, CHEBYSHEV))
    lines.append(line(f"{RICHARDSON}, k = {k_other}", widths, other, CONTROL, dash="dot"))
    cases = [(CHEBYSHEV, CERTIFIED, k, "") for k in s["supports"]]
    cases += [(RICHARDSON, CERTIFIED, k_other, "")]
    cases += [(CHEBYSHEV, SAME, k, ", control") for k in s["supports"]]
    rows, inside = [], 0
    for solver, which, k, note in cases:
        fitted = finding.get("floor slope", which, supports=k, solver=solver)
        inside += within(fitted, -2.2, -1.8)
        ends = floors(solver, which, k)
        promised = finding.select("largest ÷ promised", which, supports=k, solver=solver)
        cells = map(spread, (fitted, ends[0], ends[-1]))
        rows.append([f"{solver}, k = {k}{note}", *cells, plain(max(n.value for n in promised))])
    ratios = [a.value / b.value for a, b in zip(other, beside, strict=True)]
    axes = f.Axes("MLP width", "floor", log_x=True, x_ticks=widths)
    at_ends = (f"floor at width {width}" for width in (widths[0], widths[-1]))
    table = f.Table(["setting", "slope", *at_ends, "largest ÷ promised"], rows)
    words = {"s": s, "count": len(rows), "inside": inside, "ratios": ratios}
    return PROSE.section("floor", f.Figure.of(lines, axes), table, **words)


def width_section(finding: f.Finding) -> f.Section:
    s = finding.settings
    supports = s["supports"]
    needed = {which: finding.select("width needed", which) for which in (CERTIFIED, SAME)}
    certified, same = (finding.get("width exponent", which) for which in (CERTIFIED, SAME))
    sums = finding.select("row sum", "prompts")
    decades = log10(supports[-1] / supports[0])
    growth = log10(sums[-1].value / sums[0].value) / decades
    share = log10((1 + 2.2 * supports[-1] ** 0.5) / (1 + 2.2 * supports[0] ** 0.5)) / decades
    verdict = "lies within" if within(certified, 0.35, 0.65) else "does not lie wholly within"
    lines = [
        line("certified range Y(1 + 2.2√k)", supports, needed[CERTIFIED], SHADES[1]),
        line("range of the largest k (control)", supports, needed[SAME], CONTROL, dash="dash"),
    ]
    ticks = (128, 192, 256, 384, 512, 768, 1024)
    axes = f.Axes("supports k", "width needed", log_x=True, x_ticks=supports, y_ticks=ticks)
    columns = zip(*needed.values(), sums, strict=True)
    rows = [[str(k), *map(spread, row)] for k, row in zip(supports, columns, strict=True)]
    rows.append(["exponent", spread(certified), spread(same), f"{growth:.2f}"])
    header = ["supports", "width needed", "width needed, range of the largest k", "mean of D"]
    return PROSE.section(
        "width", f.Figure.of(lines, axes), f.Table(header, rows),
        s=s, certified=certified, verdict=verdict, share=share, same=same, growth=growth,
    )  # fmt: skip


class Constants(NamedTuple):
    """A setting in which constants are measured."""

    supports: int
    features: int
    lengthscale: float

    @property
    def label(self) -> str:
        text = f"k = {self.supports}, d = {self.features}, ℓ = {self.lengthscale:g}"
        return text.replace(" = ", "\u00a0=\u00a0")


def steps_section(finding: f.Finding, cases: list[Constants]) -> f.Section:
    digits = [-log10(e) for e in finding.settings["levels"]]

    def panel(case: Constants, solver: str) -> f.Panel:
        lines = []
        for t in TUNINGS:
            if t.solver == solver:
                numbers = finding.select("steps", t.interval, solver=solver, **case._asdict())
                lines.append(line(t.label, digits, numbers, t.color))
        return f.Panel(case.label, lines, f.Axes("log_{10} 1/ε", "steps", log_y=False))

    figure = f.Figure([[panel(c, solver) for c in cases[:2]] for solver in (RICHARDSON, CHEBYSHEV)])
    rows, worst = [], 1.0
    for case in cases:
        for t in TUNINGS:
            slope, r_squared, *factors = (
                finding.get(m, t.interval, solver=t.solver, **case._asdict())
                for m in ("steps slope", "steps R²", "hidden factor", "hidden factor, √")
            )
            worst = min(worst, r_squared.value)
            fitted = [spread(slope), f"{r_squared.value:.4f}", *map(spread, factors)]
            rows.append([case.label, t.label, *fitted])
    header = ["setting", "method", "steps per ln 1/ε", "R²", "÷ κ'", "÷ √κ'"]
    return PROSE.section("steps", figure, f.Table(header, rows, words=2), worst=worst)


def constants_section(finding: f.Finding, cases: list[Constants]) -> f.Section:
    def numbers(measure: str, method: str, **more: float | str) -> list[f.Number]:
        return [finding.get(measure, method, **case._asdict(), **more) for case in cases]

    def steps(solver: str, interval: str) -> list[f.Number]:
        return numbers("steps", interval, solver=solver, level=1e-4)

    def cost(solver: str) -> str:
        """What the certain interval costs, as the range over settings of a ratio of mean steps."""
        both = zip(steps(solver, "certain"), steps(solver, "prompts"), strict=True)
        ratios = [certain.value / own.value for certain, own in both]
        return f"{min(ratios):.2f} to {max(ratios):.2f}"

    rows = {
        "κ' = cond(D⁻¹A)": numbers("condition", "prompts"),
        "largest κ'": numbers("largest condition", "prompts"),
        "bound on κ'": numbers("interval", "certain", solver=CHEBYSHEV),
        **{f"steps to 1e-4: {t.label}": steps(t.solver, t.interval) for t in TUNINGS},
        "ratio, both with the prompts' interval": numbers("ratio", "prompts"),
        "ratio, both with the certain interval": numbers("ratio", "certain"),
        "ratio, η = 1 to Chebyshev with the prompts' interval": numbers("ratio", UNIT_STEP),
        "effect of a constant error": numbers("amplification", "constant error"),
        "its bound, prompts' spectrum": numbers("amplification bound", "prompts"),
        "its bound, whole domain": numbers("amplification bound", "domain"),
    }
    header = ["", *(case.label for case in cases)]
    table = f.Table(header, [[name, *map(spread, row)] for name, row in rows.items()])
    return PROSE.section("constants", table, **{s: cost(s) for s in (CHEBYSHEV, RICHARDSON)})


def gaussian_page(finding: f.Finding) -> f.Page:
    cases = [Constants(*case) for case in finding.settings["constants"]]
    sections = [
        blocks_section(finding),
        floor_section(finding),
        width_section(finding),
        steps_section(finding, cases),
        constants_section(finding, cases),
    ]
    _, floors, widths, _, constants = (section.tables[0] for section in sections)
    means = [[name, *(cell.split(" [")[0] for cell in cells)] for name, *cells in constants.rows]
    terminal = {
        "Floors and widths": floors.columns(range(3)),
        "Width against supports": widths,
        "The constants": f.Table(constants.header, means),
    }
    return PROSE.page(sections, finding, terminal)
