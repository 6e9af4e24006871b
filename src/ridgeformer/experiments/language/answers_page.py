"""The parts of the page about what a language model answers: layer by layer, where it is wrong, and under other labels."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.language.names import MODEL
from ridgeformer.experiments.language.page_parts import methods_of, panels
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, SHADES, line, plain, spread

PROSE = Prose("language_answers")
CURVES = {"1-NN": SHADES[3], "class centroids": SHADES[4], "class centroids, untrained weights": CONTROL}  # fmt: skip
CHANCE = 0.5
FEWEST_WRONG = 10
"""With fewer wrong queries nothing is said of them."""


def layers_of_outputs(finding: f.Finding) -> f.Section:
    """Do the outputs follow similarity, at each layer?"""
    drawn, best = [], {}
    for task in finding.settings["words"]:

        def along(measure: str, name: str, task: str = task) -> list[f.Number]:
            return finding.select(measure, name, task=task)

        trained, control = (along("outputs given truth by layer", name) for name in ("isolated", "isolated, untrained"))  # fmt: skip
        places = [float(n.setting["layer"]) for n in trained]
        lines = [
            line("isolated", places, trained),
            line("isolated, untrained", places, control, CONTROL),
            line("isolated, truth kept", places, along("outputs by layer", "isolated"), bars=False, dash="dash"),
        ]  # fmt: skip
        drawn.append(f.Panel(task, lines, f.Axes("layer", "correlation", log_y=False)))
        best[task] = above_zero(trained), above_zero(control), len(trained)
    return PROSE.section("layers", f.Figure(panels(drawn)), counts=best)


def above_zero(numbers: list[f.Number]) -> int:
    return sum(n.ends[0] > 0 for n in numbers)


def wrong_section(finding: f.Finding) -> f.Section:
    """Are predictors wrong where the model is?"""
    tasks, similarity = finding.settings["words"], finding.settings["names"]["similarity"]
    counts = {t: int(finding.get("wrong queries", MODEL, task=t).value) for t in tasks}
    rows = []
    for name in methods_of(finding, "wrong together"):
        pairs = [both_shares(finding, name, task) for task in tasks]
        rows.append([name, *(cell for a, b in pairs for cell in (spread(a), plain(b.value)))])
    header = [cell for task in tasks for cell in (f"{task}, {counts[task]} wrong", "at all")]
    told = [task for task in tasks if counts[task] >= FEWEST_WRONG]
    above = []
    for task in told:
        where, at_all = both_shares(finding, similarity, task)
        above += [task] if where.ends[0] > at_all.value else []
    rest = [task for task in told if task not in above]
    values = {"above": above, "rest": rest, "few": [t for t in tasks if t not in told]}
    return PROSE.section("wrong", f.Table(["", *header], rows), fewest=FEWEST_WRONG, **values)


def both_shares(finding: f.Finding, name: str, task: str) -> tuple[f.Number, f.Number]:
    """How often a predictor is wrong where the model is, and at all."""
    where, at_all = (finding.get(m, name, task=task) for m in ("wrong together", "wrong at all"))
    return where, at_all


def styles_section(finding: f.Finding) -> list[f.Section]:
    """Accuracy under each style of labels, and learning curves; none if no task has labels that can be right."""
    s = finding.settings["styles"]
    if not s["tasks"]:
        return []
    figures = [*styles_figure(finding), *curves_figure(finding)]
    values = {"s": s, "learned": learned(finding), "differing": differing(finding), "lifted": lifted(finding)}  # fmt: skip
    return [PROSE.section("styles", styles_table(finding), *figures, **values)]


def of_style(finding: f.Finding, task: str, style: str, bias: str = "centred") -> f.Number:
    supports = finding.settings["styles"]["supports"]
    return finding.get("accuracy by labels", MODEL, task=task, labels=style, supports=supports, bias=bias)  # fmt: skip


def of_reference(finding: f.Finding, task: str, name: str, supports: int, bias: str) -> f.Number:
    """A neighbour's answer is a label, and has no bias to centre."""
    bias = "kept" if name == "1-NN" else bias
    return finding.get("accuracy by labels", name, task=task, supports=supports, bias=bias)


