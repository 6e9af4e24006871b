"""The part of the page about states of the same word in several contexts."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.language.names import (
    FROZEN,
    PRINCIPAL,
    RANDOM,
    SHIFTED,
    UNTRAINED,
    WHOLE,
)
from ridgeformer.experiments.language.page_parts import panels
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import CONTROL, SHADES, line, plain, spread

PROSE = Prose("language_drift")
DRIFTS = {
    WHOLE: SHADES[1],
    SHIFTED: SHADES[3],
    SHIFTED + UNTRAINED: CONTROL,
}
SPACES = {WHOLE: SHADES[1], FROZEN: SHADES[3], PRINCIPAL: SHADES[4], RANDOM: CONTROL}
CHANGE, BOUND = "change of f*", "bound on the change of f*"
OTHERS = "drift of other words", "change of f* for other words"
BESIDE = {
    OTHERS[0]: ("kept", {FROZEN: "frozen keeps", PRINCIPAL: "principal keeps"}),
    OTHERS[1]: ("accuracy of f* for other words", {WHOLE: "accuracy", FROZEN: "frozen: accuracy"}),
}
Places = list[tuple[str, int]]


def drift_section(finding: f.Finding) -> list[f.Section]:
    """None if no task has words enough."""
    s = finding.settings["drift"]
    if not s["tasks"]:
        return []
    known = {"s": s, "found": found(finding)}
    tables = [subspace_table(finding, measure) for measure in OTHERS]
    return [
        PROSE.section("drift", by_layer(finding), drift_table(finding), **known),
        PROSE.section("effect", effect_table(finding), **known),
        PROSE.section("subspace", subspace_figure(finding), *tables, **known),
    ]


def by_layer(finding: f.Finding) -> f.Figure:
    drawn = []
    for task in finding.settings["drift"]["tasks"]:
        lines = []
        for name, color in DRIFTS.items():
            along = finding.select("drift", name, task=task)
            lines.append(line(name, [float(n.setting["layer"]) for n in along], along, color))
        drawn.append(
            f.Panel(
                task,
                lines,
                f.Axes("layer", "drift W/B", x_ticks=finding.settings["drift"]["layers"][::2]),
            )
        )
    return f.Figure(panels(drawn))


def subspace_figure(finding: f.Finding) -> f.Figure:
    """What drift does to f*, for the words that did not fit the subspace."""
    drawn = []
    for task in finding.settings["drift"]["tasks"]:
        lines = []
        for name, color in SPACES.items():
            along = finding.select(OTHERS[1], name, task=task)
            lines.append(line(name, [float(n.setting["layer"]) for n in along], along, color))
        drawn.append(
            f.Panel(
                task,
                lines,
                f.Axes("layer", "change of f*", x_ticks=finding.settings["drift"]["layers"][::2]),
            )
        )
    return f.Figure(panels(drawn))


def places(finding: f.Finding) -> Places:
    """Every second layer of those that were read, but for the first, whose states are often all alike."""
    s = finding.settings["drift"]
    return [(task, layer) for task in s["tasks"] for layer in s["layers"][1:][1::2] or s["layers"]]


def drift_table(finding: f.Finding) -> f.Table:
    rows = [
        [task, str(layer), *(spread(finding.get("drift", name, task=task, layer=layer)) for name in DRIFTS)]
        for task, layer in places(finding)
    ]  # fmt: skip
    return f.Table(["task", "layer", "drift W/B", "less the mean", "less the mean, untrained"], rows)  # fmt: skip


def effect_table(finding: f.Finding) -> f.Table:
    rows = []
    for task, layer in places(finding):
        change, bound = (finding.get(m, WHOLE, task=task, layer=layer) for m in (CHANGE, BOUND))
        times = plain(bound.value / change.value) if change.value > 0 else "none"
        rows.append([task, str(layer), spread(change), spread(bound), times])
    return f.Table(["task", "layer", CHANGE, "its bound", "bound over change"], rows)


def subspace_table(finding: f.Finding, measure: str) -> f.Table:
    """A measure in each subspace, and beside it what the subspaces keep, or how well they tell classes."""
    more = BESIDE[measure]
    rows = []
    for task, layer in places(finding):
        if not finding.select(measure, WHOLE, task=task, layer=layer):
            continue
        values = [spread(finding.get(measure, name, task=task, layer=layer)) for name in SPACES]
        beside = [plain(finding.get(more[0], n, task=task, layer=layer).value) for n in more[1]]
        rows.append([task, str(layer), *values, *beside])
    short = [measure if name == WHOLE else name.removesuffix(" subspace") for name in SPACES]
    return f.Table(["task", "layer", *short, *more[1].values()], rows)


def found(finding: f.Finding) -> dict[str, object]:
    """What the words say, from the numbers."""

    def ends(measure: str, name: str) -> list[str]:
        values = [n.value for n in finding.select(measure, name) if n.mean is not None]
        return [plain(min(values)), plain(max(values))] if values else ["none", "none"]

    both = [
        (change.value, bound.value)
        for change, bound in zip(finding.select(CHANGE, WHOLE), finding.select(BOUND, WHOLE), strict=True)
        if change.mean is not None and bound.mean is not None
    ]  # fmt: skip
    times = [bound / change for change, bound in both if change > 0]
    compared = {
        (measure, name): apart(finding, measure, name)
        for measure in OTHERS
        for name in (WHOLE, PRINCIPAL)
    }
    return {
        "drift": ends("drift", WHOLE),
        "own": ends("drift", SHIFTED),
        "untrained": ends("drift", SHIFTED + UNTRAINED),
        "untrained, as they are": ends("drift", WHOLE + UNTRAINED),
        "change": ends(CHANGE, WHOLE),
        "times": [plain(min(times)), plain(max(times))] if times else ["none", "none"],
        "places": len(finding.select(OTHERS[0], FROZEN)),
        "drift less": compared[OTHERS[0], WHOLE][0],
        "drift less than principal": compared[OTHERS[0], PRINCIPAL][0],
        "change less": compared[OTHERS[1], WHOLE][0],
        "change more": compared[OTHERS[1], WHOLE][1],
        "change less than principal": compared[OTHERS[1], PRINCIPAL][0],
        "change more than principal": compared[OTHERS[1], PRINCIPAL][1],
        "kept": ends("kept", FROZEN),
    }


def apart(finding: f.Finding, measure: str, other: str) -> tuple[int, int]:
    """At how many layers of all tasks the frozen subspace has a lower number than another, and a higher one, by intervals
    that do not meet."""
    pairs = list(zip(finding.select(measure, FROZEN), finding.select(measure, other), strict=True))
    lower = sum(a.ends[1] < b.ends[0] for a, b in pairs)
    return lower, sum(a.ends[0] > b.ends[1] for a, b in pairs)
