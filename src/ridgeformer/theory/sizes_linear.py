"""Sizes of constructions with linear attention; p, r, T, N, Q and the tables as in `shape`."""

from __future__ import annotations

from ridgeformer.theory.shape import (
    RHO_NEURONS,
    Construction,
    Shape,
    change_of_unit_neurons,
    curvature_neurons,
    diagonal_neurons,
    first_unit_neurons,
)


def monomial_neurons(c: Construction) -> tuple[int, int]:
    """Neurons that multiply out monomials, in the first layer and in the second.

    Degree 2: 1 + p copied, two per product: 1 + p + 2Q, in one layer. Degree 3: 2Q, and then
    1 + p + Q copied, two per product of three, Q erased.
    """
    p, pairs = c.features, c.pairs
    if c.degree == 3:
        return 2 * pairs, 1 + p + 2 * pairs + 2 * c.triples
    return (1 + p + 2 * pairs, 0) if c.degree == 2 else (0, 0)


def raw_channels(c: Construction) -> int:
    """The p features as they came in stay in the stream beside their monomials."""
    return c.features if c.degree else 0


def fixed_sizes(c: Construction) -> Shape:
    """Fixed coefficients, supports as tokens, P = I: one head, one layer per step and one before.

    v = 3 vectors for Richardson, y, α, f; v = 4 for heavy ball and Chebyshev, with α_{t−1}.
        layers  T + 1, degree 3: T + 2        heads  1 of width max(N, r)
        d_model N + 3 + v·r, and the p raw features with a polynomial kernel; at degree 3 the Q
                products x_a·x_b may need more than f and α_{t−1}: max(v·r, 2r + Q) for v·r
        d_mlp   max(u·v·r, monomials + r), u = 2 neurons per channel for ReLU and 1 if gated
    """
    c.need_steps(3)
    r, n = c.outputs, c.feature_channels
    vectors, u = (3 if richardson(c) else 4), per_channel(c)
    first, second = monomial_neurons(c)
    held = max(vectors * r, 2 * r + c.pairs) if c.degree == 3 else vectors * r
    return Shape(
        n_layers=c.steps + 1 + (c.degree == 3),
        d_model=n + raw_channels(c) + 3 + held,
        n_heads=1,
        d_head=max(n, r),
        d_mlp=max(u * vectors * r, first + r if first else 0, second),
    )


def fixed_jacobi_sizes(c: Construction) -> Shape:
    """As `fixed_sizes` with P = diag(A): six layers for |φ_i|² and 1/A_ii, then T + 1.

    layers  T + 7 + (0, 1 or 2 for the monomials of degree 1, 2, 3)
    d_model N + 3 + max(v·r + 1, r + 4), degree 3: or r + Q; and the p raw features
    d_mlp   max(2N, J, w·r + 1, monomials), w = 3 for Richardson and 5 for Chebyshev
    """
    c.need_steps(3)
    r, n = c.outputs, c.feature_channels
    vectors, updated = (3, 3) if richardson(c) else (4, 5)
    held = max(vectors * r + 1, r + 4, r + c.pairs if c.degree == 3 else 0)
    return Shape(
        n_layers=c.steps + 7 + max(0, c.degree - 1),
        d_model=n + raw_channels(c) + 3 + held,
        n_heads=1,
        d_head=max(n, r),
        d_mlp=max(2 * n, diagonal_neurons(c), updated * r + 1, *monomial_neurons(c)),
    )


def fixed_causal_sizes(c: Construction) -> Shape:
    """Fixed coefficients in feature space: vectors of N channels per output at the aggregator.

    layers  T + 1, T + 2, T + 3 by degree     heads  2r of width N: ΦᵀΦw and the predictions
    d_model 3 + v·r·N with v = 3 (Φᵀy, w, ΦᵀΦw) for Richardson and 4 with w_{t−1} for heavy ball and
            Chebyshev; ΦᵀΦw shares the channels of φ
    d_mlp   max(u·(v·r·N + r), monomials)
    """
    c.need_steps(4)
    r, n = c.outputs, c.feature_channels
    vectors = 3 if richardson(c) else 4
    return Shape(
        n_layers=c.steps + 1 + max(0, c.degree - 1),
        d_model=3 + vectors * r * n,
        n_heads=2 * r,
        d_head=n,
        d_mlp=max(per_channel(c) * (vectors * r * n + r), *monomial_neurons(c)),
    )


