"""
Gaussian ridge regression on the diabetes data
==============================================

``TransformerKernelRidge`` is an estimator for scikit-learn whose ``predict`` is a forward pass of a transformer. We compare it
with ``KernelRidge`` on scikit-learn's diabetes data, with a Gaussian kernel, and look at what it promises.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split

from ridgeformer.sklearn import TransformerKernelRidge

# %%
# Data
# ----
# The data are ten measurements of each of 442 patients. Kernel ridge regression has no intercept, so we centre the targets. We train on
# 120 patients, which keeps this page quick to build.
X, y = load_diabetes(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=120, random_state=0)
mean = y.mean()
y, y_test = y - mean, y_test - mean

# %%
# The same estimator twice
# ------------------------
# Both get λ = 0.1 and the kernel ``exp(−3|x − x'|²)``. The ``fit`` of our estimator looks at the training rows, chooses the domain of the model
# (bounds on norms and on the number of supports) and the number of steps, and compiles CG to softmax attention.
exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=3.0).fit(X, y)
ours = TransformerKernelRidge(alpha=0.1, kernel="rbf", gamma=3.0).fit(X, y)
shape = ours.model_.transformer.config
print(
    f"{ours.n_steps_} steps of {ours.certificate_.solver}, {len(shape.applied(ours.n_steps_))} layers,"
)
print(f"d_model {shape.d_model}, {shape.n_heads} heads, attention {shape.attention}")
print(
    f"domain: |φ| ≤ {ours.certificate_.max_norm:.2f}, at most {ours.certificate_.max_supports} supports"
)

# %%
# How far apart they are, and how far they may be
# -----------------------------------------------
# ``error_bound`` bounds the distance to exact ridge regression at each row. It adds what the truncated iteration may miss, by a
# theorem on the residual, to what the certificate promises of the transformer. A Gaussian kernel has k(x, x) = 1 everywhere, so that
# here it is nearly the same for all rows.
predicted, reference = ours.predict(X_test), exact.predict(X_test)
apart, bound = np.abs(predicted - reference), ours.error_bound(X_test)
print(
    f"largest distance {apart.max():.1e}, largest bound {bound.max():.1e}, targets up to {np.abs(y_test).max():.0f}"
)
assert (apart <= bound).all()

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.plot([-150, 150], [-150, 150], color="0.8", zorder=0)
left.scatter(reference, predicted, s=12)
left.set_xlabel("KernelRidge of scikit-learn")
left.set_ylabel("transformer")
left.set_title("Predictions for 322 patients")
order = np.argsort(bound)
right.semilogy(bound[order], label="bound")
right.semilogy(np.maximum(apart[order], 1e-16), ".", ms=3, label="distance to KernelRidge")
right.set_xlabel("patients, by their bound")
right.legend()
right.set_title("What is promised, and what is measured")
plt.show()

# %%
# How good is it?
# ---------------
# Exactly as good as kernel ridge regression with these parameters, which is all that was promised. On these data a linear
# model does as well, as is known of them.
linear = RidgeCV(alphas=np.logspace(-3, 2, 11)).fit(X, y)
print(f"test R²   transformer {ours.score(X_test, y_test):.4f}")
print(f"          KernelRidge {exact.score(X_test, y_test):.4f}")
print(f"          RidgeCV, linear {linear.score(X_test, y_test):.4f}")

# %%
# What it costs
# -------------
# A direct solver needs one factorisation. The transformer multiplies with the kernel matrix in every step, for a prompt that
# holds all training rows, so it is slower, and it is not meant to replace the solver. What it shows is that these weights
# compute it. A looser tolerance needs fewer steps:
print("tolerance   steps   largest distance   largest bound")
for tolerance in (1e-2, 1e-4, 1e-6):
    model = TransformerKernelRidge(alpha=0.1, kernel="rbf", gamma=3.0, tolerance=tolerance).fit(
        X, y
    )
    distance = np.abs(model.predict(X_test) - reference).max()
    print(
        f"{tolerance:9.0e} {model.n_steps_:7d} {distance:18.1e} {model.error_bound(X_test).max():15.1e}"
    )
