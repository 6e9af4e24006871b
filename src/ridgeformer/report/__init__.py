"""Figures and pages from findings."""

from ridgeformer.report.figures import Convergence, Stream, convergence_figure, stream_figure
from ridgeformer.report.page import Section, Table, write_page

__all__ = [
    "Convergence",
    "Section",
    "Stream",
    "Table",
    "convergence_figure",
    "stream_figure",
    "write_page",
]
