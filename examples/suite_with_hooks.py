"""Put a solver's state from one prompt into a run on another, with nothing but PyTorch hooks on a case of the suite."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from ridgeformer.suite import export
from ridgeformer.transformer import load

export("suite", force=True)  # the same as `ridgeformer suite export suite`
labels = [json.loads(path.read_text()) for path in Path("suite/answers").glob("*/labels.json")]
chosen = [found for found in labels if found["kind"] == "cg-exponential"]


def hooked(model, layer, hook, tokens, context):
    """The predictions if a hook sees, and may replace, the residual stream after a block."""
    handle = model.blocks[layer].register_forward_hook(hook)
    with torch.no_grad():
        predictions = model(tokens, context)
    handle.remove()
    return predictions


print("case     basis     intervention  without effect  from the answer")
for found in sorted(chosen, key=lambda one: one["group"]):
    name = found["case"]
    model, _ = load(f"suite/cases/{name}")
    context = json.loads(Path(f"suite/cases/{name}/case.json").read_text())["context"]
    pairs = load_file(f"suite/interventions/{name}/pairs.safetensors")
    answers = load_file(f"suite/answers/{name}/interventions.safetensors")
    for asked in found["interventions"]:
        cached = {}

        def cache(module, inputs, stream, cached=cached):
            cached["stream"] = stream

        def patch(module, inputs, stream, cached=cached, asked=asked, answers=answers):
            """The source's coordinates in each subspace, at the rows of the state."""
            stream = stream.clone()
            for write in asked["writes"]:
                rows, basis = write["rows"], answers[write["basis"]]
                difference = cached["stream"][:, rows] - stream[:, rows]
                stream[:, rows] += difference @ basis @ basis.T
            return stream

        [site] = {write["site"] for write in asked["writes"]}  # all of them after one block
        layer = int(site.split(".")[1])
        hooked(model, layer, cache, pairs["source.tokens"], context)
        predictions = hooked(model, layer, patch, pairs["base.tokens"], context)
        expected = answers[f"{asked['id']}.expected"]
        effect = (answers["unchanged"] - expected).abs().max()
        apart = (predictions - expected).abs().max()
        print(f"{name}  {found['group']:8s}  {asked['id']:12s}  {effect:14.2f}  {apart:15.1e}")
