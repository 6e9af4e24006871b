"""Sizes of compiled models: laws for a few constructions, and the parameters of any transformer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The sizes that determine a transformer's number of parameters, named as in its config."""

    n_layers: int
    d_model: int
    n_heads: int
    d_head: int
    d_mlp: int
    n_registers: int = 0


def parameters(shape: Shape, *, inputs: int, outputs: int, gated: bool) -> int:
    """The number of parameters of a transformer without norms.

    Embedding, registers, layers and unembedding are counted, with their biases. `gated` says whether the MLP
    has a gate beside its input matrix.
    """
    d, heads, m = shape.d_model, shape.n_heads * shape.d_head, shape.d_mlp
    attention = 3 * heads * (d + 1) + (heads + 1) * d
    mlp = (2 if gated else 1) * (d + 1) * m + (m + 1) * d
    layers = shape.n_layers * (attention + mlp)
    return (inputs + 1 + shape.n_registers) * d + layers + (d + 1) * outputs


def cg_linear_size(features: int, outputs: int, steps: int) -> dict[str, int]:
    """The layers, channels and heads of CG with the linear kernel, compiled to linear attention.

    The law holds for 3 or more steps and for either kind of MLP.
    """
    return {
        "n_layers": 7 * steps + 1,
        "d_model": features + 10 * outputs + 3,
        "n_heads": 5 * outputs,
    }


def cg_softmax_size(features: int, outputs: int, steps: int) -> dict[str, int]:
    """The layers, channels and heads of CG with the exponential kernel and softmax attention.

    The law holds for 3 or more steps, with exact products.
    """
    return {"n_layers": 10 * steps + 6, "d_model": features + 16 * outputs + 8, "n_heads": 2}


def cg_every_prefix_size(features: int, outputs: int, steps: int) -> dict[str, int]:
    """Layers, channels and heads of CG with the linear kernel, compiled to solve every prefix.

    The law holds from 3 steps on.
    """
    return {
        "n_layers": 9 * steps + 2,
        "d_model": (7 * outputs + 2) * features + 8 * outputs + 3,
        "n_heads": outputs,
        "d_head": features,
    }


def semi_iteration_size(
    features: int, outputs: int, steps: int, *, remembers: bool, gated: bool
) -> dict[str, int]:
    """The whole shape of a semi-iteration with the linear kernel, compiled to linear attention.

    `remembers` says whether a step reads the iterate before the last, which stays in the stream
    beside y, α and f. The law holds for 3 or more steps, and for an interval [a, b] with b ≥ 3a.
    """
    vectors = 4 if remembers else 3
    return {
        "n_layers": steps + 1,
        "d_model": features + vectors * outputs + 3,
        "n_heads": 1,
        "d_head": max(features, outputs),
        "d_mlp": vectors * outputs * (1 if gated else 2),
    }
