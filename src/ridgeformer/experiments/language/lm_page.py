"""The page of a study of a language model: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.language import numbers_page
from ridgeformer.experiments.language.answers_page import (
    layers_of_outputs,
    styles_section,
    wrong_section,
)
from ridgeformer.experiments.language.drift_page import drift_section
from ridgeformer.experiments.language.page_parts import (
    BEYOND,
    PROSE,
    methods_of,
    number,
    panels,
    rows_of,
)
from ridgeformer.experiments.wording import CONTROL, line, spread

LAYER_LINES = {"isolated": "", "isolated, untrained": CONTROL, "in context": ""}


def page_of(finding: f.Finding) -> f.Page:
    s = finding.settings
    sections, terminal = [], {}
    if s["words"]:
        agreement = agreement_table(finding)
        terminal["Agreement with the influence of labels"] = narrow_table(finding)
        sections += [
            PROSE.section("verdict", verdict_table(finding), s=s),
            PROSE.section("agreement", agreement, *scatters(finding), s=s),
            PROSE.section("differences", difference_table(finding), s=s, off=off_zero(finding)),
            PROSE.section("profile", profile(finding), s=s),
            PROSE.section("layers", layers(finding), s=s),
            layers_of_outputs(finding),
            PROSE.section("copies", copies_table(finding), s=s),
            PROSE.section("power", power_table(finding), s=s),
            PROSE.section("accuracy", accuracy_table(finding), s=s),
            wrong_section(finding),
            *styles_section(finding),
            *drift_section(finding),
            PROSE.section("choices", choice_table(finding), s=s),
        ]
    if s["numbers"]:
        sections += numbers_page.sections_of(finding)
        terminal |= numbers_page.terminal(finding)
    return PROSE.page(sections, finding, terminal)


def verdict_table(finding: f.Finding) -> f.Table:
    verdicts = finding.settings["verdicts"]
    rows = [[task, v["kind"], v["why"]] for task, v in verdicts.items()]
    return f.Table(["task", "verdict", "why"], rows, words=3)


def agreement_table(finding: f.Finding) -> f.Table:
    rows = rows_of(finding, "agreement", methods_of(finding, "agreement"))
    return f.Table(["features compared by", *finding.settings["words"]], rows)


def narrow_table(finding: f.Finding) -> f.Table:
    names = finding.settings["names"]
    shown = [names[n] for n in ("small ridge", "similarity", "untrained")]
    rows = []
    for task in finding.settings["words"]:
        values = [spread(finding.get("agreement", name, task=task)) for name in shown]
        rows.append([task, *values, spread(finding.get("difference", shown[0], task=task))])
    header = ["task", "ridge, λ ≤ 1", "similarity", "untrained", "ridge − similarity"]
    return f.Table(header, rows)


def scatters(finding: f.Finding) -> list[f.Figure]:
    found = []
    for task, points in finding.settings["scatter"].items():
        predicted = [name for name in points if name != "found"]
        found.append(
            f.Panel(
                task,
                [f.Line(name, points[name], points["found"], mode="markers") for name in predicted],
                f.Axes("predicted interaction", "interaction found", log_y=False),
            )
        )
    return [f.Figure(panels(found))]


def difference_table(finding: f.Finding) -> f.Table:
    names, chances = finding.settings["names"], finding.settings["chance of no difference"]
    rows = []
    for task in finding.settings["words"]:
        differences = [spread(finding.get("difference", names[n], task=task)) for n in ("small ridge", "ridge")]  # fmt: skip
        p = chances[task]
        rows.append([task, *differences, f"{p['p']:.2g}", f"{p['corrected']:.2g}"])
    header = ["task", "λ up to 1, less similarity", "any finite λ, less similarity", "p", "p, Holm"]
    return f.Table(header, rows)


def off_zero(finding: f.Finding) -> dict[str, list[str]]:
    """The tasks in which the difference has an interval above 0, and below."""
    small = finding.settings["names"]["small ridge"]
    found: dict[str, list[str]] = {"above": [], "below": [], "neither": []}
    for task in finding.settings["words"]:
        low, high = finding.get("difference", small, task=task).ends
        found["above" if low > 0 else "below" if high < 0 else "neither"].append(task)
    return found


def profile(finding: f.Finding) -> f.Figure:
    names, lines = finding.settings["names"], []
    for task in finding.settings["words"]:
        along = finding.select("λ profile", names["ridge"], task=task)
        ridges = [float(n.setting["ridge"]) for n in along]
        end = finding.get("λ profile", names["similarity"], task=task)
        lines.append(line(task, [*ridges, BEYOND * ridges[-1]], [*along, end]))
    last = max(float(x) for one in lines for x in one.x)
    axes = f.Axes("λ, in units of the mean kernel diagonal", "agreement", log_x=True, log_y=False)
    return f.Figure.of(lines, axes, guide=(last, "λ = ∞"))


def layers(finding: f.Finding) -> f.Figure:
    found = []
    for task in finding.settings["words"]:
        lines = []
        for name, color in LAYER_LINES.items():
            along = finding.select("by layer", name, task=task)
            lines.append(line(name, [float(n.setting["layer"]) for n in along], along, color))
        found.append(f.Panel(task, lines, f.Axes("layer", "agreement", log_y=False)))
    return f.Figure(panels(found))


def copies_table(finding: f.Finding) -> f.Table:
    tasks = finding.settings["words"]
    rows = []
    for name in methods_of(finding, "discount"):
        known = {n.setting["task"]: n for n in finding.select("discount", name)}
        rows.append([name, *(spread(known[t]) if t in known else "none" for t in tasks)])
    for n in sorted({int(n.setting["flips"]) for n in finding.select_all("additivity")}):
        values = [spread(finding.get("additivity", "flips", task=t, flips=n)) for t in tasks]
        rows.append([f"{n} flips over their sum", *values])
    return f.Table(["", *tasks], rows)


def power_table(finding: f.Finding) -> f.Table:
    parts = methods_of(finding, "noise")
    learners = methods_of(finding, "power")
    rows = []
    for task in finding.settings["words"]:
        known = {n.method: n for m in ("noise", "power") for n in finding.select_all(m) if n.setting["task"] == task}  # fmt: skip
        rows.append([task, *(spread(known[name]) if name in known else "none" for name in (*parts, *learners))])  # fmt: skip
    return f.Table(["task", *parts, *(f"{name}: so called" for name in learners)], rows)


def accuracy_table(finding: f.Finding) -> f.Table:
    tasks = finding.settings["words"]
    rows = []
    for name in methods_of(finding, "accuracy"):
        for bias in ("kept", "centred"):
            values = [spread(finding.get("accuracy", name, task=t, bias=bias)) for t in tasks]
            rows.append([name, bias, *values])
    return f.Table(["", "label bias", *tasks], rows, words=2)


def choice_table(finding: f.Finding) -> f.Table:
    rows = []
    for task, c in finding.settings["choices"].items():
        best = finding.settings["λ"][task]
        interval = f"{number(best['value'])} [{number(best['low'])}, {number(best['high'])}]"
        values = (c["λ"], c["λ up to 1"], c["temperature"])
        rows.append([task, c["view"], *(f"{v:.3g}" for v in values), str(c["neighbours"]), str(c["head"]), str(c["views tried"]), interval])  # fmt: skip
    header = ["task", "features", "λ", "λ up to 1", "temperature", "neighbours", "head", "views tried", "λ̂ where reported"]  # fmt: skip
    return f.Table(header, rows, words=2)
