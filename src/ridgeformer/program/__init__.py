"""Recurrences as data: operations, tracing, the interpreter, and range analysis."""
# mypy: implicit-reexport

from ridgeformer.program.interpret import interpret
from ridgeformer.program.looped import LoopedProgram
from ridgeformer.program.ops import Channel, Program
from ridgeformer.program.ranges import largest, largest_factor, largest_vector, ranges
from ridgeformer.program.trace import TARGET_NORM, Scope, Space, TracingMachine, trace
from ridgeformer.program.trace_loop import trace_loop
