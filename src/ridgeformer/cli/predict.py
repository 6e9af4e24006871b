"""`ridgeformer predict`: a saved model on prompts."""

from __future__ import annotations

from typing import Annotated

import typer

from ridgeformer.cli import files
from ridgeformer.cli import options as o


def predict(
    model: o.Model,
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
) -> None:
    """Run a saved model on prompts: writes prediction [B,q,r] and, on request, trajectory [T+1,B,q,r]."""
    import torch

    from ridgeformer.models import load
    from ridgeformer.models import predict as run
    from ridgeformer.models import trajectory as read_trajectory
    from ridgeformer.tasks import Prompt

    files.check_output(out, prompts)
    loaded = load(model)
    prompt = Prompt.load(prompts)
    loaded.check(prompt)
    parts = [
        read_trajectory(loaded, part, steps=steps).predictions
        if trajectory
        else run(loaded, part, steps=steps)[None]
        for part in files.batches(prompt, "predicting", loaded.cost(prompt))
    ]
    files.write(out, torch.cat(parts, dim=1), trajectory)
