// Kernels by their names in saved models, and the exact ridge regression with them.

import { dot, eigenvalues, largest, solver } from "algebra";

const kernels = {
  linear: () => dot,
  gaussian: ({ lengthscale }) => (a, b) => {
    let square = 0;
    for (let i = 0; i < a.length; i++) square += (a[i] - b[i]) ** 2;
    return Math.exp(-square / (2 * lengthscale ** 2));
  },
  exponential: ({ temperature }) => (a, b) => Math.exp(dot(a, b) / temperature),
};

export function kernelOf(description) {
  return kernels[description.name](description);
}

/** Everything that is compared with a model: f* at the queries, and what bounds and influences need. */
export class ExactRidge {
  constructor(phi, y, queries, description, ridge) {
    const kernel = kernelOf(description), k = phi.length;
    this.K = new Float64Array(k * k);
    for (let i = 0; i < k; i++) {
      for (let j = 0; j <= i; j++) this.K[i * k + j] = this.K[j * k + i] = kernel(phi[i], phi[j]);
    }
    const A = Float64Array.from(this.K);
    for (let i = 0; i < k; i++) A[i * k + i] += ridge;
    Object.assign(this, { k, ridge, A, y, solve: solver(A, k) });
    this.rows = queries.map((x) => Float64Array.from(phi, (z) => kernel(z, x)));
    this.alpha = this.solve(y);
    this.predictions = Float64Array.from(this.rows, (row) => dot(row, this.alpha));
  }

  /** k(x)ᵀ A⁻¹ e_i at every query: how far f* moves for each unit that label i moves. */
  influence(i) {
    const unit = new Float64Array(this.k);
    unit[i] = 1;
    const weights = this.solve(unit);
    return Float64Array.from(this.rows, (row) => dot(row, weights));
  }

  /** λ_max(K) and cond(A). */
  spectrum() {
    const values = eigenvalues(this.K, this.k);
    const top = values[this.k - 1];
    return { top, condition: (top + this.ridge) / (Math.max(values[0], 0) + this.ridge) };
  }

  /** The largest √(k(x)ᵀA⁻¹k(x)) · ‖α*‖_A over the queries, which every bound on a prediction begins with. */
  scale() {
    const energy = Math.sqrt(Math.max(0, dot(this.y, this.alpha)));
    return energy * largest(Float64Array.from(this.rows, (row) => Math.sqrt(dot(row, this.solve(row)))));
  }
}
