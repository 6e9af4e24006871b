"""Sizes of constructions with softmax attention; p, r, T and the tables as in `shape`.

Exponential kernels need w = 1/D from one head; a Gaussian needs |x|² first: one layer and one channel
more. The linear kernel comes from H heads of opposite scales and one more for means.
"""

from __future__ import annotations

from ridgeformer.theory.shape import (
    RHO_NEURONS,
    Construction,
    Shape,
    change_of_unit_neurons,
    count_neurons,
    curvature_neurons,
    diagonal_neurons,
    fine_intervals,
    fine_layers,
    first_unit_neurons,
    row_sum_neurons,
)
from ridgeformer.theory.sizes_linear import richardson

SHARED_SETUP = 199
"""Three fine squares at 63 hinges, three waves and two sums at two neurons: e² beside z(1 + ae)."""


def smoother_sizes(c: Construction) -> Shape:
    """Nadaraya–Watson: one head of width max(p + 1, r).

    exponential  1 layer, d_model p + 2r + 3, no neuron (a width of 1 is kept)
    Gaussian     2 layers, p + 2r + 4, 2p neurons; plain ReLU: ℓ(p) + 1 layers,
                 max(p + 2r, 2p + r) + 4 channels, and `norm_neurons`
    """
    p, r = c.features, c.outputs
    layers, channels, neurons = 1, p + 2 * r + 3, 1
    if c.kernel == "gaussian" and c.mlp == "reglu":
        layers, channels, neurons = 2, p + 2 * r + 4, 2 * p
    elif c.kernel == "gaussian":
        layers, neurons = fine_layers(p) + 1, norm_neurons(c)
        channels = max(p + 2 * r, 2 * p + r) + 4
    return Shape(layers, channels, 1, max(p + 1, r), neurons)


def norm_neurons(c: Construction) -> int:
    """|x|² in a plain ReLU MLP: p squares of m − 1 hinges, p waves and a sum at two neurons each."""
    return c.features * (fine_intervals(c.features) - 1) + 2 * c.features + 2


def fixed_dot_product_sizes(c: Construction) -> Shape:
    """Fixed coefficients, the linear kernel, gated MLP.

                 P = I                                   Jacobi
        layers   T + 6                                   2T + 5
        d_model  max(p + v·r + 5, 2p + 2r + 6)           max(p + v·r + 6, 2p + r + 7, p + 3r + 10)
        d_mlp    max(M + 3p + r, n·r)                    max(M + 5p, J + 7, 11r)
    with v = 6 for Richardson and 7 for heavy ball and Chebyshev, n = 13 and 14; H + 1 heads of width
    max(p + 1, r).
    """
    c.need_steps(4)
    p, r = c.features, c.outputs
    vectors, updated = (6, 13) if richardson(c) else (7, 14)
    if c.precondition == "jacobi":
        layers = 2 * c.steps + 5
        channels = max(p + vectors * r + 6, 2 * p + r + 7, p + 3 * r + 10)
        neurons = max(count_neurons(c) + 5 * p, diagonal_neurons(c) + 7, 11 * r)
    else:
        layers = c.steps + 6
        channels = max(p + vectors * r + 5, 2 * p + 2 * r + 6)
        neurons = max(count_neurons(c) + 3 * p + r, updated * r)
    return Shape(layers, channels, c.derivative_heads + 1, max(p + 1, r), neurons)


