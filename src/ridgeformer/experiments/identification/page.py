"""The page of an identification: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from collections.abc import Callable

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.identification import sections, state_sections, verdict_sections
from ridgeformer.experiments.identification.view import PROSE, View
from ridgeformer.experiments.wording import shown

SECTIONS: dict[str, Callable[[View], f.Section]] = {
    "candidates": verdict_sections.candidates,
    "alignment": verdict_sections.alignment,
    "ends": state_sections.ends,
    "filters": sections.filters,
    "additivity": sections.additivity,
    "degree": sections.degree,
    "effective ridge": sections.effective_ridge,
    "probes": state_sections.probes,
    "interchange": state_sections.interchange,
    "heads": state_sections.heads,
    "symmetries": sections.symmetries,
}
"""By part of the evidence, its section; a part that refused has a section that says why."""


def page_of(finding: f.Finding) -> f.Page:
    view = View(finding)
    parts = view.settings["parts"]
    found = [section_of(view, name) for name in SECTIONS if name in parts]
    whole = [verdict_sections.verdict(view), *found, verdict_sections.calibration(view)]
    task = {n: shown(v) for n, v in view.settings["task"].items() if n != "name" and v not in ((), [])}  # fmt: skip
    terminal = {"Candidates": verdict_sections.candidate_table(view, narrow=True)}
    return PROSE.page(whole, finding, terminal, task=task)


def section_of(view: View, name: str) -> f.Section:
    if refused := view.part(name).get("left out"):
        return PROSE.section("left_out", name=name, reason=refused)
    return SECTIONS[name](view)
