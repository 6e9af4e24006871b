"""Recurrences as data: operations, tracing, the interpreter, and range analysis."""

from ridgeformer.program.interpret import interpret
from ridgeformer.program.ops import Channel, Program
from ridgeformer.program.ranges import largest, largest_vector, ranges
from ridgeformer.program.trace import TARGET_NORM, Scope, Space, TracingMachine, trace
