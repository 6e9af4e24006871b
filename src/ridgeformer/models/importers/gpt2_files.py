"""The files of a GPT-2 that reads numbers: its configuration and its weights, read and checked.

The configuration is Hugging Face's config.json or the config.yaml that the code of Garg et al. writes. The weights
are tensors by name, in model.safetensors or in a state dict of torch; whatever stands before the names of GPT2Model
(`_backbone.` there) is found by the name of its positional table. No object is ever unpacked but tensors.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ridgeformer.types import Refusal
from ridgeformer.whole import read_text, reason

WEIGHTS = ("model.safetensors", "state.pt", "model.pt")
"""The files of weights, in the order in which they are looked for."""

Activation = Literal["gelu", "gelu_new", "relu"]
ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "gelu": "gelu",
    "relu": "relu",
}
"""GPT-2's names of activations, and ours."""

UNUSED = re.compile(r"wte\.weight|h\.\d+\.attn\.(masked_)?bias")
"""Tensors that predictions do not depend on: the table of words, and masks that old versions saved."""

FIXED = {
    "layer_norm_epsilon": 1e-5,
    "add_cross_attention": False,
    "scale_attn_by_inverse_layer_idx": False,
}
"""Entries of the configuration that must have these values, which are GPT-2's own."""


@dataclass(frozen=True)
class GPT2Files:
    """A checkpoint whose tensors are all there and have the right shapes."""

    name: str
    """The name of the file of weights."""
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    """The weights of GPT2Model that predictions depend on, by their names there."""
    read_in: Tensor
    in_bias: Tensor
    read_out: Tensor
    out_bias: Tensor
    steps: int | None
    """The number of training steps, if the file says it."""

    @staticmethod
    def read(directory: str | Path, weights: str | None = None) -> GPT2Files:
        """Reads and checks a checkpoint."""
        folder = Path(directory)
        if not folder.is_dir():
            raise Refusal(f"There is no directory {folder} with a checkpoint.")
        config = read_config(folder)
        path = weights_file(folder, weights)
        tensors, steps = read_weights(path)
        read_in, in_bias = linear(tensors, "read_in", path)
        read_out, out_bias = linear(tensors, "read_out", path)
        files = GPT2Files(
            path.name, config, backbone(tensors, path), read_in, in_bias, read_out, out_bias, steps
        )
        files.check(folder, path)
        return files

    @property
    def n_layer(self) -> int:
        return 1 + max(
            (int(k.split(".")[1]) for k in self.tensors if k.startswith("h.")), default=-1
        )

    @property
    def n_embd(self) -> int:
        return self.tensors["wpe.weight"].shape[1]

    @property
    def positions(self) -> int:
        return self.tensors["wpe.weight"].shape[0]

    @property
    def n_head(self) -> int:
        return int(self.config["n_head"])

    @property
    def n_inner(self) -> int:
        return self.tensors["h.0.mlp.c_fc.weight"].shape[1]

    @property
    def activation(self) -> Activation:
        return ACTIVATIONS[self.config.get("activation_function", "gelu_new")]

    @property
    def attn_scale(self) -> float:
        scaled = self.config.get("scale_attn_weights", True)
        return float((self.n_embd // self.n_head) ** -0.5) if scaled else 1.0

    @property
    def dtype(self) -> torch.dtype:
        return self.read_in.dtype

    def gpt2_config(self) -> dict[str, Any]:
        """What GPT2Config is made with; dropout plays no part in predictions."""
        return {
            "vocab_size": 1,
            "n_positions": self.positions,
            "n_embd": self.n_embd,
            "n_layer": self.n_layer,
            "n_head": self.n_head,
            "n_inner": self.n_inner,
            "activation_function": self.config.get("activation_function", "gelu_new"),
            "scale_attn_weights": self.config.get("scale_attn_weights", True),
            "bos_token_id": None,
            "eos_token_id": None,
            "use_cache": False,
        }

    def check(self, folder: Path, path: Path) -> None:
        """Refuses a configuration that a saved model cannot have, and tensors that do not fit it."""
        for entry, wanted in FIXED.items():
            if (seen := self.config.get(entry, wanted)) != wanted:
                raise Refusal(f"A GPT-2 with {entry} {seen} cannot be read; it must be {wanted}.")
        if (seen := self.config.get("activation_function", "gelu_new")) not in ACTIVATIONS:
            raise Refusal(
                f"A GPT-2 with the activation {seen} cannot be read; it must be one of "
                f"{', '.join(ACTIVATIONS)}."
            )
        if self.n_layer < 1:
            raise Refusal(f"{path} has no blocks: there is no tensor h.0.ln_1.weight.")
        self.check_shapes(path)
        heads = self.config.get("n_head")
        if not isinstance(heads, int) or heads < 1 or self.n_embd % heads:
            raise Refusal(
                f"The configuration in {folder} needs an n_head that divides n_embd {self.n_embd}; "
                f"got {heads}."
            )
        seen_sizes = {"n_layer": self.n_layer, "n_embd": self.n_embd, "n_dims": self.features}
        if "n_dims" not in self.config:  # In config.yaml, n_positions counts points.
            seen_sizes["n_positions"] = self.positions
        for entry, seen in seen_sizes.items():
            if (said := self.config.get(entry, seen)) != seen:
                raise Refusal(
                    f"{path} does not fit its configuration: {entry} is {seen}, and there {said}."
                )

    @property
    def features(self) -> int:
        return self.read_in.shape[1]

    def check_shapes(self, path: Path) -> None:
        d = self.n_embd
        width = self.tensors.get("h.0.mlp.c_fc.weight", torch.empty(d, 4 * d)).shape[-1]
        expected = {"wpe.weight": [self.positions, d], "ln_f.weight": [d], "ln_f.bias": [d]}
        for layer in range(self.n_layer):
            sizes = {
                "ln_1": (d,), "ln_2": (d,), "attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d),
                "mlp.c_fc": (d, width), "mlp.c_proj": (width, d),
            }  # fmt: skip
            for part, size in sizes.items():
                expected[f"h.{layer}.{part}.weight"] = [*size]
                expected[f"h.{layer}.{part}.bias"] = [size[-1]]
        if missing := sorted(set(expected) - set(self.tensors)):
            raise Refusal(f"{path} is incomplete: there is no tensor {missing[0]}.")
        if odd := sorted(set(self.tensors) - set(expected)):
            raise Refusal(f"{path} has a tensor {odd[0]}, which a GPT2Model has not.")
        shapes = {name: (self.tensors[name], size) for name, size in expected.items()}
        shapes |= {
            "read_in.weight": (self.read_in, [d, self.read_in.shape[-1]]),
            "read_in.bias": (self.in_bias, [d]),
            "read_out.weight": (self.read_out, [1, d]),
            "read_out.bias": (self.out_bias, [1]),
        }
        for name, (tensor, wanted) in shapes.items():
            if list(tensor.shape) != wanted:
                raise Refusal(f"In {path} {name} must be {wanted}; it is {list(tensor.shape)}.")
            if not torch.isfinite(tensor).all():
                raise Refusal(f"{path} is damaged: {name} has NaN or infinite entries.")


def read_config(folder: Path) -> dict[str, Any]:
    """The entries of config.json, or those of `model` in config.yaml."""
    path = folder / "config.json"
    try:
        if path.exists():
            config = json.loads(read_text(path))
        elif (path := folder / "config.yaml").exists():
            config = from_yaml(path)
        else:
            raise Refusal(
                f"{folder} holds no checkpoint of a GPT-2: there is no config.json and no config.yaml."
            )
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(f"{path} is damaged or unreadable: {reason(error)}.") from error
    if not isinstance(config, dict):
        raise Refusal(f"{path} is not the configuration of a GPT-2.")
    kind = config.get("model_type", config.get("family", "gpt2"))
    if kind != "gpt2":
        raise Refusal(f"{path} is the configuration of a {kind}, not of a GPT-2.")
    return config


def from_yaml(path: Path) -> Any:
    """The model in a config.yaml; tags of Python classes are read as the mappings that they hold."""
    try:
        import yaml
    except ImportError as error:
        raise Refusal(f"{path} is read by PyYAML: pip install 'ridgeformer[export]'.") from error

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        pass

    Plain.add_multi_constructor("", lambda loader, _, node: loader.construct_mapping(node, True))
    try:
        config = yaml.load(read_text(path), Plain)
    except yaml.YAMLError as error:
        raise Refusal(f"{path} is damaged: {first_line(error)}.") from error
    return config.get("model") if isinstance(config, dict) else None


def weights_file(folder: Path, weights: str | None) -> Path:
    names = WEIGHTS if weights is None else (weights,)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise Refusal(f"There are no weights in {folder}: no {' or '.join(names)}.")


def read_weights(path: Path) -> tuple[dict[str, Tensor], int | None]:
    """The tensors by name in one precision, and the number of training steps if the file says it."""
    steps = None
    try:
        if path.suffix == ".safetensors":
            found: Any = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
            if isinstance(found, dict) and isinstance(found.get("model_state_dict"), dict):
                steps = found.get("train_step")
                found = found["model_state_dict"]
    except (SafetensorError, OSError) as error:
        raise Refusal(f"{path} is damaged or unreadable: {first_line(error)}.") from error
    except Exception as error:  # torch raises many kinds for files that are not state dicts
        raise Refusal(
            f"{path} cannot be read as a state dict, which holds tensors alone: {first_line(error)}."
        ) from error
    if not isinstance(found, dict) or not all(isinstance(t, Tensor) for t in found.values()):
        raise Refusal(f"{path} is not a state dict: it must hold tensors by their names.")
    numbers = {str(name): t for name, t in found.items() if t.is_floating_point()}
    double = all(t.dtype == torch.float64 for t in numbers.values())
    dtype = torch.float64 if double else torch.float32
    known = steps if isinstance(steps, int) else None
    return {name: t.to(dtype) for name, t in numbers.items()}, known


def linear(tensors: dict[str, Tensor], name: str, path: Path) -> tuple[Tensor, Tensor]:
    """The weight and the bias of a linear map; one without a bias has zeros."""
    key = next((k for k in tensors if k.endswith(f"{name}.weight")), None)
    if key is None or tensors[key].ndim != 2:
        raise Refusal(
            f"{path} has no matrix {name}.weight: the layout of Garg et al. has a read_in before and a "
            "read_out after the GPT-2."
        )
    weight = tensors[key]
    return weight, tensors.get(key.removesuffix("weight") + "bias", weight.new_zeros(len(weight)))


def backbone(tensors: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The tensors of GPT2Model that predictions depend on."""
    table = next((k for k in tensors if k.endswith("wpe.weight")), None)
    if table is None or tensors[table].ndim != 2:
        raise Refusal(f"{path} has no positional table wpe.weight: it holds no GPT2Model.")
    prefix = table.removesuffix("wpe.weight")
    maps = re.compile(r"(^|.*[._])read_(in|out)\.(weight|bias)")
    named = {
        k.removeprefix(prefix): t
        for k, t in tensors.items()
        if k.startswith(prefix) and not maps.fullmatch(k)
    }
    return {k: t for k, t in named.items() if not UNUSED.fullmatch(k)}


def first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
