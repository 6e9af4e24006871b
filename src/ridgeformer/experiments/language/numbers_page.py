"""The part of the page about written numbers."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.language import targets_page
from ridgeformer.experiments.language.page_parts import PROSE, methods_of, panels
from ridgeformer.experiments.wording import CONTROL, line, plain, spread

MODEL, MEAN, UNTRAINED = "language model", "mean", "ridge on states, untrained"
RIDGE = "ridge on states"
COLOURS = {
    MODEL: "#2f5fd0", MEAN: CONTROL, "1-NN": "#2a9d8f", "1-NN on states": "#2a9d8f", "ridge on inputs": "#8e5bd0",
    RIDGE: "#8e5bd0", "GP": "#c23b5a", "Nadaraya–Watson on states": "#b8860b", UNTRAINED: "#c9ced6",
}  # fmt: skip
"""What is alike on inputs and on states has one colour; states have dashes."""


def sections_of(finding: f.Finding) -> list[f.Section]:
    s = finding.settings
    sections = [
        PROSE.section(
            "numbers", curves(finding), error_table(finding), answers_table(finding), s=s,
            known=known_to_states(finding),
        ),
        PROSE.section("followed", *followed_tables(finding), s=s),
        *targets_page.sections_of(finding),
    ]  # fmt: skip
    if s["formats"]["written"]:
        sections.append(PROSE.section("formats", format_table(finding), s=s, w=s["formats"]))
    return [*sections, PROSE.section("number_choices", choice_table(finding), s=s)]


def terminal(finding: f.Finding) -> dict[str, f.Table]:
    return {"Error of expected numbers": narrow_table(finding)}


def curves(finding: f.Finding) -> f.Figure:
    found = []
    for task in finding.settings["numbers"]:
        lines = []
        for name in methods_of(finding, "RMSE"):
            along = finding.select("RMSE", name, task=task)
            sizes = [float(n.setting["supports"]) for n in along]
            dash = "dash" if "states" in name else ""
            wide = 4.0 if name == MODEL else 2.5
            lines.append(line(name, sizes, along, COLOURS.get(name, ""), width=wide, dash=dash))
        axes = f.Axes("supports", "RMSE", log_x=True, x_ticks=finding.settings["supports of numbers"])  # fmt: skip
        found.append(f.Panel(task, lines, axes))
    return f.Figure(panels(found))


def error_table(finding: f.Finding) -> f.Table:
    """The errors with most supports; the figure has the others."""
    tasks, k = finding.settings["numbers"], finding.settings["supports of numbers"][-1]
    rows = [
        [name, *(spread(finding.get("RMSE", name, task=t, supports=k)) for t in tasks)]
        for name in methods_of(finding, "RMSE")
    ]
    return f.Table([f"RMSE, {k} supports", *tasks], rows)


def narrow_table(finding: f.Finding) -> f.Table:
    """The errors with most supports, one row for each task."""
    k = finding.settings["supports of numbers"][-1]
    methods = [MODEL, MEAN, "1-NN", "GP", RIDGE, UNTRAINED]
    rows = []
    for task in finding.settings["numbers"]:
        numbers = [finding.get("RMSE", name, task=task, supports=k) for name in methods]
        shown = [spread(n) if n.method == MODEL else plain(n.value) for n in numbers]
        rows.append([f"{task}, k = {k}", *shown])
    return f.Table(["task", *methods], rows)


def answers_table(finding: f.Finding) -> f.Table:
    rows = []
    for task in finding.settings["numbers"]:
        for k in finding.settings["supports of numbers"]:
            where = {"task": task, "supports": k}
            found = [finding.get(m, MODEL, **where) for m in ("unparseable", "mass", "RMSE over the mean's")]  # fmt: skip
            rows.append([task, str(k), *map(spread, found)])
    header = ["task", "supports", "unparseable greedy answers", "probability of a number", "RMSE over the mean's"]  # fmt: skip
    return f.Table(header, rows)


def known_to_states(finding: f.Finding) -> dict[str, list[str]]:
    """The tasks in which ridge regression on states errs less than the model, by an interval, and more."""
    k = finding.settings["supports of numbers"][-1]
    found: dict[str, list[str]] = {"less": [], "more": [], "neither": []}
    for task in finding.settings["numbers"]:
        low, high = finding.get("RMSE over the model's", RIDGE, task=task, supports=k).ends
        found["less" if high < 1 else "more" if low > 1 else "neither"].append(task)
    return found


def followed_tables(finding: f.Finding) -> list[f.Table]:
    """Whether answers follow each predictor: in what they are off, and in what the truth does not explain."""
    tasks = finding.settings["numbers"]
    tables = []
    for measure, title in (("errors", "errors"), ("answers given truth", "given the truth")):
        rows = [
            [str(k), name, *(spread(finding.get(measure, name, task=t, supports=k)) for t in tasks)]
            for k in finding.settings["supports that are followed"]
            for name in methods_of(finding, measure)
            if name != MEAN or measure == "errors"  # A constant follows nothing.
        ]
        tables.append(f.Table(["supports", title, *tasks], rows, words=2))
    return tables


def choice_table(finding: f.Finding) -> f.Table:
    rows = []
    for task, sizes in finding.settings["choices of numbers"].items():
        for k, both in sizes.items():
            for weights, c in both.items():
                rows.append([task, k, weights, c["views"][RIDGE], plain(c["λ"]), str(c["views tried"])])  # fmt: skip
    return f.Table(["task", "supports", "weights", RIDGE, "λ", "views tried"], rows, words=4)


def format_table(finding: f.Finding) -> f.Table:
    s = finding.settings["formats"]
    rows = []
    for name, facts in s["written"].items():
        values = [
            spread(finding.get(f"{measure}, by format", who, format=name))
            for measure, who in (
                ("unparseable", MODEL),
                ("mass", MODEL),
                ("RMSE over the mean's", MODEL),
                ("RMSE over the mean's", "1-NN"),
            )
        ]
        apart = "yes" if facts["digits apart"] else "no"
        rows.append([f"{name}: {facts['numbers']}", str(facts["tokens"]), apart, *values])
    header = [
        "format", "tokens", "digits apart", "unparseable greedy answers",
        "probability of a number", "RMSE over the mean's", "1-NN's",
    ]  # fmt: skip
    return f.Table(header, rows)
