"""Gaussian KRR in one softmax head and a ReLU MLP: a wider MLP lowers the floor, as width^-2."""

import ridgeformer as rf

SUPPORTS, STEPS, RIDGE = 32, 40, 0.1
kernel = rf.Gaussian(0.5)
solver = rf.Chebyshev(precondition="row-sum")  # the softmax normaliser is the preconditioner

task = rf.KernelDraw(kernel=kernel, features=2, supports=SUPPORTS, scale=0.4)
prompt = task.draw(16, seed=0).inside(max_norm=1.5, max_target=4.0)

for width in (128, 256, 512, 1024):
    products = rf.Interpolated(max_target=4.0, width=width)
    target = rf.SoftmaxAttention(max_norm=1.5, max_supports=SUPPORTS, products=products)
    model = rf.compile(solver, kernel=kernel, features=2, steps=STEPS, ridge=RIDGE, to=target)
    apart = rf.trajectory(model, prompt).distance(rf.reference(model, prompt)).max()
    print(
        f"{width:5} neurons, {model.transformer.config.n_layers} layers: largest difference to the "
        f"solver {float(apart):.1e}"
    )
