"""Measures statements of `verify --fast` until one does not hold: a script, run with a copy of the sources.

    python statements.py NAME …      those statements
    python statements.py             all of them

Its last line is a JSON object with the statement that did not hold and what was said of it, or null.
"""

from __future__ import annotations

import json
import sys


def first_noticed(names: list[str]) -> tuple[str, str] | None:
    from ridgeformer.experiments.theorems import THEOREMS
    from ridgeformer.transformer.threads import one_thread_each

    for name in names or list(THEOREMS):
        theorem = THEOREMS.find(name)
        try:
            with one_thread_each:
                word = theorem.verify(0, True).verdict
        except Exception as error:
            word = f"stops with {type(error).__name__}"
        if word != "holds":
            return name, word
    return None


if __name__ == "__main__":
    try:
        found = first_noticed(sys.argv[1:])
    except ImportError as error:
        found = "", f"stops with {type(error).__name__}"
    sys.stdout.write("\n" + json.dumps(found) + "\n")
