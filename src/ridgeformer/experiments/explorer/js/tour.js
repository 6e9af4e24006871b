// A guided tour: each stop chooses a view, points at a part of the page, and says what is to be seen.

const BEGINNING = {
  world: "waves", model: "cg", trained: "linear", inside: "model", count: 14, noise: 0.3, seed: 3,
  condition: 30, ridge: 0.72, points: "", off: "", selected: 0, token: "", head: 0, steps: 0,
};

export const STOPS = [
  {
    title: "The prompt is the training set", part: "picture", view: { ...BEGINNING, position: 0 },
    text: "Each dot is one example of the prompt: a place x and a label y. A transformer reads the dots and predicts y at every other x. Before its first layer it predicts 0. The dashed curve is the exact answer of kernel ridge regression.",
  },
  {
    title: "A layer moves numbers between tokens", part: "layers", view: { ...BEGINNING, position: 10 },
    text: "Every dot is a token, a list of numbers. In a layer, attention heads let tokens read numbers of other tokens; then an MLP computes within each token. In this one a head gives every example a sum over all examples, weighted by the kernel: a product with the kernel matrix. The words under the slider tell the rest.",
  },
  {
    title: "Some layers make one step", part: "layers", view: { ...BEGINNING, position: 22 },
    text: "Seven layers make a step of the method: multiply by the kernel matrix, add up how far off the curve is, divide, and correct it. Step by step the blue curve comes to the dashed one. Press Play, or move the slider, and watch it.",
  },
  {
    title: "The error stays below its theorem", part: "errors", view: { ...BEGINNING, position: -1 },
    text: "The blue line is the error after each step, the thin line what a theorem allows: it is never crossed. Here the curve is made of eight waves, so that eight steps nearly solve it. With a larger condition number, among the choices, the thin line falls more slowly.",
  },
  {
    title: "The residual stream is the memory", part: "stream", view: { ...BEGINNING, position: 40 },
    text: "From top to bottom, one token's list of numbers after each attention and each MLP. A layer only adds to it, so that a column is filled, read, and erased when it is not needed any more. Choose the aggregator to see the numbers that all examples share.",
  },
  {
    title: "Without a head, the method breaks", part: "heads", view: { ...BEGINNING, position: 66, head: 1, off: "role:matvec" },
    text: "Here the heads that multiply by the kernel matrix are switched off in all layers, and the blue curve does not find the dashed one. Switch them on again, and try others.",
  },
  {
    title: "A trained model, beside it", part: "influence", view: { ...BEGINNING, position: -1, selected: 4 },
    text: "The orange model was trained on examples alone. When the label of a dot moves, how far does the curve move at each x? The three lines nearly agree: the trained model answers as kernel ridge regression does. Turn the label and compare. Whether, and where, this holds is what this project measures.",
  },
  {
    title: "Now draw your own", part: "controls", view: { ...BEGINNING, world: "smooth", model: "chebyshev-smooth", trained: "gp", ridge: 0.1, position: -1 },
    text: "Add dots with a click, drag them, or choose other kernels, methods and noise. The address of the page always holds what you see, so that you can share it.",
  },
];
