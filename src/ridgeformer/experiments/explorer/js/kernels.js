// Kernels by their names in saved models, and the exact ridge regression with them.

import { dot, largest, solver, spectrum } from "algebra";

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
    this.own = queries.map((x) => kernel(x, x));
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

  /** λ_max(K). */
  top() {
    return this.eigenvalue(this.k - 1);
  }

  /** The eigenvalues of K by their places in rising order. */
  eigenvalue(place) {
    this.found ??= spectrum(this.K, this.k);
    return this.found(place);
  }

  /**
   * The condition number of the system that is solved, and the largest |query|·|solution| in its norms, with which
   * every bound on a prediction begins. The system is A α = y, or in feature space M w = Φᵀy with
   * M = ΦᵀΦ + λ: there |Φᵀy|² in the norm of M⁻¹ is yᵀKα = yᵀ(y − λα), and |φ|² is (k(x, x) − k(x)ᵀA⁻¹k(x))/λ.
   */
  system(features = null) {
    const { k, ridge, y, alpha, rows } = this, own = Float64Array.from(rows, (row) => dot(row, this.solve(row)));
    const dual = features === null, place = dual ? 0 : k - features;
    const least = place < 0 ? 0 : Math.max(0, this.eigenvalue(place));
    const energy = dual ? dot(y, alpha) : dot(y, y) - ridge * dot(y, alpha);
    const queries = dual ? own : own.map((value, i) => (this.own[i] - value) / ridge);
    return {
      condition: (this.top() + ridge) / (least + ridge),
      scale: Math.sqrt(Math.max(0, energy) * largest(queries)),
    };
  }
}
