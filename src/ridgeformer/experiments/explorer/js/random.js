// Numbers that look random and are the same on every machine, so that a link shows the same points.

/** A generator of uniform numbers in [0, 1) (mulberry32). */
export function uniform(seed) {
  let state = (seed * 0x9e3779b1) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Standard normal numbers. */
export function normal(seed) {
  const draw = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
}

/** Examples [x, y] of a smooth function that the seed draws, with noise; x in [−1, 1]. */
export function examples(count, noise, seed) {
  const place = uniform(seed + 1), gauss = normal(seed + 2);
  const weights = Array.from({ length: 6 }, (_, j) => (1.3 * gauss()) / (1 + j));
  const f = (x) => weights.reduce((sum, w, j) => sum + w * Math.cos((j * Math.PI * (x + 1)) / 2), 0);
  return Array.from({ length: count }, () => {
    const x = 1.9 * place() - 0.95;
    const y = f(x) + noise * gauss();
    return [round(x), round(Math.max(-2.9, Math.min(2.9, y)))];
  });
}

/** Three digits, which is what a link keeps. */
export function round(value) {
  return Math.round(1000 * value) / 1000;
}
