"""docs/theorems.md: every theorem is complete, and every function, test and figure that it names exists."""

import importlib
import re
from pathlib import Path

import pytest

from ridgeformer import theory
from ridgeformer.experiments.theorems import THEOREMS

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "theorems.md").read_text()
SECTIONS = re.findall(r"^## (\d+\. .*?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
PARTS = ["Statement", "Proof", "Tightness", "Sources", "Code", "Test", "Figure"]


def part(body, name):
    """The text of one part, up to the next one."""
    found = re.search(rf"\*\*{name}\.\*\*(.*?)(?=^\*\*(?:{'|'.join(PARTS)})\.\*\*|\Z)", body, re.M | re.S)  # fmt: skip
    assert found, f"**{name}.** is missing"
    return found[1].strip()


def test_theorems_are_numbered():
    numbers = [int(title.split(".")[0]) for title, _ in SECTIONS]
    assert numbers == list(range(1, len(SECTIONS) + 1))
    assert len(numbers) >= 20


@pytest.mark.parametrize(("title", "body"), SECTIONS, ids=lambda v: v.splitlines()[0][:40])
class TestSection:
    def test_it_is_complete_and_proved(self, title, body):
        assert [p for p in PARTS if f"\n**{p}.**" in f"\n{body}"] == PARTS
        for name in PARTS:
            assert part(body, name)
        assert part(body, "Proof").endswith("∎"), "the proof ends"

    def test_its_functions_exist(self, title, body):
        names = re.findall(r"`(ridgeformer\.(?:theory|analysis)\.\w+)`", part(body, "Code"))
        assert names
        for name in names:
            module, _, attribute = name.rpartition(".")
            found = getattr(importlib.import_module(module), attribute)
            assert found.__doc__, f"{name} has no statement"

    def test_its_tests_exist(self, title, body):
        """Each among the files that are linked there."""
        text = part(body, "Test")
        names, files = re.findall(r"`(test_\w+)`", text), re.findall(r"\]\((.*?)\)", text)
        assert names
        sources = "".join((DOCS / file).read_text() for file in files)
        for name in names:
            assert re.search(rf"^ *def {name}\(", sources, re.M), name

    def test_its_figures_exist(self, title, body):
        names = re.findall(r"`ridgeformer verify --only ([\w-]+)`", part(body, "Figure"))
        assert names
        for name in names:
            assert name in THEOREMS

    def test_its_links_lead_somewhere(self, title, body):
        for target in re.findall(r"\]\((?!http)(.*?)\)", body):
            assert (DOCS / target.split("#")[0]).exists(), target


def test_every_figure_belongs_to_a_theorem():
    shown = set(re.findall(r"`ridgeformer verify --only ([\w-]+)`", TEXT))
    assert shown == set(THEOREMS)


def test_every_bound_is_a_theorem():
    for name in theory.__all__:
        assert not name.endswith(("_bound", "_factor")) or f"ridgeformer.theory.{name}`" in TEXT


@pytest.mark.parametrize("word", ["sketch", "tbd", "todo", "≲"])
def test_nothing_is_left_open(word):
    assert word not in TEXT.lower()
