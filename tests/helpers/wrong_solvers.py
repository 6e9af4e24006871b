"""Solvers with one thing wrong, under their own names: what an instrument must tell from the right ones."""

from dataclasses import dataclass

from ridgeformer.solvers import Chebyshev, ConjugateGradient
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
    """Chebyshev's recurrence with weights that come one step late: ω₂ = 1, ω₃ = 1/(1 − ρ²/2), …

    A wrong ρ would not do, as it is right for another interval, and ω₂ = 1/(1 − ρ²/4) gives polynomials of the second
    kind, which another interval imitates to 0.001.
    """

    name = "wrong-weight"

    def step(self, m, s, t):
        rho = self.centre_and_radius(m)[1]
        right = super().step(m, s, t)
        late = {1: 1.0, 2: 1 - rho**2 / 2}
        return right._replace(divisor=late.get(t, right.divisor))
