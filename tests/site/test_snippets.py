"""What the documents show, they show: every snippet with its output is run."""

import doctest
import re
from pathlib import Path

import pytest
from site_snippets import examples

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(p for p in (ROOT / "docs").rglob("*.md") if "```pycon" in p.read_text("utf-8"))
FLAGS = doctest.ELLIPSIS


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.stem)
def test_snippets_print_what_they_show(path, capsys):
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(examples(path, ROOT))
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


def test_there_is_something_to_run():
    assert len(DOCUMENTS) > 5
    sharp = examples(ROOT / "docs/sharp-bits.md", ROOT)
    headings = re.findall("^## ", (ROOT / "docs/sharp-bits.md").read_text("utf-8"), re.M)
    assert len(sharp.examples) > 2 * len(headings)
