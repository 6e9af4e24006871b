"""The page of the interchange study: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from math import isfinite, nan

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import spread

PROSE = Prose("interchange")
CONTROLS = ("random directions", "other layers")
EFFECTS = ("effect", *CONTROLS)


def sizes(finding: f.Finding, measure: str) -> list[float]:
    """The absolute values of a correlation in all models and steps in which it is defined."""
    found = (n.value for name in finding.settings["names"] for n in finding.select(measure, name))
    return [abs(value) for value in found if isfinite(value)]


def figure(finding: f.Finding) -> f.Figure:
    panels = []
    for name in finding.settings["names"]:
        lines = []
        for measure in EFFECTS:
            shown = finding.select(measure, name)
            lines.append(
                f.Line(
                    measure, [f"{n.setting['step']:g}" for n in shown], [n.value for n in shown],
                    low=[n.ends[0] for n in shown], high=[n.ends[1] for n in shown], mode="markers",
                )
            )  # fmt: skip
        panels.append(
            f.Panel(name, lines, f.Axes("step", "correlation", log_y=False, y_limits=(-0.25, 1.1)))
        )
    return f.Figure([panels])


def table(finding: f.Finding) -> f.Table:
    rows = []
    for name in finding.settings["names"]:
        for one in finding.select("effect", name):
            others = [finding.get(m, name, **one.setting) for m in ("slope", *CONTROLS)]
            rows.append([name, f"{one.setting['step']:g}", str(one.setting["of"]), *map(spread, [one, *others])])  # fmt: skip
    return f.Table(["model", "step", "state", "correlation", "slope", *CONTROLS], rows)


def interchange_page(finding: f.Finding) -> f.Page:
    whole = table(finding)
    effects, *controls = (sizes(finding, measure) for measure in EFFECTS)
    words = {
        "least": min(effects),
        "models": len(finding.settings["names"]),
        "exchanges": len(effects),
        **{
            name: {"largest": max(values, default=nan), "mean": sum(values) / max(len(values), 1), "count": len(values)}
            for name, values in zip(("random", "elsewhere"), controls, strict=True)
        },
    }  # fmt: skip
    sections = [PROSE.section("effects", figure(finding), whole, **words)]
    return PROSE.page(sections, finding, {"Exchanged states": whole})
