"""An exported model run by stock transformers, as docs/format.md describes. Imports nothing of the
package, and makes sure that nothing of GPT-2 is patched.

As a program: python gpt2_executor.py CHECKPOINT PROMPTS.npz PREDICTIONS.npz
"""

import inspect
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from torch.nn.modules import module as torch_module
from transformers import GPT2Model
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gpt2 import modeling_gpt2

LIBRARIES = tuple(str(Path(library.__file__).parent) for library in (torch, transformers))
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def home(function):
    """The file that a function was written in, whatever its name says."""
    return inspect.getsourcefile(inspect.unwrap(function))


def check_stock(model):
    """Fails if any part of the model is not what torch and transformers ship."""
    gpt2 = home(modeling_gpt2.GPT2PreTrainedModel)
    assert type(model) is modeling_gpt2.GPT2Model
    for own in ("GPT2Model", "GPT2Block", "GPT2Attention", "GPT2MLP"):
        assert home(getattr(modeling_gpt2, own).forward) == gpt2, own
    for name in (*HOOKS[:2], "_backward_hooks"):
        assert not getattr(torch_module, f"_global{name}"), name
    for name, module in model.named_modules():
        kind = type(module)
        assert kind.__module__.startswith(("torch.nn.", "transformers.")), f"{name}: {kind}"
        for method in ("forward", "__call__", "_call_impl"):
            assert method not in vars(module), f"{name}.{method} is patched"
            for function in (getattr(kind, method), inspect.unwrap(getattr(kind, method))):
                assert inspect.getsourcefile(function).startswith(LIBRARIES), f"{name}.{method}"
        assert not any(getattr(module, hooks) for hooks in HOOKS), f"{name} has hooks"
    for attend in (ALL_ATTENTION_FUNCTIONS["sdpa"], modeling_gpt2.eager_attention_forward):
        assert home(attend).startswith(LIBRARIES)
    assert inspect.isbuiltin(torch.nn.functional.scaled_dot_product_attention)
    assert home(torch.nn.functional.layer_norm).startswith(LIBRARIES)


def tokens_of(phi, y, phi_query):
    (b, k, p), q, r = phi.shape, phi_query.shape[1], y.shape[2]
    x = torch.zeros(b, k + 1 + q, p + r + 3, dtype=phi.dtype)
    x[:, :k, :p], x[:, :k, p : p + r], x[:, k + 1 :, :p] = phi, y, phi_query
    x[:, :k, -3], x[:, k, -2], x[:, k + 1 :, -1] = 1, 1, 1
    return x


def mask_of(k, n, dtype):
    visible = (torch.arange(n) <= k) | torch.eye(n, dtype=torch.bool)
    return torch.zeros(1, 1, n, n, dtype=dtype).masked_fill(~visible, -torch.inf)


def run(directory, phi, y, phi_query, attn_implementation="sdpa"):
    dtype = getattr(torch, json.loads((Path(directory) / "config.json").read_text())["dtype"])
    gpt2, loading = GPT2Model.from_pretrained(
        directory, dtype=dtype, attn_implementation=attn_implementation, output_loading_info=True
    )
    assert not any(loading.values()), loading
    check_stock(gpt2)
    maps = load_file(Path(directory) / "ridgeformer.safetensors")
    tokens = tokens_of(*(torch.as_tensor(a, dtype=dtype) for a in (phi, y, phi_query)))
    k = phi.shape[1]
    with torch.inference_mode():
        stream = gpt2(
            inputs_embeds=tokens @ maps["embedding"] + maps["embedding_bias"],
            attention_mask=mask_of(k, tokens.shape[1], dtype),
        ).last_hidden_state
    check_stock(gpt2)
    return (stream @ maps["readout"] + maps["readout_bias"])[:, k + 1 :].numpy()


if __name__ == "__main__":
    checkpoint, prompts, predictions = sys.argv[1:]
    sys.modules["ridgeformer"] = None  # from here on, importing it is an error
    loaded = np.load(prompts)
    np.savez(predictions, prediction=run(checkpoint, **loaded))
    assert not [name for name in sys.modules if name.startswith("ridgeformer.")]
