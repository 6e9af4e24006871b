"""Bring your own module: an nn.TransformerEncoder, trained for a few seconds on linear regression.

It is read layer by layer: how much of exact ridge regression does a linear readout of the stream at the query
explain, on prompts that the readout was not fitted to? And which solver does it run?
"""

import torch
from torch import nn

import ridgeformer as rf
from ridgeformer.tasks import LinearRegression

torch.manual_seed(0)
torch.set_num_threads(1)
task = LinearRegression(features=2, supports=12, queries=12, condition=1.0)


class YourModel(nn.Module):
    """Tokens [x | y | 0] of the supports and [x | 0 | 1] of the queries, which read supports alone."""

    def __init__(self, d_model=32, layers=4):
        super().__init__()
        self.read_in = nn.Linear(task.features + 2, d_model)
        layer = nn.TransformerEncoderLayer(
            d_model, 4, 64, dropout=0.0, norm_first=True, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.read_out = nn.Linear(d_model, 1)

    def forward(self, tokens):
        n = tokens.shape[1]
        is_query = tokens[0, :, -1] == 1
        hidden = is_query & ~torch.eye(n, dtype=torch.bool)
        return self.read_out(self.encoder(self.read_in(tokens), mask=hidden))


def tokens_of(prompt):
    x = torch.cat([prompt.phi, prompt.phi_query], dim=1)
    y = nn.functional.pad(prompt.y, (0, 0, 0, prompt.phi_query.shape[1]))
    flag = (torch.arange(x.shape[1]) >= prompt.supports).expand(len(x), -1)[..., None]
    return torch.cat([x, y, flag], dim=2).to(torch.float32)


model, generator = YourModel(), torch.Generator().manual_seed(0)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(300):
    sample = task.sample(32, generator)
    found = model(tokens_of(sample.prompt))[:, task.supports :]
    loss = (found - sample.targets).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# What ridgeformer needs to know: the inputs, the layers, where supports and queries stand, the predictions.
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

prompt = task.draw(512, seed=1)
reading = subject.read(prompt)
exact = rf.krr(prompt, ridge=task.ridge).flatten()
half = len(exact) // 2


def explained(features, target):
    """R² on the second half of the prompts of the linear map that fits the first half best."""
    features = nn.functional.pad(features.flatten(0, 1).double(), (0, 1), value=1.0)
    weights = torch.linalg.lstsq(features[:half], target[:half, None], driver="gelsd").solution
    missed = (target[half:] - (features[half:] @ weights)[:, 0]).square().sum()
    return 1 - missed / (target[half:] - target[half:].mean()).square().sum()


print("layer  exact ridge regression explained by the stream at the query")
for layer, stream in enumerate(reading.queries):
    print(f"{layer:5d}  {explained(stream, exact):6.3f}")
print(f"model  {explained(reading.predictions, exact):6.3f}")

# An intervention: without what the supports hold after a layer, is the prediction still the same?
for layer in range(reading.layers + 1):
    without = subject.changed(prompt, layer, lambda supports, queries: (0 * supports, queries))
    kept = explained(without, exact)
    print(f"supports set to 0 after layer {layer}: {kept:6.3f} of exact ridge regression is left")

# Which solver does it run? All candidates are fitted to its layers. After seconds of training, none should be there.
finding = rf.identify(subject, task, prompts=96, seed=2)
print(finding.settings["verdict"]["sentence"])
for name in finding.settings["compared"]:
    interior, unexplained = (finding.get(m, name).value for m in ("interior", "unexplained"))
    print(f"{name}: interior {interior:.2f}, unexplained {unexplained:.3f}")
