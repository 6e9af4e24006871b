"""Planted errors: all of them still apply, and the machinery tells a real error from a harmless edit."""

import re
import sys
from pathlib import Path

import pytest
from mutants.catchers import Caught, by_statements, by_tests
from mutants.document import NEEDED, document, share_caught
from mutants.mutant import PACKAGE, Mutant, Unfit
from mutants.planted import MUTANTS, PARTS
from mutants.run import Campaign

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda m: m.name)
def test_the_error_can_be_planted(mutant):
    text = (ROOT / PACKAGE / mutant.file).read_text()
    compile(mutant.planted(text), mutant.file, "exec")
    assert mutant.statements or mutant.tests
    assert mutant.breaks.endswith(".")
    for name in mutant.tests:
        file, _, test = name.partition("::")
        assert (ROOT / file).exists(), name
        assert f"def {test}(" in (ROOT / file).read_text() if test else True, name


def test_there_are_enough_errors_and_their_names_differ():
    assert len(MUTANTS) == sum(len(part.MUTANTS) for part in PARTS) >= 60


def test_the_statements_that_should_notice_exist():
    from ridgeformer.experiments import THEOREMS

    assert {name for m in MUTANTS.values() for name in m.statements} <= set(THEOREMS)


def test_the_table_lists_all_errors_and_explains_survivors():
    text = (ROOT / "docs/mutants.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| ([^|]+) \|$", text, re.M)
    assert sorted(name for name, _ in rows) == sorted(MUTANTS)
    survivors = [name for name, by in rows if by == "**nothing**"]
    assert all(f"- `{name}`: " in text for name in survivors)
    run = [by for _, by in rows if by != "not run yet"]
    assert len(survivors) <= (1 - NEEDED) * len(run)


# A small package in place of the real one: the machinery knows of it only that it has statements and tests.

STATEMENTS = """
from types import SimpleNamespace as S
from ridgeformer.arithmetic import double

class Theorems(dict):
    find = dict.__getitem__

def verdict(holds):
    return S(verify=lambda seed, fast: S(verdict="holds" if holds() else "VIOLATED"))

THEOREMS = Theorems(two=verdict(lambda: double(1) == 2), any=verdict(lambda: True))
"""

TESTS = """
import pytest
from ridgeformer.arithmetic import half

@pytest.mark.parametrize("x", [2, 4])
def test_half(x):
    assert half(x) == x / 2
"""


@pytest.fixture
def small(tmp_path):
    """A campaign on sources with one statement, on `double`, and one test, of `half`."""
    files = {
        "arithmetic.py": "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n",
        "__init__.py": "",
        "experiments/__init__.py": "",
        "experiments/theorems.py": STATEMENTS,
        "transformer/__init__.py": "",
        "transformer/threads.py": "from contextlib import nullcontext\n\none_thread_each = nullcontext()\n",
    }
    root = tmp_path / "sources"
    for name, text in files.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "tests").mkdir()
    (root / "tests/test_half.py").write_text(TESTS)
    (root / "tests/test_arithmetic.py").write_text(
        TESTS.replace("half", "double").replace("/", "*")
    )
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    return Campaign(root, tmp_path / "kept", workers=2, say=lambda line: None)


def mutant(name, old, new, *, tests=("tests/test_half.py",), statements=("any",)):
    return Mutant(name, "arithmetic.py", old, new, "It is wrong.", statements, tests)


THIRD = mutant("third", "x / 2", "x / 3")
HARMLESS = mutant("harmless", "x / 2", "x * 0.5")
TRIPLE = mutant("triple", "2 * x", "3 * x", statements=("any", "two"))
UNNAMED = mutant("unnamed", "2 * x", "3 * x")


@pytest.mark.slow
def test_errors_are_caught_and_a_harmless_edit_survives(small):
    found = small.run([THIRD, HARMLESS, TRIPLE, UNNAMED])
    assert found == {
        "third": Caught("tests", "tests/test_half.py::test_half"),
        "harmless": None,
        "triple": Caught("verify --fast", "two", "VIOLATED"),
        "unnamed": Caught("verify --fast", "two", "VIOLATED"),  # by the wider net
    }
    assert share_caught(found) == 0.75
    page = document([THIRD, HARMLESS, TRIPLE, UNNAMED], found)
    assert "| a statement of `verify --fast` | 2 |" in page
    assert "| `third` | It is wrong. | test `test_half.py` `test_half` |" in page
    assert "- `harmless`: not explained yet." in page
    sources = (small.root / PACKAGE / "arithmetic.py").read_text()
    assert "x / 2" in sources
    assert "2 * x" in sources


@pytest.mark.slow
def test_what_was_found_is_kept_until_sources_or_tests_change(small, monkeypatch):
    small.run([THIRD, HARMLESS])
    again = Campaign(small.root, small.kept, say=lambda line: None)
    monkeypatch.setattr(sys, "executable", "no-such-python")
    assert again.run([THIRD, HARMLESS])["third"].by == "tests"
    (small.root / "tests/test_half.py").write_text("def test_nothing():\n    pass\n")
    changed = Campaign(small.root, small.kept, say=lambda line: None)
    assert changed.read(THIRD) is None
    assert changed.read(HARMLESS) is None


def test_a_run_is_refused_if_something_fails_without_errors(small):
    path = small.root / PACKAGE / "arithmetic.py"
    path.write_text(path.read_text().replace("x / 2", "x / 2.5"))
    with pytest.raises(Unfit, match=r"tests/test_half.py::test_half .*without any planted error"):
        small.run([TRIPLE])


@pytest.mark.slow
def test_an_error_that_hangs_is_caught_and_said_to_hang(small):
    endless = mutant("endless", "return x / 2", "while True:\n        pass")
    with endless.within(small.root):
        found = by_tests(endless.tests, small.root, patience=3.0)
    assert found == Caught("tests", "tests/test_half.py", "hangs")
    assert by_tests(endless.tests, small.root) is None


def test_errors_that_stop_a_statement_are_caught(small):
    stops = mutant("stops", "return 2 * x", "raise ValueError")
    with stops.within(small.root):
        found = by_statements(("two",), small.root)
    assert found == Caught("verify --fast", "two", "stops with ValueError")


def test_texts_that_do_not_occur_once_are_refused(small):
    for old, said in (("x / 7", "occurs 0 times"), ("return", "occurs 2 times")):
        with pytest.raises(Unfit, match=said):
            small.run([mutant("lost", old, "x")])
    with pytest.raises(Unfit, match="changes nothing"):
        small.run([mutant("same", "x / 2", "x / 2")])


@pytest.mark.slow
def test_a_planted_error_is_caught_by_a_real_statement(tmp_path):
    """One bound of the library, ten times too small and ten times too large, in a copy of its sources."""
    from shutil import copytree, ignore_patterns

    copytree(ROOT / "src", tmp_path / "src", ignore=ignore_patterns("__pycache__", "models"))
    copytree(ROOT / "src/ridgeformer/models", tmp_path / "src/ridgeformer/models", ignore=ignore_patterns("__pycache__", "*.safetensors"))  # fmt: skip
    line = "return distance / (ridge * (ridge + distance))"
    error = Mutant("resolvent", "theory/width_rank.py", line, f"{line} / 10", "It is wrong.")
    with error.within(tmp_path):
        assert by_statements(("width-rank",), tmp_path) == Caught("verify --fast", "width-rank", "VIOLATED")  # fmt: skip
    assert by_statements(("width-rank",), tmp_path) is None
