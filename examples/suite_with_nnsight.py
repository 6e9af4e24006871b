"""The same exchange of states with nnsight: read the stream of one run in a trace, and write it into another."""

import json
from pathlib import Path

import torch
from nnsight import NNsight
from safetensors.torch import load_file

from ridgeformer.suite import export
from ridgeformer.transformer import load

export("suite", force=True)
labels = [json.loads(path.read_text()) for path in Path("suite/answers").glob("*/labels.json")]
[found] = [one for one in labels if (one["kind"], one["group"]) == ("heavy-ball-linear", "rotated")]
name = found["case"]
model = NNsight(load(f"suite/cases/{name}")[0])
context = json.loads(Path(f"suite/cases/{name}/case.json").read_text())["context"]
pairs = load_file(f"suite/interventions/{name}/pairs.safetensors")
answers = load_file(f"suite/answers/{name}/interventions.safetensors")

print("intervention  without effect  from the answer")
for asked in found["interventions"]:
    [write] = asked["writes"]
    layer, rows, basis = int(write["site"].split(".")[1]), write["rows"], answers[write["basis"]]
    with torch.no_grad(), model.trace(pairs["source.tokens"], context):
        theirs = model.blocks[layer].output[:, rows].save()
    with torch.no_grad(), model.trace(pairs["base.tokens"], context):
        stream = model.blocks[layer].output.clone()
        stream[:, rows] += (theirs - stream[:, rows]) @ basis @ basis.T
        model.blocks[layer].output = stream
        predictions = model.output.save()
    expected = answers[f"{asked['id']}.expected"]
    effect = (answers["unchanged"] - expected).abs().max()
    print(f"{asked['id']:12s}  {effect:14.2f}  {(predictions - expected).abs().max():15.1e}")
