"""Devices: which there are, and what each of them can compute."""

from __future__ import annotations

import torch

from ridgeformer.types import Refusal


def device_named(name: str) -> torch.device:
    """The device of that name, such as cpu, cuda or cuda:1; one that is not there is refused."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise Refusal(
            f"There is no kind of device {name!r}: `device` is cpu, cuda, cuda:1, … or mps."
        ) from error
    match device.type:
        case "cpu":
            return device
        case "cuda":
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        case "mps":
            count = int(torch.backends.mps.is_available())
        case _:
            raise Refusal(f"`device` is cpu, cuda, cuda:1, … or mps; got {name!r}.")
    if (device.index or 0) >= count:
        known = f"the last is {device.type}:{count - 1}" if count else f"it has no {device.type}"
        raise Refusal(
            f"PyTorch finds no device {name!r} on this machine, {known}: leave `device` out for the CPU."
        )
    return device


def check_precision(dtype: torch.dtype, device: torch.device | str, remedy: str) -> None:
    """Refuses numbers that the device does not have."""
    if dtype == torch.float64 and str(device).partition(":")[0] == "mps":
        raise Refusal(f"MPS devices have no float64: {remedy}.")
