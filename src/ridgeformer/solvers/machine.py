"""The `Machine`: the few operations that solvers are written in, and the eager machine that runs them.

A recurrence is written once, against these operations. The eager machine below computes with
tensors; the tracing machine of `ridgeformer.program` records the same calls as a program.

Three kinds of value flow through a recurrence. A *vector* has one entry per support and output, and a
*scalar* has one per output; `+`, `−` and `*` work on both. An *operator* is a polynomial in A, such as an
approximate inverse. Operators can be added, and multiplied by numbers; they commute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from ridgeformer.kernels import Kernel
from ridgeformer.solvers.ridge import check_ridge, largest_entry
from ridgeformer.tasks import Prompt, check_prompt
from ridgeformer.types import Refusal

Value = Any
"""A tensor in the eager machine, a traced value in the tracing machine."""

Bounds = Callable[[], tuple[float, float]]
"""Bounds are thunks: only a machine that needs them pays for working them out."""

Precondition = Literal["none", "jacobi", "row-sum"]
Interval = tuple[float, float]


def certified_interval(
    kind: Precondition, ridge: float, max_eigenvalue: float, row_sums: Interval | None = None
) -> Interval:
    """An interval that holds every eigenvalue of P⁻¹A, from λ, λ_max(K) ≤ L and bounds on row sums."""
    lo, hi = ridge, ridge + max_eigenvalue
    if kind == "none":
        return lo, hi
    if kind == "jacobi":  # P = diag(A), whose entries lie in [λ, λ + L] themselves
        return lo / hi, hi / lo
    if row_sums is None:
        raise Refusal(
            "The row-sum preconditioner has no interval that follows from λ and λ_max(K) alone: "
            "leave `max_eigenvalue` out, so that the interval is computed from the prompts."
        )
    # D⁻¹K has non-negative rows that sum to less than 1, and λD⁻¹ adds λ/D at most.
    least, most = row_sums
    return ridge / most, 1 + ridge / least


class Machine(ABC):
    """What a solver may do. `A = K + λI` throughout."""

    ridge: float

    def matvec(self, v: Value) -> Value:
        """A v."""
        return self.kernel_product(v) + self.ridge * v

    def inverse_preconditioner(self, kind: Precondition) -> Value | None:
        """The diagonal of P⁻¹ as a multiplier of vectors, or None for P = I."""
        if kind == "none":
            return None
        if kind == "jacobi":
            diagonal = self.assume(
                self.diagonal() + self.ridge,
                lambda: self.preconditioner_range("jacobi"),
                "a diagonal entry of A lies between its extreme eigenvalues",
            )
            return self.reciprocal(diagonal)
        sums = self.assume(
            self.row_sums(),
            lambda: self.preconditioner_range("row-sum"),
            "every kernel value lies within the bounds of the domain",
        )
        return self.reciprocal(sums)

    @abstractmethod
    def target(self) -> Value:
        """The right-hand side y."""

    @abstractmethod
    def zeros(self) -> Value: ...

    @abstractmethod
    def kernel_product(self, v: Value) -> Value:
        """K v."""

    @abstractmethod
    def diagonal(self) -> Value:
        """The entries K_ii."""

    @abstractmethod
    def row_sums(self) -> Value:
        """1 + Σ_j K_ij, the normaliser of softmax attention with a sink of logit 0."""

    @abstractmethod
    def dot(self, u: Value, v: Value) -> Value:
        """uᵀv, one scalar per output."""

    @abstractmethod
    def reciprocal(self, x: Value, near: Value | None = None) -> Value:
        """1/x for positive x; a zero gives 0, so that a solved system stays solved.

        `near` is a number that is close to x and known earlier, with a range that was assumed for it.
        It does not change the result: a machine may begin with it before x is there.
        """

    @abstractmethod
    def unit(self, x: Value, bounds: Bounds, power: float = 0.5) -> Value:
        """A positive number near x^(−power), not more accurate than a change of scale needs."""

    @abstractmethod
    def hold(self, x: Value, lo: float, hi: float) -> Value:
        """x above hi, 0 below lo: no step is taken on a residual that is not worth one."""

    @abstractmethod
    def assume(self, x: Value, bounds: Bounds, why: str) -> Value:
        """x, with bounds that hold by a theorem; a machine of finite range may clamp x to them."""

    @abstractmethod
    def bound(self, v: Value, norm: Callable[[], float], why: str) -> Value:
        """v, with a bound on its Euclidean norm, or on a scalar's size, that holds by a theorem."""

    def reciprocal_within(self, x: Value, bounds: Bounds, why: str) -> Value:
        """1/x for a scalar x that lies within positive bounds by a theorem, or for a number x."""
        if isinstance(x, (int, float)):
            return 1 / x
        return self.reciprocal(self.assume(x, bounds, why))

    def solution_norm(self) -> float:
        """‖y‖/λ, a bound on ‖α*‖, and on ‖α*‖_A/√λ."""
        return self.target_norm()[1] / self.ridge

    def preconditioner_range(self, kind: Precondition) -> Interval:
        """The range of the entries of P."""
        if kind == "row-sum":
            raise Refusal("Row sums are bounded only where a domain bounds the kernel's values.")
        return (1.0, 1.0) if kind == "none" else self.interval("none")

    @abstractmethod
    def interval(self, kind: Precondition) -> Interval:
        """An interval that holds the eigenvalues of P⁻¹A; fixed coefficients are optimal for it."""

    @abstractmethod
    def target_norm(self) -> Interval:
        """The range of ‖y‖ that the machine serves."""

    @abstractmethod
    def dense_system(self) -> Value:
        """A itself, for solvers that need its entries."""

    @abstractmethod
    def identity(self) -> Value:
        """The operator I."""

    @abstractmethod
    def product(self, left: Value, right: Value, key: Value | None = None) -> Value:
        """The operator left·A·right, or left·A·key·right."""

    @abstractmethod
    def apply(self, operator: Value, v: Value, key: Value | None = None) -> Value:
        """The vector operator·v, or key·operator·v."""


