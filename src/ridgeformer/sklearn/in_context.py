"""Any saved model as an estimator: `fit` keeps the pairs, and `predict` shows them to the model."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from ridgeformer.compiler import CompiledModel
from ridgeformer.models import load, zoo
from ridgeformer.models.saved import Model, check_no_steps
from ridgeformer.sklearn.passes import predictions
from ridgeformer.sklearn.regressor import ModelRegressor
from ridgeformer.tasks import Prompt
from ridgeformer.training import OutsideTraining, TrainedModel
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal, counted


class InContextRegressor(ModelRegressor):
    """A saved transformer that reads the training pairs in its prompt and answers for the rows of X.

    Nothing is trained by `fit`: it loads the model and keeps the pairs. A model for p features serves
    up to p; columns of zeros stand for those that are missing, which changes no dot product and no
    distance. A model for one output answers for several one by one, in one batch. Trained models
    run in float64, so that a prediction does not depend on which others are asked for.

    model        the name of a shipped model (`ridgeformer zoo`), the directory of a saved one, or a loaded
                 one. The default was trained on linear regression with up to 20 features.
    standardise  whether inputs and targets are given mean 0 and variance 1 first, as trained models expect
                 them; predictions are in the units of y either way. For a compiled model this is another problem than
                 the one without: its λ refers to standardised data, and means are an intercept.
    steps        how often the loop of a looped compiled model runs

    After `fit`: `model_`, `X_fit_`, `y_fit_`, `n_features_in_`, and `feature_names_in_` where X has names.
    """

    model_: Model

    def __init__(
        self,
        model: str | Path | Model = "linear-20",
        *,
        standardise: bool = True,
        steps: int | None = None,
    ) -> None:
        self.model = model
        self.standardise = standardise
        self.steps = steps

    def fit(self, X: Any, y: Any) -> InContextRegressor:
        """Loads the model and keeps the pairs; a model that cannot read them is refused."""
        self._keep(X, y)
        self.model_ = in_float64(loaded(self.model))
        targets, given = self._targets, self.n_features_in_
        self._features, outputs = shape_of(self.model_)
        if given > self._features:
            raise Refusal(
                f"The model reads {counted(self._features, 'feature')} and X has {given}: choose fewer of "
                "them, or a model for as many."
            )
        if outputs not in (1, targets.shape[1]):
            raise Refusal(
                f"The model has {outputs} outputs and y has {targets.shape[1]}: give as many, or choose a model "
                "of one output, which serves any number."
            )
        self._together = outputs == targets.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            self._scalers = tuple(
                StandardScaler(with_mean=self.standardise, with_std=self.standardise).fit(values)
                for values in (self.X_fit_, targets)
            )
            phi, problems = self._supports()
        if not (np.isfinite(phi).all() and np.isfinite(problems).all()):
            raise Refusal(
                "Means or variances of X or y leave the range of float64: scale them down."
            )
        each = np.repeat(phi[None], len(problems), axis=0)
        self._check(Prompt(each, problems, each[:, :1]))
        return self

    def _check(self, prompt: Prompt) -> None:
        """Refuses pairs that the model cannot read, and warns of more, or larger ones, than it was trained with."""
        if isinstance(self.model_, CompiledModel):
            self.model_.loops(self.steps)
            self.model_.check(prompt)
            return
        check_no_steps(self.steps)
        self.model_.check(prompt)
        usual = self.model_.recipe.task.supports
        if prompt.supports > usual:
            warnings.warn(
                f"The model was trained with up to {counted(usual, 'pair')} in a prompt and gets {prompt.supports}: its "
                "predictions may be wrong. Compare them with those of fewer pairs.",
                UserWarning,
                stacklevel=3,
            )
        self._warn("The training pairs", φ=prompt.phi, y=prompt.y)

    def _warn(self, what: str, **values: Tensor) -> None:
        """Warns of numbers that are far larger than those that a trained model has seen."""
        if isinstance(self.model_, CompiledModel):
            return
        ranges = {"φ": self.model_.seen.features, "y": self.model_.seen.targets}
        complaints = [ranges[name].too_large(name, found) for name, found in values.items()]
        if said := "; ".join(filter(None, complaints)):
            remedy = (
                "Try `standardise=False` on data that are scaled to that range."
                if self.standardise
                else "Try `standardise=True`."
            )
            warnings.warn(
                f"{what} are unlike those that the model was trained on, as it reads them: {said}. Nothing is "
                f"known of its predictions there. {remedy}",
                OutsideTraining,
                stacklevel=4,
            )

    def predict(self, X: Any) -> np.ndarray:
        """The model's predictions, in the shape of the targets."""
        queries = self._read(self._rows(X))
        self._warn("Rows of X", φ=torch.from_numpy(queries))
        model, (phi, problems) = self.model_, self._supports()
        answer = (
            partial(model.predict, steps=self.steps)
            if isinstance(model, CompiledModel)
            else model.run
        )
        found = predictions(answer, model.cost, phi, problems, queries)
        if not np.isfinite(found).all():
            raise Refusal(
                "The model's predictions leave the range of floating point: these data are unlike those that it "
                "was made for. Use `standardise=True`, fewer pairs, or another model."
            )
        columns = found[0] if self._together else found[:, :, 0].T
        return self._shaped(self._scalers[1].inverse_transform(columns))

    def _read(self, X: np.ndarray) -> np.ndarray:
        """Rows of X as the model's features."""
        missing = self._features - X.shape[1]
        return np.pad(self._scalers[0].transform(X), ((0, 0), (0, missing)))

    def _supports(self) -> tuple[np.ndarray, np.ndarray]:
        """φ [k, p], and targets [problems, k, outputs of the model]."""
        targets = self._scalers[1].transform(self._targets)
        problems = targets[None] if self._together else targets.T[:, :, None]
        return self._read(self.X_fit_), problems


def loaded(model: object) -> Model:
    """The model that is meant by a name, a directory or itself."""
    if isinstance(model, (CompiledModel, TrainedModel)):
        return model
    if not isinstance(model, (str, Path)):
        raise Refusal(f"`model` must be a name, a directory or a loaded model; got {model!r}.")
    if model in zoo.names():
        return zoo.load(str(model))
    if not Path(model).is_dir():
        raise Refusal(
            f"There is no model {str(model)!r}: give the directory of a saved model, or a shipped one of "
            f"{', '.join(zoo.names())}."
        )
    return load(model)


def in_float64(model: Model) -> Model:
    """A trained model with the same weights in float64; a compiled one has the precision of its certificate."""
    if isinstance(model, CompiledModel):
        return model
    transformer = Transformer(replace(model.transformer.config, dtype="float64"), init="zero")
    weights = {name: w.double() for name, w in model.transformer.state_dict().items()}
    transformer.load_state_dict(weights, assign=True)
    return replace(model, transformer=transformer)


def shape_of(model: Model) -> tuple[int, int]:
    """How many features and outputs the model has."""
    known = model.certificate if isinstance(model, CompiledModel) else model.recipe.task
    return known.features, known.outputs
