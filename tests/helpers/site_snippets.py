"""The snippets of a document that show what they print."""

import doctest
import re


def examples(path, root):
    """The `pycon` blocks of a document, in order, as one doctest."""
    text = path.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in re.finditer(r"^```pycon\n(.*?)^```$", text, re.M | re.S):
        first = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines()):
            lines[first + number] = line
    name = str(path.relative_to(root))
    return doctest.DocTestParser().get_doctest("\n".join(lines), {}, name, str(path), 0)
