"""Look for CG's vectors and scalars in the residual stream, with controls beside each."""

import ridgeformer as rf
from ridgeformer.analysis import probe

task = rf.PrescribedSpectrum(features=4, supports=12, condition=20.0)
model = rf.compile(
    rf.ConjugateGradient(), features=4, steps=3, ridge=1.0,
    to=rf.LinearAttention(max_eigenvalue=task.max_eigenvalue),
)  # fmt: skip
prompt = task.draw(240, seed=0)  # 120 are fitted, 60 choose the site, 60 are scored
print("vectors: cosine; scalars: correlation. Mean over 60 held-out prompts, 95 % interval")
print("                 stream                 best site             embedding  random  shuffled")
for p in probe(model, prompt, seed=0):
    print(
        f"{p.name:>11s}_{p.step}  {p.found.value:6.3f} [{p.found.low:6.3f}, {p.found.high:6.3f}]"
        f"  {p.found.site:21s} {p.embedding.value:8.3f}"
        f" {p.random_weights.value:8.3f} {p.shuffled.value:8.3f}"
    )
