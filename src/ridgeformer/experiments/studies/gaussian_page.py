"""The page of the Gaussian study: every sentence about an outcome is worked out from the findings."""

from __future__ import annotations

from math import log10

from ridgeformer.experiments.report import Axis, Plot, Section, Table, line_figure
from ridgeformer.experiments.studies.base import Findings, Number, Page
from ridgeformer.experiments.studies.wording import (
    CONTROL,
    SHADES,
    SOLVER,
    line,
    plain,
    size,
    spread,
    within,
)

CERTIFIED, SAME = "certified range", "same range"
TUNINGS = {
    ("richardson", "unit step"): "Richardson, η = 1",
    ("richardson", "certain"): "Richardson, certain",
    ("richardson", "prompts"): "Richardson, prompts'",
    ("chebyshev", "certain"): "Chebyshev, certain",
    ("chebyshev", "prompts"): "Chebyshev, prompts'",
}
COLORS = ("#f3c6a5", "#e07b39", "#9c4a12", "#7fa3f0", "#2f5fd0")
CONSTANTS, WIDTHS = "The constants", "Floors and widths"


def steps_of(findings: Findings, measure: str, method: str, **where: float | str) -> list[int]:
    found = findings.by_kind.get((measure, method), [])
    return [int(n.setting["step"]) for n in found if where.items() <= n.setting.items()]


def blocks_section(findings: Findings) -> Section:
    s = findings.settings
    solvers = dict(s["blocks steps"])
    exact = findings.by_kind["exact products", "gated MLP"][0]
    rows, parted = [], []
    for name in solvers:
        row = []
        for k in s["blocks supports"]:
            where: dict[str, float | str] = {"supports": k, "solver": name}
            methods = ["solver", *(f"model, width {w}" for w in s["blocks widths"])]
            lines = []
            for method, color in zip(methods, (SOLVER, *SHADES), strict=False):
                steps = steps_of(findings, "error", method, **where)
                numbers = [findings.get("error", method, step=t, **where) for t in steps]
                lines.append(line(method, steps, numbers, color, bars=method != "solver"))
                if method != "solver":
                    beside = [findings.get("error", "solver", step=t, **where) for t in steps]
                    at = next(
                        (
                            t
                            for t, a, b in zip(steps, numbers, beside, strict=True)
                            if size(a) > 1.1 * size(b)
                        ),
                        None,
                    )
                    extra = findings.get("set-up blocks", method, **where)
                    parted.append([
                        f"{name}, k = {k}", method, plain(size(extra)), str(at or "not yet"),
                        spread(numbers[-1]),
                    ])  # fmt: skip
            row.append(Plot(f"{name}, k = {k}", lines))
        rows.append(row)
    figure = line_figure(rows, Axis("step"), Axis("RMSE to KRR", log=True, limits=(1e-6, 2.0)))
    text = (
        "One block is one step, besides blocks of set-up (|x|², and at the end the division that "
        "a prediction needs). The model's error falls with the solver's until it meets a floor, "
        "which a wider MLP lowers. The table has the first step, of those drawn, at which the mean "
        "error is 10 % above the solver's, and the error after the last one. With exact products (a "
        f"gated MLP) model and solver differ by {size(exact):.0e} at most over {exact.setting['steps']} "
        "steps."
    )
    header = ["solver", "model", "set-up blocks", "parts at step", "last error"]
    return Section("Block by block", text, [figure, Table(header, parted)])


def floor_section(findings: Findings) -> Section:
    s = findings.settings
    plot, rows, slopes = [], [], []
    widths = s["widths"]
    cases = [("chebyshev", CERTIFIED, k) for k in s["supports"]]
    cases += [("richardson", CERTIFIED, max(s["blocks supports"]))]
    cases += [("chebyshev", SAME, k) for k in s["supports"]]
    for (solver, which, k), color in zip(cases, SHADES, strict=False):
        plot.append(line(
            f"{solver}, k = {k}", widths,
            [findings.get("floor", which, supports=k, width=w, solver=solver) for w in widths],
            CONTROL if solver == "richardson" else color,
            bars=True, mode="lines+markers", dash="dot" if solver == "richardson" else "solid",
        ))  # fmt: skip
        if which == SAME:
            plot.pop()
    for solver, which, k in cases:
        fitted = findings.get("floor slope", which, supports=k, solver=solver)
        slopes.append(fitted)
        ends = [
            findings.get("floor", which, supports=k, width=w, solver=solver)
            for w in (widths[0], widths[-1])
        ]
        worst = max(
            size(n)
            for n in findings.by_kind["largest ÷ promised", which]
            if {"supports": k, "solver": solver}.items() <= n.setting.items()
        )
        name = f"{solver}, k = {k}" + (", control" if which == SAME else "")
        rows.append([name, spread(fitted), *map(spread, ends), plain(worst)])
    k = max(s["blocks supports"])
    ratios = [
        size(findings.get("floor", CERTIFIED, supports=k, width=w, solver="richardson"))
        / size(findings.get("floor", CERTIFIED, supports=k, width=w, solver="chebyshev"))
        for w in widths
    ]
    low, high = min(ratios), max(ratios)
    inside = sum(within(n, -2.2, -1.8) for n in slopes)
    text = (
        "The floor is the RMSE between the model's prediction and that of the solver with the same "
        f"coefficients, after {s['floor steps']} steps of both. Interpolating squares with hinges h apart costs h²/4, so the slope should be −2: of "
        f"{len(slopes)} fitted slopes, {inside} have their whole interval within −2 ± 0.2. "
        f"Richardson's floor is {low:.2f} to {high:.2f} times Chebyshev's, by width: its "
        "iterates have a smaller bound, so that the MLP multiplies over a narrower range. The last column is the largest error of any query, at any width, as a share of what the model "
        "promises for its whole domain (the narrowest promise nothing). The control rows are explained below."
    )
    figure = line_figure(
        [[Plot("", plot)]],
        Axis("MLP width", log=True, ticks=widths),
        Axis("floor", log=True),
    )
    header = [
        "setting", "slope", f"floor at width {widths[0]}", f"floor at width {widths[-1]}",
        "largest ÷ promised",
    ]  # fmt: skip
    return Section("Floor against width", text, [figure, Table(header, rows)])


