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

/**
 * The eigenvalues of a symmetric matrix (n × n, by rows), by their places in rising order. Householder's
 * reflections make it tridiagonal, where the signs of pivots tell how many eigenvalues lie below a number.
 */
export function spectrum(matrix, n) {
  const { diagonal, beside } = tridiagonal(matrix, n);
  const below = (value) => {
    let count = 0, pivot = 1;
    for (let i = 0; i < n; i++) {
      pivot = diagonal[i] - value - (i ? beside[i - 1] ** 2 / pivot : 0);
      if (pivot === 0) pivot = Number.MIN_VALUE;
      if (pivot < 0) count++;
    }
    return count;
  };
  let reach = 0;
  for (let i = 0; i < n; i++) {
    reach = Math.max(reach, Math.abs(diagonal[i]) + Math.abs(beside[i] ?? 0) + Math.abs(beside[i - 1] ?? 0));
  }
  return (place) => {
    let low = -reach, high = reach;
    for (let halving = 0; halving < 60; halving++) {
      const middle = (low + high) / 2;
      if (below(middle) > place) high = middle;
      else low = middle;
    }
    return (low + high) / 2;
  };
}

/** A matrix with the same eigenvalues that is zero but for its diagonal and the entries beside it. */
function tridiagonal(matrix, n) {
  const A = Float64Array.from(matrix), beside = new Float64Array(Math.max(0, n - 1));
  const v = new Float64Array(n), w = new Float64Array(n);
  for (let k = 0; k + 2 < n; k++) {
    let square = 0;
    for (let i = k + 1; i < n; i++) square += (v[i] = A[i * n + k]) ** 2;
    beside[k] = v[k + 1] > 0 ? -Math.sqrt(square) : Math.sqrt(square);
    const weight = square - beside[k] * v[k + 1]; // half of |v|², once the next line is done
    v[k + 1] -= beside[k];
    if (weight === 0) continue;
    let along = 0;
    for (let i = k + 1; i < n; i++) {
      let sum = 0;
      for (let j = k + 1; j < n; j++) sum += A[i * n + j] * v[j];
      w[i] = sum / weight;
      along += w[i] * v[i];
    }
    for (let i = k + 1; i < n; i++) w[i] -= (along / (2 * weight)) * v[i];
    for (let i = k + 1; i < n; i++) for (let j = k + 1; j < n; j++) A[i * n + j] -= v[i] * w[j] + w[i] * v[j];
  }
  if (n > 1) beside[n - 2] = A[n * n - 2];
  return { diagonal: Float64Array.from({ length: n }, (_, i) => A[i * n + i]), beside };
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
