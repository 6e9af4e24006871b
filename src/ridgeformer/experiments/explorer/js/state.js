// What the reader has chosen, and the same in the part of the address after #, so that a view can be shared.

import { examples, round } from "random";

export const DEFAULTS = {
  world: "waves", model: "cg", trained: "linear", inside: "model",
  count: 14, noise: 0.3, seed: 3, condition: 30, ridge: 0.72, width: 0.5, temperature: 1, steps: 0,
  position: -1, selected: 0, token: "", head: 0, off: "", points: "", tour: 0,
};

const RANGES = {
  count: [1, 64], noise: [0, 1], seed: [0, 9999], condition: [1, 100], ridge: [0.01, 10],
  width: [0.2, 1], temperature: [0.4, 4], steps: [0, 64], position: [-1, 1000], selected: [-1, 63],
  head: [0, 63], tour: [0, 8],
};

/** The state in a hash; what is missing or makes no sense is as by default. */
export function parse(hash) {
  const state = { ...DEFAULTS };
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!Object.hasOwn(DEFAULTS, name)) continue;
    if (typeof DEFAULTS[name] === "string") state[name] = text;
    else if (text !== "" && Number.isFinite(Number(text))) {
      const [low, high] = RANGES[name];
      state[name] = Math.min(high, Math.max(low, Number(text)));
    }
  }
  for (const name of ["count", "seed", "steps", "position", "selected", "head", "tour"]) {
    state[name] = Math.round(state[name]);
  }
  if (state.inside !== "trained") state.inside = "model";
  return state;
}

/** Only what differs from the defaults. */
export function format(state) {
  const words = new URLSearchParams();
  for (const name of Object.keys(DEFAULTS)) {
    if (state[name] !== DEFAULTS[name]) words.set(name, String(state[name]));
  }
  return words.toString();
}

/** The examples: as the reader drew them, or as the seed draws them. */
export function pointsOf(state) {
  const drawn = state.points.split("_").filter(Boolean).map((pair) => pair.split(",").map(Number));
  const sound = drawn.filter((p) => p.length === 2 && p.every(Number.isFinite)).slice(0, 64).map(([x, y]) => inPlane(x, y));
  return sound.length ? sound : examples(state.count, state.noise, state.seed);
}

/** The nearest point of the picture. */
export function inPlane(x, y) {
  return [round(Math.max(-1, Math.min(1, x))), round(Math.max(-3, Math.min(3, y)))];
}

export function writePoints(points) {
  return points.map(([x, y]) => `${round(x)},${round(y)}`).join("_");
}
