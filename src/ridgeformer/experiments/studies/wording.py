"""How studies write numbers and draw them as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgeformer.experiments.report import Line
from ridgeformer.experiments.studies.base import Number

SHADES = ("#a9c1f5", "#2f5fd0", "#14307d", "#2a9d8f", "#8e5bb5", "#c2477f")
SOLVER, CONTROL = "#e07b39", "#8a93a3"


def size(number: Number) -> float:
    return float("nan") if number.mean is None else number.mean


def plain(value: float) -> str:
    """Three digits, with a minus sign that no line breaks at."""
    if value == 0 or 0.01 <= abs(value) < 1e4:
        text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    else:
        text = f"{value:.1e}"
    return text.replace("-", "−")


def spread(number: Number) -> str:
    """mean [low, high], which a line may break before the bracket only"""
    if number.mean is None or number.low is None or number.high is None:
        return "none"
    if number.low == number.high:
        return plain(number.mean)
    return f"{plain(number.mean)} [{plain(number.low)},\u00a0{plain(number.high)}]"


def within(number: Number, low: float, high: float) -> bool:
    """The whole interval lies between the two."""
    if number.low is None or number.high is None:
        return False
    return low <= number.low and number.high <= high


def line(
    name: str, x: Sequence[float], numbers: Sequence[Number], color: str, *,
    bars: bool = False, dash: str = "solid", mode: str = "lines",
) -> Line:  # fmt: skip
    """Zero has no place on a logarithmic axis and leaves a gap."""
    y = [size(n) or float("nan") for n in numbers]
    if not bars:
        return Line(name, x, y, color, dash=dash, mode=mode)
    low = [float("nan") if n.low is None else n.low for n in numbers]
    high = [float("nan") if n.high is None else n.high for n in numbers]
    return Line(name, x, y, color, low, high, dash, mode)


def shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(shown(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