def fixed_gated_sizes(c: Construction) -> Shape:
    """Fixed coefficients, exponential or Gaussian kernel, gated MLP; G = 1 for a Gaussian, else 0.

                 P = I                                   row sums, T ≥ 7
        layers   T + 5 + G                               T + 1 + G
        d_model  p + v·r + 4 + G, v = 5 or 6             p + v·r + 5 + G, v = 12 or 13
        d_mlp    max(R + r, n·r), Gaussian: R, 2p + r    max(R + 2r, 18r), Gaussian: or 2p
    with the smaller v and n = 8 for Richardson, the larger and n = 9 else. One head of width
    max(p + 2, r), but max(p + 2, r + 1) for a Gaussian and P = I, where w and o share a head.
    With row sums the first steps run while D is still computed: five fits wait for it side by side.
    """
    p, r, gaussian = c.features, c.outputs, c.kernel == "gaussian"
    table = row_sum_neurons(c)
    if c.precondition == "row-sum":
        c.need_steps(7)
        return Shape(
            n_layers=c.steps + 1 + gaussian,
            d_model=p + (12 if richardson(c) else 13) * r + 5 + gaussian,
            n_heads=1,
            d_head=max(p + 2, r),
            d_mlp=max(table + 2 * r, 18 * r, 2 * p if gaussian else 0),
        )
    c.need_steps(4)
    vectors, updated = (5, 8) if richardson(c) else (6, 9)
    return Shape(
        n_layers=c.steps + 5 + gaussian,
        d_model=p + vectors * r + 4 + gaussian,
        n_heads=1,
        d_head=max(p + 2, r + gaussian),
        d_mlp=max(updated * r, *((table, 2 * p + r) if gaussian else (table + r,))),
    )


def fixed_relu_sizes(c: Construction) -> Shape:
    """Fixed coefficients behind softmax with a plain ReLU MLP, P = I; n and g from the tolerance.

        layers   19 + g·T, and ℓ(p) more for a Gaussian
        d_model  p + max(3r + 10, v·r + 4 + 4r[g ≥ 2] − [r = 1]) + G, v = 5 or 6;
                 Gaussian: or 2p + 2r + 4
        d_mlp    max(199, R + 2r, 4r(n − 1) + 6r + w − 2[r = 1], Gaussian: R, norm + 2r)
    The step squares 4r numbers with n − 1 hinges each and copies 3r channels; w = 6r neurons erase
    y, f and o, 8r also α_{t−1}, and 8r begin the waves where g ≥ 2. One output is narrower by one:
    its f takes over the channel of o.
    """
    c.need_steps(4)
    p, r, gaussian = c.features, c.outputs, c.kernel == "gaussian"
    deep, single = c.square_layers >= 2, r == 1
    vectors, erased = (5, 6) if richardson(c) else (6, 8)
    step = vectors * r + 4 + (4 * r if deep else 0) - single
    channels = p + max(3 * r + 10, step) + gaussian
    squares = 4 * r * (c.intervals - 1) + (6 + erased + (8 if deep else 0)) * r - 2 * single
    table = row_sum_neurons(c)
    neurons = max(SHARED_SETUP, squares, table if gaussian else table + 2 * r)
    if gaussian:
        channels = max(channels, 2 * p + 2 * r + 4)
        neurons = max(neurons, norm_neurons(c) + 2 * r)
    layers = 19 + c.square_layers * c.steps + (fine_layers(p) if gaussian else 0)
    return Shape(layers, channels, 1, max(p + 2, r + gaussian), neurons)


def fixed_relu_row_sum_sizes(c: Construction) -> Shape:
    """As `fixed_relu_sizes` with row sums: one layer a step, D and the last division afterwards.

    layers   T + 19 + ℓ(2r), and ℓ(p) more for a Gaussian
    d_model  p + max(2r + 11, 5r + 4); Gaussian: or 2p + r + 4
    d_mlp    max(199, R, 2r(n − 1) + w·r, 2r(m(2r) − 1) + 8r, Gaussian: norm), w = 8 or 10
    """
    c.need_steps(4)
    p, r, gaussian = c.features, c.outputs, c.kernel == "gaussian"
    step = 2 * r * (c.intervals - 1) + (8 if richardson(c) else 10) * r
    division = 2 * r * (fine_intervals(2 * r) - 1) + 8 * r
    channels = p + max(2 * r + 11, 5 * r + 4)
    neurons = max(SHARED_SETUP, row_sum_neurons(c), step, division)
    if gaussian:
        channels, neurons = max(channels, 2 * p + r + 4), max(neurons, norm_neurons(c))
    layers = c.steps + 19 + fine_layers(2 * r) + (fine_layers(p) if gaussian else 0)
    return Shape(layers, channels, 1, max(p + 2, r), neurons)


