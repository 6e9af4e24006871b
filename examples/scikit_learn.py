"""Diabetes by scikit-learn's ridge regression, by a transformer compiled to it, and by a trained one."""

import warnings

from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split

from ridgeformer.sklearn import InContextRegressor, TransformerKernelRidge

X, y = load_diabetes(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=100, random_state=0)
mean = y.mean()  # kernel ridge regression has no intercept

print("kernel                steps  layers  test R²   largest distance to KernelRidge (and bound)")
for kernel, gamma in (("linear", None), ("rbf", 3.0)):
    exact = KernelRidge(alpha=0.1, kernel=kernel, gamma=gamma).fit(X, y - mean)
    ours = TransformerKernelRidge(alpha=0.1, kernel=kernel, gamma=gamma).fit(X, y - mean)
    apart = abs(ours.predict(X_test) - exact.predict(X_test)).max()
    blocks = ours.model_.transformer.config
    layers = len(blocks.applied(ours.n_steps_))
    print(
        f"{kernel:20} {ours.n_steps_:6d} {layers:7d} {ours.score(X_test, y_test - mean):8.3f}   "
        f"{apart:.1e} ({ours.error_bound(X_test).max():.1e})"
    )

print("\nA transformer trained on linear regression with 20 features, by the pairs in its prompt:")
warnings.simplefilter("ignore", UserWarning)  # it was trained with up to 64
for pairs in (16, 64, 342):
    model = InContextRegressor("linear-20").fit(X[:pairs], y[:pairs])
    print(f"{pairs:5d} pairs  test R² {model.score(X_test, y_test):.3f}")
