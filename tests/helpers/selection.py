"""Which cases the default suite takes; the slow tests take all of them."""

import pytest


def first_of_each(cases):
    """Of the cases whose first value is the same, the first; the others are slow tests."""
    seen, found = set(), []
    for case in cases:
        found.append(pytest.param(*case, marks=pytest.mark.slow) if case[0] in seen else case)
        seen.add(case[0])
    return found
