"""The page of the told-apart study: every sentence about an outcome is worked out from the finding."""

from __future__ import annotations

from ridgeformer.experiments import finding as f
from ridgeformer.experiments.page import Prose
from ridgeformer.experiments.wording import spread

PROSE = Prose("told_apart")
FLOOR = 1e-12
"""Where logarithms end."""


def matrix(finding: f.Finding, measure: str, title: str) -> f.Matrix:
    names = finding.settings["names"]
    values = [
        [max(finding.get(measure, model, candidate=name).value, FLOOR) for name in names]
        for model in names
    ]
    return f.Matrix(title, names, names, values)


def table(finding: f.Finding) -> f.Table:
    names = finding.settings["names"]
    rows = []
    for model in names:
        for name in names:
            interior = finding.get("interior", model, candidate=name)
            rows.append([
                model, name, spread(finding.get("cosine", model, candidate=name)), f"{interior.value:.2g}",
                spread(finding.get("unexplained", model, candidate=name)),
            ])  # fmt: skip
    return f.Table(["model", "candidate", "usual cosine", "interior", "unexplained"], rows, words=2)


def told_apart_page(finding: f.Finding) -> f.Page:
    names = finding.settings["names"]
    others = [
        finding.get("cosine", model, candidate=name).value
        for model in names for name in names if name != model
    ]  # fmt: skip
    right = [finding.get("interior", name, candidate=name).value for name in names]
    wrong = [
        finding.get("interior", model, candidate=name).value
        for model in names for name in names if name != model
    ]  # fmt: skip
    usual = f.Matrices(
        [matrix(finding, "cosine", "usual cosine")], "candidate", "model", "cosine", limits=(0.0, 1.0), written=True
    )  # fmt: skip
    ours = f.Matrices(
        [matrix(finding, "interior", "interior")], "candidate", "model", "interior", limits=(1e-4, 1.0), log=True, written=True
    )  # fmt: skip
    whole = table(finding)
    sections = [
        PROSE.section("usual", usual, low=min(others), high=max(others)),
        PROSE.section("ours", ours, whole, right=max(right), wrong=min(wrong), s=finding.settings),
    ]
    return PROSE.page(sections, finding, {"Models and candidates": whole})
