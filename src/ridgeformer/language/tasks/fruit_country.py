"""Fruits and countries.

All words are capitalised, since the names of countries are, and a class must not show by its capitals.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.classes import ClassTask

FRUIT = """
    Apple Banana Orange Grape Mango Peach Pear Plum Cherry Lemon Lime Kiwi Papaya Apricot
    Fig Date Melon Watermelon Pineapple Strawberry Raspberry Blueberry Blackberry Cranberry
    Coconut Avocado Pomegranate Guava Lychee Grapefruit Tangerine Nectarine Mandarin
    Cantaloupe Persimmon Quince Currant Gooseberry Mulberry Clementine Kumquat Plantain
    Elderberry Honeydew
"""

COUNTRY = """
    France Germany Italy Spain Portugal England Ireland Norway Sweden Denmark Finland Poland
    Austria Hungary Greece Russia Ukraine Romania Bulgaria Belgium Canada Mexico Brazil
    Argentina Chile Peru Colombia Venezuela Cuba Egypt Morocco Kenya Nigeria Ghana Ethiopia
    India China Japan Korea Vietnam Thailand Indonesia Malaysia Australia Iran Iraq Israel
    Pakistan
"""


@dataclass(frozen=True)
class FruitCountry(ClassTask):
    """Is the word a fruit or a country?"""

    name = "fruit-country"
    summary = "fruit or country"
    classes = ("fruit", "country")
    members = (tuple(FRUIT.split()), tuple(COUNTRY.split()))
