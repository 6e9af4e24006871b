"""Silence the mat-vec head of one CG step, and see the solver lose its way from there on."""

import ridgeformer as rf

task = rf.PrescribedSpectrum(features=6, supports=20, condition=30.0)
prompt = task.draw(8, seed=0)
model = rf.compile(
    rf.ConjugateGradient(), features=6, steps=6, ridge=1.0,
    to=rf.LinearAttention(max_eigenvalue=task.max_eigenvalue),
)  # fmt: skip
fourth = model.heads(role="matvec")[3]
exact = rf.krr(prompt, ridge=1.0)
plain = rf.trajectory(model, prompt).distance(exact).amax(1)
cut = (
    rf.trajectory(model, prompt, edits=[rf.ablate_head(fourth.layer, fourth.head)])
    .distance(exact)
    .amax(1)
)
print("step  intact    without the fourth mat-vec")
for t in range(7):
    print(f"{t:4d}  {plain[t]:8.1e}  {cut[t]:8.1e}")
