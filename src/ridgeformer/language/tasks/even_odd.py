"""Even and odd numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.classes import ClassTask


@dataclass(frozen=True)
class EvenOdd(ClassTask):
    """Is the number even or odd?"""

    name = "even-odd"
    summary = "an even or an odd number"
    classes = ("even", "odd")
    members = (tuple(map(str, range(10, 100, 2))), tuple(map(str, range(11, 100, 2))))
    numeric = True
