"""
Compile and dissect conjugate gradients
=======================================

A solver becomes the weights of a transformer. We compile conjugate gradients (CG), look at what the heads of the transformer do and at what
its residual stream holds, compare it with SciPy's ``cg`` step by step, and then switch one head off.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg

import ridgeformer as rf

# %%
# A problem, and a model for it
# -----------------------------
# A prompt holds supports (φ, y), which are examples, and queries. This task draws features for which the matrix K + λI has the
# condition number 30, so the largest eigenvalue of K is 29 λ. This bound is the domain of the model that we compile.
task = rf.PrescribedSpectrum(features=6, supports=20, condition=30.0, ridge=1.0)
prompt = task.draw(8, seed=0)
STEPS = 6
model = rf.compile(
    rf.ConjugateGradient(),
    features=6,
    steps=STEPS,
    ridge=1.0,
    to=rf.LinearAttention(max_eigenvalue=task.max_eigenvalue),
)
print(model)

# %%
# What its heads do
# -----------------
# A compiled model says of every head what it is for. A step takes seven layers, and these are the heads of the second step, which begins
# with its product with the kernel matrix, a ``matvec`` from token to token. A ``reduction`` adds up an inner product at the aggregator, a
# token without data. A ``broadcast`` hands a scalar from the aggregator back to the tokens. The heads called ``reciprocal`` and ``product``
# do arithmetic on the scalars, since CG has to divide by pᵀAp and by rᵀr.
begin = model.heads(role="matvec")[1].layer
second = [head for head in model.heads() if begin <= head.layer < begin + 7]
print("layer head  what it is for           what it computes")
for head in second:
    print(f"{head.layer:5d} {head.head:4d}  {', '.join(head.roles):24s} {head.does}")

# %%
# What the residual stream holds
# ------------------------------
# The picture shows the stream of one support in one prompt. Each row is a column of the stream, and time runs from the embedding on
# the left to the last layer on the right. A value changes where a sublayer writes. The model says where each iterate is: the coefficient
# α of this support stays in one column, while the residual r and the direction p are overwritten in each step.
stream = rf.residual_stream(model, prompt)[:, 0, 0]
features = 6
columns = model.sites["channels"]["data"]
names = ["/".join(dict.fromkeys(held))[:22] or "(used elsewhere)" for held in columns]
scale = stream.abs().amax(0).clamp(min=1e-12)
figure, axes = plt.subplots(figsize=(8, 5.6), layout="constrained")
image = axes.imshow((stream / scale).T, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1)
axes.set_yticks(range(len(names)), names, fontsize=8)
axes.set_xticks(range(0, len(stream), 14), [f"{n // 2}" for n in range(0, len(stream), 14)])
axes.set_xlabel("layers that have been run")
axes.set_title("The residual stream at one support, each column in units of its largest value")
figure.colorbar(image, ax=axes, shrink=0.8)
plt.show()

# %%
# The same numbers as SciPy
# -------------------------
# SciPy solves (K + λI) α = y and knows nothing of transformers. Its callback shows every iterate. The model holds its
# own iterates in the stream, and ``trajectory(…, states=True)`` reads them.
ours = rf.trajectory(model, prompt, states=True)
phi, y = prompt.phi[0].numpy(), prompt.y[0, :, 0].numpy()
system = LinearOperator((20, 20), matvec=lambda v: phi @ (phi.T @ v) + v, dtype=float)
iterates = [np.zeros(20)]
cg(system, y, rtol=0.0, atol=0.0, maxiter=STEPS, callback=lambda x: iterates.append(x.copy()))
print("step   largest |α − α of SciPy|   |α|")
for t, theirs in enumerate(iterates):
    found = ours.states["alpha"][t, 0, :, 0].numpy() if t else np.zeros(20)
    print(f"{t:4d} {np.abs(found - theirs).max():20.1e} {np.abs(theirs).max():13.2f}")

# %%
# Switch one head off
# -------------------
# The fourth product with K is one head in one layer. Without this head the solver believes that K p = 0 in the fourth step. It
# takes a wrong step, its residual no longer belongs to its iterate, and it does not recover.
fourth = model.heads(role="matvec")[3]
exact = rf.krr(prompt, ridge=1.0)
intact = ours.distance(exact).amax(1)
edits = [rf.ablate_head(fourth.layer, fourth.head)]
cut = rf.trajectory(model, prompt, edits=edits).distance(exact).amax(1)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.semilogy(intact, "o-", label="as compiled")
axes.semilogy(cut, "s--", label=f"without head {fourth.head} of layer {fourth.layer}")
axes.axvline(4, color="0.8", zorder=0)
axes.set_xlabel("step of CG")
axes.set_ylabel("largest error against exact ridge regression")
axes.legend()
plt.show()

# %%
# Up to the third step nothing has changed, to the last bit, because nothing before the head depends on it. This is what
# makes compiled models useful for testing interpretability tools: the right answer is known.
print(bool(torch.equal(intact[:4], cut[:4])), f"{float(intact[-1]):.1e}", f"{float(cut[-1]):.1e}")
