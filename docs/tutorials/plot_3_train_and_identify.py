"""
Train a model and ask which solver it runs
==========================================

A small transformer is trained on in-context regression for a few seconds. Then ``identify`` reads it as it reads any model:
it fits the registered solvers to the layers and says which of them the evidence supports. A compiled model is read beside it,
since there the right answer is known.
"""

import tempfile
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import torch

import ridgeformer as rf
from ridgeformer.tasks import LinearRegression
from ridgeformer.training import Architecture, Group, Run, TrainingOptions

torch.set_num_threads(1)

# %%
# A recipe
# --------
# A recipe holds all that determines a run: the task, the architecture, the schedule and a seed. Our task is noisy linear regression with three
# features. The model has four layers of linear attention without an MLP, so that every layer computes a polynomial of the
# prompt. The recipes that are shipped train for minutes to hours; this one takes 600 steps, which are seconds.
task = LinearRegression(features=3, supports=12, queries=8, condition=3.0, noise=0.3)
recipe = rf.Recipe(
    name="small",
    seed=0,
    task=task,
    model=Architecture(
        n_layers=4, d_model=12, n_heads=2, d_head=6, d_mlp=0, attention="linear", norm="none"
    ),
    training=TrainingOptions(
        steps=600, batch=64, rate=5e-3, warmup=50, fewer_supports=0.0, evaluate_every=50
    ),
)
seen: list[tuple[int, float]] = []


def keep(step: int, scores: dict[str, float]) -> None:
    """Remembers the excess risk: 0 for the best predictor, 1 for the mean of y."""
    if scores:
        seen.append((step, scores["excess"]))


with tempfile.TemporaryDirectory() as folder:
    run = Run(recipe, Path(folder), Group())
    run.train(keep)
trained = rf.TrainedModel(run.model, recipe, {})

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.semilogy([step for step, _ in seen], [excess for _, excess in seen], "o-")
axes.set_xlabel("training step")
axes.set_ylabel("excess risk")
axes.set_title(f"On 256 held-out prompts: {seen[-1][1]:.3f} at the end")
plt.show()

# %%
# Layer by layer
# --------------
# The residual stream at a query is read by the model's own unembedding after every layer. For comparison, gradient descent and CG take as many steps, as
# numerics. The distance is that to ridge regression, which is the best predictor of this task.
prompt = task.draw(128, seed=1)
best = task.best(prompt)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(rf.trajectory(trained, prompt).distance(best).mean(1), "o-", label="trained, by layer")
for solver, label in ((rf.GradientDescent(), "gradient descent"), (rf.ConjugateGradient(), "CG")):
    steps = rf.solve(solver, prompt, steps=4, ridge=task.ridge)
    axes.plot(steps.distance(best).mean(1), "--", label=f"{label}, by step")
axes.set_xticks(range(5))
axes.set_xlabel("layer or step")
axes.set_ylabel("mean largest distance to ridge regression")
axes.legend()
plt.show()

# %%
# The verdict
# -----------
# ``identify`` fits every registered solver, with its λ and step size, to what the layers hold, and scores it on other prompts. The
# limits of the verdict were found on models whose answer is known. ``unexplained`` is the part of the prediction that the last step of a candidate
# does not explain. ``interior`` is 0 if its steps are in the layers, and 1 if the layers between the ends say nothing about them.
# Brackets hold 95 % intervals over prompts.


def within(number):
    """A number with its interval, where there is one."""
    if number.mean is None or number.low is None:
        return "not defined"
    return f"{number.value:.3f} [{number.low:.3f}, {number.high:.3f}]"


def verdict(subject: rf.Subject, on: LinearRegression) -> None:
    finding = rf.identify(subject, on, prompts=64, seed=2)
    print(fill(finding.settings["verdict"]["sentence"], 90))
    print("\ncandidate              unexplained                interior")
    for name in finding.settings["compared"]:
        numbers = [finding.get(measure, name) for measure in ("unexplained", "interior")]
        shown = [within(number) for number in numbers]
        print(f"{name:22s} {shown[0]:26s} {shown[1]}")


verdict(rf.subject(trained), task)

# %%
# A model whose answer is known
# -----------------------------
# The same call reads compiled gradient descent. The compiler has to be told a bound on the eigenvalues that prompts of this task have.
largest = max(
    float(torch.linalg.matrix_norm(p.phi, 2).square().max())
    for p in (task.draw(256, seed=s) for s in range(3))
)
compiled = rf.compile(
    rf.GradientDescent(),
    features=3,
    steps=4,
    ridge=task.ridge,
    to=rf.LinearAttention(max_eigenvalue=2 * largest),
)
verdict(rf.subject(compiled), task)

# %%
# What this shows, and what it does not
# -------------------------------------
# This was one seed, one small task and seconds of training, so the first verdict is about this model alone. If another candidate has small numbers beside
# the right one, this is no contradiction: with few steps, one method can be blended from another. The shipped models were trained for minutes to
# an hour or more, and :doc:`/identification` has the verdicts on two seeds of each, the method, and how often it errs on models whose
# answer is known. A verdict of "none of these" says that no registered solver passes the limits. It does not say that the model runs no algorithm.
