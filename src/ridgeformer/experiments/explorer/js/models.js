// The page's models: unpacked when they are first needed, and run on prompts.

import { bytesOf, tensorsOf, unpacked } from "files";
import { tokensOf } from "layouts";
import { readings } from "readings";
import { short } from "draw";
import { Transformer } from "transformer";

/** A model in the saved format: its config.json, and the bytes of its model.safetensors. */
export class Model {
  constructor(config, bytes) {
    this.config = config;
    this.transformer = new Transformer(config, tensorsOf(bytes));
    this.certificate = config.certificate ?? null;
    this.layout = config.recipe?.model.layout ?? (this.certificate?.every_prefix ? "alternating" : "pairs");
    this.features = this.certificate?.features ?? config.recipe.task.features;
    this.buffers = null;
  }

  /** How often the loop is applied for so many steps. */
  loops(steps) {
    return this.certificate?.looped ? steps - (this.certificate.steps_before_loop ?? 0) : 1;
  }

  /** One forward pass: the streams, and the predictions that can be read off them. */
  run(phi, y, queries, { steps = Infinity, off } = {}) {
    const { tokens, context, ahead } = tokensOf(this.layout, phi, y, queries, this.features);
    const options = { loops: this.loops(steps), off, reuse: this.buffers };
    const pass = this.transformer.run(tokens, context, options);
    this.buffers = pass;
    const found = readings(this.transformer, pass, this.config.sites, steps, ahead);
    return { pass, readings: found, predictions: this.transformer.readout(pass.streams.at(-1), pass.context) };
  }

  /** Why the model does not take this prompt, in words; null if it does. */
  refusal(phi, top) {
    const c = this.certificate;
    if (!c) return null;
    const norm = Math.max(...phi.map((x) => Math.hypot(...x)));
    if (c.max_supports !== null && phi.length > c.max_supports) {
      return `it takes at most ${c.max_supports} examples`;
    }
    if (c.max_norm !== null && norm > c.max_norm * (1 + 1e-9)) {
      return `its features may be ${c.max_norm} long, and here ${short(norm)}`;
    }
    if (c.max_norm === null && top > c.max_eigenvalue * (1 + 1e-9)) {
      return `the kernel matrix may have eigenvalues up to ${c.max_eigenvalue}, and here has ${short(top)}`;
    }
    return null;
  }
}

const loaded = new Map();

/** The model of a file of the page. */
export function load(file) {
  if (!loaded.has(file)) {
    loaded.set(file, unpacked(bytesOf(file.weights)).then((bytes) => new Model(file.config, bytes)));
  }
  return loaded.get(file);
}
