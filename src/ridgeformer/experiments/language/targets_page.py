"""The part of the page about changed targets."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.language.page_parts import BEYOND, PROSE, methods_of, number
from ridgeformer.experiments.wording import line, spread

RIDGE, SMALL_RIDGE = "kernel ridge regression", "kernel ridge regression, smaller λ"
SIMILARITY = "similarity"
FEATURES = ("states", "inputs")


def sections_of(finding: f.Finding) -> list[f.Section]:
    s = finding.settings["changed targets"]
    if not s["tasks"]:
        return []
    sums = [spread(finding.get("sum of influence", "language model", task=t)) for t in s["tasks"]]
    shares = [spread(finding.get("share of targets", "interactions", task=t)) for t in s["tasks"]]
    return [
        PROSE.section(
            "targets",
            verdict_table(finding),
            agreement_table(finding),
            profile(finding),
            choice_table(finding),
            s=finding.settings,
            t=s,
            sums=list(zip(s["tasks"], sums, strict=True)),
            shares=list(zip(s["tasks"], shares, strict=True)),
            trained=training(finding),
        )
    ]


def training(finding: f.Finding) -> list[tuple[str, str, str]]:
    """For each task, how similarity of states compares with that of untrained weights, by the interval."""
    found = []
    for task in finding.settings["changed targets"]["tasks"]:
        number = finding.get("training of states", SIMILARITY, task=task)
        low, high = number.ends
        word = "better" if low > 0 else "worse" if high < 0 else "neither better nor worse"
        found.append((task, word, spread(number)))
    return found


def cases(finding: f.Finding) -> list[dict[str, str]]:
    """Each task with each kind of features."""
    tasks = finding.settings["changed targets"]["tasks"]
    return [{"task": task, "features": features} for task in tasks for features in FEATURES]


def verdict_table(finding: f.Finding) -> f.Table:
    s, rows = finding.settings["changed targets"], []
    for case in cases(finding):
        name = f"{case['task']}, {case['features']}"
        said, p = s["verdicts"][name], s["chance of no difference"][name]
        difference = finding.get("difference of targets", SMALL_RIDGE, **case)
        rows.append([name, said["kind"], said["why"], spread(difference), f"{p['corrected']:.2g}"])
    header = ["task, features", "verdict", "why", "ridge, λ ≤ 1, less similarity", "p, Holm"]
    return f.Table(header, rows, words=3)


def agreement_table(finding: f.Finding) -> f.Table:
    rows = []
    for name in methods_of(finding, "agreement of targets"):
        values = [finding.select("agreement of targets", name, **case) for case in cases(finding)]
        rows.append([name, *(spread(found[0]) if found else "none" for found in values)])
    header = [f"{case['task']}, {case['features']}" for case in cases(finding)]
    return f.Table(["features compared by", *header], rows)


def profile(finding: f.Finding) -> f.Figure:
    lines = []
    for case in cases(finding):
        along = finding.select("λ profile of targets", RIDGE, **case)
        ridges = [float(n.setting["ridge"]) for n in along]
        end = finding.get("λ profile of targets", SIMILARITY, **case)
        name = f"{case['task']}, {case['features']}"
        lines.append(line(name, [*ridges, BEYOND * ridges[-1]], [*along, end]))
    last = max(float(x) for one in lines for x in one.x)
    axes = f.Axes("λ, in units of the mean kernel diagonal", "agreement", log_x=True, log_y=False)
    return f.Figure.of(lines, axes, guide=(last, "λ = ∞"))


def choice_table(finding: f.Finding) -> f.Table:
    s, rows = finding.settings["changed targets"], []
    for name, c in s["choices"].items():
        best = s["λ"][name]
        interval = f"{number(best['value'])} [{number(best['low'])}, {number(best['high'])}]"
        values = [f"{v:.3g}" for v in (c["λ"], c["λ up to 1"], c["temperature"])]
        view = c["view"] if name.endswith(FEATURES[0]) else c["view"].rpartition(",")[0]
        others = [str(c[part]) for part in ("neighbours", "head", "views tried")]
        rows.append([name, view, *values, *others, interval])
    header = ["fixed for", "features", "λ", "λ up to 1", "temperature", "neighbours", "head", "views tried", "λ̂ where reported"]  # fmt: skip
    return f.Table(header, rows, words=2)
