"""A decoder that predicts at every x from the pairs before it: the learning curve in one forward pass."""

import tempfile

import ridgeformer as rf

task = rf.PrescribedSpectrum(features=8, supports=24, condition=100.0, ridge=1.0)
prompt = task.draw(64, seed=0)  # 24 pairs (x, y) each, and queries

decoder = rf.compile(
    rf.ConjugateGradient(), features=8, steps=8, ridge=1.0,
    to=rf.LinearAttention(task.max_eigenvalue, rf.Exact(), causal=True, every_prefix=True),
)  # fmt: skip
print(decoder)

with tempfile.TemporaryDirectory() as home:  # the file is all that it needs
    decoder.save(f"{home}/decoder")
    loaded = rf.load(f"{home}/decoder")
    found = loaded.predict_prefixes(prompt)  # at x₁ … x₂₄, then at the queries

# Beside it, exact ridge regression on the same pairs, one prefix at a time.
print("\nmean squared error at the x that follows the pairs")
print("pairs   decoder  exact ridge   largest distance")
for pairs in (0, 1, 2, 4, 6, 8, 12, 16, 20, 23):
    x, y = prompt.phi[:, pairs : pairs + 1], prompt.y[:, pairs]
    ridge = 0 * y
    if pairs:
        before = rf.Prompt(prompt.phi[:, :pairs], prompt.y[:, :pairs], x)
        ridge = rf.krr(before, ridge=1.0)[:, 0]
    ours = found[:, pairs]
    errors = [float((prediction - y).square().mean()) for prediction in (ours, ridge)]
    print(
        f"{pairs:5d} {errors[0]:9.4f} {errors[1]:12.4f} {float((ours - ridge).abs().max()):18.1e}"
    )
