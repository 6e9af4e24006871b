"""The page of the Gaussian study: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from math import log10
from typing import NamedTuple

from ridgeformer.experiments.finding import (
    Axes,
    Figure,
    Finding,
    Number,
    Page,
    Panel,
    Section,
    Setting,
    Table,
)
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, SHADES, SOLVER, line, plain, spread, within

PROSE = Prose("gaussian")
CERTIFIED, SAME = "certified range", "same range"
RICHARDSON, CHEBYSHEV = "richardson", "chebyshev"


class Tuning(NamedTuple):
    """A solver, the interval that it is tuned to, and how it is shown."""

    solver: str
    interval: str
    label: str
    color: str


TUNINGS = (
    Tuning(RICHARDSON, "unit step", "Richardson, η = 1", "#f3c6a5"),
    Tuning(RICHARDSON, "certain", "Richardson, certain interval", "#e07b39"),
    Tuning(RICHARDSON, "prompts", "Richardson, prompts' interval", "#9c4a12"),
    Tuning(CHEBYSHEV, "certain", "Chebyshev, certain interval", "#7fa3f0"),
    Tuning(CHEBYSHEV, "prompts", "Chebyshev, prompts' interval", "#2f5fd0"),
)


def blocks_section(finding: Finding) -> Section:
    s = finding.settings
    axes = Axes("step", "RMSE to KRR", y_limits=(1e-6, 2.0))
    exact = finding.by_kind["exact products", "gated MLP"][0]
    rows, parted = [], []
    for name in dict(s["blocks steps"]):
        row = []
        for k in s["blocks supports"]:
            where: dict[str, float | str] = {"supports": k, "solver": name}

            def curve(method: str, where: Setting = where) -> list[Number]:
                among = finding.by_kind["error", method]
                return [n for n in among if where.items() <= n.setting.items()]

            solver = curve("solver")
            steps = [int(n.setting["step"]) for n in solver]
            lines = [line("solver", steps, solver, SOLVER, bars=False, mode="lines")]
            for width, color in zip(s["blocks widths"], SHADES, strict=False):
                method = f"model, width {width}"
                numbers = curve(method)
                lines.append(line(method, steps, numbers, color, mode="lines"))
                both = zip(steps, numbers, solver, strict=True)
                parts = next((t for t, a, b in both if a.value > 1.1 * b.value), None)
                extra = finding.get("set-up blocks", method, **where)
                parted.append([
                    f"{name}, k = {k}", method, plain(extra.value), str(parts or "not yet"),
                    spread(numbers[-1]),
                ])  # fmt: skip
            row.append(Panel(f"{name}, k = {k}", lines, axes))
        rows.append(row)
    header = ["solver", "model", "set-up blocks", "parts at step", "last error"]
    return PROSE.section("blocks", Figure(rows), Table(header, parted, words=2), exact=exact)


def floor_section(finding: Finding) -> Section:
    s = finding.settings
    widths, k_other = s["widths"], max(s["blocks supports"])

    def floors(solver: str, which: str, k: int) -> list[Number]:
        return [
            finding.get("floor", which, supports=k, width=w, solver=solver) for w in widths
        ]  # fmt: skip

    lines = [
        line(f"{CHEBYSHEV}, k = {k}", widths, floors(CHEBYSHEV, CERTIFIED, k), color)
        for k, color in zip(s["supports"], SHADES, strict=False)
    ]
    other = floors(RICHARDSON, CERTIFIED, k_other)
    lines.append(line(f"{RICHARDSON}, k = {k_other}", widths, other, CONTROL, dash="dot"))
    rows, slopes = [], []
    cases = [(CHEBYSHEV, CERTIFIED, k, "") for k in s["supports"]]
    cases += [(RICHARDSON, CERTIFIED, k_other, "")]
    cases += [(CHEBYSHEV, SAME, k, ", control") for k in s["supports"]]
    for solver, which, k, note in cases:
        fitted = finding.get("floor slope", which, supports=k, solver=solver)
        slopes.append(fitted)
        ends = floors(solver, which, k)
        worst = max(
            n.value
            for n in finding.by_kind["largest ÷ promised", which]
            if {"supports": k, "solver": solver}.items() <= n.setting.items()
        )
        cells = map(spread, (fitted, ends[0], ends[-1]))
        rows.append([f"{solver}, k = {k}{note}", *cells, plain(worst)])
    beside = floors(CHEBYSHEV, CERTIFIED, k_other)
    ratios = [a.value / b.value for a, b in zip(other, beside, strict=True)]
    inside = sum(within(n, -2.2, -1.8) for n in slopes)
    axes = Axes("MLP width", "floor", log_x=True, x_ticks=widths)
    header = [
        "setting", "slope", f"floor at width {widths[0]}", f"floor at width {widths[-1]}",
        "largest ÷ promised",
    ]  # fmt: skip
    return PROSE.section(
        "floor", Figure.of(lines, axes), Table(header, rows),
        s=s, count=len(slopes), inside=inside, ratios=ratios,
    )  # fmt: skip


def width_section(finding: Finding) -> Section:
    s = finding.settings
    supports = s["supports"]

    def needed(which: str) -> list[Number]:
        return [finding.get("width needed", which, supports=k) for k in supports]

    certified = finding.get("width exponent", CERTIFIED)
    same = finding.get("width exponent", SAME)
    sums = [finding.get("row sum", "prompts", supports=k) for k in supports]
    decades = log10(supports[-1] / supports[0])
    growth = log10(sums[-1].value / sums[0].value) / decades
    ranged = log10((1 + 2.2 * supports[-1] ** 0.5) / (1 + 2.2 * supports[0] ** 0.5))
    share = ranged / decades
    verdict = "lies within" if within(certified, 0.35, 0.65) else "does not lie wholly within"
    figure = Figure.of(
        [
            line("certified range Y(1 + 2.2√k)", supports, needed(CERTIFIED), SHADES[1]),
            line("range of the largest k (control)", supports, needed(SAME), CONTROL, dash="dash"),
        ],
        Axes(
            "supports k", "width needed", log_x=True, x_ticks=supports,
            y_ticks=(128, 192, 256, 384, 512, 768, 1024),
        ),
    )  # fmt: skip
    rows = [
        [str(k), spread(a), spread(b), spread(d)]
        for k, a, b, d in zip(supports, needed(CERTIFIED), needed(SAME), sums, strict=True)
    ]
    rows.append(["exponent", spread(certified), spread(same), f"{growth:.2f}"])
    header = ["supports", "width needed", "width needed, range of the largest k", "mean of D"]
    return PROSE.section(
        "width", figure, Table(header, rows),
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


def steps_section(finding: Finding, cases: list[Constants]) -> Section:
    levels = finding.settings["levels"]
    digits = [-log10(e) for e in levels]

    def panel(case: Constants, solver: str) -> Panel:
        where = case._asdict()
        lines = [
            line(t.label, digits, [
                finding.get("steps", t.interval, level=e, solver=solver, **where) for e in levels
            ], t.color)
            for t in TUNINGS if t.solver == solver
        ]  # fmt: skip
        return Panel(case.label, lines, Axes("log_{10} 1/ε", "steps", log_y=False))

    figure = Figure([[panel(c, solver) for c in cases[:2]] for solver in (RICHARDSON, CHEBYSHEV)])
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
    return PROSE.section("steps", figure, Table(header, rows, words=2), worst=worst)


def constants_section(finding: Finding, cases: list[Constants]) -> Section:
    rows = []

    def numbers(measure: str, method: str, **more: float | str) -> list[Number]:
        return [finding.get(measure, method, **case._asdict(), **more) for case in cases]

    def add(name: str, measure: str, method: str, **more: float | str) -> None:
        rows.append([name, *map(spread, numbers(measure, method, **more))])

    add("κ' = cond(D⁻¹A)", "condition", "prompts")
    add("largest κ'", "largest condition", "prompts")
    add("bound on κ'", "interval", "certain", solver=CHEBYSHEV)
    for t in TUNINGS:
        add(f"steps to 1e-4: {t.label}", "steps", t.interval, solver=t.solver, level=1e-4)
    add("ratio, both with the prompts' interval", "ratio", "prompts")
    add("ratio, both with the certain interval", "ratio", "certain")
    add("ratio, η = 1 to Chebyshev with the prompts' interval", "ratio", "unit step")
    add("effect of a constant error", "amplification", "constant error")
    add("its bound, prompts' spectrum", "amplification bound", "prompts")
    add("its bound, whole domain", "amplification bound", "domain")

    def cost(solver: str) -> str:
        """What the certain interval costs, as the range over settings of a ratio of mean steps."""
        certain, own = (
            numbers("steps", interval, solver=solver, level=1e-4)
            for interval in ("certain", "prompts")
        )
        ratios = [a.value / b.value for a, b in zip(certain, own, strict=True)]
        return f"{min(ratios):.2f} to {max(ratios):.2f}"

    table = Table(["", *(case.label for case in cases)], rows)
    costs = {solver: cost(solver) for solver in (CHEBYSHEV, RICHARDSON)}
    return PROSE.section("constants", table, **costs)


def gaussian_page(finding: Finding) -> Page:
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
        "The constants": Table(constants.header, means),
    }
    return PROSE.page(sections, finding, terminal)
