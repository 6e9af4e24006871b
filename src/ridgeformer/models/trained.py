"""A trained model read layer by layer, through its own final norm and unembedding."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.tasks import Prompt
from ridgeformer.training import TrainedModel
from ridgeformer.transformer import Edits, Record, check_edits
from ridgeformer.types import Trajectory


def query_streams(
    model: TrainedModel, prompt: Prompt, *, edits: Edits = ()
) -> Float[Tensor, "layers batch q d_model"]:
    """The residual stream at the queries, as embedded and after each layer."""
    model.check(prompt)
    transformer = model.transformer
    sites = ["embed", *(f"blocks.{n}.resid_post" for n in range(transformer.config.n_layers))]
    check_edits(edits)
    record = Record.of(sites)
    tokens, context = model.layout.sequences(prompt)
    with torch.inference_mode():
        transformer.residual_stream(tokens, context, [*edits, record])
    shape = prompt.phi_query.shape[:2]
    return torch.stack([record.values[site][:, context:].reshape(*shape, -1) for site in sites])


def lens(model: TrainedModel, prompt: Prompt, *, edits: Edits = ()) -> Trajectory:
    """What the model would predict if it ended after each layer (a logit lens): n_layers + 1 entries.

    The last entry is the prediction. The others read the stream in a basis that the model was only
    trained to use at the end, so they may miss what a layer knows.
    """
    streams = query_streams(model, prompt, edits=edits)
    with torch.inference_mode():
        predictions = torch.stack([model.transformer.readout(layer) for layer in streams])
    return Trajectory(predictions, f"trained {model.recipe.name}")
