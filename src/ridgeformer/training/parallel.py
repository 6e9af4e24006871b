"""One process, or several that share every batch (torchrun, gloo)."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from ridgeformer.tasks import Prompt, Sample
from ridgeformer.transformer import Transformer
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class Group:
    rank: int = 0
    size: int = 1

    @staticmethod
    def join() -> Group:
        """The group that torchrun made, or this process alone."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return Group()
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        return Group(dist.get_rank(), size)

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, sample: Sample) -> Sample:
        """This process's part of the batch, which all of them drew."""
        if self.size == 1:
            return sample
        batch = len(sample.targets)
        if batch % self.size:
            raise Refusal(f"A batch of {batch} cannot be shared by {self.size} processes evenly.")
        part = slice(self.rank * batch // self.size, (self.rank + 1) * batch // self.size)
        prompt = sample.prompt
        return Sample(
            Prompt(prompt.phi[part], prompt.y[part], prompt.phi_query[part]), sample.targets[part]
        )

    def average(self, model: Transformer) -> None:
        """Gradients become those of the whole batch."""
        if self.size > 1:
            for weight in model.parameters():
                if weight.grad is not None:
                    dist.all_reduce(weight.grad)
                    weight.grad /= self.size

    def mean(self, loss: Tensor) -> Tensor:
        value = loss.detach().clone()
        if self.size > 1:
            dist.all_reduce(value)
            value /= self.size
        return value

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
