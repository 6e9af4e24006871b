"""`Program`: a recurrence as a list of frozen operations on named channels.

A `Channel` is a value of the recurrence. Its kind says where it lives:

    vector   one entry per support and output
    scalar   one entry per output
    token    one entry per support, shared by the outputs (a diagonal)
    operator a polynomial in A
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["vector", "scalar", "token", "operator"]


@dataclass(frozen=True)
class Channel:
    """A vector or scalar of a program."""

    index: int
    name: str
    """For people only: what the value is called in listings."""
    kind: Kind
    variable: str | None = None
    """The variable of the recurrence that it is a value or an update of, if it is one."""

    def __str__(self) -> str:
        return f"{self.name}.{self.index}"

    @property
    def as_factor(self) -> str:
        """The name as part of another: a product is put in brackets, as in K(c·r)."""
        outside = re.sub(r"\(.*?\)", "", self.name)
        return f"({self.name})" if "·" in outside else self.name


@dataclass(frozen=True)
class Target:
    """out = y"""

    out: Channel


@dataclass(frozen=True)
class Diagonal:
    """out_i = K_ii"""

    out: Channel


@dataclass(frozen=True)
class RowSums:
    """out_i = 1 + Σ_j K_ij"""

    out: Channel


@dataclass(frozen=True)
class MatVec:
    """out = K v"""

    out: Channel
    v: Channel


@dataclass(frozen=True)
class Dot:
    """out = uᵀv"""

    out: Channel
    u: Channel
    v: Channel


@dataclass(frozen=True)
class Combine:
    """out = constant + Σ coefficient·channel"""

    out: Channel
    terms: tuple[tuple[float, Channel], ...]
    constant: float = 0.0


@dataclass(frozen=True)
class Multiply:
    """out = a·b, a scalar or token times anything"""

    out: Channel
    a: Channel
    b: Channel


@dataclass(frozen=True)
class Clamp:
    """out = min(max(x, lo), hi); bounds that hold by a theorem, so that it only ever stops noise"""

    out: Channel
    x: Channel
    lo: float
    hi: float
    why: str


@dataclass(frozen=True)
class Invert:
    """out = 1/x, for x clamped to [lo, hi]"""

    out: Channel
    x: Channel
    lo: float
    hi: float


@dataclass(frozen=True)
class InvertNear:
    """out = 1/x, begun with 1/near, for near clamped to [lo, hi] and x/near to [1/4, hi/lo]"""

    out: Channel
    x: Channel
    near: Channel
    lo: float
    hi: float


@dataclass(frozen=True)
class Unit:
    """out ≈ x^(−power) by the table for [lo, hi], constant outside it"""

    out: Channel
    x: Channel
    lo: float
    hi: float
    power: float = 0.5


@dataclass(frozen=True)
class Hold:
    """out = 0 below lo, x above hi, linear between"""

    out: Channel
    x: Channel
    lo: float
    hi: float


@dataclass(frozen=True)
class Identity:
    """out = I"""

    out: Channel


@dataclass(frozen=True)
class Product:
    """out = left·A·key·right, all of them operators; without a key, left·A·right"""

    out: Channel
    left: Channel
    right: Channel
    key: Channel | None


@dataclass(frozen=True)
class Apply:
    """out = key·operator·v for a vector v; without a key, operator·v"""

    out: Channel
    operator: Channel
    v: Channel
    key: Channel | None


@dataclass(frozen=True)
class Carried:
    """out = what the last pass of a loop left of a variable, or before the first pass its start"""

    out: Channel
    variable: str


Op = (
    Target | Diagonal | RowSums | MatVec | Dot | Combine | Multiply | Clamp | Invert | InvertNear
    | Unit | Hold | Identity | Product | Apply | Carried
)  # fmt: skip


def inputs(op: Op) -> tuple[Channel, ...]:
    """The channels that an operation reads."""
    match op:
        case MatVec(v=v):
            return (v,)
        case Dot(u=u, v=v):
            return (u, v)
        case Combine(terms=terms):
            return tuple(channel for _, channel in terms)
        case Multiply(a=a, b=b):
            return (a, b)
        case Clamp(x=x) | Invert(x=x) | Unit(x=x) | Hold(x=x):
            return (x,)
        case InvertNear(x=x, near=near):
            return (x, near)
        case Product(left=a, right=b, key=key) | Apply(operator=a, v=b, key=key):
            return (a, b) if key is None else (a, key, b)
        case _:
            return ()


@dataclass(frozen=True)
class Program:
    """The operations in order, the state's channels after each step, and the system they are for.

    A state entry of None stands for the zero vector.
    """

    solver: str
    ops: tuple[Op, ...]
    states: tuple[Mapping[str, Channel | None], ...]
    ridge: float
    max_eigenvalue: float
    target_norm: tuple[float, float]
    norms: Mapping[Channel, float]
    """Bounds on vectors' Euclidean norms, which solvers state where they hold by a theorem."""
    normaliser: tuple[float, float] | None = None
    """The range of 1 + Σ_j K_ij at the supports, where softmax attention divides by it."""
    smooths: bool = False
    """Predictions are divided by Σ_j k_j(x): a smoother, not a solver."""

    @property
    def steps(self) -> int:
        return len(self.states) - 1

    @property
    def adaptive(self) -> bool:
        """Whether coefficients depend on the data, as inner products do."""
        return any(isinstance(op, Dot) for op in self.ops)

    @property
    def operators(self) -> bool:
        """Whether it works on polynomials in A, and not on vectors and scalars alone."""
        return any(isinstance(op, Identity) for op in self.ops)

    @property
    def normalised(self) -> bool:
        """Whether the row sums precondition it."""
        return any(isinstance(op, RowSums) for op in self.ops)

    @property
    def products(self) -> int:
        """How often K is multiplied by a vector."""
        return sum(isinstance(op, MatVec) for op in self.ops)

    def pruned(self) -> Program:
        """Without the operations that no iterate depends on, such as a last direction."""
        needed = {state["alpha"] for state in self.states} - {None}
        kept: list[Op] = []
        for op in reversed(self.ops):
            if op.out in needed:
                kept.append(op)
                needed.update(inputs(op))
        states = tuple(
            {name: c for name, c in state.items() if c is None or c in needed}
            for state in self.states
        )
        return replace(self, ops=tuple(reversed(kept)), states=states)

    def listing(self) -> str:
        """Every operation, on a line of its own."""
        return "\n".join(f"{op.out} = {describe(op)}" for op in self.ops)

    def __repr__(self) -> str:
        head = f"Program: {self.steps} steps of {self.solver} in {len(self.ops)} operations"
        first = [f"  {line}" for line in self.listing().splitlines()[:8]]
        more = ["  … (`listing()` has all)"] if len(self.ops) > len(first) else []
        return "\n".join([head, *first, *more])


