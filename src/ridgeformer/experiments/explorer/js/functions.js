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

/** The slope of erf at the same knots, times their distance. */
const slopes = Float64Array.from(table, (_, i) => (2 / Math.sqrt(Math.PI)) * STEP * Math.exp(-((i * STEP) ** 2)));

/** erf to 1e-12, by cubic interpolation whose slopes are exact. */
export function erf(x) {
  const size = Math.abs(x);
  if (size >= END) return Math.sign(x);
  const place = size / STEP, i = place | 0, s = place - i;
  const a = table[i], rise = table[i + 1] - a, da = slopes[i], db = slopes[i + 1];
  const value = a + s * (da + s * (3 * rise - 2 * da - db + s * (da + db - 2 * rise)));
  return x < 0 ? -value : value;
}

/** Each replaces the first numbers of an array by its values there. */
export const activations = {
  relu(u, count) {
    for (let i = 0; i < count; i++) if (!(u[i] > 0)) u[i] = 0;
  },
  gelu(u, count) {
    for (let i = 0; i < count; i++) u[i] = (u[i] * (1 + erf(u[i] * Math.SQRT1_2))) / 2;
  },
  gelu_new(u, count) {
    const scale = Math.sqrt(2 / Math.PI);
    for (let i = 0; i < count; i++) u[i] = (u[i] * (1 + Math.tanh(scale * (u[i] + 0.044715 * u[i] ** 3)))) / 2;
  },
};
