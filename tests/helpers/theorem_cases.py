"""Prompts of several kernels and spectra, and how a bound is checked on them."""

import torch

from ridgeformer.kernels import Exponential, Gaussian, Linear, Polynomial
from ridgeformer.tasks import KernelDraw, PrescribedSpectrum, Prompt

STEPS = 8

CASES = {
    "geometric": (Linear(), PrescribedSpectrum(condition=30, outputs=2), 1.0),
    "uniform": (Linear(), PrescribedSpectrum(condition=1e3, shape="uniform"), 1.0),
    "few supports": (Linear(), PrescribedSpectrum(condition=100, supports=10, features=16), 1.0),
    "gaussian": (Gaussian(), KernelDraw(supports=16, outputs=2), 0.1),
    "short gaussian": (Gaussian(0.5), KernelDraw(Gaussian(0.5), features=2), 0.5),
    "exponential": (Exponential(4.0), KernelDraw(Exponential(4.0), supports=16), 1.0),
    "polynomial": (Polynomial(2), KernelDraw(Polynomial(2), features=3, supports=20), 2.0),
}


def largest_ratio(measured, bound, size=0.0):
    """The largest measured/bound, which must not exceed 1; `size` is that of what was subtracted."""
    bound = torch.as_tensor(bound)
    ratio = float((measured / (bound + 1e-12 * float(size) + 1e-300)).max())
    assert ratio <= 1 + 1e-9
    return ratio


def plant(monkeypatch, module, attribute, wrong):
    """Makes something wrong where a theorem's module looks it up: in itself, or else in `theory`."""
    owner = module if hasattr(module, attribute) else module.theory
    monkeypatch.setattr(owner, attribute, wrong(getattr(owner, attribute)))


def diagonal_prompt(eigenvalues, ridge, y, query):
    """K + λI diagonal with these eigenvalues, and a query whose k(x) is given."""
    root = (torch.as_tensor(eigenvalues, dtype=torch.float64) - ridge).sqrt()
    y, query = (torch.as_tensor(v, dtype=torch.float64) for v in (y, query))
    return Prompt(root.diag()[None], y[None, :, None], (query / root)[None, None, :])
