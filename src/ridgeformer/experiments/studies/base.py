"""What a study is: a question, a measurement that yields plain numbers, and a page drawn from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from ridgeformer.experiments.finding import Finding, Page, Progress
from ridgeformer.experiments.run import Run, check_seed
from ridgeformer.registry import Registry
from ridgeformer.types import Refusal


class Study(ABC):
    """One question that is answered with numbers and one page."""

    registry: ClassVar[Registry[Study]] = Registry("study")
    name: str
    summary: str
    """One line for the list of studies."""
    prompts: int
    """How many prompts each setting has unless the caller says otherwise."""

    @abstractmethod
    def measure(self, prompts: int, seed: int, progress: Progress) -> Finding: ...

    @abstractmethod
    def page(self, finding: Finding) -> Page:
        """The page, made from the finding alone."""


def run_study(
    study: Study,
    out: str | Path,
    seed: int = 0,
    prompts: int | None = None,
    console: Console | None = None,
) -> Path:
    """Measures, writes findings.json and the page, prints tables, and returns the page's path."""
    prompts = study.prompts if prompts is None else prompts
    if prompts < 2:
        raise Refusal(f"An interval needs at least 2 prompts, got {prompts}.")
    check_seed(seed, below=63)
    run = Run(out, "findings.json", console)
    finding = study.measure(prompts, seed, run.track)
    page = study.page(finding)
    run.show(page.terminal)
    return run.write(page, finding.to_dict())
