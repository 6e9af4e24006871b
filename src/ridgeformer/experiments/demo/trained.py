"""The demo's third part: trained models beside compiled CG, on the same prompts, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from sklearn import linear_model
from torch import Tensor

from ridgeformer.compiler import compile
from ridgeformer.experiments.report import Axis, Line, Plot, Section, Table, line_figure
from ridgeformer.models import trajectory, zoo
from ridgeformer.models.trained import query_streams
from ridgeformer.solvers import ConjugateGradient
from ridgeformer.statistics import Estimate
from ridgeformer.tasks import LinearRegression, Prompt
from ridgeformer.training import Held, TrainedModel
from ridgeformer.training.scores import excess

PROMPTS, STEPS, MAX_EIGENVALUE = 512, 8, 1000.0
MODELS = ("linear", "linear-attention")
HEADER = [
    "after step or layer",
    "compiled CG",
    "linear, own readout",
    "linear, fitted readout",
    "linear attention, fitted readout",
]
COLORS = ("#e07b39", "#9aa5b8", "#2f5fd0", "#2a9d8f")


@dataclass(frozen=True)
class TrainedFinding:
    """Excess risk after each step or layer, by column of the table."""

    columns: list[list[Estimate]]

    @property
    def rows(self) -> list[list[str]]:
        length = max(map(len, self.columns))
        return [
            [str(t), *(shown(column[t]) if t < len(column) else "" for column in self.columns)]
            for t in range(length)
        ]


def measure(seed: int) -> TrainedFinding:
    models = [zoo.load(name) for name in MODELS]
    task = models[0].recipe.task
    assert isinstance(task, LinearRegression)  # the model's name says so
    held, fitted_on = (Held.draw(task, PROMPTS, s) for s in (seed, seed + 1))
    cg = compile(
        ConjugateGradient(),
        features=task.features,
        steps=STEPS,
        ridge=task.ridge,
        max_eigenvalue=MAX_EIGENVALUE,
    )
    prompt = held.sample.prompt
    found = [
        trajectory(cg, prompt).predictions,
        trajectory(models[0], prompt).predictions,
        *(fitted_readouts(model, prompt, fitted_on) for model in models),
    ]
    return TrainedFinding(
        [[excess(layer.double(), held, task.exact) for layer in each] for each in found]
    )


def fitted_readouts(model: TrainedModel, prompt: Prompt, other: Held) -> Tensor:
    """Least squares on the stream of each layer at the queries, fitted to the targets of other prompts."""
    streams = query_streams(model, prompt)
    known = query_streams(model, other.sample.prompt)
    targets = other.sample.targets.flatten(0, 1).numpy()
    found = [
        linear_model.LinearRegression().fit(rows(x), targets).predict(rows(z))
        for x, z in zip(known, streams, strict=True)
    ]
    return torch.stack([torch.from_numpy(f).view(*streams.shape[1:3], 1) for f in found])


def rows(stream: Float[Tensor, "batch q d_model"]) -> np.ndarray:
    found: np.ndarray = stream.flatten(0, 1).double().numpy()
    return found


def shown(value: Estimate) -> str:
    return "not defined" if value.mean is None else f"{value.mean:.2g}"


def section(finding: TrainedFinding) -> Section:
    lines = []
    for name, column, color in zip(HEADER[1:], finding.columns, COLORS, strict=True):
        mean, low, high = (
            [max(getattr(e, part) or 0.0, 1e-6) for e in column] for part in ("mean", "low", "high")
        )
        x = list(range(len(column)))
        lines.append(Line(name, x, mean, color, low, high, mode="lines+markers"))
    return Section(
        "Trained models beside compiled CG",
        "Linear regression in 8 dimensions with condition numbers from 1 to 100, 32 supports. Excess risk "
        "is 0 for the Bayes predictor, ridge regression, and 1 for the mean. CG is compiled with the ridge "
        "of the task and read after each step; the trained models, which saw nothing but prompts and "
        "targets, after each layer, through their own readout and through one that least squares fits "
        "for each layer on other prompts, where noise costs it about 0.001. The own readout is only trained to be "
        "read after the last layer. CG solves for one weight per support, and its predictions come near the "
        "solution only when it is nearly done, after as many steps as there are eigenvalues: from the second "
        "layer on, and until then, trained models are ahead.",
        [
            line_figure([[Plot("", lines)]], Axis("step, or layer"), Axis("excess risk", log=True)),
            Table(HEADER, finding.rows),
        ],
    )
