"""How large each construction is: layers, channels, heads and neurons in closed form."""

from __future__ import annotations

from ridgeformer.theory.shape import Construction, Shape
from ridgeformer.theory.sizes_linear import (
    cg_causal_sizes,
    cg_sizes,
    fixed_causal_sizes,
    fixed_jacobi_sizes,
    fixed_sizes,
)
from ridgeformer.theory.sizes_softmax import (
    cg_softmax_sizes,
    fixed_dot_product_sizes,
    fixed_gated_sizes,
    fixed_relu_row_sum_sizes,
    fixed_relu_sizes,
    smoother_sizes,
)


def predicted_shape(c: Construction) -> Shape:
    """The shape of the transformer that the construction compiles to, exactly.

    Fixed coefficients are those of an interval [a, b] with b ≥ 3a: below, an earlier iterate has too
    small a coefficient to be continued in its channels, and sizes may differ.
    """
    if c.solver == "nadaraya-watson":
        return smoother_sizes(c)
    if c.attention == "softmax":
        return softmax_shape(c)
    if c.solver == "cg":
        return cg_causal_sizes(c) if c.causal else cg_sizes(c)
    if c.causal:
        return fixed_causal_sizes(c)
    return fixed_sizes(c) if c.precondition == "none" else fixed_jacobi_sizes(c)


def softmax_shape(c: Construction) -> Shape:
    if c.solver == "cg":
        return cg_softmax_sizes(c)
    if c.kernel == "linear":
        return fixed_dot_product_sizes(c)
    if c.mlp == "reglu":
        return fixed_gated_sizes(c)
    return fixed_relu_sizes(c) if c.precondition == "none" else fixed_relu_row_sum_sizes(c)
