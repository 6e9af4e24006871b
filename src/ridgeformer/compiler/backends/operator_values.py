"""What is known of a program on polynomials in A while it is lowered: operators, and vectors made by them."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.compiler.circuit import Cell
from ridgeformer.program.ops import Channel


@dataclass(frozen=True)
class Operator:
    """coefficient·(the images in the cells) + Σ coefficient·left·A·key·right, the latter not yet stored."""

    coefficient: float
    cells: Images | None
    terms: tuple[tuple[float, Operator, Operator, Operator], ...] = ()


@dataclass(frozen=True)
class Images:
    """Where the image of a token's features is: 0 at the queries, and, if it is kept, also there."""

    context: Cell
    everywhere: Cell | None


Term = tuple[float, Cell, Operator, Operator]
"""coefficient·key·query·(y − Aα), where the cell holds the ρ of α"""


@dataclass(frozen=True)
class Iterate:
    """ρ = y − the predictions of a vector: y, or the ρ of another vector, minus heads."""

    base: Cell
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Image:
    """K α for the vector α in a channel."""

    of: Channel


@dataclass(frozen=True)
class Residual:
    """y − A α for the vector α in a channel; y itself without one."""

    of: Channel | None


Value = Operator | Iterate | Image | Residual
