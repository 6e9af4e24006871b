"""Compile conjugate gradients into a transformer, and watch it solve in its forward pass."""

import ridgeformer as rf

task = rf.PrescribedSpectrum(features=8, supports=32, condition=100.0, ridge=1.0)
prompt = task.draw(16, seed=0)

model = rf.compile(
    rf.ConjugateGradient(), features=8, steps=8, ridge=1.0,
    to=rf.LinearAttention(max_eigenvalue=task.max_eigenvalue),
)  # fmt: skip
print(model)

exact = rf.krr(prompt, ridge=1.0)
transformer = rf.trajectory(model, prompt)
textbook = rf.solve(rf.ConjugateGradient(), prompt, steps=8, ridge=1.0)
print("step  transformer  textbook   apart")
for t in range(9):
    ours, theirs = (x.distance(exact)[t].max() for x in (transformer, textbook))
    apart = transformer.distance(textbook)[t].max()
    print(f"{t:4d}  {ours:10.2e}  {theirs:9.2e}  {apart:7.1e}")
