"""Passes of the compiler, each of which takes a value and returns one."""
# mypy: implicit-reexport

from ridgeformer.compiler.passes.assemble import assemble, widest_mlp
from ridgeformer.compiler.passes.describe import describe
from ridgeformer.compiler.passes.loop import make_way, tie
from ridgeformer.compiler.passes.place import Placement, place
from ridgeformer.compiler.passes.reuse import erase, reuse
