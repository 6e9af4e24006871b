"""Figures and pages from findings."""

from ridgeformer.report.figures import Convergence, Stream, convergence_figure, stream_figure
from ridgeformer.report.page import Section, Table, check_page, write_page

__all__ = [
    "Convergence",
    "Section",
    "Stream",
    "Table",
    "check_page",
    "convergence_figure",
    "stream_figure",
    "write_page",
]
