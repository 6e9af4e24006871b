"""The pictures of the concepts, drawn from models that are compiled and run when the site is built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

import ridgeformer as rf
from ridgeformer.models import zoo

STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "0"}
GREY = "0.75"


def write_pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for draw in PICTURES:
        with mpl.rc_context(STYLE):
            figure = draw()
            path = folder / f"{draw.__name__}.svg"
            figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
            plt.close(figure)


def on_a_line(supports: int = 12) -> rf.Prompt:
    """Noisy values of a wave at points of a line, and queries all along it."""
    generator = torch.Generator().manual_seed(3)
    x = 2 * torch.rand(1, supports, 1, generator=generator, dtype=torch.float64) - 1
    noise = 0.1 * torch.randn(1, supports, 1, generator=generator, dtype=torch.float64)
    queries = torch.linspace(-1, 1, 160, dtype=torch.float64)[None, :, None]
    return rf.Prompt(x, torch.sin(4 * x) + noise, queries)


def wave_model(solver: rf.Solver, steps: int) -> rf.CompiledModel:
    to = rf.SoftmaxAttention(max_norm=1.0, max_supports=16, products=rf.Exact())
    return rf.compile(solver, kernel=rf.Gaussian(0.3), features=1, steps=steps, ridge=0.1, to=to)


def first_picture() -> Figure:
    """The errors of get-started.md."""
    task = rf.PrescribedSpectrum(features=8, supports=32, condition=100.0, ridge=1.0)
    prompt = task.draw(16, seed=0)
    to = rf.LinearAttention(task.max_eigenvalue)
    model = rf.compile(rf.ConjugateGradient(), features=8, steps=8, ridge=1.0, to=to)
    exact = rf.krr(prompt, ridge=1.0)
    textbook = rf.solve(rf.ConjugateGradient(), prompt, steps=8, ridge=1.0)
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.semilogy(rf.trajectory(model, prompt).distance(exact).amax(1), "o", label="transformer")
    axes.semilogy(textbook.distance(exact).amax(1), label="CG")
    axes.set(xlabel="step", ylabel="largest error")
    axes.legend()
    return figure


def what_a_layer_does() -> Figure:
    """The function that is fitted, after each of the first steps."""
    prompt = on_a_line()
    model = wave_model(rf.ConjugateGradient(), 4)
    found = rf.trajectory(model, prompt).predictions[:, 0, :, 0]
    exact = rf.krr(prompt, kernel=rf.Gaussian(0.3), ridge=0.1)[0, :, 0]
    x = prompt.phi_query[0, :, 0]
    figure, panels = plt.subplots(1, 5, figsize=(10, 2.6), sharey=True, layout="constrained")
    for step, axes in enumerate(panels):
        axes.plot(x, exact, color=GREY, lw=4, label="exact ridge regression")
        axes.plot(x, found[step], label="the model")
        axes.plot(prompt.phi[0, :, 0], prompt.y[0, :, 0], "k.", ms=5, label="supports")
        axes.set_title("before the first step" if step == 0 else f"step {step}", fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def who_reads_whom() -> Figure:
    """What three heads of one step of CG add up, from which token to which."""
    task = rf.PrescribedSpectrum(features=4, supports=6, queries=2, condition=10.0)
    prompt = task.draw(1, seed=1)
    to = rf.LinearAttention(task.max_eigenvalue)
    model = rf.compile(rf.ConjugateGradient(), features=4, steps=3, ridge=1.0, to=to)
    wanted = [("matvec", "Kp"), ("reduction", "pᵀAp"), ("broadcast", "alpha")]
    titles = ["product with K", "inner product", "handing a scalar back"]
    tokens = [*(f"s{i + 1}" for i in range(6)), "aggregator", "query 1", "query 2"]
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.9), sharey=True, layout="constrained")
    for axes, (role, does), title in zip(panels, wanted, titles, strict=True):
        head = next(h for h in model.heads() if role in h.roles and h.does == does and h.layer > 8)
        seen = visible(model, prompt, head.layer, head.head)
        largest = float(seen.abs().max())
        axes.imshow(seen, cmap="RdBu_r", vmin=-largest, vmax=largest)
        axes.set_xticks(range(9), tokens, rotation=90)
        axes.set_yticks(range(9), tokens)
        axes.set(title=f"{title}: {does}", xlabel="reads from")
    panels[0].set_ylabel("token that reads")
    return figure


def visible(model: rf.CompiledModel, prompt: rf.Prompt, layer: int, head: int) -> torch.Tensor:
    """How much each token adds to each, score times length of the value that is carried, where a token may read."""
    stream = rf.residual_stream(model, prompt)[2 * layer, 0]
    block = {
        name: model.transformer.state_dict()[f"blocks.{layer}.attn.{name}"][head]
        for name in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V")
    }
    q, k, v = (stream @ block[f"W_{n}"] + block[f"b_{n}"] for n in "QKV")
    scores = model.transformer.config.attn_scale * q @ k.T * v.norm(dim=-1)
    context = prompt.supports + 1
    allowed = torch.eye(len(stream), dtype=torch.bool)
    allowed[:, :context] = True
    return torch.where(allowed, scores, 0.0)


def promise_and_error() -> Figure:
    """Distances of a model to its solver, step by step, on many prompts, and what is promised."""
    task = rf.PrescribedSpectrum(features=6, supports=20, condition=50.0)
    to = rf.LinearAttention(task.max_eigenvalue)
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    prompt = task.draw(100, seed=0)
    for solver, colour in ((rf.Chebyshev(), "C0"), (rf.ConjugateGradient(), "C1")):
        model = rf.compile(solver, features=6, steps=10, ridge=1.0, to=to)
        own = rf.reference(model, prompt)
        apart = rf.trajectory(model, prompt).distance(own) / own.predictions.abs().amax((0, 2, 3))
        axes.semilogy(apart[1:].clamp(min=1e-17), ".", color=colour, ms=3, alpha=0.4)
        axes.plot([], [], ".", color=colour, label=f"{solver.name}, 100 prompts")
    axes.axhline(1e-9, color="k", ls="--", lw=1, label="10⁻⁹; beyond it, CG's own round-off counts")
    axes.set(
        xlabel="step", ylabel="distance to the solver,\nin units of the largest prediction",
        xticks=range(10), xticklabels=range(1, 11), ylim=(1e-17, 1e-3),
    )  # fmt: skip
    axes.legend()
    return figure


def depth_and_width() -> Figure:
    """Steps that a condition number needs, and the error that a number of neurons leaves."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for condition in (10.0, 100.0, 1000.0):
        task = rf.PrescribedSpectrum(features=8, supports=24, condition=condition)
        to = rf.LinearAttention(task.max_eigenvalue)
        model = rf.compile(rf.Chebyshev(), features=8, steps=60, ridge=1.0, to=to)
        prompt = task.draw(8, seed=0)
        errors = rf.trajectory(model, prompt).distance(rf.krr(prompt, ridge=1.0)).amax(1)
        left.semilogy(errors / errors[0], label=f"κ = {condition:g}")
    left.set(xlabel="layers (each is one step of Chebyshev iteration)")
    left.set(ylabel="error, relative to the start")
    left.legend()
    widths, certified, measured = (64, 128, 256, 512), [], []
    prompt = on_a_line(16)
    for width in widths:
        products = rf.Interpolated(max_target=2.0, width=width)
        to = rf.SoftmaxAttention(max_norm=1.0, max_supports=16, products=products)
        solver = rf.Richardson(precondition="row-sum")
        model = rf.compile(solver, kernel=rf.Gaussian(0.3), features=1, steps=60, ridge=0.5, to=to)
        certified.append(model.certificate.absolute_error or float("nan"))
        measured.append(float(rf.trajectory(model, prompt).distance(rf.reference(model, prompt)).max()))  # fmt: skip
    right.loglog(widths, certified, "s--", label="certified for every prompt of the domain")
    right.loglog(widths, measured, "o-", label="measured on one prompt")
    right.set(xlabel="neurons of each layer", ylabel="distance to the solver", xticks=widths, xticklabels=widths)  # fmt: skip
    right.minorticks_off()
    right.legend()
    return figure


