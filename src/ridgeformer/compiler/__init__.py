"""Programs compiled to transformer weights."""
# mypy: implicit-reexport

from ridgeformer.compiler.certificate import Certificate, NoPromise, largest_eigenvalue
from ridgeformer.compiler.compile import compile
from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.size import size_report
from ridgeformer.compiler.targets import (
    Exact,
    HeadPairs,
    Interpolated,
    LinearAttention,
    SoftmaxAttention,
    Target,
)