def cg_sizes(c: Construction) -> Shape:
    """CG, supports as tokens: seven layers a step, in one of them the mat-vec.

                 P = I                                      Jacobi, T ≥ 5
        layers   7T + 1                                     7T + 8, 9, 10 by degree
        d_model  N + 3 + 10r + `hole`                       N + 4 + 10r + `hole`
        d_mlp    max of r·C₀, r(X + 2), r(C + 5u),          max of r·C₀, r(X + 2), r(C + 6),
                 r(Z + 4 + 7u)                              r(Z + 12), 2N, J, monomials
    and 5r heads of width max(N, r, 2). With a polynomial kernel the p raw features stay as well. At
    degree 3 the Q products x_a·x_b may need more channels than CG: 3r + Q for 10r, Jacobi r + Q for
    10r + 1. Where P = I, the monomials are made beside r·C₀ and, at degree 3, r(Z + 4 + 4u).
    """
    jacobi = c.precondition == "jacobi"
    c.need_steps(5 if jacobi else 3)
    r, n, u = c.outputs, c.feature_channels, per_channel(c)
    first, second = monomial_neurons(c)
    first_unit, unit = r * first_unit_neurons(c), change_of_unit_neurons(c)
    pairs = c.pairs if c.degree == 3 else 0
    if jacobi:
        held = max(10 * r + 1, r + pairs)
        layers = 7 * c.steps + 8 + max(0, c.degree - 1)
        set_up = max(2 * n, diagonal_neurons(c), first, second, first_unit)
        step = r * max(unit + 6, RHO_NEURONS + 12)
    else:
        held = max(10 * r, 3 * r + pairs)
        layers = 7 * c.steps + 1
        set_up = max(first_unit + first, r * (RHO_NEURONS + 4 + 4 * u) + second)
        step = r * max(unit + 5 * u, RHO_NEURONS + 4 + 7 * u)
    return Shape(
        n_layers=layers,
        d_model=n + raw_channels(c) + 3 + held + hole(c),
        n_heads=5 * r,
        d_head=max(n, r, 2),
        d_mlp=max(set_up, step, r * (curvature_neurons(c) + 2)),
    )


def hole(c: Construction) -> int:
    """Channels that CG's first-fit layout leaves empty: scalars that are r wide find fewer than r free.

    degree 2                4r − p for 3r < p < 4r, beside the raw features
    degree 3, P = I         2r − Q for r < Q < 2r, beside the products x_a·x_b
    Jacobi                  r − 2p for r > 2p; with a polynomial kernel r − 2p − N for r > 2p + N
    """
    p, r, pairs = c.features, c.outputs, c.pairs
    if c.degree == 2 and 3 * r < p < 4 * r:
        return 4 * r - p
    if c.precondition == "jacobi":
        return max(0, r - 2 * p - (c.feature_channels if c.degree else 0))
    return 2 * r - pairs if c.degree == 3 and r < pairs < 2 * r else 0


def cg_causal_sizes(c: Construction) -> Shape:
    """CG in feature space at the aggregator: seven layers a step, vectors of r·N channels.

    layers  7T + 4, 5, 6 by degree                        heads  5r of width max(r·N, 2)
    d_model 3 + max((4r + 1)N + 8r, 5r·N + 6r)
    d_mlp   max of r·C₀, r(X + 2 + u·N), r(C + 4u), r(Z + 4 + 6u + 2u·N), monomials
    """
    c.need_steps(3)
    r, n, u = c.outputs, c.feature_channels, per_channel(c)
    tables = (
        first_unit_neurons(c),
        curvature_neurons(c) + 2 + u * n,
        change_of_unit_neurons(c) + 4 * u,
        RHO_NEURONS + 4 + 6 * u + 2 * u * n,
    )
    return Shape(
        n_layers=7 * c.steps + 4 + max(0, c.degree - 1),
        d_model=3 + max((4 * r + 1) * n + 8 * r, 5 * r * n + 6 * r),
        n_heads=5 * r,
        d_head=max(r * n, 2),
        d_mlp=max(r * max(tables), *monomial_neurons(c)),
    )


def richardson(c: Construction) -> bool:
    return c.solver in ("gd", "richardson")


def per_channel(c: Construction) -> int:
    """u: neurons that copy or erase one channel."""
    return 2 if c.mlp == "relu" else 1
