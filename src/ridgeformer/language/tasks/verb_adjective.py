"""Verbs and adjectives, which differ in grammar rather than in subject."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.classes import ClassTask

VERB = """
    eat sing write read think speak bring carry build throw teach learn sell buy swim climb
    listen remember forget understand choose decide explain describe create destroy follow
    arrive depart belong become begin believe borrow breathe collect compare deliver
    discover enjoy explore gather invite obey protect receive repair
"""

ADJECTIVE = """
    tall deep heavy bright loud quiet narrow wide thick thin soft smooth rough sharp blunt
    wet sweet sour salty spicy fresh ancient modern young early rare huge tiny broad shallow
    steep round square flat curved shiny dusty muddy sticky fragile flexible rigid famous
    noisy lonely curious hungry thirsty
"""


@dataclass(frozen=True)
class VerbAdjective(ClassTask):
    """Is the word a verb or an adjective?"""

    name = "verb-adjective"
    summary = "verb or adjective"
    classes = ("verb", "adjective")
    members = (tuple(VERB.split()), tuple(ADJECTIVE.split()))
