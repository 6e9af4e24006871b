"""Every theorem is stated once and complete, and docs/theorems.md and the pages are made from it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeformer import theory
from ridgeformer.experiments.theorems import THEOREMS
from ridgeformer.experiments.theorems import statements as texts
from ridgeformer.experiments.theorems.statements import ORDER, html_of, statement, statement_html
from ridgeformer.experiments.theorems.statements.document import places_of_tests
from ridgeformer.experiments.theorems.statements.references import REFERENCES

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "theorems.md").read_text(encoding="utf-8")


def test_the_document_is_made_from_the_statements():
    module = "ridgeformer.experiments.theorems.statements.document"
    # In a process of its own, where nothing checks types at run time.
    code = f"from {module} import document; print(document(), end='')"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert result.stdout == TEXT, "docs/theorems.md is not what the statements say: run `make docs`"


def test_every_file_is_a_theorem():
    assert {path.stem for path in Path(texts.__file__).parent.glob("*.md")} == set(ORDER)
    assert len(ORDER) == len(set(ORDER)) >= 38


@pytest.mark.parametrize("name", ORDER)
class TestStatement:
    def test_it_is_complete_and_proved(self, name):
        s = statement(name)
        assert all((s.title, s.text, s.proof, s.tightness, s.references))
        assert s.proof.endswith("∎"), "the proof ends"

    def test_its_functions_exist_and_say_what_they_return(self, name):
        functions = statement(name).functions
        assert functions
        for function in functions:
            assert function.__doc__, f"{function.__name__} has no docstring"

    def test_its_tests_exist(self, name):
        assert statement(name).tests
        for test in statement(name).tests:
            assert test in places_of_tests(), test

    def test_it_is_measured(self, name):
        assert any(name in theorem.states for theorem in THEOREMS.values())

    def test_it_becomes_a_page(self, name):
        """Every formula is MathML in the end: no backslash, dollar sign or @name is left."""
        page = statement_html([name], "")
        assert not re.findall(r"[\\$@]", page)
        assert page.count("<math") == page.count("</math>")


@pytest.mark.parametrize("name", THEOREMS)
def test_every_measurement_has_a_statement_and_says_what_is_measured(name):
    theorem = THEOREMS[name]
    assert theorem.states
    assert set(theorem.states) <= set(ORDER)
    assert theorem.measured.endswith(".")
    assert re.search(rf"^\*\*Figure\.\*\* .*`{name}`.* `ridgeformer verify`\.$", TEXT, re.M)


def test_every_bound_is_a_theorem():
    for name in vars(theory):
        assert not name.endswith(("_bound", "_factor")) or f"ridgeformer.theory.{name}`" in TEXT


def test_every_reference_is_cited():
    cited = {entry for name in ORDER for entry in statement(name).references}
    assert cited == set(REFERENCES.values())


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!http)(.*?)\)", TEXT):
        assert (DOCS / target.split("#")[0]).exists(), target


@pytest.mark.parametrize("word", ["sketch", "tbd", "todo", "≲", "sources"])
def test_nothing_is_left_open(word):
    assert word not in TEXT.lower()


def test_lists_and_formulas_become_html():
    shown = html_of("Let $a < b$ & @chebyshev:\n\n1. *first*\n2. $$\\frac12$$")
    assert '&amp; theorem 3:<br>1. <i>first</i><br>2. <span class="display"><math' in shown
    assert 'display="block"' in shown
