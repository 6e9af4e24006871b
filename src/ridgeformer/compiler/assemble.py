"""Schedules with a layout, written out as the weights of a transformer."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.lower import Lowering
from ridgeformer.compiler.schedule import (
    Cell,
    Form,
    Head,
    HingeWrite,
    LinearWrite,
    MLPWrite,
    Output,
    ProductWrite,
    Schedule,
    Token,
    form_key,
)
from ridgeformer.transformer import Transformer, TransformerConfig
from ridgeformer.transformer.model import Block
from ridgeformer.types import Refusal

TOKENS: tuple[Token, ...] = ("support", "aggregator", "query")


def columns_of(form: Form) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stream columns, positions within the form, and coefficients of all its entries."""
    columns = np.concatenate([p.cell.columns[p.offset : p.offset + p.width] for p in form])
    positions = np.concatenate([np.arange(p.width) for p in form])
    coefficients = np.concatenate([np.full(p.width, p.coefficient) for p in form])
    return columns.astype(int), positions, coefficients


def form_width(form: Form) -> int:
    return form[0].width


def joined_heads(heads: list[Head]) -> list[list[Head]]:
    """Heads with the same scores are one head with several values."""
    groups: dict[object, list[Head]] = defaultdict(list)
    for head in heads:
        scores = (tuple(map(form_key, head.q)), tuple(map(form_key, head.k)))
        groups[scores].append(head)
    return list(groups.values())


