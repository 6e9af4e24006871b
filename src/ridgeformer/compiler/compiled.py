"""A transformer with its certificate and its sites: what the compiler makes and what is saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.compiler.certificate import Certificate
from ridgeformer.compiler.circuit import Place, Role
from ridgeformer.compiler.saved import AGAIN, check_sites
from ridgeformer.compiler.unroll import unrolled_sites, unrolled_transformer
from ridgeformer.tasks import Prompt
from ridgeformer.transformer import Transformer, check_precision, load, save
from ridgeformer.types import Refusal


@dataclass(frozen=True)
class HeadSite:
    """A head of a compiled model, and what it is for."""

    layer: int
    head: int
    roles: tuple[Role, ...]
    does: str
    source: Place
    """The tokens that it reads from."""
    to: Place
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    """`reads` and `writes` are columns of the residual stream."""
    multiplies: tuple[str, ...]
    """For a product with K, the variables of the solver's state that are multiplied."""


@dataclass(frozen=True)
class CompiledModel:
    """A transformer whose weights were compiled, its certificate, and where its iterates live."""

    transformer: Transformer
    certificate: Certificate
    sites: dict[str, Any]
    """Where each iterate and state is read, and what each layer does; see docs/format.md. Those of a
    looped model have a period; `unrolled` has an entry for every step."""

    def heads(self, role: Role | None = None) -> list[HeadSite]:
        """The heads in order of their layers, or those of one role, such as `matvec`."""
        if role is not None and role not in get_args(Role):
            known = ", ".join(get_args(Role))
            raise Refusal(f"`role` must be one of {known}; got {role!r}.")
        heads = []
        for layer, entry in enumerate(self.sites["layers"]):
            for head, what in enumerate(entry["attention"]):
                if role is not None and "roles" not in what:
                    raise Refusal(
                        "The model was saved by a version that did not note the roles of its heads: "
                        "compile it again."
                    )
                if role is None or role in what["roles"]:
                    heads.append(
                        HeadSite(
                            layer,
                            head,
                            tuple(what.get("roles", ())),
                            what["does"],
                            what["from"],
                            what["to"],
                            tuple(what["reads"]),
                            tuple(what["writes"]),
                            tuple(what.get("multiplies", ())),
                        )
                    )
        return heads

    def check(self, prompt: Prompt) -> None:
        """Refuses a prompt outside the certified domain."""
        self.certificate.check(prompt)

    def sequence(self, prompt: Prompt) -> tuple[Float[Tensor, "batch n d_in"], int]:
        """The tokens, and how many of them are context; the others are the queries, in order."""
        if self.certificate.every_prefix:
            return prompt.alternating_tokens(), 2 * prompt.supports
        return prompt.tokens(), prompt.supports + 1

    def cost(self, prompt: Prompt) -> int:
        """The number of tokens that one prompt takes."""
        context = 2 * prompt.supports if self.certificate.every_prefix else prompt.supports + 1
        return context + prompt.phi_query.shape[1]

    def predict(self, prompt: Prompt, steps: int | None = None) -> Float[Tensor, "batch q r"]:
        """The transformer's predictions; a prompt outside the certified domain is refused.

        A looped model runs as many steps as `steps` says; no other model leaves the choice.
        """
        loops = self.loops(steps)
        self.certificate.check(prompt)
        with torch.inference_mode():
            return self.transformer(*self.sequence(prompt), loops=loops)  # type: ignore[no-any-return]

    def predict_prefixes(
        self, prompt: Prompt, *, steps: int | None = None
    ) -> Float[Tensor, "batch xs r"]:
        """Predictions at x₁ … x_k, each from the pairs before it, and then at the queries, in one pass.

        Entry i, up to i = k, is predicted from the first i pairs: these entries are the learning curve.
        """
        loops = self.loops(steps)
        self.certificate.check(prompt)
        with torch.inference_mode():
            stream = self.transformer.residual_stream(*self.sequence(prompt), loops=loops)
            return self.transformer.readout(stream[:, self.every_x(prompt)])

    def every_x(self, prompt: Prompt) -> Tensor:
        """The positions of x₁ … x_k and of the queries among the tokens."""
        if not self.certificate.every_prefix:
            raise Refusal(
                "The model predicts at the queries alone: compile it with `every_prefix=True` for a "
                "prediction at every x."
            )
        k, n = prompt.supports, self.cost(prompt)
        return torch.cat([torch.arange(0, 2 * k, 2), torch.arange(2 * k, n)])

    def loops(self, steps: int | None) -> int:
        """How often the transformer's loop is run for so many steps; refuses what is not certified."""
        certificate = self.certificate.at(steps)
        return (
            certificate.steps - self.certificate.steps_before_loop if self.certificate.looped else 1
        )

    def unrolled(self, steps: int) -> CompiledModel:
        """An ordinary model that takes that many steps of a looped one, for whatever reads layers."""
        return CompiledModel(
            unrolled_transformer(self.transformer, self.loops(steps)),
            self.certificate.at(steps),
            self.sites_of(steps),
        )

    def sites_of(self, steps: int | None) -> dict[str, Any]:
        """The sites of a run of so many steps, the blocks numbered as they are applied."""
        taken = self.certificate.at(steps).steps
        return unrolled_sites(self.sites, self.transformer.config, taken, self.loops(steps))

    def to(self, device: torch.device | str) -> CompiledModel:
        """Moves the model to another device, as `nn.Module.to` does, and returns it; prompts must be there, too."""
        check_precision(
            self.transformer.config.torch_dtype, device, 'compile with `dtype="float32"`'
        )
        self.transformer.to(device)
        return self

    def save(self, directory: str | Path, force: bool = False) -> None:
        extra = {"certificate": self.certificate.to_dict(), "sites": self.sites}
        save(self.transformer, directory, extra, force)

    @staticmethod
    def load(directory: str | Path) -> CompiledModel:
        transformer, config = load(directory)
        if "certificate" not in config or "sites" not in config:
            raise Refusal(f"{directory} holds a model without a certificate: it was not compiled.")
        certificate = Certificate.from_dict(config["certificate"])
        shape = transformer.config
        for name, said, has in (
            ("features and outputs", certificate.features + certificate.outputs + 3, shape.d_in),
            ("outputs", certificate.outputs, shape.d_out),
            ("attention", certificate.attention, shape.attention),
            ("dtype", certificate.dtype, shape.dtype),
            ("looped", certificate.looped, shape.loop is not None),
        ):
            if said != has:
                raise Refusal(
                    f"{directory} is damaged: its certificate is of another model, by its {name}; {AGAIN}."
                )
        check_sites(config["sites"], shape)
        return CompiledModel(transformer, certificate, config["sites"])

    def __call__(self, prompt: Prompt, steps: int | None = None) -> Float[Tensor, "batch q r"]:
        """The same as `predict`."""
        return self.predict(prompt, steps)

    def __repr__(self) -> str:
        return f"CompiledModel: {self.certificate.description()}\n  weights  {self.transformer!r}"
