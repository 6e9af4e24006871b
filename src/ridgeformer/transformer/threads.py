"""Work on independent parts of a batch, one part to a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ContextDecorator
from threading import Lock

import torch
from torch import Tensor


class OneThreadEach(ContextDecorator):
    """Inside this context, an operation of PyTorch runs in the thread that calls it.

    The number of threads that an operation takes belongs to the whole process. It is set to 1 when the
    first caller enters, and to what it was when the last one leaves.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.callers = 0
        self.before = 1

    def __enter__(self) -> None:
        with self.lock:
            if self.callers == 0:
                self.before = torch.get_num_threads()
                torch.set_num_threads(1)
            self.callers += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.callers -= 1
            if self.callers == 0:
                torch.set_num_threads(self.before)


one_thread_each = OneThreadEach()


def in_threads(
    function: Callable[[Tensor], Tensor], parts: Sequence[Tensor], threads: int
) -> list[Tensor]:
    """The function's value for each part, without gradients.

    Threads that share every small operation wait for each other at its end, and where other processes
    want the same cores, each of these thousands of waits can take a time slice. Threads that share
    the batch wait for each other once.
    """
    if threads == 1 or len(parts) == 1:
        return [function(part) for part in parts]
    inference = torch.is_inference_mode_enabled()

    def job(part: Tensor) -> Tensor:
        with torch.inference_mode(inference), torch.no_grad():
            return function(part)

    with one_thread_each, ThreadPoolExecutor(threads) as pool:
        return list(pool.map(job, parts))
