"""Sequences share their beginnings, and an order that can be cut anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from ridgeformer.language import Forest
from ridgeformer.language.forest import ROOT

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=8)


def grown(sequences):
    forest = Forest()
    return forest, [forest.grow(sequence) for sequence in sequences]


@given(SEQUENCES)
def test_nodes_are_the_beginnings_of_sequences(sequences):
    forest, paths = grown(sequences)
    beginnings = {tuple(s[: i + 1]) for s in sequences for i in range(len(s))}
    assert {tuple(forest.text(node)) for node in range(len(forest))} == beginnings
    assert len(forest) == len(beginnings)
    for sequence, path in zip(sequences, paths, strict=True):
        assert forest.path(path[-1]) == path
        assert forest.text(path[-1]) == sequence
        assert [forest.depths[node] for node in path] == list(range(len(sequence)))


@given(SEQUENCES, st.integers(0, 100))
def test_what_later_nodes_follow_is_on_the_path_to_the_cut(sequences, where):
    forest, _ = grown(sequences)
    order = forest.preorder()
    assert sorted(order) == list(range(len(forest)))
    cut = where % len(order)
    before, after = set(order[:cut]), order[cut:]
    on_the_path = set(forest.path(after[0]))
    for node in after:
        assert before & set(forest.path(node)) <= on_the_path


@given(SEQUENCES, SEQUENCES)
def test_what_grows_later_comes_alone_and_after_its_parents(first, later):
    forest, _ = grown(first)
    done = len(forest)
    for sequence in later:
        forest.grow(sequence)
    order = forest.preorder(done)
    assert sorted(order) == list(range(done, len(forest)))
    seen = {ROOT, *range(done)}
    for node in order:
        assert forest.parents[node] in seen
        seen.add(node)
    ends = {node for node in range(done, len(forest)) if node not in set(forest.parents)}
    assert set(forest.leaves(done)) == ends


def test_a_sequence_may_follow_a_node():
    forest = Forest()
    end = forest.grow((5, 6))[-1]
    assert forest.text(forest.grow((7,), end)[-1]) == [5, 6, 7]
    assert forest.grow((5, 6, 7)) == [0, 1, 2]