def cg_softmax_sizes(c: Construction) -> Shape:
    """CG behind softmax, gated MLP: every token works out the scalars; a product takes an MLP.

                 P = I                     Jacobi (linear)           row sums
        layers   10T + 6                   11T + 7                   11T + 5
        d_model  p + 16r + 8 + G           p + 16r + 6               p + 16r + 6 + G
        heads    H + 1; 2 without          H + 1                     2, Gaussian 1
    The linear kernel may need more channels for the mean of φ at the start: 2p + 2r + 6, or with
    Jacobi 2p + r + 7. Heads have width max(p + 2, r); for the linear kernel max(p + 1, 2r), since
    two means share a head, and with Jacobi max(p + 1, r).
    """
    c.need_steps(3)
    p, r = c.features, c.outputs
    linear, gaussian = c.kernel == "linear", c.kernel == "gaussian"
    plain = c.precondition == "none"
    first, slope = (6, 10) if plain else (7 if linear else 5, 11)
    channels = p + 16 * r + (8 if plain else 6) + gaussian
    start = 2 * p + (2 * r + 6 if plain else r + 7)
    heads = 1 if gaussian and not plain else 2
    return Shape(
        n_layers=slope * c.steps + first,
        d_model=max(channels, start) if linear else channels,
        n_heads=c.derivative_heads + 1 if linear else heads,
        d_head=max(p + 1, 2 * r if plain else r) if linear else max(p + 2, r),
        d_mlp=cg_softmax_neurons(c),
    )


def cg_softmax_neurons(c: Construction) -> int:
    """The widest MLP of CG behind softmax: a table with what is multiplied and erased beside it.

        1/ρ̂          r(Z + 9)
        curvature    r(X + 14), preconditioned r(X + 13)
        change of unit, P = I: r(C + 13) + 1, linear kernel r(C + 16) + 1; else r(C + 8)
        first unit   r(C₀ + 1) + 8; linear kernel + 4, Jacobi + 0; Gaussian and P = I: + 4 + R
        count        M + 2r + R; linear kernel M + 2r + 3p, Jacobi M + 5p and J + 7;
                     Gaussian M + 2r + 2p, row sums M + 2p and R + 2r + 4
    P = I reads means, so that its ranges begin at 1/(k + 1) of the others'; so does C₀ with row sums.
    """
    p, r = c.features, c.outputs
    share, count = c.max_supports + 1.0, count_neurons(c)
    table = row_sum_neurons(c)
    curvature, rho = curvature_neurons(c), r * (RHO_NEURONS + 9)
    if c.precondition == "jacobi":
        first = r * (first_unit_neurons(c) + 1)
        set_up = max(count + 5 * p, diagonal_neurons(c) + 7)
    elif c.kernel == "linear":
        first, set_up = r * (first_unit_neurons(c, share) + 1) + 4, count + 2 * r + 3 * p
    else:
        first, set_up = r * (first_unit_neurons(c, share) + 1) + 8, count + 2 * r + table
    if c.kernel == "gaussian" and c.precondition == "none":
        first, set_up = first - 4 + table, count + 2 * r + 2 * p
    elif c.kernel == "gaussian":
        set_up = max(count + 2 * p, table + 2 * r + 4)
    if c.precondition == "none":
        beside = 16 if c.kernel == "linear" else 13
        unit = r * (change_of_unit_neurons(c, share) + beside) + 1
        return max(rho, r * (curvature + 14), unit, first, set_up)
    return max(rho, r * (curvature + 13), r * (change_of_unit_neurons(c) + 8), first, set_up)
