"""Animals and tools."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.language.tasks.classes import ClassTask

ANIMAL = """
    dog cat horse cow pig sheep goat lion tiger bear wolf fox rabbit mouse elephant giraffe
    zebra monkey deer camel donkey eagle owl duck goose chicken turkey swan parrot penguin
    shark whale dolphin salmon frog snake lizard turtle crocodile spider bee ant butterfly
    squirrel otter badger leopard kangaroo
"""

TOOL = """
    hammer saw drill wrench screwdriver pliers chisel axe shovel rake hoe knife scissors
    file clamp level ruler ladder broom mop brush bucket needle anvil crowbar mallet trowel
    sander lathe vise spade pickaxe sickle scythe plow tweezers scalpel stapler tongs whisk
    spatula ladle sieve funnel torch pulley wedge lever
"""


@dataclass(frozen=True)
class AnimalTool(ClassTask):
    """Is the word an animal or a tool?"""

    name = "animal-tool"
    summary = "animal or tool"
    classes = ("animal", "tool")
    members = (tuple(ANIMAL.split()), tuple(TOOL.split()))
