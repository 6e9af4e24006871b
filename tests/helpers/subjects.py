"""Models whose method is known, for the evidence to find: compiled ones, and predictors read as models."""

from dataclasses import dataclass
from functools import cache

import torch

from ridgeformer.compiler import Exact, LinearAttention, SoftmaxAttention, compile
from ridgeformer.kernels import Gaussian
from ridgeformer.models import Reading, Subject, subject, trajectory
from ridgeformer.solvers import make_solver, solve
from ridgeformer.tasks import GaussianProcess, LinearRegression

TASK = LinearRegression()
"""The task of the shipped model `linear`."""
SMALL = LinearRegression(features=3, supports=12, queries=4, condition=10.0)
BOUND = 100.0
"""No prompt of the small task that is drawn in the tests has an eigenvalue of K above this."""
KERNEL = GaussianProcess(features=2, supports=10, queries=4, lengthscales=(0.7,))


def iterates(name, task=TASK, *, steps=8, interval=(2.0, 250.0), **options):
    """What reads the solver's own iterates, without a model."""
    law = task.law()

    def read(prompt):
        found = solve(
            make_solver(name, **options), prompt, steps=steps, ridge=law.ridge, kernel=law.kernel,
            interval=interval,
        )  # fmt: skip
        return found.predictions[1:]

    return read


@cache
def compiled(name, steps=4):
    return compile(
        make_solver(name), features=3, steps=steps, ridge=SMALL.ridge,
        to=LinearAttention(BOUND, products=Exact()),
    )  # fmt: skip


@cache
def softmax_richardson(steps=3):
    return compile(
        make_solver("richardson", "row-sum"), features=2, steps=steps, ridge=KERNEL.noise_variance,
        kernel=Gaussian(0.7), to=SoftmaxAttention(max_norm=1.5, max_supports=10),
    )  # fmt: skip


def read_exactly(model):
    """What reads a compiled model's iterates where its sites say they are."""
    return lambda prompt: trajectory(model, prompt).predictions[1:]


def compiled_subject(name, steps=4):
    return subject(compiled(name, steps))


@dataclass(frozen=True)
class Predictor(Subject):
    """A predictor as a model of one layer, whose stream at a query is x and the prediction."""

    predictor: object
    name: str = "predictor"

    def read(self, prompt):
        said = self.predictor(prompt)
        stream = torch.cat([prompt.phi_query, said], -1)
        supports = torch.cat([prompt.phi, prompt.y], -1)
        return Reading(said, torch.stack([stream, stream]), torch.stack([supports, supports]))
