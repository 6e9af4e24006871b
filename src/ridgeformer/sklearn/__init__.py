"""Estimators for scikit-learn: `fit` and `predict` by the forward pass of a transformer."""
# mypy: implicit-reexport

from ridgeformer.sklearn.in_context import InContextRegressor
from ridgeformer.sklearn.kernel_ridge import TransformerKernelRidge
