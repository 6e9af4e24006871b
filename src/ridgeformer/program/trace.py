"""The tracing machine: runs a solver once on symbols, and records what it did as a `Program`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ridgeformer.program import ops
from ridgeformer.program.ops import Channel, Kind, Op, Program
from ridgeformer.solvers import Machine, Solver, certified_interval
from ridgeformer.solvers.base import check_state
from ridgeformer.solvers.machine import Bounds, Interval, Precondition
from ridgeformer.solvers.ridge import check_ridge
from ridgeformer.types import Refusal

Space = Literal["dual", "feature", "operator"]
"""Where the system is solved: (K + λI)α = y with an entry per support, (ΦᵀΦ + λI)w = Φᵀy with p entries
at one token, or by polynomials in ΦᵀΦ + λI, of which every token holds the image of its own features."""

RHO_FLOOR = {"float64": 1e-32, "float32": 1e-14}
"""Squared round-off: a residual that shrinks by more than this in one step is solved."""

TARGET_NORM = {"float64": (1e-12, 1e12), "float32": (1e-6, 1e6)}
"""The range of ‖y‖ that a compiled model serves, besides y = 0 exactly."""


@dataclass(frozen=True)
class Traced:
    """A linear combination of channels of one kind, with arithmetic that records operations."""

    machine: TracingMachine
    kind: Kind
    terms: tuple[tuple[float, Channel], ...]
    constant: float = 0.0

    def channel(self) -> Channel:
        """This value as one channel, recording a `Combine` where it is not one already."""
        if len(self.terms) == 1 and self.terms[0][0] == 1.0 and self.constant == 0.0:
            return self.terms[0][1]
        name, variable = sum_name(self.terms)
        return self.machine.record(
            lambda out: ops.Combine(out, self.terms, self.constant), self.kind, name, variable
        )

    def __add__(self, other: Traced | float) -> Traced:
        if not isinstance(other, Traced):
            return Traced(self.machine, self.kind, self.terms, self.constant + other)
        coefficients: dict[Channel, float] = {}
        for coefficient, channel in self.terms + other.terms:
            coefficients[channel] = coefficients.get(channel, 0.0) + coefficient
        kept = tuple((c, channel) for channel, c in coefficients.items() if c != 0.0)
        return Traced(self.machine, self.kind, kept, self.constant + other.constant)

    def __mul__(self, other: Traced | float) -> Traced:
        if not isinstance(other, Traced):
            scaled = tuple((other * c, channel) for c, channel in self.terms)
            return Traced(self.machine, self.kind, scaled, other * self.constant)
        if "operator" in (self.kind, other.kind):
            raise Refusal("An operator is multiplied with `m.product` or `m.apply`, not with *.")
        a, b = (self, other) if self.kind != "vector" else (other, self)
        if a.kind == "vector":
            raise Refusal("The product of two vectors is not an operation of a traced recurrence.")
        if not b.terms and b.constant == 0.0:
            return b
        left, right = a.channel(), b.channel()
        name = f"{left.name}·{right.name}"
        return self.machine.traced(lambda out: ops.Multiply(out, left, right), b.kind, name)

    def __neg__(self) -> Traced:
        return -1.0 * self

    def __sub__(self, other: Traced | float) -> Traced:
        return self + -1.0 * other

    def __rsub__(self, other: float) -> Traced:
        return -1.0 * self + other

    __radd__, __rmul__ = __add__, __mul__


@dataclass(frozen=True)
class Scope:
    """What else is known of the prompts that a program is for."""

    row_sums: Interval | None = None
    """The range of 1 + Σ_j K_ij; None where nothing normalises."""
    target_norm: float | None = None
    """A bound on ‖y‖."""
    operators: bool = False
    """Whether tokens can hold a polynomial in A together."""
    predictions: bool = True
    """Whether a reciprocal can begin with a prediction."""


class TracingMachine(Machine):
    """A machine that computes nothing: it records what a solver does as a program."""

    def __init__(
        self,
        ridge: float,
        max_eigenvalue: float,
        dtype: str = "float64",
        space: Space = "dual",
        states: dict[int, str] | None = None,
        scope: Scope | None = None,
    ) -> None:
        """`states` says which operations, by their position, compute a variable of the state."""
        if not 0 < max_eigenvalue < float("inf"):
            raise Refusal(
                f"The bound on λ_max(K) must be positive and finite, got {max_eigenvalue}."
            )
        check_ridge(ridge, max_eigenvalue, dtype)
        self.ridge, self.max_eigenvalue, self.dtype = ridge, max_eigenvalue, dtype
        self.space, self.states, self.scope = space, states or {}, scope or Scope()
        self.norms: dict[Channel, float] = {}
        self.ops: list[Op] = []
        self.cache: dict[tuple[object, ...], Channel] = {}
        self.clamped: dict[Channel, tuple[float, float]] = {}

    def record(self, make: object, kind: Kind, name: str, variable: str | None = None) -> Channel:
        """Adds an operation, or finds the one that already computes the same."""
        probe = Channel(-1, "", kind)
        op = make(probe)  # type: ignore[operator]
        key = (type(op), kind, *(value for value in vars(op).values() if value is not probe))
        if key not in self.cache:
            index = len(self.ops)
            state = self.states.get(index)
            out = Channel(index, state or name, kind, state or variable)
            self.ops.append(make(out))  # type: ignore[operator]
            self.cache[key] = out
        return self.cache[key]

    def traced(self, make: object, kind: Kind, name: str, variable: str | None = None) -> Traced:
        return Traced(self, kind, ((1.0, self.record(make, kind, name, variable)),))

    def target(self) -> Traced:
        return self.traced(ops.Target, "vector", "y", "y")

    def zeros(self) -> Traced:
        return Traced(self, "vector", ())

    def kernel_product(self, v: Traced) -> Traced:
        if not v.terms:
            return v
        channel = v.channel()
        return self.traced(lambda out: ops.MatVec(out, channel), "vector", f"K{channel.as_factor}")

    def diagonal(self) -> Traced:
        return self.traced(ops.Diagonal, "token", "diagonal")

    def row_sums(self) -> Traced:
        if self.scope.row_sums is None:
            raise Refusal(
                "The row-sum preconditioner comes from the normaliser of softmax attention: with "
                'linear attention use `precondition="jacobi"` or none.'
            )
        return self.traced(ops.RowSums, "token", "row sums")

    def preconditioner_range(self, kind: Precondition) -> Interval:
        if kind == "row-sum" and self.scope.row_sums is not None:
            return self.scope.row_sums
        if kind == "jacobi":
            return certified_interval("none", self.ridge, self.max_eigenvalue)
        return super().preconditioner_range(kind)

    def dot(self, u: Traced, v: Traced) -> Traced:
        a, b = u.channel(), v.channel()
        return self.traced(lambda out: ops.Dot(out, a, b), "scalar", f"{a.as_factor}ᵀ{b.as_factor}")

    def reciprocal(self, x: Traced, near: Traced | None = None) -> Traced:
        channel = x.channel() if near is None else near.channel()
        if channel not in self.clamped:
            raise Refusal(
                f"1/{channel.name} has no certified positive range, so no ReLU network can promise "
                "it: state the range with m.assume before dividing."
            )
        lo, hi = self.clamped[channel]
        if near is not None:
            return self.reciprocal_near(x.channel(), channel, lo, hi)
        return self.traced(
            lambda out: ops.Invert(out, channel, lo, hi), x.kind, f"1/({channel.name})"
        )

    def reciprocal_near(self, x: Channel, near: Channel, lo: float, hi: float) -> Traced:
        if not self.scope.predictions:
            raise Refusal(
                "it begins a reciprocal with a prediction, which saves layers with linear attention and "
                "costs layers elsewhere: use `to=LinearAttention(…)` without `every_prefix=True`, or a solver "
                "that predicts nothing."
            )
        name = f"1/({x.name})"
        return self.traced(lambda out: ops.InvertNear(out, x, near, lo, hi), x.kind, name)

    def unit(self, x: Traced, bounds: Bounds, power: float = 0.5) -> Traced:
        channel, (lo, hi) = x.channel(), bounds()
        floor = max(lo, RHO_FLOOR[self.dtype] if lo == 0 else lo)
        name = "c" if power == 0.5 else "c'"  # a solver may have both
        return self.traced(lambda out: ops.Unit(out, channel, floor, hi, power), x.kind, name)

    def hold(self, x: Traced, lo: float, hi: float) -> Traced:
        channel = x.channel()
        return self.traced(lambda out: ops.Hold(out, channel, lo, hi), x.kind, "rho")

    def assume(self, x: Traced, bounds: Bounds, why: str) -> Traced:
        channel, (lo, hi) = x.channel(), bounds()
        if not 0 < lo <= hi < float("inf"):
            raise Refusal(f"The range [{lo}, {hi}] stated for {channel.name} is not positive.")
        clamped = self.traced(
            lambda out: ops.Clamp(out, channel, lo, hi, why), x.kind, channel.name, channel.variable
        )
        self.clamped[clamped.channel()] = (lo, hi)
        return clamped

    def bound(self, v: Traced, norm: Callable[[], float], why: str) -> Traced:
        if not v.terms:
            return v
        channel = v.channel()  # what is bounded is one channel, and is read as that from here on
        self.norms[channel] = norm()
        return Traced(self, v.kind, ((1.0, channel),))

    def interval(self, kind: Precondition) -> Interval:
        return certified_interval(kind, self.ridge, self.max_eigenvalue, self.scope.row_sums)

    def target_norm(self) -> Interval:
        least, most = TARGET_NORM[self.dtype]
        if self.scope.target_norm is not None:
            most = min(most, self.scope.target_norm)
        if self.space == "dual":
            return least, most
        top = self.max_eigenvalue**0.5  # the right-hand side is Φᵀy, often much shorter than y
        return 1e-6 * top * least, top * most

    def dense_system(self) -> Traced:
        raise Refusal(
            "its state is a matrix between supports or between outputs, and a token holds only its "
            "own entries: use a solver whose state is made of vectors and scalars."
        )

    def identity(self) -> Traced:
        if not self.scope.operators:
            raise Refusal(
                "its state is a polynomial in the kernel matrix, which tokens hold together only where "
                "linear attention lets each of them read all supports: use `to=LinearAttention(…)` "
                "without `causal=True`."
            )
        return self.traced(ops.Identity, "operator", "I")

    def product(self, left: Traced, right: Traced, key: Traced | None = None) -> Traced:
        a, b = left.channel(), right.channel()
        middle = None if key is None else key.channel()
        name = f"{a.name}A{b.name}"
        return self.traced(lambda out: ops.Product(out, a, b, middle), "operator", name)

    def apply(self, operator: Traced, v: Traced, key: Traced | None = None) -> Traced:
        if not v.terms:
            return v
        a, b = operator.channel(), v.channel()
        first = None if key is None else key.channel()
        name = f"{a.name}{b.name}"
        return self.traced(lambda out: ops.Apply(out, a, b, first), "vector", name)


def trace(
    solver: Solver,
    *,
    steps: int,
    ridge: float,
    max_eigenvalue: float,
    dtype: str = "float64",
    space: Space = "dual",
    scope: Scope | None = None,
) -> Program:
    """The program of `steps` steps of the solver, for every K with λ_max(K) ≤ max_eigenvalue.

    In the dual space the system is (K + λI)α = y; in feature space (ΦᵀΦ + λI)w = Φᵀy.
    """
    if steps < 1:
        raise Refusal(f"A program needs at least one step, got {steps}.")

    def run(variables: dict[int, str]) -> tuple[TracingMachine, list[dict[str, Channel | None]]]:
        machine = TracingMachine(ridge, max_eigenvalue, dtype, space, variables, scope)
        return machine, record_states(solver, machine, steps)

    try:
        # Only a finished step says which channels are the state, so a second run knows them.
        variables: dict[int, str] = {}
        for state in run({})[1]:
            for name, channel in state.items():
                if channel is not None:
                    variables.setdefault(channel.index, name)
        machine, states = run(variables)
    except Refusal as refusal:
        raise Refusal(f"{solver.name} cannot be compiled: {refusal}") from refusal
    return Program(
        solver.name,
        tuple(machine.ops),
        tuple(states),
        ridge,
        max_eigenvalue,
        machine.target_norm(),
        machine.norms,
        machine.scope.row_sums,
        solver.smooths,
    ).pruned()


def record_states(
    solver: Solver, machine: TracingMachine, steps: int
) -> list[dict[str, Channel | None]]:
    """Runs the solver on the machine; the channels of its state after each step."""

    def keep(state: Any) -> dict[str, Channel | None]:
        check_state(state)
        values = {n: v for n, v in state._asdict().items() if isinstance(v, Traced)}
        return {n: v.channel() if v.terms else None for n, v in values.items()}

    state = solver.init(machine)
    states = [keep(state)]
    for t in range(1, steps + 1):
        # Later steps read the state through its channels, so that each is computed once.
        fixed = {
            name: Traced(machine, getattr(state, name).kind, ((1.0, channel),))
            for name, channel in states[-1].items()
            if channel is not None
        }
        state = solver.step(machine, state._replace(**fixed), t)
        states.append(keep(state))
    return states


def sum_name(terms: tuple[tuple[float, Channel], ...]) -> tuple[str, str | None]:
    """Name and variable of a sum: Kv + λv is called Av; any other is an update of its first term."""
    known = {channel.name for _, channel in terms}
    for _, channel in terms:
        if f"K{channel.as_factor}" in known:
            return f"A{channel.as_factor}", None
    return terms[0][1].name, terms[0][1].variable
