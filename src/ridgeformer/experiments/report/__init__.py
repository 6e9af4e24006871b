"""Figures and pages from findings."""

from ridgeformer.experiments.report.bars import bar_figure
from ridgeformer.experiments.report.figures import (
    Convergence,
    Stream,
    convergence_figure,
    stream_figure,
)
from ridgeformer.experiments.report.lines import Axis, Line, Plot, line_figure
from ridgeformer.experiments.report.page import Paragraph, Section, Table, check_page, write_page
from ridgeformer.experiments.report.sweeps import Curve, Panel, Row, sweep_figure

__all__ = [
    "Axis",
    "Convergence",
    "Curve",
    "Line",
    "Panel",
    "Paragraph",
    "Plot",
    "Row",
    "Section",
    "Stream",
    "Table",
    "bar_figure",
    "check_page",
    "convergence_figure",
    "line_figure",
    "stream_figure",
    "sweep_figure",
    "write_page",
]
