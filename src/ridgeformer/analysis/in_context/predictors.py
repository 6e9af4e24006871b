"""Predictors on given features: what each says at the queries, and how much each support counts for it.

Nearly all of them are linear in the targets, f(x_j) = Σ_i W_ij y_i, and their influence ∂f(x_j)/∂y_i is W. It is read
off by predicting with the columns of the identity as targets, so that any predictor that treats outputs one by one has
its influence from its predictions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.baselines import Baseline, GaussianProcessPosterior, NearestNeighbours
from ridgeformer.kernels import Kernel, Linear
from ridgeformer.solvers import krr
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


class Predictor(ABC):
    """Predicts queries from supports, each prompt and each output by itself."""

    name: str

    @abstractmethod
    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        """Predictions at the queries, in float64."""

    def influence(self, prompt: Prompt) -> Float[Tensor, "batch k q"]:
        """∂f(x_j)/∂y_i of a predictor that is linear in the targets; others say what a change of labels does."""
        one_each = torch.eye(prompt.supports, dtype=torch.float64).expand(len(prompt), -1, -1)
        return self.predict(Prompt(prompt.phi.double(), one_each, prompt.phi_query.double())).mT


def responses(
    predictor: Predictor, prompt: Prompt, change: Float[Tensor, "batch k"]
) -> Float[Tensor, "batch k q"]:
    """What changing the target of each support alone does to the prediction, per unit of the change."""
    y = prompt.y.double()
    changed = y + torch.diag_embed(change.double())  # one output for each changed support
    both = [predictor.predict(Prompt(prompt.phi, t, prompt.phi_query)) for t in (changed, y)]
    return ((both[0] - both[1]) / change.double()[:, None, :]).mT


@dataclass(frozen=True)
class Ridge(Predictor):
    """k(x)ᵀ(K + λI)⁻¹y; for λ = ∞ its limit up to a factor, k(x)ᵀy, which is pure similarity."""

    ridge: float
    kernel: Kernel

    @property
    def name(self) -> str:  # type: ignore[override]
        return "similarity" if self.ridge == inf else "kernel ridge regression"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        if self.ridge == inf:
            cross = self.kernel(prompt.phi_query.double(), prompt.phi.double())
            return cross @ prompt.y.double()
        return krr(prompt, ridge=self.ridge, kernel=self.kernel)


def ridge_influence(
    prompt: Prompt, kernel: Kernel, ridges: Sequence[float]
) -> Float[Tensor, "grid batch k q"]:
    """The influence of `Ridge` for each λ, all from one eigendecomposition of K."""
    phi, query = prompt.phi.double(), prompt.phi_query.double()
    across = kernel(phi, query)
    values, vectors = torch.linalg.eigh(kernel(phi, phi))
    inside = vectors.mT @ across
    finite = torch.tensor([r for r in ridges if r != inf], dtype=torch.float64)
    shifted = values.clamp(min=0) + finite[:, None, None]
    found = iter(vectors @ (inside / shifted[..., None]))
    return torch.stack([across if r == inf else next(found) for r in ridges])


@dataclass(frozen=True)
class Smoothing(Predictor):
    """Nadaraya–Watson: Σ_i w_i y_i/Σ_i w_i with w_i = exp(s(x, x_i)/τ).

    s is the exponent of a kernel that is an exponential, which with τ = 1 makes w the kernel itself, and otherwise
    the kernel's value.
    """

    temperature: float
    kernel: Kernel

    name = "Nadaraya–Watson"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        exponent = exponents(self.kernel, prompt)
        return (exponent / self.temperature).softmax(-1) @ prompt.y.double()


def exponents(kernel: Kernel, prompt: Prompt) -> Float[Tensor, "batch q k"]:
    """log k(x, x_i) of a kernel that is an exponential, and otherwise k(x, x_i)."""
    query, phi = prompt.phi_query.double(), prompt.phi.double()
    logits = kernel.logits()
    if logits is None:
        return kernel(query, phi)
    u, v = logits.features(query), logits.features(phi)
    own = logits.norm * v.square().sum(
        -1
    )  # what a query adds to all its exponents, softmax ignores
    return logits.scale * u @ v.mT - own[:, None, :]


@dataclass(frozen=True)
class FixedMetric(Predictor):
    """φ(x)ᵀ(C + λI)⁻¹Φᵀy, where C is the second moment of landmarks, times a number of supports.

    Ridge regression compares a query with supports in a metric that it makes from the supports of the prompt itself.
    This is similarity in a metric of that form that is the same for all prompts, which a model may know without
    solving anything. Landmarks are features of other prompts.
    """

    ridge: float
    kernel: Kernel
    landmarks: Float[Tensor, "n p"]
    supports: int
    """How many supports the metric stands for; that of ridge regression stands for those of the prompt."""

    name = "similarity in a fixed metric"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        weights = metric_influence(prompt, self.kernel, self.landmarks, self.supports, [self.ridge])
        return weights[0].mT @ prompt.y.double()


def metric_influence(
    prompt: Prompt,
    kernel: Kernel,
    landmarks: Float[Tensor, "n p"],
    supports: int,
    ridges: Sequence[float],
) -> Float[Tensor, "grid batch k q"]:
    """The influence of `FixedMetric` for each λ, all from one eigendecomposition of the landmarks' kernel matrix.

    (C + λI)⁻¹ comes from Woodbury's identity, so that kernels without features of their own are served too.
    """
    phi, query = prompt.phi.double(), prompt.phi_query.double()
    values, vectors = torch.linalg.eigh(kernel(landmarks[None], landmarks[None])[0])
    each = landmarks.expand(len(prompt), -1, -1)
    of_supports, of_queries = kernel(phi, each) @ vectors, kernel(query, each) @ vectors
    across = kernel(phi, query)
    per_landmark = supports / len(landmarks)
    return torch.stack(
        [
            across - (of_supports / (values.clamp(min=0) + ridge / per_landmark)) @ of_queries.mT
            for ridge in ridges
        ]
    )


@dataclass(frozen=True)
class OfBaseline(Predictor):
    """A fitted baseline that is linear in the targets, such as the mean of the nearest neighbours."""

    baseline: Baseline

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.baseline.label

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        return self.baseline.predict(prompt)


def neighbours(count: int) -> Predictor:
    """The mean target of so many nearest supports."""
    return OfBaseline(NearestNeighbours(count))


def likeliest_process(prompt: Prompt) -> Predictor:
    """The posterior mean of the Gaussian process under which these prompts are most likely.

    All prompts share its lengthscale, variance and noise. Its influence takes them as given.
    """
    return OfBaseline(GaussianProcessPosterior().most_likely(prompt.to(torch.float64)))


def ridge_on_inputs(ridge: float) -> Predictor:
    """Ridge regression with an intercept, for prompts whose features are raw inputs: a column of ones is added."""
    return WithOnes(Ridge(ridge, Linear()))


@dataclass(frozen=True)
class WithOnes(Predictor):
    """A predictor on features with a column of ones."""

    inner: Predictor

    @property
    def name(self) -> str:  # type: ignore[override]
        return "ridge regression on inputs"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        phi, query = (
            torch.nn.functional.pad(x, (0, 1), value=1.0) for x in (prompt.phi, prompt.phi_query)
        )
        return self.inner.predict(Prompt(phi, prompt.y, query))


@dataclass(frozen=True)
class Centroids(Predictor):
    """(|x − c₋|² − |x − c₊|²)/2, where c₊ and c₋ are the means of supports with positive and other targets.

    A class without supports has the mean of all of them. The influence is the response to a change of sign.
    """

    name = "class centroids"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        phi, query = prompt.phi.double(), prompt.phi_query.double()
        positive = (prompt.y > 0).double()

        def height(members: Float[Tensor, "batch k r"]) -> Tensor:
            count = members.sum(1)[..., None]
            mean = phi.mean(1, keepdim=True)
            centre = torch.where(count > 0, members.mT @ phi / count.clamp(min=1), mean)
            return query @ centre.mT - 0.5 * centre.square().sum(-1)[:, None, :]

        return height(positive) - height(1 - positive)

    def influence(self, prompt: Prompt) -> Float[Tensor, "batch k q"]:
        if not prompt.y.all():
            raise Refusal(
                "Class centroids need targets that are positive or negative; one is 0: code labels as −1 and 1."
            )
        return responses(self, prompt, -2 * prompt.y[..., 0])


@dataclass(frozen=True)
class GivenWeights(Predictor):
    """Σ_i a_i y_i/Σ_i a_i with weights that are given, such as one head's attention to the targets (Han et al. 2023)."""

    weights: Float[Tensor, "batch k q"]
    name: str = "attention of one head"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        weights = self.weights.double()
        total = weights.sum(1, keepdim=True)
        if not (total > 0).all():
            raise Refusal(
                "A smoother needs weights with a positive sum at every query: leave this head out."
            )
        return (weights / total).mT @ prompt.y.double()


@dataclass(frozen=True)
class LastTarget(Predictor):
    """The target of the last support, whatever the query."""

    name = "last target"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        return prompt.y[:, -1:].double().expand(-1, prompt.phi_query.shape[1], -1)


@dataclass(frozen=True)
class MeanTarget(Predictor):
    """The mean target, whose sign is the label of the majority."""

    name = "mean target"

    def predict(self, prompt: Prompt) -> Float[Tensor, "batch q r"]:
        mean = prompt.y.double().mean(1, keepdim=True)
        return mean.expand(-1, prompt.phi_query.shape[1], -1)
