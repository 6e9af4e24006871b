"""Small and large numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.classes import ClassTask


@dataclass(frozen=True)
class SmallLarge(ClassTask):
    """Is the number below 55 or not?"""

    name = "small-large"
    summary = "a number below 55 or not"
    classes = ("small", "large")
    members = (tuple(map(str, range(10, 55))), tuple(map(str, range(55, 100))))
    numeric = True
