"""What both estimators share: kept pairs, and models that are stored as safetensors and JSON."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from safetensors.torch import load, save
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ridgeformer.compiler import CompiledModel
from ridgeformer.compiler.certificate import Certificate
from ridgeformer.models.saved import Model
from ridgeformer.training import Recipe, TrainedModel
from ridgeformer.transformer import Transformer, TransformerConfig


class Stored(NamedTuple):
    """A compiled or trained model without its modules."""

    config: str
    """The entries of its config.json."""
    weights: bytes
    """Its model.safetensors."""

    @staticmethod
    def of(model: Model) -> Stored:
        if isinstance(model, CompiledModel):
            more = {"certificate": model.certificate.to_dict(), "sites": model.sites}
        else:
            more = {"recipe": model.recipe.to_dict(), "scores": model.scores}
        transformer = model.transformer
        weights = {name: t.detach().contiguous() for name, t in transformer.state_dict().items()}
        return Stored(json.dumps({**transformer.config.to_dict(), **more}), save(weights))

    def model(self) -> Model:
        config = json.loads(self.config)
        transformer = Transformer(TransformerConfig.from_dict(config), init="zero")
        transformer.load_state_dict(load(self.weights), assign=True)
        if "recipe" in config:
            return TrainedModel(transformer, Recipe.from_dict(config["recipe"]), config["scores"])
        return CompiledModel(
            transformer, Certificate.from_dict(config["certificate"]), config["sites"]
        )


class ModelRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that keeps its training pairs, and a model that copies and files see as `Stored`."""

    X_fit_: np.ndarray
    y_fit_: np.ndarray
    n_features_in_: int

    def _keep(self, X: Any, y: Any) -> None:
        """Checks the training pairs as scikit-learn does, and keeps a copy in float64."""
        both = {"multi_output": True, "y_numeric": True, "copy": True}
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", **both)
        self.X_fit_, self.y_fit_ = X, np.array(y, dtype=np.float64, order="C")

    @property
    def _targets(self) -> np.ndarray:
        """y with a column for each output."""
        return self.y_fit_.reshape(len(self.y_fit_), -1)

    def _rows(self, X: Any) -> np.ndarray:
        """Rows to predict at, checked as scikit-learn does."""
        check_is_fitted(self)
        rows: np.ndarray = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return rows

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """A column for each output, in the shape that y had."""
        return values[:, 0] if self.y_fit_.ndim == 1 else values

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: Stored.of(value) if isinstance(value, (CompiledModel, TrainedModel)) else value
            for name, value in super().__getstate__().items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        whole = {
            name: value.model() if isinstance(value, Stored) else value
            for name, value in state.items()
        }
        super().__setstate__(whole)
