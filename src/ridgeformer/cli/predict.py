"""`ridgeformer predict`: a saved model on prompts."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from ridgeformer.cli import files
from ridgeformer.cli import options as o


def predict(
    model: o.SavedOrShipped,
    prompts: o.Prompts,
    out: o.Out,
    steps: Annotated[
        int | None,
        typer.Option(help="How many steps a looped model runs; other models leave no choice."),
    ] = None,
    trajectory: Annotated[
        bool,
        typer.Option(
            "--trajectory",
            help="Also write the predictions after every step; of a trained model after every layer, "
            "through its own final norm and unembedding (a logit lens).",
        ),
    ] = False,
    device: o.Device = "cpu",
) -> None:
    """Run a saved model on prompts: writes prediction [B,q,r] and, on request, trajectory [T+1,B,q,r].

    A model that solves every prefix also writes prefix_prediction [B,k+1,r]: entry i is predicted from
    the first i pairs, at the x that follows them.
    """
    import torch

    from ridgeformer.compiler import CompiledModel
    from ridgeformer.experiments.named import chosen_model
    from ridgeformer.models import predict as run
    from ridgeformer.models import trajectory as read_trajectory
    from ridgeformer.tasks import Prompt
    from ridgeformer.training import OutsideTraining, TrainedModel
    from ridgeformer.transformer import device_named

    files.check_output(out, prompts)
    where = device_named(device)
    loaded = chosen_model(model).to(where)
    prompt = Prompt.load(prompts)
    loaded.check(prompt)
    prefixes = isinstance(loaded, CompiledModel) and loaded.certificate.every_prefix

    def predicted(part: Prompt) -> torch.Tensor:
        if trajectory:
            return read_trajectory(loaded, part, steps=steps, prefixes=prefixes).predictions
        if isinstance(loaded, CompiledModel) and prefixes:
            return loaded.predict_prefixes(part, steps=steps)[None]
        return run(loaded, part, steps=steps)[None]

    if isinstance(loaded, TrainedModel) and (said := loaded.outside(prompt)):
        typer.echo(f"Warning: {said}", err=True)
    with warnings.catch_warnings(action="ignore", category=OutsideTraining):
        batches = files.batches(prompt, "predicting", loaded.cost(prompt))
        found = torch.cat([predicted(part.to(where)).cpu() for part in batches], dim=1)
    files.write(out, found, trajectory, prompt.supports if prefixes else None)
