"""Training in one process, or in several that share every batch (torchrun with the gloo backend)."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ridgeformer.tasks import Sample
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Group:
    """The processes that train one model together: how many there are, and which one this is."""

    rank: int = 0
    size: int = 1

    @staticmethod
    def join() -> Group:
        """The group that torchrun started, or this process alone."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return Group()
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        return Group(dist.get_rank(), size)

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and prints."""
        return self.rank == 0

    def share(self, sample: Sample) -> Sample:
        """This process's part of the batch; every process has drawn the whole of it."""
        batch = len(sample.targets)
        if batch % self.size:
            raise Refusal(f"A batch of {batch} cannot be shared by {self.size} processes evenly.")
        part = batch // self.size
        return sample[self.rank * part : (self.rank + 1) * part] if self.size > 1 else sample

    def averaged(self, loss: nn.Module) -> nn.Module:
        """The module, whose backward pass leaves the gradients of the whole batch in every process."""
        return DistributedDataParallel(loss) if self.size > 1 else loss

    def mean(self, loss: Tensor) -> Tensor:
        """The loss of the whole batch, without its gradient."""
        value = loss.detach().clone()
        if self.size > 1:
            dist.all_reduce(value)
            value /= self.size
        return value

    def any(self, here: bool) -> bool:
        """Whether it holds in any process, so that all of them stop after the same step."""
        if self.size == 1:
            return here
        seen = torch.tensor(float(here))
        dist.all_reduce(seen)
        return bool(seen > 0)

    def wait(self) -> None:
        """Returns when every process has come here."""
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
