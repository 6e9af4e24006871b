"""
Your own model
==============

Any ``torch.nn.Module`` that reads prompts can be read layer by layer. It has to be told how a prompt becomes its input, which
submodules are layers, where supports and queries stand, and which part of the output are predictions.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import ridgeformer as rf
from ridgeformer.tasks import LinearRegression

torch.manual_seed(0)
torch.set_num_threads(1)

# %%
# A module
# --------
# The module is an encoder of PyTorch that knows nothing of this project. Its tokens are [x | y | 0] for supports and [x | 0 | 1] for queries.
# A query reads the supports and itself, and no token reads another query.
task = LinearRegression(features=2, supports=12, queries=12, condition=1.0)


class Encoder(nn.Module):
    def __init__(self, d_model=32, layers=4):
        super().__init__()
        self.read_in = nn.Linear(task.features + 2, d_model)
        layer = nn.TransformerEncoderLayer(
            d_model, 4, 64, dropout=0.0, norm_first=True, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.read_out = nn.Linear(d_model, 1)

    def forward(self, tokens):
        is_query = tokens[0, :, -1] == 1
        hidden = is_query & ~torch.eye(tokens.shape[1], dtype=torch.bool)
        return self.read_out(self.encoder(self.read_in(tokens), mask=hidden))


def tokens_of(prompt):
    x = torch.cat([prompt.phi, prompt.phi_query], dim=1)
    y = nn.functional.pad(prompt.y, (0, 0, 0, prompt.phi_query.shape[1]))
    flag = (torch.arange(x.shape[1]) >= prompt.supports).expand(len(x), -1)[..., None]
    return torch.cat([x, y, flag], dim=2).to(torch.float32)


# %%
# Trained for a few seconds
# -------------------------
model, generator = Encoder(), torch.Generator().manual_seed(0)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(300):
    sample = task.sample(32, generator)
    loss = (model(tokens_of(sample.prompt))[:, task.supports :] - sample.targets).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# The adapter
# -----------
# This is all that is needed. The adapter puts hooks on the layers, and only while it runs the module.
subject = rf.ModuleSubject(
    "an encoder",
    model,
    inputs=tokens_of,
    outputs=lambda output, prompt: output[:, prompt.supports :],
    layers=[f"encoder.layers.{number}" for number in range(4)],
    positions=lambda prompt: (
        range(prompt.supports),
        range(prompt.supports, prompt.supports + prompt.phi_query.shape[1]),
    ),
)

# %%
# What it holds, and what it needs
# --------------------------------
# How much of exact ridge regression does a linear readout of the stream at the query explain after each layer, on prompts that
# the readout was not fitted to? And what is left of the prediction if the supports' tokens are emptied after a layer?
prompt = task.draw(384, seed=1)
reading = subject.read(prompt)
exact = rf.krr(prompt, ridge=task.ridge).flatten()
half = len(exact) // 2


def explained(found, target):
    """R² on the second half of the prompts of the linear map that fits the first half best."""
    found = nn.functional.pad(found.flatten(0, 1).double(), (0, 1), value=1.0)
    weights = torch.linalg.lstsq(found[:half], target[:half, None], driver="gelsd").solution
    missed = (target[half:] - (found[half:] @ weights)[:, 0]).square().sum()
    return float(1 - missed / (target[half:] - target[half:].mean()).square().sum())


held = [explained(stream, exact) for stream in reading.queries]
left = [
    explained(
        subject.changed(prompt, layer, lambda supports, queries: (0 * supports, queries)), exact
    )
    for layer in range(reading.layers + 1)
]
print("layer   in the stream   without supports")
for layer, (there, without) in enumerate(zip(held, left, strict=True)):
    print(f"{layer:5d} {there:15.3f} {without:18.3f}")

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(held, "o-", label="linear readout of the stream at the query")
axes.plot(left, "s--", label="prediction, supports emptied after this layer")
axes.axhline(
    explained(reading.predictions, exact), color="0.7", zorder=0, label="the model's prediction"
)
axes.set_xticks(range(5))
axes.set_xlabel("layer; 0 is the embedding")
axes.set_ylabel("exact ridge regression explained (R²)")
axes.legend()
plt.show()

# %%
# After each layer the stream at the query holds more of the answer. About as much is left of the prediction if the supports are emptied after that layer, because a query
# keeps what it has read. :doc:`/your-own-model` describes the other ways to bring a model: GPT-2 checkpoints, classes of your own, and
# importers. ``rf.identify(subject, task)`` asks which solver a model runs, as in the tutorial before this one.