class EagerMachine(Machine):
    """Runs a recurrence on a batch of prompts: vectors are [batch, k, r], scalars [batch, 1, r]."""

    def __init__(
        self,
        prompt: Prompt,
        kernel: Kernel,
        ridge: float,
        max_eigenvalue: float | None = None,
        interval: Interval | None = None,
    ) -> None:
        check_prompt(prompt)
        check_ridge(
            ridge, largest_entry(kernel, prompt), str(prompt.phi.dtype).removeprefix("torch.")
        )
        self.prompt, self.kernel, self.ridge = prompt, kernel, ridge
        self.max_eigenvalue, self.fixed_interval = max_eigenvalue, interval
        # A kernel of few features never needs the k×k matrix.
        self.factor = kernel.factor(prompt.phi)
        self.gram = kernel(prompt.phi, prompt.phi) if self.factor is None else None
        self.cross = kernel(prompt.phi_query, prompt.phi)
        if not all(torch.isfinite(m).all() for m in (self.gram, self.cross) if m is not None):
            raise Refusal(
                f"Values of the {kernel.name} kernel leave the range of {self.cross.dtype}: raise the "
                "temperature, or scale the features down."
            )

    def target(self) -> Tensor:
        return self.prompt.y

    def zeros(self) -> Tensor:
        return torch.zeros_like(self.prompt.y)

    def kernel_product(self, v: Tensor) -> Tensor:
        if self.factor is not None:
            return self.factor @ (self.factor.mT @ v)
        assert self.gram is not None
        return self.gram @ v

    def predict(self, alpha: Tensor) -> Tensor:
        """k(x)ᵀα at the queries."""
        return self.cross @ alpha

    def smooth(self, values: Tensor) -> Tensor:
        """Σ_j k_j(x) v_j / Σ_j k_j(x) at the queries."""
        total = self.cross.sum(-1, keepdim=True)
        if (total <= 0).any():
            raise Refusal(
                f"The {self.kernel.name} kernel's weights sum to {float(total.min()):.3g} at some "
                "query: the smoother needs a kernel whose values are positive."
            )
        return self.predict(values) / total

    def diagonal(self) -> Tensor:
        return self.kernel.diagonal(self.prompt.phi)

    def row_sums(self) -> Tensor:
        sums = 1 + self.kernel_product(torch.ones_like(self.prompt.y[..., :1]))
        if (sums <= 0).any():
            raise Refusal(
                "The row-sum preconditioner needs positive row sums, which the "
                f"{self.kernel.name} kernel does not give here: use 'jacobi' or 'none'."
            )
        return sums

    def dot(self, u: Tensor, v: Tensor) -> Tensor:
        return (u * v).sum(1, keepdim=True)

    def reciprocal(self, x: Tensor, near: Tensor | None = None) -> Tensor:
        return torch.where(x == 0, 0.0, 1 / torch.where(x == 0, 1.0, x))

    def unit(self, x: Tensor, bounds: Bounds, power: float = 0.5) -> Tensor:
        # A power of two: multiplying by it is exact, so rescaling leaves no trace in the iterates.
        exponent = -(torch.log2(torch.where(x > 0, x, 1.0)) * power).round()
        return torch.exp2(exponent)

    def hold(self, x: Tensor, lo: float, hi: float) -> Tensor:
        return x

    def assume(self, x: Tensor, bounds: Bounds, why: str) -> Tensor:
        return x

    def bound(self, v: Tensor, norm: Callable[[], float], why: str) -> Tensor:
        return v

    def interval(self, kind: Precondition) -> Interval:
        if self.fixed_interval is not None:
            return self.fixed_interval
        if self.max_eigenvalue is not None:
            return certified_interval(kind, self.ridge, self.max_eigenvalue)
        inverse = self.inverse_preconditioner(kind) if kind != "none" else None
        system = self.dense_system()
        if inverse is not None:  # similar to P⁻¹A, and symmetric
            system = inverse.sqrt() * system * inverse.sqrt().mT
        values = torch.linalg.eigvalsh(system)
        return float(values.min().clamp(min=0)), float(values.max())

    def target_norm(self) -> Interval:
        return 0.0, float("inf")

    def identity(self) -> Tensor:
        """Operators are dense matrices, [batch, k, k]."""
        batch, k, _ = self.prompt.phi.shape
        phi = self.prompt.phi
        return torch.eye(k, dtype=phi.dtype, device=phi.device).expand(batch, k, k)

    def product(self, left: Tensor, right: Tensor, key: Tensor | None = None) -> Tensor:
        return left @ (self.dense_system() @ (right if key is None else key @ right))

    def apply(self, operator: Tensor, v: Tensor, key: Tensor | None = None) -> Tensor:
        image = operator @ v
        return image if key is None else key @ image

    def dense_system(self) -> Tensor:
        gram = self.kernel(self.prompt.phi, self.prompt.phi) if self.gram is None else self.gram
        return gram + self.ridge * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
