"""The options of the command line, each with its help, named once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

Out = Annotated[Path, Option(help="Where to write the result.")]
ModelOut = Annotated[Path, Option(help="Directory for the saved model.")]
Force = Annotated[bool, Option("--force", help="Replace a saved model.")]
Prompts = Annotated[Path, Argument(help="An .npz with phi [B,k,p], y [B,k,r], phi_query [B,q,p].")]
SolverName = Annotated[
    str,
    Argument(
        help="gd, richardson, heavy-ball, chebyshev, cg, nadaraya-watson, …", metavar="SOLVER"
    ),
]
Steps = Annotated[int, Option(help="Number of solver steps T.")]
Ridge = Annotated[float, Option(help="The ridge λ > 0.")]
Preconditioner = Annotated[
    str,
    Option(
        help="none; jacobi: divide by diag(A); row-sum: by 1 + Σ_j K_ij, the softmax normaliser.",
        metavar="KIND",
    ),
]
Features = Annotated[int, Option(help="Feature dimension p.")]
Outputs = Annotated[int, Option(help="Number of outputs r.")]

Attention = Annotated[Literal["linear", "softmax"], Option(help="Kind of attention.")]
Mlp = Annotated[Literal["relu", "reglu"], Option(help="Plain ReLU, or gated (exact products).")]
Dtype = Annotated[Literal["float64", "float32"], Option(help="Precision of the weights.")]
Causal = Annotated[bool, Option("--causal", help="Strictly causal decoder (linear attention).")]

KernelName = Annotated[
    str, Option(help="linear, exponential, gaussian, polynomial.", metavar="KERNEL")
]
Temperature = Annotated[float, Option(help="τ of the exponential kernel exp(⟨Ua, Ub⟩/τ).")]
Lengthscale = Annotated[float, Option(help="ℓ of the Gaussian kernel.")]
Degree = Annotated[int, Option(help="Degree of the polynomial kernel.")]
Offset = Annotated[float, Option(help="Offset of the polynomial kernel.")]
Projection = Annotated[
    Path | None,
    Option(help="An .npy file with U [m, p]: the linear or exponential kernel sees Uφ alone."),
]

MaxEigenvalue = Annotated[
    float | None,
    Option(help="Bound on λ_max(K): the domain of linear attention, and of its tuning."),
]
MaxNorm = Annotated[float | None, Option(help="Bound on |φ|: the domain of softmax attention.")]
MaxSupports = Annotated[int | None, Option(help="Bound on the number k of supports (softmax).")]
MaxTarget = Annotated[float | None, Option(help="Bound on |y| (softmax with a plain ReLU MLP).")]
Tolerance = Annotated[
    float | None, Option(help="Error to certify; the compiler chooses widths (softmax with relu).")
]
MlpWidth = Annotated[
    int | None, Option(help="Neurons per layer, instead of a tolerance (softmax with relu).")
]
Interval = Annotated[
    tuple[float, float] | None,
    Option(help="Eigenvalues LO HI that fixed coefficients are tuned to.", metavar="LO HI"),
]
Heads = Annotated[
    int | None, Option(help="Softmax heads for the linear kernel: 2, 4, 6, 8, … (default 8).")
]
Epsilon = Annotated[
    float | None, Option(help="Scale of their logits, instead of the one that suits round-off.")
]
