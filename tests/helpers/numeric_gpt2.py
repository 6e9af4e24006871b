"""GPT-2 with numbers for tokens, as Garg et al. (2022) train it: written from their description alone."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2Model


class NumericGPT2(nn.Module):
    """x₁, (y₁, 0, …), x₂, … through read_in, GPT-2 and read_out; a prediction at every x."""

    def __init__(self, features=3, points=16, **shape):
        super().__init__()
        shape = {"n_embd": 32, "n_layer": 3, "n_head": 4} | shape
        config = GPT2Config(
            vocab_size=1, n_positions=2 * points, bos_token_id=None, eos_token_id=None, **shape
        )
        self._read_in = nn.Linear(features, config.n_embd)
        self._backbone = GPT2Model(config)
        self._read_out = nn.Linear(config.n_embd, 1)

    def forward(self, xs, ys):
        rest = torch.zeros(*ys.shape, xs.shape[2] - 1, dtype=xs.dtype)
        wide = torch.cat([ys[..., None], rest], dim=2)
        tokens = torch.stack([xs, wide], dim=2).flatten(1, 2)
        hidden = self._backbone(inputs_embeds=self._read_in(tokens)).last_hidden_state
        return self._read_out(hidden)[:, ::2, 0]

    def answers(self, prompt):
        """Its prediction at each query, which stands after all supports."""
        prompt = prompt.to(self._read_in.weight.dtype)
        found = []
        with torch.no_grad():
            for query in prompt.phi_query.unbind(1):
                xs = torch.cat([prompt.phi, query[:, None]], dim=1)
                ys = torch.cat([prompt.y[..., 0], torch.zeros(len(xs), 1, dtype=xs.dtype)], dim=1)
                found.append(self(xs, ys)[:, -1:])
        return torch.stack(found, dim=1)


def random_gpt2(seed=0, **shape):
    """All of its weights are random, its biases and norms among them, and large enough to matter."""
    torch.manual_seed(seed)
    model = NumericGPT2(**shape)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.15)
    return model.eval()


def trained_gpt2(task, steps=300, seed=0):
    """Trained for a few seconds on the points of a task."""
    torch.manual_seed(seed)
    dropout = {"embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0}
    model = NumericGPT2(task.features, points=8, n_layer=2, **dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(seed)
    points = len(model._backbone.wpe.weight) // 2
    for _ in range(steps):
        xs, ys = (t.float() for t in task.observe(32, points, generator))
        loss = (model(xs, ys[..., 0]) - ys[..., 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def save_checkpoint(model, folder, file="model.pt"):
    """A directory with config.json and the state dict, as a user would write it."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    model._backbone.config.save_pretrained(folder)
    state = model.state_dict()
    if file == "state.pt":
        torch.save({"model_state_dict": state, "train_step": 150}, folder / file)
    elif file.endswith(".pt"):
        torch.save(state, folder / file)
    else:
        save_file(state, folder / file)
    return folder
