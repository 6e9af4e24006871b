"""Targets: the kind of transformer that a solver is compiled to, and the prompts that it must serve."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from ridgeformer.kernels.base import LARGEST_SCALE
from ridgeformer.types import Refusal, check_number, check_whole


@dataclass(frozen=True)
class Exact:
    """Products within a token by a gated MLP: x·y = relu(x)·y − relu(−x)·y has no error.

    A bound on |y| is not needed; behind softmax attention it makes tables smaller.
    """

    max_target: float | None = field(default=None, metadata={"help": "A bound on |y|."})

    def __post_init__(self) -> None:
        if self.max_target is not None:
            positive("max_target", self.max_target)


@dataclass(frozen=True)
class Interpolated:
    """Products within a token by a plain ReLU MLP, which interpolates squares over a bounded range.

    Give either the `tolerance` to certify for every prompt of the domain, or the `width` to spend. With
    `digits=True` the step's product with 1/D is made from the binary digits of 1/D instead: two blocks
    a step, and a width that grows with the logarithm of k/ε where that of squares is proportional to k/√ε.
    """

    max_target: float = field(metadata={"help": "A bound on |y|."})
    tolerance: float | None = field(
        default=None, metadata={"help": "The error to promise, for which widths are chosen."}
    )
    width: int | None = field(
        default=None, metadata={"help": "Neurons per layer, instead of a tolerance."}
    )
    digits: bool = field(
        default=False,
        metadata={"help": "Multiply by the binary digits of 1/D, with row sums and a tolerance."},
    )

    def __post_init__(self) -> None:
        positive("max_target", self.max_target)
        if self.digits and self.tolerance is None:
            raise Refusal(
                "How many digits 1/D needs follows from the error to promise: give `tolerance` with "
                "`digits=True`, and leave `width` out."
            )
        if (self.tolerance is None) == (self.width is None):
            raise Refusal(
                "Interpolated products need either `tolerance`, the error to promise, or `width`, the "
                "neurons to spend."
            )
        if self.width is not None:
            check_whole("width", self.width, least=1)
        if self.tolerance is not None:
            positive("tolerance", self.tolerance)


@dataclass(frozen=True)
class HeadPairs:
    """Dot products from an even number of softmax heads, at multiples ±1, ±2, … of a small scale."""

    heads: int = field(default=8, metadata={"help": "Heads that make dot products: 2, 4, … or 12."})
    epsilon: float | None = field(
        default=None,
        metadata={"help": "Their scale; left out, it balances truncation against round-off."},
    )

    def __post_init__(self) -> None:
        check_whole("heads", self.heads)
        if self.heads < 2 or self.heads % 2 or self.heads > 12:
            raise Refusal(
                f"`heads` must be 2, 4, … or 12, in pairs of opposite scale, got {self.heads}."
            )
        if self.epsilon is not None:
            positive("epsilon", self.epsilon)


@dataclass(frozen=True)
class LinearAttention:
    """Linear attention, for kernels that are dot products of features.

    The model serves every prompt with λ_max(K) ≤ `max_eigenvalue`, whatever its number of supports.
    Its MLP is a plain one unless `products` is `Exact()`, which decoders need that solve every prefix.
    """

    max_eigenvalue: float = field(
        metadata={"help": "A bound on λ_max(K), and what coefficients are tuned to."}
    )
    products: Exact | None = None
    """If left out, the MLP is a plain ReLU MLP, enough for solvers without products in a token."""
    causal: bool = field(
        default=False,
        metadata={"help": "A strictly causal decoder, which solves in feature space."},
    )
    every_prefix: bool = field(
        default=False,
        metadata={
            "help": "The causal decoder solves every prefix: each x is predicted from before."
        },
    )

    def __post_init__(self) -> None:
        positive("max_eigenvalue", self.max_eigenvalue)
        one_of("products", self.products, Exact)
        if self.every_prefix and not self.causal:
            raise Refusal(
                "Every prefix is solved at a token that sees nothing after it: use `causal=True` with "
                "`every_prefix=True`."
            )
        if self.every_prefix and self.products is None:
            raise Refusal(
                "With `every_prefix=True` each token multiplies its own vectors, which a plain ReLU MLP "
                "does not do exactly: use `products=Exact()`."
            )


@dataclass(frozen=True)
class SoftmaxAttention:
    """Softmax attention, for kernels that are exponentials, and for dot products by pairs of heads.

    The model serves prompts with |φ| ≤ `max_norm` and at most `max_supports` supports. A smoother
    needs neither. `products` says how the MLP multiplies, `Exact()` or `Interpolated(…)`; `dot_products` are the
    `HeadPairs(…)` that make a kernel of dot products.
    """

    max_norm: float | None = field(default=None, metadata={"help": "A bound on |φ|."})
    max_supports: int | None = field(
        default=None, metadata={"help": "A bound on the number k of supports."}
    )
    products: Exact | Interpolated | None = field(default_factory=Exact)
    """None is a plain ReLU MLP, which is enough for a smoother."""
    dot_products: HeadPairs | None = None
    """How dot products are made, for kernels that are dot products; eight heads if left out."""

    def __post_init__(self) -> None:
        if self.max_norm is not None:
            positive("max_norm", self.max_norm)
        if self.max_supports is not None:
            check_whole("max_supports", self.max_supports, least=1)
        one_of("products", self.products, Exact, Interpolated)
        one_of("dot_products", self.dot_products, HeadPairs)


Target = LinearAttention | SoftmaxAttention


def check_target(to: object) -> None:
    """Refuses what is no target, with what to write."""
    if not isinstance(to, Target):
        raise Refusal(
            f"`to` must be LinearAttention(…) or SoftmaxAttention(…), got {type(to).__name__}."
        )


def one_of(name: str, value: object, *kinds: type) -> None:
    """Refuses what is neither None nor of these kinds, such as a class in place of an instance."""
    if value is not None and not isinstance(value, kinds):
        known = " or ".join(f"{kind.__name__}(…)" for kind in kinds)
        raise Refusal(f"`{name}` must be {known}, or None; got {value!r}.")


def positive(name: str, value: float) -> None:
    check_number(name, value)
    if not 0 < value < inf:
        raise Refusal(f"`{name}` must be positive and finite, got {value}.")
    if not 1 / LARGEST_SCALE < value < LARGEST_SCALE:
        raise Refusal(
            f"`{name}` must lie between {1 / LARGEST_SCALE:g} and {LARGEST_SCALE:g}, got {value}: rescale the data."
        )
