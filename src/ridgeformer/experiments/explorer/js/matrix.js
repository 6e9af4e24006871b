// Matrices that are multiplied often: one that is mostly zero keeps its other entries alone.

const DENSE = 0.3; // the share of entries above which it is faster to multiply all of them

export class Matrix {
  constructor(rows, columns, data) {
    Object.assign(this, { rows, columns, data });
    let filled = 0;
    for (const value of data) if (value !== 0) filled++;
    this.empty = filled === 0;
    if (filled > DENSE * data.length) return;
    this.start = new Int32Array(rows + 1);
    this.column = new Int32Array(filled);
    this.value = new Float64Array(filled);
    let at = 0;
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const value = data[r * columns + c];
        if (value === 0) continue;
        this.column[at] = c;
        this.value[at++] = value;
      }
      this.start[r + 1] = at;
    }
  }

  /** out[i] += x[i]·W for rows first … stop − 1. */
  addProduct(x, out, first, stop) {
    if (this.empty) return;
    if (this.start) this.addSparse(x, out, first, stop);
    else this.addDense(x, out, first, stop);
  }

  addSparse(x, out, first, stop) {
    const { rows, columns, start, column, value } = this;
    for (let i = first; i < stop; i++) {
      const to = i * columns;
      for (let r = 0; r < rows; r++) {
        const factor = x[i * rows + r];
        if (factor === 0) continue;
        for (let k = start[r]; k < start[r + 1]; k++) out[to + column[k]] += factor * value[k];
      }
    }
  }

  addDense(x, out, first, stop) {
    const { rows, columns, data } = this;
    const whole = rows - (rows % 4);
    for (let i = first; i < stop; i += 2) {
      // Four rows of W meet two of x at a time, so that few numbers are loaded for many products.
      const from = i * rows, to = i * columns, pair = i + 1 < stop;
      const from2 = pair ? from + rows : from, to2 = to + columns;
      for (let r = 0; r < whole; r += 4) {
        const a = x[from + r], b = x[from + r + 1], c = x[from + r + 2], d = x[from + r + 3];
        const at = r * columns, bt = at + columns, ct = bt + columns, dt = ct + columns;
        if (!pair) {
          for (let j = 0; j < columns; j++) {
            out[to + j] += a * data[at + j] + b * data[bt + j] + c * data[ct + j] + d * data[dt + j];
          }
          continue;
        }
        const e = x[from2 + r], f = x[from2 + r + 1], g = x[from2 + r + 2], h = x[from2 + r + 3];
        for (let j = 0; j < columns; j++) {
          const s = data[at + j], t = data[bt + j], u = data[ct + j], v = data[dt + j];
          out[to + j] += a * s + b * t + c * u + d * v;
          out[to2 + j] += e * s + f * t + g * u + h * v;
        }
      }
      for (let r = whole; r < rows; r++) {
        const a = x[from + r], at = r * columns, e = x[from2 + r];
        for (let j = 0; j < columns; j++) out[to + j] += a * data[at + j];
        if (pair) for (let j = 0; j < columns; j++) out[to2 + j] += e * data[at + j];
      }
    }
  }
}

/** Each row of `out` is set to the bias, or to 0. */
export function fillRows(out, bias, columns, first, stop) {
  if (!bias) return void out.fill(0, first * columns, stop * columns);
  for (let i = first; i < stop; i++) out.set(bias, i * columns);
}