def width_section(findings: Findings) -> Section:
    s = findings.settings
    supports = s["supports"]

    def needed(which: str) -> list[Number]:
        return [findings.get("width needed", which, supports=k) for k in supports]

    certified = findings.get("width exponent", CERTIFIED)
    same = findings.get("width exponent", SAME)
    sums = [findings.get("row sum", "prompts", supports=k) for k in supports]
    decades = log10(supports[-1] / supports[0])
    growth = log10(size(sums[-1]) / size(sums[0])) / decades
    ranged = log10((1 + 2.2 * supports[-1] ** 0.5) / (1 + 2.2 * supports[0] ** 0.5))
    share = ranged / decades
    verdict = "lies within" if within(certified, 0.35, 0.65) else "does not lie wholly within"
    text = (
        f"The width at which the floor is {s['floor for which a width is asked']:g} grows as "
        f"k to the {spread(certified)}; the interval {verdict} ½ ± 0.15. Two things grow with k. The range "
        "over which the MLP multiplies is Y(1 + 2.2√k), because λα is bounded by the worst case "
        f"‖y‖ ≤ √k·Y; over these k its exponent is {share:.2f}, which is worth {share / 2:.2f} of "
        "width. The control gives every k the range of the largest, on the same prompts, and leaves "
        f"{spread(same)}. The rest agrees with what the preconditioner does: an error in a product reaches "
        f"α multiplied by D, whose mean over supports has the exponent {growth:.2f} here, worth "
        f"{growth / 2:.2f} of width if errors of all supports had one sign."
    )
    figure = line_figure(
        [[Plot("", [
            line("certified range Y(1 + 2.2√k)", supports, needed(CERTIFIED), SHADES[1], bars=True,
                 mode="lines+markers"),
            line("range of the largest k (control)", supports, needed(SAME), CONTROL, bars=True,
                 mode="lines+markers", dash="dash"),
        ])]],
        Axis("supports k", log=True, ticks=supports),
        Axis("width needed", log=True, ticks=(128, 192, 256, 384, 512, 768, 1024)),
    )  # fmt: skip
    rows = [
        [str(k), spread(a), spread(b), spread(d)]
        for k, a, b, d in zip(supports, needed(CERTIFIED), needed(SAME), sums, strict=True)
    ]
    rows.append(["exponent", spread(certified), spread(same), f"{growth:.2f}"])
    header = ["supports", "width needed", "width needed, range of the largest k", "mean of D"]
    return Section("Width against supports", text, [figure, Table(header, rows)])


def case_name(case: tuple[int, int, float]) -> str:
    return f"k = {case[0]}, d = {case[1]}, ℓ = {case[2]:g}".replace(" = ", "\u00a0=\u00a0")


def at(case: tuple[int, int, float]) -> dict[str, float | str]:
    return {"supports": case[0], "features": case[1], "lengthscale": case[2]}


