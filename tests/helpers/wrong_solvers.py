"""Solvers with one thing wrong, under their own names: what an instrument must tell from the right ones."""

from dataclasses import dataclass

from ridgeformer.solvers import Chebyshev, ConjugateGradient
from ridgeformer.solvers.chebyshev import ChebyshevState
from ridgeformer.solvers.richardson import preconditioned


@dataclass(frozen=True)
class ConstantLength(ConjugateGradient):
    """The directions of conjugate gradients, with a length of step that is the same in all prompts."""

    name = "constant-length"

    def step(self, m, s, t):
        lo, hi = m.interval("none")
        gamma = 1 / (lo + hi)
        Ap = m.matvec(s.p)
        r = s.r - gamma * Ap
        z = preconditioned(r, s.inverse)
        rho = m.dot(r, z)
        p = z + rho * s.inverse_rho * s.p
        alpha = s.alpha + gamma * s.scale * s.p
        bounds = lambda: (0.0, 1e4)  # noqa: E731
        return self.rescaled(m, t, alpha, r, p, rho, s.scale, s.inverse, bounds)


@dataclass(frozen=True)
class WrongWeight(Chebyshev):
    """Chebyshev's recurrence with ω_{t+1} = 1/(1 − 0.8·ω_t ρ²/4)."""

    name = "wrong-weight"

    def step(self, m, s, t):
        rho = self.centre_and_radius(m)[1]
        correction = self.correction(m, s)
        previous = s.alpha + correction if s.previous is None else s.previous
        omega = m.reciprocal_within(s.divisor, lambda: (0.5, 1.0), "1 ≤ ω ≤ 2")
        alpha = previous + omega * (s.alpha - previous + correction)
        return ChebyshevState(alpha, s.alpha, s.inverse, 1 - 0.8 * rho**2 / 4 * omega)
