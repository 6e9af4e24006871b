// The functions of one number that MLPs apply.

const STEP = 1 / 512, END = 6;
const table = erfTable();

/** erf and its derivative at the knots 0, h, 2h, …, by its power series and, above 2.5, by the continued fraction. */
function erfTable() {
  const values = new Float64Array(END / STEP + 2);
  for (let i = 0; i < values.length; i++) {
    const x = i * STEP;
    if (x < 2.5) {
      let term = x, sum = x;
      for (let n = 1; Math.abs(term) > 1e-18; n++) {
        term *= (-x * x) / n;
        sum += term / (2 * n + 1);
      }
      values[i] = (2 / Math.sqrt(Math.PI)) * sum;
    } else {
      let fraction = 0;
      for (let n = 60; n > 0; n--) fraction = n / 2 / (x + fraction);
      values[i] = 1 - Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + fraction);
    }
  }
  return values;
}

/** erf to 1e-12, by cubic interpolation whose slopes are exact. */
export function erf(x) {
  const size = Math.abs(x);
  if (size >= END) return Math.sign(x);
  const i = Math.floor(size / STEP), s = size / STEP - i;
  const a = table[i], b = table[i + 1], scale = (2 / Math.sqrt(Math.PI)) * STEP;
  const from = i * STEP, to = from + STEP;
  const da = scale * Math.exp(-from * from), db = scale * Math.exp(-to * to);
  const value = a + s * (da + s * (3 * (b - a) - 2 * da - db + s * (2 * (a - b) + da + db)));
  return x < 0 ? -value : value;
}

export const activations = {
  relu: (u) => (u > 0 ? u : 0),
  gelu: (u) => (u * (1 + erf(u / Math.SQRT2))) / 2,
  gelu_new: (u) => (u * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (u + 0.044715 * u ** 3)))) / 2,
};
