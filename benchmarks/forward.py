"""Forward passes without the zeros of the weights, beside passes through the full shapes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import torch
from turns import ratio, threads

import ridgeformer as rf
from ridgeformer.models import zoo
from ridgeformer.transformer import Record, Transformer

Row = tuple[str, float, float, bool]
"""What is measured, the ratio, its limit, and whether the limit is the most that it may be."""

FULL = [Record.of([])]
"""Edits and records see the full shapes, and so does a record of nothing."""


def conjugate_gradients() -> tuple[rf.CompiledModel, rf.Prompt]:
    """Eight steps by linear attention, and 1,000 prompts of 64 supports and 16 features."""
    model = rf.compile(
        rf.ConjugateGradient(), features=16, steps=8, ridge=1.0, to=rf.LinearAttention(1000.0)
    )
    task = rf.KernelDraw(kernel=rf.Linear(), features=16, supports=64)
    return model, task.draw(1000, seed=0)


def behind_softmax() -> tuple[rf.CompiledModel, rf.Prompt]:
    """Eight steps on an exponential kernel, and 200 prompts of 64 supports on the unit ball."""
    model = rf.compile(
        rf.ConjugateGradient(),
        kernel=rf.Exponential(2.0),
        features=4,
        steps=8,
        ridge=0.5,
        to=rf.SoftmaxAttention(max_norm=2.0, max_supports=64),
    )
    drawn = rf.KernelDraw(kernel=rf.Linear(), features=4, supports=64).draw(200, seed=0)
    largest = torch.cat([drawn.phi, drawn.phi_query], dim=1).norm(dim=-1).max()
    return model, rf.Prompt(drawn.phi / largest, drawn.y, drawn.phi_query / largest)


def in_full(model: rf.CompiledModel, prompt: rf.Prompt) -> torch.Tensor:
    """What `predict` does, through the full shapes."""
    model.check(prompt)
    with torch.inference_mode():
        return model.transformer(prompt.tokens(), prompt.supports + 1, FULL)  # type: ignore[no-any-return]


def saved(model: rf.CompiledModel, prompt: rf.Prompt, rounds: int) -> float:
    """How many times as long a prediction takes through the full shapes."""
    return ratio(lambda: in_full(model, prompt), lambda: model.predict(prompt), rounds)


def apart(model: rf.CompiledModel, prompt: rf.Prompt) -> float:
    """The largest difference between both, relative to the largest prediction."""
    full = in_full(model, prompt)
    return float((model.predict(prompt) - full).abs().max() / full.abs().max())


def dense(transformer: Transformer, prompts: int) -> float:
    """What a trained model pays for the question whether it has zeros."""
    n = min(64, transformer.config.max_tokens or 64)
    tokens = torch.randn(prompts, n, transformer.config.d_in)
    with torch.inference_mode():
        return ratio(
            lambda: transformer.residual_stream(tokens, n),
            lambda: transformer.residual_stream(tokens, n, FULL),
            rounds=15,
        )


def rows() -> Iterator[Row]:
    model, prompt = conjugate_gradients()
    softmax, prompt_softmax = behind_softmax()
    steps = rf.ConjugateGradient()
    some = prompt[:100]
    yield "packed and full CG on 100 prompts: apart, relative", apart(model, some), 1e-13, True
    for number in sorted({1, torch.get_num_threads()}):
        with threads(number):
            name = "1 thread" if number == 1 else f"{number} threads"
            what = f"predict, 8 CG steps, 1,000 prompts of k = 64, {name}"
            yield f"{what}: full shapes over packed", saved(model, prompt, rounds=3), 8, False
            to_solve = ratio(
                lambda: model.predict(prompt), lambda: rf.solve(steps, prompt, steps=8, ridge=1.0)
            )
            yield f"{what}: over solve", to_solve, 60, True
            what = f"predict, 8 CG steps behind softmax, 200 prompts, {name}"
            quotient = saved(softmax, prompt_softmax, rounds=3)
            yield f"{what}: full shapes over packed", quotient, 4, False
    alone = 1 / saved(model, prompt[:1], rounds=15)
    yield "predict, one prompt: time over that through the full shapes", alone, 1.05, True
    trained = [zoo.load(name).transformer for name in zoo.names()]
    middle = statistics.median(dense(one, prompts) for one in trained for prompts in (1, 64))
    yield "trained models: time over that through the full shapes (median)", middle, 1.05, True