def styles_table(finding: f.Finding) -> f.Table:
    s = finding.settings["styles"]
    rows = []
    for task in s["tasks"]:
        for bias in ("kept", "centred"):
            own = [of_style(finding, task, style, bias) for style in s["labels"]]
            others = [of_reference(finding, task, name, s["supports"], bias) for name in CURVES]
            rows.append([task, bias, *map(spread, own), *(plain(n.value) for n in others)])
    header = ["task", "label bias", *s["labels"], "1-NN", "centroids", "centroids, untrained"]
    return f.Table(header, rows, words=2)


def styles_figure(finding: f.Finding) -> list[f.Figure]:
    s = finding.settings["styles"]
    if len(s["tasks"]) == 1:
        return []
    lines = [
        line(style, s["tasks"], [of_style(finding, task, style) for task in s["tasks"]], gaps=False)
        for style in s["labels"]
    ]
    axes = f.Axes("", "accuracy, label bias centred", log_y=False, bars="beside", y_limits=(0.0, 1.0))  # fmt: skip
    return [f.Figure.of(lines, axes)]


def curves_figure(finding: f.Finding) -> list[f.Figure]:
    found = []
    for task, sizes in finding.settings["styles"]["curves"].items():
        own = {
            bias: [finding.get("accuracy by labels", MODEL, task=task, supports=k, labels="A/B", bias=bias) for k in sizes]
            for bias in ("centred", "kept")
        }  # fmt: skip
        lines = [
            line(MODEL, sizes, own["centred"], SHADES[1], width=4.0),
            line(f"{MODEL}, bias kept", sizes, own["kept"], SHADES[0], bars=False, dash="dash"),
        ]
        for name, color in CURVES.items():
            along = [of_reference(finding, task, name, k, "centred") for k in sizes]
            lines.append(line(name, sizes, along, color))
        axes = f.Axes("supports", "accuracy", log_x=True, log_y=False, x_ticks=sizes)
        found.append(f.Panel(task, lines, axes))
    return [f.Figure(panels(found))] if found else []


def learned(finding: f.Finding) -> dict[str, list[str]]:
    """The tasks in which labels A/B are right more often than chance, by the interval, the others, and those in which swapped
    labels are right less often than chance."""
    found: dict[str, list[str]] = {"above": [], "not": [], "against": []}
    for task in finding.settings["styles"]["tasks"]:
        above = of_style(finding, task, "A/B").ends[0] > CHANCE
        found["above" if above else "not"].append(task)
        found["against"] += [task] if of_style(finding, task, "swapped").ends[1] < CHANCE else []
    return found


def differing(finding: f.Finding) -> dict[str, dict[str, list[str]]]:
    """For each style the tasks in which it is better than A/B, and worse, by intervals that are off 0."""
    s = finding.settings["styles"]
    found = {}
    for style in (style for style in s["labels"] if style != "A/B"):
        numbers = {t: finding.get("labels less A/B", MODEL, task=t, labels=style) for t in s["tasks"]}  # fmt: skip
        found[style] = {
            "better": [t for t, n in numbers.items() if n.ends[0] > 0],
            "worse": [t for t, n in numbers.items() if n.ends[1] < 0],
        }
    return found


def lifted(finding: f.Finding) -> dict[str, str]:
    """The task and the style whose accuracy centring lifts most, with both."""
    s = finding.settings["styles"]
    cases = [(t, style) for t in s["tasks"] for style in s["labels"]]

    def both(case: tuple[str, str]) -> tuple[float, float]:
        kept, centred = (of_style(finding, *case, bias).value for bias in ("kept", "centred"))
        return kept, centred

    best = max(cases, key=lambda case: both(case)[1] - both(case)[0])
    kept, centred = both(best)
    return {"task": best[0], "labels": best[1], "kept": plain(kept), "centred": plain(centred)}
