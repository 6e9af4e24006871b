"""How numbers and formulas are written, and how numbers become lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isnan, nan
from typing import Any

from markupsafe import Markup, escape

from ridgeformer.experiments.finding import Line, Number

MODEL, SOLVER, CONTROL = "#2f5fd0", "#e07b39", "#8a93a3"
SHADES = ("#a9c1f5", MODEL, "#14307d", "#2a9d8f", "#8e5bb5", "#c2477f")


def plain(value: float) -> str:
    """Three digits, with a minus sign that no line breaks at."""
    if value == 0 or 0.01 <= abs(value) < 1e4:
        text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    else:
        text = f"{value:.1e}"
    return text.replace("-", "−")


def unbroken(text: str) -> str:
    """Text of a table in which no line breaks within a number such as 1.2e-15."""
    return EXPONENTS.sub("−", text)


def spread(number: Number) -> str:
    """The mean and [low, high]; a line may break before the bracket only."""
    if number.mean is None or number.low is None or number.high is None:
        return "none"
    if number.low == number.high:
        return plain(number.mean)
    return f"{plain(number.mean)} [{plain(number.low)},\u00a0{plain(number.high)}]"


def within(number: Number, low: float, high: float) -> bool:
    """Whether the whole interval lies between the two."""
    return low <= number.ends[0] and number.ends[1] <= high


def line(
    name: str, x: Sequence[float] | Sequence[str], numbers: Sequence[Number], color: str = "", *,
    bars: bool = True, gaps: bool = True, **options: Any,
) -> Line:  # fmt: skip
    """Numbers with their intervals along x; a zero, which a logarithmic axis lacks, leaves a gap."""
    y = [n.value or (nan if gaps else 0.0) for n in numbers]
    if bars:
        options |= {"low": [n.ends[0] for n in numbers], "high": [n.ends[1] for n in numbers]}
    return Line(name, x, y, color=color, **options)


def floored(drawn: Line, floor: float) -> Line:
    """Nothing lies below the floor, where a logarithmic axis has no use for it; a gap stays a gap."""

    def raised(values: Sequence[float]) -> list[float]:
        return [v if isnan(v) else max(v, floor) for v in values]

    low, high = (None if end is None else raised(end) for end in (drawn.low, drawn.high))
    return replace(drawn, y=raised(drawn.y), low=low, high=high)


def shown(value: Any) -> str:
    """A setting as words."""
    if isinstance(value, (list, tuple)):
        return " ".join(shown(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


EXPONENTS = re.compile(r"(?<=\de)-(?=\d)")
LINKS = re.compile(r"&lt;a href=&#34;(#[\w-]+)&#34;&gt;(.*?)&lt;/a&gt;")
TAGS = re.compile(r"&lt;(/?(?:sub|sup|b|i|code|br))&gt;")
ENTITIES = re.compile(r"&amp;(lt|gt|amp|#39|#34);")
MARKS = re.compile(r"([_^])(?:\{([^}]*)\}|(?<![a-z]{2}.)([A-Za-z0-9]+))|(?<=[^\W\d_])\*")


def maths(text: str) -> Markup:
    """Text as HTML; `Markup` stays as it is.

    f_t, σ_{m+1}, 10^{−5} and f* are set as formulas, but not names of several letters such as my_file;
    a few tags and links within the page are kept, and everything else is escaped.
    """
    if isinstance(text, Markup):
        return text

    def set_mark(mark: re.Match[str]) -> str:
        if mark[1] is None:
            return "<sup>∗</sup>"
        tag = "sub" if mark[1] == "_" else "sup"
        return f"<{tag}>{mark[2] or mark[3]}</{tag}>"

    safe = LINKS.sub(r'<a href="\1">\2</a>', str(escape(text)))
    safe = ENTITIES.sub(r"&\1;", TAGS.sub(r"<\1>", safe))
    return Markup(MARKS.sub(set_mark, safe))
