"""Programs compiled to transformer weights."""
# mypy: implicit-reexport

from ridgeformer.compiler.certificate import Certificate, largest_eigenvalue
from ridgeformer.compiler.compile import compile, size_report
from ridgeformer.compiler.compiled import CompiledModel
from ridgeformer.compiler.targets import (
    Exact,
    HeadPairs,
    Interpolated,
    LinearAttention,
    SoftmaxAttention,
    Target,
)
