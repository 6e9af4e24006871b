"""The demo's fourth part: a decoder that predicts at every x, beside exact ridge regression."""

from __future__ import annotations

from dataclasses import replace

from ridgeformer.experiments.demonstration.conjugate_gradients import PROSE
from ridgeformer.experiments.finding import Figure, Finding
from ridgeformer.experiments.studies.learning_curve import LearningCurve
from ridgeformer.experiments.studies.learning_curve_page import error_section

PROMPTS = 64
SHOWN = [0, 1, 2, 3, 4, 6]
"""The columns that fit a terminal: the pairs, CG after each number of steps, and exact ridge regression."""


def decoder(seed: int) -> Finding:
    """The learning curve of the study, from fewer prompts and without its second section."""
    found = LearningCurve().measure(PROMPTS, seed, list)
    section = error_section(found)
    figures = [block for block in section.content if isinstance(block, Figure)]
    words = PROSE.titled("decoder", s=found.settings, prompts=PROMPTS)
    return replace(found, figures=figures, tables=section.tables, **words)
