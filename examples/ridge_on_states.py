"""Ridge regression on the states of trained models, layer by layer, beside what the models say themselves.

Give directories of models that were trained in the layout `pairs`; without any, it is the shipped model `linear`. λ is
chosen for each layer on other prompts than those that are scored.
"""

import sys

import torch

from ridgeformer.models import zoo
from ridgeformer.training import Held, TrainedModel
from ridgeformer.training.cotraining import predict_with_ridge
from ridgeformer.training.final import SEED
from ridgeformer.training.scores import excess

RIDGES = [10.0**exponent for exponent in range(-6, 2)]
directories = sys.argv[1:]
prompts = 2048 if directories else 256


@torch.inference_mode()
def said(model, held, ridge):
    """What the model predicts, and ridge regression on its states after each layer."""
    layers = range(1, model.recipe.model.n_layers + 1)
    parts = []
    for start in range(0, len(held.sample.prompt), 128):
        part = held.sample.prompt[slice(start, start + 128)].to(torch.float32)
        own, on_states = predict_with_ridge(model.transformer, part, layers, ridge)
        parts.append(torch.stack([own, *on_states]).double())
    return torch.cat(parts, dim=1)


def shown(found):
    return f"{found.mean:.4f} [{found.low:.4f}, {found.high:.4f}]"


for name in directories or ["linear"]:
    model = TrainedModel.load(name) if directories else zoo.load(name)
    task = model.recipe.task
    chosen_on, scored_on = (
        Held.draw(task, count, seed, task.supports)
        for count, seed in ((prompts // 4, SEED + 1), (prompts, SEED))
    )
    errors = torch.tensor(
        [[excess(f, chosen_on, task.exact).mean for f in said(model, chosen_on, r)] for r in RIDGES]
    )
    best = [RIDGES[i] for i in errors.argmin(0)]  # the first is the model itself, without a λ
    scored = {ridge: said(model, scored_on, ridge) for ridge in set(best)}
    print(f"{name}: excess risk with {task.supports} supports, {prompts} prompts")
    for layer, ridge in enumerate(best):
        where = f"ridge after layer {layer}, λ = {ridge:g}" if layer else "the model itself"
        print(f"  {where:32s} {shown(excess(scored[ridge][layer], scored_on, task.exact))}")
