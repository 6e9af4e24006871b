"""A trained transformer and compiled CG on the same prompts, layer by layer and step by step."""

import ridgeformer as rf
from ridgeformer.models import zoo

trained = zoo.load("linear")
task = trained.recipe.task  # 8 features, condition numbers from 1 to 100, noise 0.3
prompt = task.draw(64, seed=0)
best = task.best(prompt)  # the posterior mean: ridge regression

cg = rf.compile(
    rf.ConjugateGradient(), features=8, steps=8, ridge=task.ridge, to=rf.LinearAttention(1000.0)
)
print("mean over prompts of the largest distance to the posterior mean")
print("      compiled CG   trained")
steps = rf.trajectory(cg, prompt).distance(best).mean(1)
layers = rf.trajectory(trained, prompt).distance(best).mean(1)
for t, (step, layer) in enumerate(zip(steps, layers, strict=True)):
    print(f"{t:5d} {step:11.4f} {layer:9.4f}")