def steps_section(findings: Findings) -> Section:
    cases, levels = findings.settings["constants"], findings.settings["levels"]
    shown, worst = [tuple(case) for case in cases][:2], 1.0
    grid = []
    for wanted in ("richardson", "chebyshev"):
        plots = []
        for case in shown:
            lines = []
            for ((solver, tuning), name), color in zip(TUNINGS.items(), COLORS, strict=True):
                if solver != wanted:
                    continue
                where = at(case) | {"solver": solver}
                numbers = [findings.get("steps", tuning, level=e, **where) for e in levels]
                x = [-log10(e) for e in levels]
                lines.append(line(name, x, numbers, color, bars=True, mode="lines+markers"))
            plots.append(Plot(case_name(case), lines))
        grid.append(plots)
    rows = []
    for case in map(tuple, cases):
        for (solver, tuning), name in TUNINGS.items():
            where = at(case) | {"solver": solver}
            measures = ("steps slope", "steps R²", "hidden factor", "hidden factor, √")
            found = [findings.get(m, tuning, **where) for m in measures]
            worst = min(worst, size(found[1]))
            cells = [spread(n) for n in found]
            cells[1] = f"{size(found[1]):.4f}"
            rows.append([case_name(case), name, *cells])
    text = (
        "Steps, hence blocks, until a prompt's RMSE to KRR stays below ε. They are linear in log 1/ε: "
        f"the worst R² is {worst:.4f}. The slope is what O(log 1/ε) hides. Theory has κ'/2 for "
        "Richardson with the best constant step, κ' with η = 1, which takes row averages as they are, and "
        "√κ'/2 for Chebyshev, for κ' of the interval that it is tuned to: the certain one, which holds "
        "for every prompt of the domain, or that of these prompts. Counts are those of the solver, which a gated "
        "model repeats to round-off and a ReLU model down to its floor."
    )
    figure = line_figure(grid, Axis("log10 1/ε"), Axis("steps"))
    header = ["setting", "method", "steps per ln 1/ε", "R²", "÷ κ'", "÷ √κ'"]
    return Section("Blocks against log 1/ε", text, [figure, Table(header, rows)])


def constants_section(findings: Findings) -> Section:
    cases = [tuple(case) for case in findings.settings["constants"]]
    rows = []

    def add(name: str, measure: str, method: str, **more: float | str) -> None:
        found = [findings.get(measure, method, **at(case), **more) for case in cases]
        rows.append([name, *map(spread, found)])

    add("κ' = cond(D⁻¹A)", "condition", "prompts")
    add("largest κ'", "largest condition", "prompts")
    add("bound on κ'", "interval", "certain", solver="chebyshev")
    for (solver, tuning), name in TUNINGS.items():
        add(f"steps to 1e-4: {name}", "steps", tuning, solver=solver, level=1e-4)
    add("ratio, both at the prompts' interval", "ratio", "prompts")
    add("ratio, both at the certain interval", "ratio", "certain")
    add("ratio, η = 1 to Chebyshev, prompts'", "ratio", "unit step")
    add("effect of a constant error", "amplification", "constant error")
    add("its bound, prompts' spectrum", "amplification bound", "prompts")
    add("its bound, whole domain", "amplification bound", "domain")

    def cost(solver: str) -> str:
        """Of the certain interval, as the range over settings of a ratio of mean steps."""
        both = [
            [
                size(findings.get("steps", tuning, solver=solver, level=1e-4, **at(case)))
                for tuning in ("certain", "prompts")
            ]
            for case in cases
        ]
        ratios = [a / b for a, b in both]
        return f"{min(ratios):.2f} to {max(ratios):.2f}"

    text = (
        "The bound on κ' is (k + 1)(1 + λ/2)/λ. Ratios are steps of Richardson over steps "
        f"of Chebyshev. With the certain interval Chebyshev takes {cost('chebyshev')} times the steps "
        f"that it takes with the prompts' own, and Richardson {cost('richardson')} times: its step "
        "hardly depends on the lower end, and with the shorter one the largest modes die sooner. "
        "The effect of a constant error is max ‖D^½A⁻¹k(x)‖ over queries; its bound allows errors to change from "
        "step to step in the worst way, for 48 Chebyshev steps."
    )
    header = ["", *(case_name(case) for case in cases)]
    return Section(CONSTANTS, text, [Table(header, rows)])


def gaussian_page(findings: Findings) -> Page:
    s = findings.settings
    widths, constants = width_section(findings), constants_section(findings)
    floors = floor_section(findings)
    return Page(
        "Gaussian ridge regression in softmax attention",
        "One softmax head, one ReLU MLP and one block per step of preconditioned Richardson or "
        "Chebyshev. How deep and how wide for which error, with the constants.",
        [blocks_section(findings), floors, widths, steps_section(findings), constants],
        f"{findings.prompts} prompts per setting; features uniform in a ball of radius "
        f"{s['largest norm']:g} (d = 2; for other d with the same variance per feature), targets drawn "
        f"from the kernel with ℓ = {s['lengthscale']:g} and noise variance λ = {s['ridge']:g}, clipped "
        f"to ±{s['max target']:g}; float64, seed {findings.seed}. Bars and brackets are 95 % bootstrap "
        "intervals over prompts; fits are repeated on each resample. Fewer than 8 prompts run a "
        "smaller plan. All numbers are in <code>findings.json</code>.",
        {
            WIDTHS: narrow(floors.content[1], 3),
            "Width against supports": widths.content[1],
            CONSTANTS: without_intervals(constants.content[0]),
        },
    )  # fmt: skip


def narrow(table: Table, columns: int) -> Table:
    return Table(table.header[:columns], [row[:columns] for row in table.rows])


def without_intervals(table: Table) -> Table:
    rows = [[name, *(cell.split(" [")[0] for cell in cells)] for name, *cells in table.rows]
    return Table(table.header, rows)
