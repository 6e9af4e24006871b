"""Linear maps whose weights are packed once for oneDNN, which multiplies at full width on every CPU.

PyTorch hands float32 products to MKL, which computes at half the width on CPUs of other makers: 115 GFLOP/s
instead of 260 on one core of an AMD EPYC.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """The same map as a linear layer, to round-off."""

    def __init__(self, linear: nn.Linear, rows: int) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.bias = None if linear.bias is None else linear.bias.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return out


def pack(network: nn.Module, rows: int) -> None:
    """Packs every linear layer for inputs of so many rows, if PyTorch can."""
    operations = torch.ops.mkldnn
    names = ("_reorder_linear_weight", "_linear_pointwise")
    if not torch._C._has_mkldnn or not all(hasattr(operations, name) for name in names):
        return
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                setattr(module, name, PackedLinear(child, rows))
