"""A placed circuit, written out as the weights of a transformer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ridgeformer.compiler.circuit import (
    Cell,
    Circuit,
    Form,
    Head,
    HingeWrite,
    LinearWrite,
    MLPWrite,
    Output,
    ProductWrite,
    Token,
    form_key,
)
from ridgeformer.compiler.passes.place import Placement
from ridgeformer.transformer import Transformer, TransformerConfig, weight_count
from ridgeformer.transformer.model import Block
from ridgeformer.types import Refusal

MOST_WEIGHTS = 2**29
"""A model of more weights is refused: it would take more than four gigabytes."""

TOKENS: tuple[Token, ...] = ("support", "aggregator", "query")


def assemble(
    circuit: Circuit,
    placement: Placement,
    *,
    attention: Literal["linear", "softmax"],
    causal: bool,
    gated: bool,
    dtype: str,
    embedding: Tensor | None = None,
) -> Transformer:
    """The transformer that does what the circuit says; `embedding` maps φ to the features it reads."""
    assembler = Assembler(circuit, placement, gated)
    p = circuit.phi.width if embedding is None else embedding.shape[1]
    outputs = circuit.y.width
    config = TransformerConfig.from_dict(
        {
            "d_in": p + outputs + 3,
            "d_out": outputs,
            "d_model": placement.width,
            "n_layers": circuit.end // 2 + 1,
            "n_heads": max((len(groups) for groups in assembler.heads.values()), default=1),
            "d_head": assembler.d_head,
            "d_mlp": widest_mlp(circuit, gated),
            "n_registers": max(map(len, circuit.registers.values()), default=0),
            "attention": attention,
            "mlp": "reglu" if gated else "relu",
            "norm": "none",
            "mask": "causal" if causal else "prefix",
            "attn_scale": 1.0,
            "dtype": dtype,
            "loop": None if circuit.loop is None else circuit.loop.blocks,
        }
    )
    if (count := weight_count(config)) > MOST_WEIGHTS:
        raise Refusal(
            f"The model would have {count:,} weights, more than the {MOST_WEIGHTS:,} that are built: use fewer "
            "`features`, `outputs` or `steps`."
        )
    model = Transformer(config, init="zero").requires_grad_(False)
    columns = placement.columns
    features = torch.eye(p) if embedding is None else embedding.mT
    for cell in (circuit.phi, *circuit.repeated):
        model.embed.W[:p, torch.tensor(columns[cell])] = features.to(model.embed.W.dtype)
    inputs = [*columns[circuit.y], *(columns[flag][0] for flag in circuit.flags)]
    model.embed.W[torch.arange(p, p + len(inputs)), torch.tensor(inputs)] = 1.0
    if circuit.registers:
        model.registers[:, columns[circuit.aggregator][0]] = 1.0
        for cell, rows in circuit.registers.items():
            model.registers[:, torch.tensor(columns[cell])] = torch.from_numpy(rows).to(
                model.registers
            )
    read = circuit.prediction
    model.unembed.W[torch.tensor(columns[read.cell]), torch.arange(outputs)] = read.scale
    with np.errstate(over="ignore"):  # the check below says it in words
        assembler.fill(model)
    if not all(torch.isfinite(weight).all() for weight in model.parameters()):
        raise Refusal(
            f"Some weights exceed the range of {dtype}: bring `ridge` and `max_eigenvalue` nearer to "
            '1 by rescaling the features, or use `dtype="float64"`.'
        )
    return model


def form_width(form: Form) -> int:
    return form[0].width


def neurons(write: MLPWrite, gated: bool) -> int:
    match write:
        case LinearWrite(form=form):
            return form_width(form) * (1 if gated else 2) if form else 0
        case HingeWrite(slopes=slopes, constant=constant):
            return len(slopes) + (constant != 0.0)
        case ProductWrite():
            return 1


def widest_mlp(circuit: Circuit, gated: bool) -> int:
    """The number of neurons in the widest layer."""
    layers: dict[int, int] = defaultdict(int)
    for write in circuit.writes:
        layers[write.time // 2] += neurons(write, gated)
    return max(layers.values(), default=0 if circuit.registers else 1)


def by_layer(circuit: Circuit) -> tuple[dict[int, list[list[Head]]], dict[int, list[MLPWrite]]]:
    """Heads and writes of each layer; heads with the same scores are one head with several values."""
    groups: dict[int, dict[object, list[Head]]] = defaultdict(lambda: defaultdict(list))
    for head in circuit.heads:
        scores = (tuple(map(form_key, head.q)), tuple(map(form_key, head.k)))
        groups[head.time // 2][scores].append(head)
    writes: dict[int, list[MLPWrite]] = defaultdict(list)
    for write in circuit.writes:
        writes[write.time // 2].append(write)
    return {layer: list(heads.values()) for layer, heads in groups.items()}, writes


def distinct_values(group: Sequence[Head]) -> list[tuple[Form, list[Output]]]:
    """The distinct values of a head, each with the outputs that share it."""
    values: dict[object, tuple[Form, list[Output]]] = {}
    for head in group:
        for output in head.outputs:
            values.setdefault(form_key(output.v), (output.v, []))[1].append(output)
    return list(values.values())


def stream_columns(form: Form, placement: Placement) -> np.ndarray:
    """The columns of all entries of a form, part after part."""
    parts = [placement.columns[p.cell][p.offset : p.offset + p.width] for p in form]
    return np.concatenate(parts).astype(int)


class Assembler:
    """Writes heads and neurons into the arrays of a transformer's weights."""

    def __init__(self, circuit: Circuit, placement: Placement, gated: bool) -> None:
        self.circuit, self.placement, self.gated = circuit, placement, gated
        self.heads, self.writes = by_layer(circuit)
        self.flags: dict[Token, int] = {
            token: placement.columns[flag][0]
            for token, flag in zip(TOKENS, circuit.flags, strict=True)
        }

    @cached_property
    def d_head(self) -> int:
        widths = [1]
        for groups in self.heads.values():
            for group in groups:
                widths.append(sum(form_width(f) for f in group[0].q))
                widths.append(sum(form_width(v) for v, _ in distinct_values(group)))
        return max(widths)

    def entries(self, form: Form) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Stream columns, positions within the form, and coefficients of all its entries."""
        positions = np.concatenate([np.arange(p.width) for p in form])
        coefficients = np.concatenate([np.full(p.width, p.coefficient) for p in form])
        return stream_columns(form, self.placement), positions, coefficients

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
                if count := neurons(write, self.gated):
                    self.fill_neurons(weights, write, slice(first, first + count))
                    first += count

    def fill_head(self, weights: dict[str, np.ndarray], group: list[Head]) -> None:
        for name, forms in (("Q", group[0].q), ("K", group[0].k)):
            first = 0
            for form in forms:
                columns, positions, coefficients = self.entries(form)
                np.add.at(weights[name], (columns, first + positions), coefficients)
                first += form_width(form)
        first = 0
        for form, outputs in distinct_values(group):
            columns, positions, coefficients = self.entries(form)
            np.add.at(weights["V"], (columns, first + positions), coefficients)
            for output in outputs:
                width = form_width(form)
                written = self.placement.columns[output.cell]
                target = np.array(written[output.offset : output.offset + width])
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
                    columns, _, coefficients = self.entries(form)
                    np.add.at(weights[name], (columns, rows.start), coefficients)
                weights["W_out"][rows.start, self.column(write.cell, write.offset)] += 1.0

    def fill_linear(self, weights: dict[str, np.ndarray], write: LinearWrite, rows: slice) -> None:
        columns, positions, coefficients = self.entries(write.form)
        width, target = form_width(write.form), self.placement.columns[write.cell][write.offset :]
        signs = (1.0,) if self.gated else (1.0, -1.0)
        for index, sign in enumerate(signs):
            first = rows.start + index * width
            np.add.at(weights["W_in"], (columns, first + positions), sign * coefficients)
            weights["W_out"][first + np.arange(width), list(target[:width])] += sign
        sizes = np.zeros(width)
        np.add.at(sizes, positions, np.abs(coefficients))
        self.restrict(
            weights, write.tokens, rows, "W_gate", np.tile(np.maximum(sizes, 1.0), len(signs))
        )

    def fill_hinges(self, weights: dict[str, np.ndarray], write: HingeWrite, rows: slice) -> None:
        columns, _, coefficients = self.entries(write.x)
        hinge = weights["W_gate" if self.gated else "W_in"]
        flags = [self.flags[token] for token in write.tokens]
        # A bias would act at every token; the token's own flag acts only where it should.
        count = len(write.slopes)
        hinges = np.arange(rows.start, rows.start + count)
        np.add.at(hinge, (columns[:, None], hinges), coefficients[:, None] * write.slopes)
        for flag in flags:
            hinge[flag, hinges] += write.biases
        for cell, offset, more in write.also:
            weights["W_out"][hinges, self.column(cell, offset)] += more
        output = list(write.weights)
        if write.constant:
            hinge[flags, rows.stop - 1] += 1.0
            output.append(write.constant)
        weights["W_out"][rows, self.column(write.cell, write.offset)] += np.array(output)
        read = max(np.abs(coefficients).sum(), 1.0) * np.abs(write.slopes)
        sizes = np.append(read, 1.0)[: rows.stop - rows.start]
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
        number larger than anything in the stream, times the sum of the sizes with which the neuron reads
        channels, where the flag of another token is set; where it is not, nothing is added.
        """
        for token in TOKENS:
            column = self.flags[token]
            if self.gated and token in tokens:
                weights[free][column, rows] += 1.0
            elif not self.gated and token not in tokens:
                weights["W_in"][column, rows] -= self.circuit.silence * sizes

    def column(self, cell: Cell, offset: int) -> int:
        return self.placement.columns[cell][offset]
