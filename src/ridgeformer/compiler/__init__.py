"""Programs compiled to transformer weights."""

from ridgeformer.compiler.certificate import Certificate, largest_eigenvalue
from ridgeformer.compiler.compile import compile, size_report
from ridgeformer.compiler.compiled import CompiledModel

__all__ = ["Certificate", "CompiledModel", "compile", "largest_eigenvalue", "size_report"]
