"""The monotone alignment of steps with layers."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from ridgeformer.analysis.alignment import align


@pytest.mark.parametrize("seed", range(20))
def test_no_monotone_alignment_costs_less(seed):
    rng = np.random.default_rng(seed)
    layers, steps = rng.integers(1, 6), rng.integers(1, 5)
    cost = rng.integers(0, 4, (layers, steps)).astype(float)
    path = align(cost)
    assert path == sorted(path)
    every = combinations_with_replacement(range(layers), steps)
    least = min(sum(cost[layer, t] for t, layer in enumerate(one)) for one in every)
    assert sum(cost[layer, t] for t, layer in enumerate(path)) == least


def test_of_equal_layers_the_first_is_taken():
    assert align(np.zeros((4, 3))) == [0, 0, 0]
    assert align(np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])) == [1, 2]