def describe(op: Op) -> str:
    """One readable right-hand side."""
    match op:
        case Target():
            return "y"
        case Diagonal():
            return "diag(K)"
        case RowSums():
            return "1 + K 1"
        case MatVec(v=v):
            return f"K {v}"
        case Dot(u=u, v=v):
            return f"⟨{u}, {v}⟩"
        case Combine(terms=terms, constant=constant):
            parts = [f"{c:.6g}·{v}" for c, v in terms] + ([f"{constant:.6g}"] if constant else [])
            return " + ".join(parts)
        case Multiply(a=a, b=b):
            return f"{a} · {b}"
        case Clamp(x=x, lo=lo, hi=hi):
            return f"clamp({x}, {lo:.3g}, {hi:.3g})"
        case Invert(x=x):
            return f"1 / {x}"
        case InvertNear(x=x, near=near):
            return f"1 / {x}, near 1 / {near}"
        case Unit(x=x, power=power):
            return f"about {x}^(-{'1/2' if power == 0.5 else f'{power:g}'})"
        case Hold(x=x, lo=lo):
            return f"{x} if {x} > {lo:.3g} else 0"
        case Identity():
            return "I"
        case Product(left=left, right=right, key=key):
            return f"{left} A {right}" if key is None else f"{left} A {key} {right}"
        case Apply(operator=operator, v=v, key=key):
            return f"{operator} {v}" if key is None else f"{key} {operator} {v}"
        case Carried(variable=variable):
            return f"{variable} of the last pass"


def ancestors(program: Program, channel: Channel | None) -> set[Channel]:
    """A channel and all that it is computed from."""
    needed = {channel}
    for op in reversed(program.ops):
        if op.out in needed:
            needed.update(inputs(op))
    return {c for c in needed if c is not None}
