"""Dot products from softmax heads: the kernel of linear attention, to any order of accuracy.

With logits ε⟨φ_j, φ_i⟩ a head returns g(ε) = Σ e^{εs_i}v_i / Σ e^{εs_i}, s_i = ⟨φ_j, φ_i⟩, over the k
supports and the aggregator, where s = v = 0. Its derivative at 0 is the covariance of s and v:

    g′(0) = (K v)_j/(k+1) − (K 1)_j/(k+1)·v̄,     v̄ = Σ v_i/(k+1),

so K v = (k+1)·g′(0) + v̄·K1. Heads in pairs at ±cε, c = 1 … h, give the derivative with an error of
order ε^{2h}: weights with Σ w_c c = 1 and Σ w_c c³ = Σ w_c c⁵ = … = 0 cancel the other odd powers, and
even ones cancel within a pair. K1 = (k+1)·⟨φ_j, φ̄⟩ depends on the data alone and is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.compiler.backends.arithmetic import Sum
from ridgeformer.compiler.backends.softmax import SoftmaxLowering
from ridgeformer.compiler.circuit import Cell, Form, Output, form_key, piece, scaled, whole
from ridgeformer.program.ops import Diagonal, Op
from ridgeformer.theory import extrapolation_weights


@dataclass
class DotProductLowering(SoftmaxLowering):
    head_pairs: int = 4
    epsilon: float = 0.01

    def matvec(self, v: Form, name: str, variable: str | None, bound: tuple[float, float]) -> Sum:
        derivative, mean = self.derivative(v, name, variable), self.kept_mean(v)
        count, sums = whole(self.count()), whole(self.kernel_sums())
        return Sum((), ((1.0, (count, whole(derivative))), (1.0, (sums, whole(mean)))))

    def derivative(self, v: Form, name: str, variable: str | None) -> Cell:
        """g′(0), by 2h heads that write to the same channels."""
        key = ("derivative", form_key(v))
        if key in self.fits:
            return self.fits[key]
        s, phi = self.s, whole(self.phi)
        down = whole(s.query, -self.push)
        time = s.attention_time([phi, v])
        out = s.new(name, "everywhere", self.outputs, time)
        for c, weight in enumerate(extrapolation_weights(self.head_pairs), start=1):
            for sign in (1.0, -1.0):
                keys = [scaled(phi, sign * c * self.epsilon), down]
                share = scaled(v, sign * weight / (2 * self.epsilon))
                queries = [phi, s.common()]
                s.head(
                    time, "matvec", name, "everywhere", "data", queries, keys,
                    [Output(share, out)], variable=variable,
                )  # fmt: skip
        self.fits[key] = out
        return out

    def kept_mean(self, v: Form) -> Cell:
        key = ("mean", form_key(v))
        if key not in self.fits:
            self.fits[key] = self.mean(v, "mean")
        return self.fits[key]

    def kernel_sums(self) -> Cell:
        """K 1 = (k+1)·⟨φ_j, φ̄⟩"""

        def make() -> Cell:
            phi, mean = whole(self.phi), whole(self.mean(whole(self.phi), "mean φ"))
            terms = [(1.0, piece(phi, a, 1), piece(mean, a, 1)) for a in range(self.features)]
            inner = self.multiplier.store(self.s, 1, (), terms, "φ·mean φ")
            product = [(1.0, whole(self.count()), whole(inner))]
            return self.multiplier.store(self.s, 1, (), product, "K1")

        return self.kept("K1", make)

    def lower(self, op: Op) -> object:
        if isinstance(op, Diagonal):  # |φ_i|², a product within the token
            entries = [piece(whole(self.phi), a, 1) for a in range(self.features)]
            return Sum(whole(self.multiplier.sum_of_squares(self.s, 1.0, entries, "|φ|²")))
        return super().lower(op)
