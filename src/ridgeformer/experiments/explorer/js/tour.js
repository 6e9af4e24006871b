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
    title: "A layer moves numbers between tokens", part: "layers", view: { ...BEGINNING, position: 9 },
    text: "These weights were compiled from the method of conjugate gradients, not trained. The text beside the slider says what the layer does: a head reads all examples at once, or the aggregator token adds something up, and the MLP works within each token.",
  },
  {
    title: "Some layers make one step", part: "layers", view: { ...BEGINNING, position: 22 },
    text: "Seven layers make a step of the method. After each step the curve comes closer to the exact one. Press play, or move the slider, and watch it.",
  },
  {
    title: "The error stays below its theorem", part: "errors", view: { ...BEGINNING, position: -1 },
    text: "The blue line is the error after each step, the thin line what the theorem allows. Choose a larger condition number on the left: both fall more slowly.",
  },
  {
    title: "The residual stream is the memory", part: "stream", view: { ...BEGINNING, position: 40 },
    text: "Each row is the state of one token after a sublayer, each column one number that it holds. Columns are filled, read and erased. Choose the aggregator to see the numbers that all examples share.",
  },
  {
    title: "Without a head, the method breaks", part: "heads", view: { ...BEGINNING, position: 3, off: "role:matvec" },
    text: "Here the heads that multiply by the kernel matrix are switched off in all layers, and the curve is lost. Switch them on again, and try others.",
  },
  {
    title: "A trained model, beside it", part: "influence", view: { ...BEGINNING, position: -1, selected: 4 },
    text: "The orange model was trained on examples alone. Turn the label of a dot: both models, and exact ridge regression, move their curves by nearly the same amount. That is the claim which this project tests.",
  },
  {
    title: "Now draw your own", part: "controls", view: { ...BEGINNING, world: "smooth", model: "chebyshev-smooth", trained: "gp", position: -1 },
    text: "Add dots with a click, drag them, or choose other kernels, methods and noise. The address of the page always holds what you see, so that you can share it.",
  },
];
