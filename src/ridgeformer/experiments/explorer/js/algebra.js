// Small dense linear algebra for the exact answer that models are compared with.

/** Solves A z = b for symmetric positive definite A (n × n, by rows) and each right-hand side. */
export function solver(A, n) {
  const L = Float64Array.from(A);
  for (let j = 0; j < n; j++) {
    for (let i = j; i < n; i++) {
      let sum = L[i * n + j];
      for (let k = 0; k < j; k++) sum -= L[i * n + k] * L[j * n + k];
      L[i * n + j] = i === j ? Math.sqrt(sum) : sum / L[j * n + j];
    }
  }
  return (b) => {
    const z = Float64Array.from(b);
    for (let i = 0; i < n; i++) {
      for (let k = 0; k < i; k++) z[i] -= L[i * n + k] * z[k];
      z[i] /= L[i * n + i];
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let k = i + 1; k < n; k++) z[i] -= L[k * n + i] * z[k];
      z[i] /= L[i * n + i];
    }
    return z;
  };
}

/** The eigenvalues of a symmetric matrix (n × n, by rows), in rising order, by Jacobi's rotations. */
export function eigenvalues(matrix, n) {
  const A = Float64Array.from(matrix);
  for (let sweep = 0; sweep < 30; sweep++) {
    let off = 0, all = 0;
    for (let i = 0; i < n * n; i++) all += A[i] ** 2;
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) off += 2 * A[i * n + j] ** 2;
    if (off <= 1e-28 * all) break;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) rotate(A, n, p, q);
  }
  return Array.from({ length: n }, (_, i) => A[i * n + i]).sort((a, b) => a - b);
}

function rotate(A, n, p, q) {
  const a = A[p * n + q];
  if (a === 0) return;
  const theta = (A[q * n + q] - A[p * n + p]) / (2 * a);
  const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const c = 1 / Math.sqrt(t * t + 1), s = t * c;
  for (let k = 0; k < n; k++) {
    const x = A[k * n + p], y = A[k * n + q];
    A[k * n + p] = c * x - s * y;
    A[k * n + q] = s * x + c * y;
  }
  for (let k = 0; k < n; k++) {
    const x = A[p * n + k], y = A[q * n + k];
    A[p * n + k] = c * x - s * y;
    A[q * n + k] = s * x + c * y;
  }
}

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** The largest |a[i]|, or |a[i] − b[i]|. */
export function largest(a, b = null) {
  let most = 0;
  for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs(b ? a[i] - b[i] : a[i]));
  return most;
}
