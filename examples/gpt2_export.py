"""Export a softmax model to the stock GPT2Model, and read α_t inside it with nnsight.

The model runs Richardson's iteration on (P + μI) α = y, where P is the matrix of attention weights
between supports, P_ij ∝ exp(φ_i·φ_j): one layer a step, with the residual r in the stream.

    attention: t ← −η P r        MLP: α ← α + η r,  r ← r + t − ημ r,  f ← f − t,  t ← 0
"""

import json
from pathlib import Path

import torch
from nnsight import NNsight
from safetensors.torch import load_file
from transformers import GPT2Model

import ridgeformer as rf
from ridgeformer.export import prefix_mask, save_gpt2

p, steps, eta, mu = 4, 12, 0.8, 0.5
features, support, aggregator, query = slice(0, p), p, p + 1, p + 2
alpha, r, t, f = range(p + 3, p + 7)
config = rf.TransformerConfig(
    d_in=p + 4, d_out=1, d_model=p + 7, n_layers=steps, n_heads=1, d_head=p + 1, d_mlp=4,
    attention="softmax", mlp="relu", norm="none", dtype="float64",
)  # fmt: skip
model = rf.Transformer(config, init="zero").requires_grad_(False)
model.embed.W[range(p + 4), [*range(p), r, support, aggregator, query]] = 1
model.unembed.W[f] = 1
for block in model.blocks:
    W_Q, W_K, W_V, W_O = (getattr(block.attn, f"W_{name}")[0] for name in "QKVO")
    W_Q[features, :p] = W_K[features, :p] = torch.eye(p, dtype=torch.float64)
    W_Q[[support, aggregator, query], p] = 1
    W_K[[aggregator, query], p] = -1e4  # only supports are read
    W_V[r, 0], W_O[0, t] = 1, -eta
    # v = relu(v) − relu(−v) for v = r and v = t
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    block.mlp.W_in[r, :2] = block.mlp.W_in[t, 2:] = signs
    block.mlp.W_out[:2, alpha], block.mlp.W_out[:2, r] = eta * signs, -eta * mu * signs
    block.mlp.W_out[2:, r], block.mlp.W_out[2:, f] = signs, -signs
    block.mlp.W_out[2:, t] = -signs
sites = [
    {"step": i + 1, "site": f"blocks.{i}.resid_post", "columns": [alpha]} for i in range(steps)
]
save_gpt2(model, "richardson-gpt2", {"sites": {"states": {"alpha": sites}}}, force=True)

# From here on nothing but transformers, nnsight and the files.
gpt2 = NNsight(GPT2Model.from_pretrained("richardson-gpt2", dtype=torch.float64))
maps = load_file("richardson-gpt2/ridgeformer.safetensors")
beside = json.loads(Path("richardson-gpt2/ridgeformer.json").read_text())
prompt = rf.PrescribedSpectrum(features=p, supports=20, condition=10.0).draw(8, seed=0)
embeds = prompt.tokens() @ maps["embedding"] + maps["embedding_bias"]
mask = prefix_mask(20, prompt.phi_query.shape[1], torch.float64)
places = beside["model"]["sites"]["states"]["alpha"]
found = []
with torch.no_grad(), gpt2.trace(inputs_embeds=embeds, attention_mask=mask):
    for place in places:
        stream = gpt2.get(beside["modules"][place["site"]]).input
        found.append(stream[:, :20, place["columns"]].save())

A = (prompt.phi @ prompt.phi.mT).softmax(-1) + mu * torch.eye(20)
expected = torch.zeros_like(prompt.y)
print("step  |y − (P + μI) α|   α in GPT-2 against plain Richardson")
for place, seen in zip(places, found, strict=True):
    expected = expected + eta * (prompt.y - A @ expected)
    apart = (seen - expected).abs().max()
    print(f"{place['step']:4d}  {(prompt.y - A @ seen).norm():10.2e}  {apart:18.1e}")
