"""A saved model run by NumPy alone, as docs/format.md describes. Imports nothing of the package."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


def tokens_of(phi, y, phi_query):
    (b, k, p), q, r = phi.shape, phi_query.shape[1], y.shape[2]
    x = np.zeros((b, k + 1 + q, p + r + 3), dtype=phi.dtype)
    x[:, :k, :p], x[:, :k, p : p + r], x[:, k + 1 :, :p] = phi, y, phi_query
    x[:, :k, -3], x[:, k, -2], x[:, k + 1 :, -1] = 1, 1, 1
    return x


def interleaved_tokens_of(phi, y, phi_query):
    """x₁ y₁ … x_k y_k and one query, a sequence for each of them."""
    (b, k, p), q, r = phi.shape, phi_query.shape[1], y.shape[2]
    x = np.zeros((b, q, 2 * k + 1, p + r + 3), dtype=phi.dtype)
    x[:, :, 0:-1:2, :p], x[:, :, 1::2, p : p + r] = phi[:, None], y[:, None]
    x[:, :, -1, :p] = phi_query
    x[:, :, 0::2, -1], x[:, :, 1::2, -3] = 1, 1
    return x.reshape(b * q, 2 * k + 1, -1)


def alternating_tokens_of(phi, y, phi_query):
    """x₁, (x₁, y₁), …, x_k, (x_k, y_k), then the queries."""
    (b, k, p), q, r = phi.shape, phi_query.shape[1], y.shape[2]
    x = np.zeros((b, 2 * k + q, p + r + 3), dtype=phi.dtype)
    x[:, 0 : 2 * k : 2, :p], x[:, 1 : 2 * k : 2, :p], x[:, 2 * k :, :p] = phi, phi, phi_query
    x[:, 1 : 2 * k : 2, p : p + r], x[:, 1 : 2 * k : 2, -3] = y, 1
    x[:, 0 : 2 * k : 2, -1], x[:, 2 * k :, -1] = 1, 1
    return x


def visible(n, context, mask):
    """[reader, read]: who may read whom; the first `context` tokens are read by all."""
    context = np.arange(n) < context
    allowed = np.tile(context, (n, 1)) | (np.eye(n, dtype=bool) & (mask != "context"))
    return allowed & np.tri(n, dtype=bool) if mask == "causal" else allowed


def norm(x, weights, name, kind):
    if kind == "none":
        return x
    if kind == "rmsnorm":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weights[f"{name}.w"]
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.w"] + weights[f"{name}.b"]


def sinusoids(n, d):
    table = np.zeros((n, d))
    for i in range(0, d, 2):
        angles = np.arange(n) / 10_000 ** (i / d)
        table[:, i : i + 2] = np.stack([np.sin(angles), np.cos(angles)], 1)[:, : d - i]
    return table


def run(directory, phi, y, phi_query, loops=1):
    config = json.loads((Path(directory) / "config.json").read_text())
    recipe = config.get("recipe")
    if config.get("certificate", {}).get("every_prefix"):
        return run_prefixes(directory, phi, y, phi_query)[:, phi.shape[1] :]
    layout = "pairs" if recipe is None else recipe["model"]["layout"]
    if layout != "pairs":
        tokens = interleaved_tokens_of(phi, y, phi_query)
        if layout == "alternating":  # the token of a y carries its x too
            tokens[:, 1::2, : phi.shape[2]] = tokens[:, 0:-1:2, : phi.shape[2]]
        found = run_tokens(directory, tokens, 2 * phi.shape[1])
        return found.reshape(*phi_query.shape[:2], -1)
    return run_tokens(directory, tokens_of(phi, y, phi_query), phi.shape[1] + 1, loops)


def run_prefixes(directory, phi, y, phi_query):
    """Of a model that solves every prefix, the predictions at x₁ … x_k and at the queries."""
    k = phi.shape[1]
    found = run_tokens(directory, alternating_tokens_of(phi, y, phi_query), 2 * k, everywhere=True)
    return np.concatenate([found[:, 0 : 2 * k : 2], found[:, 2 * k :]], axis=1)


def applied(config, loops):
    """The blocks in the order in which they are applied."""
    first, stop = config.get("loop") or (0, 0)
    n = config["n_layers"]
    return [*range(first), *[*range(first, stop)] * loops, *range(stop, n)]


def run_tokens(directory, tokens, context, loops=1, everywhere=False, edit=lambda site, x: x):
    """`edit` is given the residual stream at every site, and returns what takes its place."""
    config = json.loads((Path(directory) / "config.json").read_text())
    w = load_file(Path(directory) / "model.safetensors")
    x = tokens.astype(config["dtype"])
    x = x @ w["embed.W"] + w["embed.b"]
    if config["positional"] == "learned":
        x = x + w["pos"][: x.shape[1]]
    if config["positional"] == "sinusoidal":
        x = x + sinusoids(*x.shape[1:]).astype(config["dtype"])
    if config.get("n_registers", 0):
        rows = np.broadcast_to(w["registers"], (len(x), *w["registers"].shape))
        x, context = np.concatenate([rows, x], axis=1), context + rows.shape[1]
    allowed = visible(x.shape[1], context, config["mask"])
    x = edit("embed", x)
    for layer in applied(config, loops):
        name = f"blocks.{layer}"
        z = norm(x, w, f"{name}.ln1", config["norm"])
        out = w[f"{name}.attn.b_O"]
        for head in range(config["n_heads"]):
            q, k, v = (
                z @ w[f"{name}.attn.W_{c}"][head] + w[f"{name}.attn.b_{c}"][head] for c in "QKV"
            )
            scores = config["attn_scale"] * (q @ k.swapaxes(1, 2))
            if config["attention"] == "softmax":
                scores = np.where(allowed, scores, -np.inf)
                scores = np.exp(scores - scores.max(-1, keepdims=True))
                scores = scores / scores.sum(-1, keepdims=True)
            out = out + np.where(allowed, scores, 0) @ v @ w[f"{name}.attn.W_O"][head]
        x = edit(f"{name}.resid_mid", x + out)
        z = norm(x, w, f"{name}.ln2", config["norm"])
        hidden = z @ w[f"{name}.mlp.W_in"] + w[f"{name}.mlp.b_in"]
        if config["mlp"] == "reglu":
            gate = z @ w[f"{name}.mlp.W_gate"] + w[f"{name}.mlp.b_gate"]
            hidden = np.maximum(gate, 0) * hidden
        elif config["mlp"] == "relu":
            hidden = np.maximum(hidden, 0)
        elif config["mlp"] == "gelu_new":
            cubic = np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)
            hidden = hidden * (1 + np.tanh(cubic)) / 2
        else:
            from scipy.special import erf

            hidden = hidden * (1 + erf(hidden / np.sqrt(2))) / 2
        x = edit(f"{name}.resid_post", x + hidden @ w[f"{name}.mlp.W_out"] + w[f"{name}.mlp.b_out"])
    x = norm(x, w, "ln_final", config["norm"])
    return (x @ w["unembed.W"] + w["unembed.b"])[:, 0 if everywhere else context :]
