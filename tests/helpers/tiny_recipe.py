"""A recipe that trains in a second, with some of its values to choose."""

TINY = """
name = "tiny"
seed = 3

[task]
name = "linear"
features = 3
supports = 6
queries = 4

[model]
layout = "{layout}"
n_layers = 2
d_model = 8
n_heads = 2
d_head = 4
d_mlp = 16

[training]
steps = {steps}
batch = 8
rate = {rate}
warmup = 5
evaluate_every = 10
checkpoint_every = 10
"""


def recipe_file(folder, layout="pairs", steps=60, rate=1e-2):
    path = folder / "recipe.toml"
    path.write_text(TINY.format(layout=layout, steps=steps, rate=rate))
    return path