def softmax_solves() -> Figure:
    """One softmax head smooths; many in a row solve."""
    prompt = on_a_line(16)
    x = prompt.phi_query[0, :, 0]
    to = rf.SoftmaxAttention(max_norm=1.0, max_supports=16)
    kernel = rf.Gaussian(0.3)
    one = rf.compile(rf.NadarayaWatson(), kernel=kernel, features=1, to=to)
    many = rf.trajectory(wave_model(rf.Richardson(precondition="row-sum"), 60), prompt)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    exact = rf.krr(prompt, kernel=kernel, ridge=0.1)[0, :, 0]
    axes.plot(x, exact, color=GREY, lw=5, label="exact ridge regression")
    axes.plot(x, one(prompt)[0, :, 0], "C3--", label="one head: the Nadaraya–Watson smoother")
    for steps, shade in ((3, 0.35), (10, 0.6), (60, 1.0)):
        axes.plot(x, many.predictions[steps, 0, :, 0], color="C0", alpha=shade, label=f"{steps} blocks")  # fmt: skip
    axes.plot(prompt.phi[0, :, 0], prompt.y[0, :, 0], "k.", label="supports")
    axes.legend(fontsize=9)
    return figure


def layers_beside_steps() -> Figure:
    """A trained model's layers beside the steps of three solvers, on the prompts of its task."""
    trained = zoo.load("linear-attention")
    task = trained.recipe.task
    prompt = task.draw(64, seed=0)
    best = task.best(prompt)
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    axes.plot(
        rf.trajectory(trained, prompt).distance(best).mean(1), "o-", label="trained, by layer"
    )
    for solver in (rf.GradientDescent(), rf.ConjugateGradient(), rf.GradientDescentPlus()):
        path = rf.solve(solver, prompt, steps=4, ridge=task.ridge)
        axes.plot(path.distance(best).mean(1), "--", label=f"{solver.name}, by step")
    axes.set(xlabel="layer or step", ylabel="mean largest distance\nto the best predictor", xticks=range(5))  # fmt: skip
    axes.legend()
    return figure


PICTURES: tuple[Callable[[], Figure], ...] = (
    first_picture, what_a_layer_does, who_reads_whom, promise_and_error, depth_and_width, softmax_solves,
    layers_beside_steps,
)  # fmt: skip
"""The name of each is that of its file."""
