"""Export a compiled model to the stock GPT2Model, and read α_t inside it with nnsight.

The model runs Richardson's iteration for Gaussian kernel ridge regression, preconditioned by the
normaliser of softmax attention: one block a step, with one head and a plain ReLU MLP.
"""

import json
from pathlib import Path

import torch
from nnsight import NNsight
from safetensors.torch import load_file
from transformers import GPT2Model

import ridgeformer as rf

k, steps, ridge, kernel = 20, 12, 0.5, rf.Gaussian(0.5)
solver = rf.Richardson(precondition="row-sum", interval=(0.01, 1.1))
generator = torch.Generator().manual_seed(0)
points = 2 * torch.rand(8, k + 4, 2, generator=generator, dtype=torch.float64) - 1
prompt = rf.Prompt(points[:, :k], torch.sin(3 * points[:, :k, :1]), points[:, k:])
products = rf.Interpolated(max_target=1.0, width=256)
model = rf.compile(
    solver, features=2, steps=steps, ridge=ridge, kernel=kernel,
    to=rf.SoftmaxAttention(max_norm=1.5, max_supports=k, products=products),
)  # fmt: skip
model.save("richardson", force=True)
saved = json.loads(Path("richardson/config.json").read_text())
rf.GPT2().save(model.transformer, "richardson-gpt2", saved, force=True)

# From here on nothing but transformers, nnsight and the files computes.
gpt2 = NNsight(GPT2Model.from_pretrained("richardson-gpt2", dtype=torch.float64))
maps = load_file("richardson-gpt2/ridgeformer.safetensors")
beside = json.loads(Path("richardson-gpt2/ridgeformer.json").read_text())
embeds = prompt.tokens() @ maps["embedding"] + maps["embedding_bias"]
mask = rf.prefix_mask(k, prompt.phi_query.shape[1], torch.float64)
places = beside["model"]["sites"]["states"]["alpha"]
found = []
with torch.no_grad(), gpt2.trace(inputs_embeds=embeds, attention_mask=mask):
    for place in places:
        stream = gpt2.get(beside["modules"][place["site"]]).input
        found.append(stream[:, :k, place["columns"]].save())

ours = rf.trajectory(model, prompt, states=True).states["alpha"]
theirs = rf.solve(solver, prompt, steps=steps, ridge=ridge, kernel=kernel, states=True).states[
    "alpha"
]
A = kernel(prompt.phi, prompt.phi) + ridge * torch.eye(k)
print("step  |y − A α|   α in GPT-2 against our transformer, and against the solver")
for place, seen in zip(places, found, strict=True):
    t = place["step"]
    apart = [(seen - reference[t]).abs().max() for reference in (ours, theirs)]
    print(f"{t:4d}  {(prompt.y - A @ seen).norm():9.2e}  {apart[0]:15.1e}  {apart[1]:22.1e}")
