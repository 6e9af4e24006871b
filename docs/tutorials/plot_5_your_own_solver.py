"""
Your own solver
===============

A solver is one class. Written once, it runs as numerics, compiles to weights, has a certificate, and the general theorems are
measured on it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

import ridgeformer as rf

# %%
# The recurrence
# --------------
# Our solver is gradient descent that starts each step from the mean of its last two iterates. A solver has a state, which holds ``alpha``, and
# speaks to a ``Machine``: ``m.matvec`` is a product with K + λI, and ``m.interval`` is the interval in which the eigenvalues of this matrix lie.
# With ``m.bound`` the solver says how large a vector becomes, and why, because a ReLU network has to know the range of what it multiplies.


class Averaged(NamedTuple):
    alpha: Any
    before: Any


@rf.register
@dataclass(frozen=True)
class AveragedDescent(rf.Solver):
    """α ← ½(α + α₋) + η(y − A(α + α₋)/2): gradient descent from the mean of the last two iterates."""

    name = "averaged-descent"

    def init(self, m):
        return Averaged(m.zeros(), m.zeros())

    def step(self, m, s, t):
        lo, hi = m.interval("none")
        middle = m.bound(
            0.5 * s.alpha + 0.5 * s.before,
            lambda: 2 * m.solution_norm(),
            "errors of a mode stay below that of the start, since |1 − ησ| < 1",
        )
        step = 2 / (lo + hi) * (m.target() - m.matvec(middle))
        alpha = m.bound(
            middle + step,
            lambda: 2 * m.solution_norm(),
            "a mean of two errors is no larger than the larger one, and the step shrinks it",
        )
        return Averaged(alpha, s.alpha)


# %%
# As numerics, and as a transformer
# ---------------------------------
task = rf.PrescribedSpectrum(features=6, supports=20, condition=20.0, ridge=1.0)
prompt = task.draw(16, seed=0)
target = rf.LinearAttention(max_eigenvalue=task.max_eigenvalue)
model = rf.compile(AveragedDescent(), features=6, steps=20, ridge=1.0, to=target)
print(model)
numerics = rf.reference(model, prompt)
layers = rf.trajectory(model, prompt)
print(f"largest difference of any step: {float(layers.distance(numerics).max()):.1e}")

# %%
# Is it any good?
# ---------------
# We compare it with gradient descent and heavy ball, which have their best coefficients. Taking the mean damps the modes of large eigenvalues, in which
# gradient descent with this step length swings to and fro. It does little for the modes of small eigenvalues, and heavy ball overtakes it in the end.
exact = rf.krr(prompt, ridge=1.0)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for solver in (rf.GradientDescent(), AveragedDescent(), rf.HeavyBall()):
    path = rf.solve(solver, prompt, steps=20, ridge=1.0, max_eigenvalue=task.max_eigenvalue)
    axes.semilogy(path.distance(exact).amax(1), label=f"{solver.name}, numerics")
axes.semilogy(layers.distance(exact).amax(1), "k.", label="averaged-descent, transformer")
axes.set_xticks(range(0, 21, 4))
axes.set_xlabel("step")
axes.set_ylabel("largest error over 16 prompts")
axes.legend()
plt.show()

# %%
# The general theorems
# --------------------
# ``verify_solver`` measures the theorems that hold for any solver on this one. If a theorem does not apply, it is named with the reason.
report = rf.verify_solver(AveragedDescent(), to=target, features=6, steps=8, ridge=1.0, fast=True)
print(report)
assert report.holds

# %%
# The same file serves the command line: ``ridgeformer --import FILE.py compile averaged-descent …``. Kernels, tasks, theorems and
# exporters of your own are registered in the same way; :doc:`/contributing` says what each has to offer.
