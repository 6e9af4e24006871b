"""`NumberFormat`: how numbers are written in a prompt, all with as many digits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ridgeformer.registry import Registry


@dataclass(frozen=True)
class NumberFormat:
    """The numbers lowest, lowest + 1, …, highest, in units of the last digit."""

    name: str
    summary: str
    lowest: int
    highest: int
    decimals: int = 0
    separated: bool = False
    """Whether a space stands between digits."""

    @property
    def count(self) -> int:
        return self.highest - self.lowest + 1

    @property
    def values(self) -> Float[Tensor, " numbers"]:
        """All numbers of the format, in order."""
        units = torch.arange(self.lowest, self.highest + 1, dtype=torch.float64)
        return units / 10.0**self.decimals

    def text(self, index: int) -> str:
        """The number of that index, as it is written."""
        units = self.lowest + index
        digits = f"{units / 10**self.decimals:.{self.decimals}f}"
        return " ".join(digits) if self.separated else digits

    def texts(self) -> tuple[str, ...]:
        return tuple(self.text(index) for index in range(self.count))

    def indices(self, share: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The numbers that lie at shares of the way from the lowest to the highest, rounded to the format."""
        return (share.clamp(0, 1) * (self.count - 1)).round().long()

    def index_of(self, value: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """The indices of numbers of the format."""
        return (value * 10.0**self.decimals).round().long() - self.lowest

    def parse(self, text: str) -> int | None:
        """The index of the number that a text is, if it is written in the format."""
        digits = text.strip(" ").replace(" ", "").replace(".", "")
        index = int(digits) - self.lowest if digits.isdecimal() else -1
        return index if 0 <= index < self.count and self.text(index) == text.strip(" ") else None


FORMATS: Registry[NumberFormat] = Registry(
    "number format",
    (
        NumberFormat("integers", "10, 11, …, 99", 10, 99),
        NumberFormat("one-decimal", "1.0, 1.1, …, 9.9", 10, 99, decimals=1),
        NumberFormat("two-decimals", "1.00, 1.01, …, 9.99", 100, 999, decimals=2),
        NumberFormat("separated-digits", "1 0, 1 1, …, 9 9", 10, 99, separated=True),
    ),
)
"""Every format by its name."""
