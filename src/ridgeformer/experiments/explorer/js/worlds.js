// Inputs are points of a line. A world says which features a model is shown of a point.
//
// λ, widths and temperatures are in a model's weights. Scaling all features by the same factor is the same as
// changing them, so that one file serves every setting.

const COUNT = 8;

export const worlds = {
  waves: {
    title: "Linear, of eight waves",
    features: COUNT,
    knobs: ["condition", "ridge"],
    embed: ({ condition }, factor) => {
      const sizes = waveSizes(condition);
      return (x) => Float64Array.from(sizes, (size, j) => factor * size * wave(j, x));
    },
    factor: ({ ridge }, made) => Math.sqrt(made.ridge / ridge),
  },
  smooth: {
    title: "Gaussian",
    features: 2,
    knobs: ["width", "ridge"],
    // The trained model knows inputs of the plane; the points lie on a line of it.
    embed: (_, factor) => (x) => Float64Array.of(factor * x, 0),
    factor: ({ width }, made) => made.kernel.lengthscale / width,
  },
  circle: {
    title: "Exponential",
    features: 2,
    knobs: ["temperature", "ridge"],
    embed: (_, factor) => (x) => Float64Array.of(factor * Math.cos(1.4 * x), factor * Math.sin(1.4 * x)),
    factor: ({ temperature }, made) => Math.sqrt(made.kernel.temperature / temperature),
  },
};

function wave(j, x) {
  return j === 0 ? 1 : Math.SQRT2 * Math.cos((j * Math.PI * (x + 1)) / 2);
}

/** Sizes of the waves, geometric with this condition number of their squares, whose mean is 1. */
function waveSizes(condition) {
  const squares = Array.from({ length: COUNT }, (_, j) => condition ** (-j / (COUNT - 1)));
  const mean = squares.reduce((a, b) => a + b) / COUNT;
  return squares.map((s) => Math.sqrt(s / mean));
}
