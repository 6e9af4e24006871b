"""Words of praise and words of blame."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.classes import ClassTask

POSITIVE = """
    good great excellent wonderful happy lovely beautiful brilliant perfect amazing
    fantastic delightful pleasant superb joyful charming kind generous honest brave wise
    friendly elegant impressive inspiring cheerful graceful splendid admirable loyal gentle
    outstanding magnificent marvelous enjoyable exciting refreshing helpful success victory
    love peace hope treasure triumph blessing
"""

NEGATIVE = """
    bad terrible awful horrible sad ugly stupid boring disgusting dreadful nasty cruel evil
    selfish rude angry lazy painful miserable pathetic useless worthless annoying hateful
    dishonest violent gloomy tragic dangerous toxic rotten shameful bitter hostile corrupt
    vicious disappointing unpleasant failure disaster hate war misery poison betrayal curse
"""


@dataclass(frozen=True)
class PositiveNegative(ClassTask):
    """Is the word positive or negative?"""

    name = "positive-negative"
    summary = "positive or negative"
    classes = ("positive", "negative")
    members = (tuple(POSITIVE.split()), tuple(NEGATIVE.split()))
