"""Prompts as token sequences, and which rows of the residual stream are what."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ridgeformer.models import subject
from ridgeformer.models.saved import Model
from ridgeformer.models.subject import TransformerSubject
from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Tokens:
    values: Float[Tensor, "batch n d_in"]
    context: int
    """So many of them are context; the others are queries."""
    registers: int
    """So many rows of the stream come before the first token."""
    supports: tuple[int, ...]
    queries: tuple[int, ...]
    """Rows of the stream."""

    @staticmethod
    def of(model: Model, prompt: Prompt) -> Tokens:
        seen = subject(model)
        assert isinstance(seen, TransformerSubject)
        values, context, positions = seen.places(prompt)
        if len(values) != len(prompt):
            raise Refusal("A suite takes models that read all queries of a prompt in one sequence.")
        first = seen.transformer.config.n_registers
        return Tokens(
            values,
            context,
            first,
            tuple(first + int(i) for i in positions),
            tuple(first + i for i in range(context, values.shape[1])),
        )

    def rows(self, name: str) -> list[int]:
        """The rows of the stream that a name stands for."""
        return list(named_rows(self.registers, self.supports, self.queries)[name])


def named_rows(
    registers: int, supports: tuple[int, ...], queries: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    first = tuple(range(registers))
    return {
        "registers": first,
        "supports": supports,
        "queries": queries,
        "images": first + supports,
    }
