"""What sizes are made of: the construction, the tables in its MLP, and parameters from a shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb, log, log2

from ridgeformer.types import Refusal

RHO_NEURONS = 42
"""Z, the neurons of the table of 1/ρ̂ on [1/16, 16]: `reciprocal_neurons(1/16, 16)`."""

ROOM, ROUND_OFF, LEAST_TARGET, MOST_TARGET = 16.0, 1e-32, 1e-12, 1e12
"""How far ρ̂ strays, the least ρ that counts, and the range of ‖y‖, all in float64."""

FINE_NEURONS = 126
"""What a fine product of a plain ReLU MLP may take in a layer."""


@dataclass(frozen=True)
class Shape:
    n_layers: int
    d_model: int
    n_heads: int
    d_head: int
    d_mlp: int


@dataclass(frozen=True)
class Construction:
    """A solver in weights: p features, r outputs, T steps, and the ingredients of its tables.

    `degree` is that of a polynomial kernel with a positive offset, 0 for any other. The domain is
    λ = `ridge`, λ_max(K) ≤ L = `max_eigenvalue`, k ≤ `max_supports` and D = 1 + Σ_j K_ij within
    `row_sums`; softmax with the linear kernel has `derivative_heads` heads besides that of the mean.
    A plain ReLU MLP behind softmax interpolates each square of a step over `intervals` n, in
    `square_layers` g layers, both chosen from the tolerance.
    """

    solver: str
    precondition: str
    kernel: str
    attention: str
    mlp: str
    causal: bool
    features: int
    outputs: int
    steps: int
    degree: int = 0
    ridge: float = 1.0
    max_eigenvalue: float = 1.0
    max_supports: int = 1
    row_sums: tuple[float, float] = (2.0, 2.0)
    derivative_heads: int = 8
    intervals: int = 0
    square_layers: int = 0

    @property
    def feature_channels(self) -> int:
        """N: the p features, or the C(p + d, d) monomials of a polynomial kernel of degree d."""
        return comb(self.features + self.degree, self.degree) if self.degree else self.features

    @property
    def pairs(self) -> int:
        """Q = p(p + 1)/2, the products x_a·x_b."""
        return self.features * (self.features + 1) // 2

    @property
    def triples(self) -> int:
        """p(p + 1)(p + 2)/6, the products x_a·x_b·x_c."""
        return comb(self.features + 2, 3)

    @property
    def interval(self) -> tuple[float, float]:
        """What holds the eigenvalues of P⁻¹A."""
        lo, hi = self.ridge, self.ridge + self.max_eigenvalue
        if self.precondition == "jacobi":
            return lo / hi, hi / lo
        if self.precondition == "row-sum":
            return lo / self.row_sums[1], 1 + lo / self.row_sums[0]
        return lo, hi

    @property
    def scaling(self) -> tuple[float, float]:
        """The range of the entries of P."""
        if self.precondition == "jacobi":
            return self.ridge, self.ridge + self.max_eigenvalue
        return self.row_sums if self.precondition == "row-sum" else (1.0, 1.0)

    def need_steps(self, least: int) -> None:
        if self.steps < least:
            raise Refusal(
                f"Sizes of {self.solver} are stated for {least} steps or more, where a whole step "
                f"runs beside its neighbours; got {self.steps}."
            )


def reciprocal_neurons(lo: float, hi: float) -> int:
    """Neurons of the table of 1/x on [lo, hi]: max(1, ⌈ln(hi/lo)/ln q⌉) cells, one knot more than
    cells, and a constant; the ratio q of neighbouring knots is (hi/lo)^{1/88} within [1.15, 1.2]."""
    ratio = min(max((hi / lo) ** (1 / 88), 1.15), 1.2)
    return max(1, ceil(log(hi / lo) / log(ratio))) + 2


def unit_neurons(lo: float, hi: float) -> int:
    """Neurons of the table of x^{−1/2} on [lo, hi], whose knots have the ratio 4.5."""
    return max(1, ceil(log(hi / lo) / log(4.5))) + 2


def curvature_neurons(c: Construction) -> int:
    """X: 1/p̂ᵀAp̂ on [a/2, 4b], where [a, b] holds the eigenvalues of P⁻¹A."""
    lo, hi = c.interval
    return reciprocal_neurons(lo / 2, 4 * hi)


def change_of_unit_neurons(c: Construction, share: float = 1.0) -> int:
    """C: ρ^{−1/2} on [10⁻³², 16b/a]; where the table reads a mean over the context, ρ/(k + 1), the
    range begins at that `share` of it."""
    lo, hi = c.interval
    return unit_neurons(ROUND_OFF / share, ROOM * (hi / lo))


def first_unit_neurons(c: Construction, share: float = 1.0) -> int:
    """C₀: the same for ρ = yᵀP⁻¹y, with ‖y‖ in [10⁻¹², 10¹²], and ‖Φᵀy‖ in √L·[10⁻¹⁸, 10¹²]."""
    least, most = LEAST_TARGET, MOST_TARGET
    if c.causal:
        top = c.max_eigenvalue**0.5
        least, most = 1e-6 * top * least, top * most
    lo, hi = c.scaling
    return unit_neurons(least**2 / hi / share, most**2 / lo)


def diagonal_neurons(c: Construction) -> int:
    """J: 1/A_ii on [λ, λ + L]."""
    return reciprocal_neurons(c.ridge, c.ridge + c.max_eigenvalue)


def row_sum_neurons(c: Construction) -> int:
    """R: D = 1/w on w in [1/D_max, 1]; at the aggregator w is 1."""
    return reciprocal_neurons(1 / c.row_sums[1], 1.0)


def count_neurons(c: Construction) -> int:
    """M: k + 1 from 1/(k + 1) in [1/(k_max + 1), 1]."""
    return reciprocal_neurons(1 / (c.max_supports + 1), 1.0)


def fine_intervals(squares: int) -> int:
    """m: intervals per square where s squares share 126 neurons: ⌊126/s⌋ + 1 within [2, 64]."""
    return max(2, min(64, FINE_NEURONS // squares + 1))


def fine_layers(squares: int) -> int:
    """ℓ: layers in which m intervals each leave 2⁻⁴⁸ of a squared range: the least ℓ ≥ 24/log₂m."""
    return ceil(24 / log2(fine_intervals(squares)))


def parameters(shape: Shape, *, inputs: int, outputs: int, gated: bool) -> int:
    """Parameters of the generic transformer without norms or positions, biases included.

    With d = d_model, h heads of width e, m neurons and L layers:
        embedding (inputs + 1)·d, unembedding (d + 1)·outputs, and per layer
        Q, K, V 3·h·e·(d + 1), O (h·e + 1)·d, MLP (d + 1)·m, once more if it is gated, and (m + 1)·d.
    """
    d, width, m = shape.d_model, shape.n_heads * shape.d_head, shape.d_mlp
    attention = 3 * width * (d + 1) + (width + 1) * d
    mlp = (2 if gated else 1) * (d + 1) * m + (m + 1) * d
    return (inputs + 1) * d + shape.n_layers * (attention + mlp) + (d + 1) * outputs