class Assembler:
    def __init__(self, s: Schedule, width: int, gated: bool, gate: float) -> None:
        self.s, self.width, self.gated, self.gate = s, width, gated, gate
        self.flags: dict[Token, Cell] = {
            "support": s.support,
            "aggregator": s.one,
            "query": s.query,
        }
        heads: dict[int, list[Head]] = defaultdict(list)
        for head in s.heads:
            heads[head.time // 2].append(head)
        self.heads = {layer: joined_heads(group) for layer, group in heads.items()}
        self.writes: dict[int, list[MLPWrite]] = defaultdict(list)
        for write in s.writes:
            self.writes[write.time // 2].append(write)

    @property
    def n_layers(self) -> int:
        return self.s.end // 2 + 1

    @property
    def n_heads(self) -> int:
        return max((len(groups) for groups in self.heads.values()), default=1)

    @property
    def d_head(self) -> int:
        widths = [1]
        for groups in self.heads.values():
            for group in groups:
                outputs = distinct_values(group)
                widths.append(sum(form_width(f) for f in group[0].q))
                widths.append(sum(form_width(v) for v, _ in outputs))
        return max(widths)

    def neurons(self, write: MLPWrite) -> int:
        match write:
            case LinearWrite(form=form):
                return form_width(form) * (1 if self.gated else 2) if form else 0
            case HingeWrite(slopes=slopes, constant=constant):
                return len(slopes) + (constant != 0.0)
            case ProductWrite():
                return 1

    @property
    def d_mlp(self) -> int:
        return max((sum(map(self.neurons, w)) for w in self.writes.values()), default=1)

    def fill(self, model: Transformer) -> None:
        for layer, groups in self.heads.items():
            attention = model.blocks[layer].attn
            arrays = {n: getattr(attention, f"W_{n}").detach().numpy() for n in "QKVO"}
            for h, group in enumerate(groups):
                self.fill_head({n: a[h] for n, a in arrays.items()}, group)
        for layer, writes in self.writes.items():
            block = model.blocks[layer]
            assert isinstance(block, Block)
            weights = {n: p.detach().numpy() for n, p in block.mlp.named_parameters()}
            first = 0
            for write in writes:
                if count := self.neurons(write):
                    self.fill_neurons(weights, write, slice(first, first + count))
                    first += count

    def fill_head(self, weights: dict[str, np.ndarray], group: list[Head]) -> None:
        for name, forms in (("Q", group[0].q), ("K", group[0].k)):
            first = 0
            for form in forms:
                columns, positions, coefficients = columns_of(form)
                np.add.at(weights[name], (columns, first + positions), coefficients)
                first += form_width(form)
        first = 0
        for form, outputs in distinct_values(group):
            columns, positions, coefficients = columns_of(form)
            np.add.at(weights["V"], (columns, first + positions), coefficients)
            for output in outputs:
                width = form_width(form)
                target = np.array(output.cell.columns[output.offset : output.offset + width])
                np.add.at(weights["O"], (first + np.arange(width), target), 1.0)
            first += form_width(form)

    def fill_neurons(self, weights: dict[str, np.ndarray], write: MLPWrite, rows: slice) -> None:
        match write:
            case LinearWrite():
                self.fill_linear(weights, write, rows)
            case HingeWrite():
                self.fill_hinges(weights, write, rows)
            case ProductWrite():
                for name, form in (("W_gate", write.gate), ("W_in", write.value)):
                    columns, _, coefficients = columns_of(form)
                    np.add.at(weights[name], (columns, rows.start), coefficients)
                weights["W_out"][rows.start, write.cell.columns[write.offset]] += 1.0

    def fill_linear(self, weights: dict[str, np.ndarray], write: LinearWrite, rows: slice) -> None:
        columns, positions, coefficients = columns_of(write.form)
        width, target = form_width(write.form), write.cell.columns[write.offset :]
        signs = (1.0,) if self.gated else (1.0, -1.0)
        for index, sign in enumerate(signs):
            neurons = rows.start + index * width
            np.add.at(weights["W_in"], (columns, neurons + positions), sign * coefficients)
            weights["W_out"][neurons + np.arange(width), target[:width]] += sign
        self.restrict(weights, write.tokens, rows, "W_gate", np.ones(rows.stop - rows.start))

    def fill_hinges(self, weights: dict[str, np.ndarray], write: HingeWrite, rows: slice) -> None:
        columns, _, coefficients = columns_of(write.x)
        hinge = weights["W_gate" if self.gated else "W_in"]
        flags = [self.flags[token].columns[0] for token in write.tokens]
        # A bias would act at every token; the token's own flag acts only where it should.
        count = len(write.slopes)
        neurons = np.arange(rows.start, rows.start + count)
        np.add.at(hinge, (columns[:, None], neurons), coefficients[:, None] * write.slopes)
        for flag in flags:
            hinge[flag, neurons] += write.biases
        for cell, offset, more in write.also:
            weights["W_out"][neurons, cell.columns[offset]] += more
        output = list(write.weights)
        if write.constant:
            hinge[flags, rows.stop - 1] += 1.0
            output.append(write.constant)
        weights["W_out"][rows, write.cell.columns[write.offset]] += np.array(output)
        sizes = np.abs(np.append(write.slopes, 1.0))[: rows.stop - rows.start]
        self.restrict(weights, write.tokens, rows, "W_in", sizes)

    def restrict(
        self,
        weights: dict[str, np.ndarray],
        tokens: frozenset[Token],
        rows: slice,
        free: str,
        sizes: np.ndarray,
    ) -> None:
        """Silences neurons at all other tokens.

        A gated MLP multiplies by the flag, in the factor that is still free. A plain one subtracts a
        number larger than anything in the stream, times the size with which the neuron reads it,
        where the flag of another token is set; where it is not, nothing is added.
        """
        for token in TOKENS:
            column = self.flags[token].columns[0]
            if self.gated and token in tokens:
                weights[free][column, rows] += 1.0
            elif not self.gated and token not in tokens:
                weights["W_in"][column, rows] -= self.gate * sizes


def distinct_values(group: list[Head]) -> list[tuple[Form, list[Output]]]:
    """Values that several outputs of a head share are computed once."""
    found: dict[object, tuple[Form, list[Output]]] = {}
    for head in group:
        for output in head.outputs:
            found.setdefault(form_key(output.v), (output.v, []))[1].append(output)
    return list(found.values())


def build(
    assembler: Assembler,
    lowering: Lowering,
    *,
    mask: str,
    mlp: str,
    dtype: str,
    attention: str = "linear",
    embedding: Tensor | None = None,
) -> Transformer:
    """The transformer that does what was scheduled; `embedding` maps φ to the features it reads."""
    s, phi, y = lowering.s, lowering.raw, lowering.y
    p = phi.width if embedding is None else embedding.shape[1]
    prediction = next(site.cell for site in reversed(lowering.sites) if site.name == "prediction")
    config = TransformerConfig.from_dict(
        {
            "d_in": p + y.width + 3,
            "d_out": y.width,
            "d_model": assembler.width,
            "n_layers": assembler.n_layers,
            "n_heads": assembler.n_heads,
            "d_head": assembler.d_head,
            "d_mlp": assembler.d_mlp,
            "attention": attention,
            "mlp": mlp,
            "norm": "none",
            "mask": mask,
            "attn_scale": 1.0,
            "dtype": dtype,
        }
    )
    model = Transformer(config, init="zero").requires_grad_(False)
    flags = (s.support, s.one, s.query)
    features = torch.eye(p) if embedding is None else embedding.mT
    model.embed.W[:p, torch.tensor(phi.columns)] = features.to(model.embed.W.dtype)
    inputs = [*y.columns, *(flag.columns[0] for flag in flags)]
    model.embed.W[torch.arange(p, p + len(inputs)), torch.tensor(inputs)] = 1.0
    model.unembed.W[torch.tensor(prediction.columns), torch.arange(y.width)] = 1.0
    with np.errstate(over="ignore"):  # said below, in words
        assembler.fill(model)
    if not all(torch.isfinite(weight).all() for weight in model.parameters()):
        raise Refusal(
            f"Some weights exceed the range of {dtype}: bring --ridge and --max-eigenvalue nearer to "
            "1 by rescaling the features, or use --dtype float64."
        )
    return model
