"""The demo's third part: trained models beside compiled CG, on the same prompts, layer by layer."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LinearRegression
from torch import Tensor

from ridgeformer.compiler import LinearAttention, compile
from ridgeformer.experiments.demonstration.conjugate_gradients import PROSE
from ridgeformer.experiments.finding import Axes, Collector, Figure, Finding, Number, Table
from ridgeformer.experiments.wording import line
from ridgeformer.models import trajectory, zoo
from ridgeformer.models.trained import query_streams
from ridgeformer.solvers import ConjugateGradient
from ridgeformer.tasks import Prompt
from ridgeformer.training import Held, TrainedModel
from ridgeformer.training.scores import excess

PROMPTS, STEPS, MAX_EIGENVALUE = 512, 8, 1000.0
MODELS = ("linear", "linear-attention")
METHODS = {
    "compiled CG": "#e07b39",
    "linear, own readout": "#9aa5b8",
    "linear, fitted readout": "#2f5fd0",
    "linear attention, fitted readout": "#2a9d8f",
}
CG, _, FITTED, _ = METHODS
MEASURES = {
    "excess": "(MSE − best)/(Var y − best), after each step or layer; 0 is the Bayes predictor"
}
LEAST = 1e-6
"""An excess below this is drawn here."""


def trained(seed: int) -> Finding:
    models = [zoo.load(name) for name in MODELS]
    task = models[0].recipe.task
    assert task.ridge is not None  # of linear regression
    held, fitted_on = (Held.draw(task, PROMPTS, s) for s in (seed, seed + 1))
    cg = compile(
        ConjugateGradient(), features=task.features, steps=STEPS, ridge=task.ridge,
        to=LinearAttention(MAX_EIGENVALUE),
    )  # fmt: skip
    prompt = held.sample.prompt
    runs = [
        trajectory(cg, prompt).predictions,
        trajectory(models[0], prompt).predictions,
        *(fitted_readouts(model, prompt, fitted_on) for model in models),
    ]
    out = Collector(PROMPTS, seed)
    for method, run in zip(METHODS, runs, strict=True):
        for depth, predictions in enumerate(run):
            value = excess(predictions.double(), held, task.exact)
            out.add("excess", method, value, method == CG, depth=depth)
    settings = {"task": task.to_dict(), "models": list(MODELS)}
    return described(Finding("trained", seed, PROMPTS, settings, MEASURES, out.numbers))


def fitted_readouts(model: TrainedModel, prompt: Prompt, other: Held) -> Tensor:
    """Least squares on the stream of each layer at the queries, fitted to the targets of other prompts."""
    streams = query_streams(model, prompt)
    known = query_streams(model, other.sample.prompt)
    targets = other.sample.targets.flatten(0, 1).numpy()
    fitted = [
        LinearRegression().fit(matrix(x), targets).predict(matrix(z))
        for x, z in zip(known, streams, strict=True)
    ]
    return torch.stack([torch.from_numpy(f).view(*streams.shape[1:3], 1) for f in fitted])


def matrix(stream: Float[Tensor, "batch q d_model"]) -> np.ndarray:
    """One row for each query of each prompt."""
    return np.asarray(stream.flatten(0, 1).double())


def described(finding: Finding) -> Finding:
    """The finding with its figure, table and sentences, which are worked out from its numbers."""
    columns = {method: finding.select("excess", method) for method in METHODS}
    lines = [
        line(method, range(len(column)), [drawn(n) for n in column], METHODS[method])
        for method, column in columns.items()
    ]
    cells = [[f"{n.value:.2g}" for n in column] for column in columns.values()]
    rows = enumerate(zip_longest(*cells, fillvalue=""))
    both = enumerate(zip(columns[FITTED], columns[CG], strict=False))
    ahead = [t for t, (fitted, own) in both if fitted.ends[1] < own.ends[0]]
    return replace(
        finding,
        figures=[Figure.of(lines, Axes("step, or layer", "excess risk"))],
        tables=[Table(["after step or layer", *METHODS], [[str(t), *row] for t, row in rows])],
        **PROSE.titled("trained", ahead=ahead),
    )


def drawn(number: Number) -> Number:
    """A number that a logarithmic axis can show."""
    mean, low, high = (max(v or 0.0, LEAST) for v in (number.mean, number.low, number.high))
    return replace(number, mean=mean, low=low, high=high)
