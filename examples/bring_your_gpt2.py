"""Bring your own GPT-2: numbers for tokens, in the layout of Garg et al. (2022).

The model is trained here for a few seconds; yours comes from a checkpoint. It is read in place, layer by layer,
and imported, which makes it a saved model that every command of ridgeformer reads.
"""

from pathlib import Path

import torch
from torch import nn
from transformers import GPT2Config, GPT2Model

import ridgeformer as rf
from ridgeformer.tasks import LinearRegression

torch.manual_seed(0)
torch.set_num_threads(1)
points, d = 8, 1
task = LinearRegression(features=d, supports=points - 1, queries=4, noise=0.1)


class YourModel(nn.Module):
    """x₁, (y₁, 0, …, 0), x₂, … go through read_in, GPT-2 and read_out; each x predicts its y."""

    def __init__(self):
        super().__init__()
        shape = {"n_positions": 2 * points, "n_embd": 32, "n_layer": 2, "n_head": 4}
        no_words = {"vocab_size": 1, "bos_token_id": None, "eos_token_id": None}
        no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        self._read_in = nn.Linear(d, 32)
        self._backbone = GPT2Model(GPT2Config(**shape, **no_words, **no_dropout))
        self._read_out = nn.Linear(32, 1)

    def forward(self, x, y):
        tokens = torch.stack([x, nn.functional.pad(y, (0, d - 1))], dim=2).flatten(1, 2)
        hidden = self._backbone(inputs_embeds=self._read_in(tokens)).last_hidden_state
        return self._read_out(hidden)[:, ::2]


model, generator = YourModel(), torch.Generator().manual_seed(0)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(300):
    x, y = (t.float() for t in task.observe(32, points, generator))
    loss = (model(x, y) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# A checkpoint is GPT-2's config.json with the state dict of all three parts. Instead of the two lines after it,
#   ridgeformer import --from gpt2 your-gpt2 --out imported --task linear --features 1 --supports 7 --noise 0.1
folder = Path("your-gpt2")
folder.mkdir(exist_ok=True)
model._backbone.config.save_pretrained(folder)
torch.save(model.state_dict(), folder / "model.pt")
rf.FromGPT2().load(folder, task).save("imported", force=True)
imported = rf.load("imported")

# Both are subjects: predictions, streams after each layer, and interventions.
yours, ours = rf.GPT2Subject.of(model), rf.subject(imported)
prompt = task.draw(256, seed=1)
here, there = yours.read(prompt), ours.read(prompt)
print(f"predictions differ by {(here.predictions - there.predictions).abs().max():.1e}")
print("layer  streams differ by  predictions change by, if the supports' streams are set to 0")
for layer in range(here.layers + 1):
    apart = (here.queries[layer] - there.queries[layer]).abs().max()
    removed = yours.changed(prompt, layer, lambda supports, queries: (0 * supports, queries))
    print(f"{layer:5d}  {apart:17.1e}  {(removed - here.predictions).square().mean().sqrt():12.3f}")
