"""What a compiled model promises, and for which prompts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import Prompt
from ridgeformer.types import Refusal

SLACK = {"float64": 1e-9, "float32": 1e-5}
"""Relative slack on the bounds of the domain, for prompts that lie on its edge up to round-off."""


@dataclass(frozen=True)
class Certificate:
    """Inside the domain, every iterate's prediction equals the solver's: relative to the largest
    prediction the difference is at most `relative_error`, or `round_off_factor` times the solver's
    own round-off at that step where that is larger."""

    solver: str
    precondition: str
    kernel: str
    space: str
    steps: int
    features: int
    outputs: int
    dtype: str
    ridge: float
    max_eigenvalue: float
    min_target_norm: float
    max_target_norm: float
    max_query_norm: float
    relative_error: float
    round_off_factor: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Any) -> Certificate:
        names = {field.name for field in fields(Certificate)}
        if not isinstance(values, dict) or set(values) != names:
            raise Refusal("config.json has no complete certificate: compile the model again.")
        return Certificate(**values)

    def check(self, prompt: Prompt) -> None:
        """Refuses a prompt outside the domain, with the bound and the value."""
        if prompt.features != self.features:
            raise Refusal(
                f"The model was compiled for {self.features} features, the prompt has "
                f"{prompt.features}: compile with --features {prompt.features}."
            )
        if prompt.outputs != self.outputs:
            raise Refusal(
                f"The model was compiled for {self.outputs} outputs, the prompt has "
                f"{prompt.outputs}: compile with --outputs {prompt.outputs}."
            )
        slack = 1 + SLACK[self.dtype]
        top = float(largest_eigenvalue(prompt).max())
        if top > self.max_eigenvalue * slack:
            raise Refusal(
                f"λ_max(K) is {top:.6g}, outside the domain λ_max(K) ≤ {self.max_eigenvalue:.6g}: "
                "compile with a larger --max-eigenvalue or scale the features down."
            )
        target = prompt.y if self.space == "dual" else prompt.phi.mT @ prompt.y
        name = "‖y‖" if self.space == "dual" else "‖Φᵀy‖"
        norms = target.double().norm(dim=1)
        most = float(norms.max())
        least = float(norms[norms > 0].min()) if most > 0 else self.min_target_norm
        if most > self.max_target_norm * slack or least < self.min_target_norm / slack:
            worst = most if most > self.max_target_norm else least
            raise Refusal(
                f"{name} is {worst:.6g}, outside the domain [{self.min_target_norm:.6g}, "
                f"{self.max_target_norm:.6g}]: rescale the targets."
            )
        longest = float(prompt.phi_query.double().norm(dim=-1).max())
        if longest > self.max_query_norm * slack:
            raise Refusal(
                f"A query has norm {longest:.6g}, outside the domain ‖φ(x)‖ ≤ "
                f"{self.max_query_norm:.6g}: rescale the features."
            )


def largest_eigenvalue(prompt: Prompt) -> Float[Tensor, " batch"]:
    """λ_max(K) of each prompt, from the smaller of ΦᵀΦ and ΦΦᵀ."""
    phi = prompt.phi.double()
    small = phi.mT @ phi if prompt.features <= prompt.supports else phi @ phi.mT
    values: Tensor = torch.linalg.eigvalsh(small)
    return values[:, -1]
