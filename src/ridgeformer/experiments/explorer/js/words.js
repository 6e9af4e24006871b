// What a layer does, in words: from the labels in a compiled model's file, or from what a trained one changes.

import { short } from "draw";

// In feature space a token reads only what comes before it, and the product is with a matrix of features.
const IN_FEATURES = {
  matvec: (does) => `every token reads the pairs before it and gets ${does}, where the matrix is ΦᵀΦ of those pairs`,
  target: (does) => `every token reads the pairs before it and adds up features times labels: ${does}`,
};
const HEADS = {
  matvec: (does) => `every token reads all examples and gets its entry of ${does}, the product with the kernel matrix`,
  reduction: (does) => `the aggregator adds up one number over all examples: ${does}`,
  broadcast: (does) => `every token reads the aggregator's number and updates its ${does}`,
  product: (does) => `the aggregator multiplies numbers that it holds: ${does}`,
  reciprocal: () => "the aggregator sharpens a reciprocal, by one step of Newton's method",
  copy: () => "a value is copied to another column",
  target: (does) => `the labels are collected: ${does}`,
  prediction: (does) => `the prediction is read from the examples: ${does}`,
  normaliser: () => "the sum of the attention weights is kept, so that their normalisation can be undone",
  mean: (does) => `the aggregator takes a mean over all examples: ${does}`,
  operator: () => "every token reads all others and improves its image under the inverse, which doubles the correct digits",
};

/** What a head of a compiled model is for, in a few words. */
export function headName(head) {
  return head ? `${pretty(head.does)} (${head.roles.join(", ")})` : "not described";
}

/** Sentences on a block of a compiled model. */
export function blockWords(layer, space) {
  const heads = space === "feature" ? { ...HEADS, ...IN_FEATURES } : HEADS;
  const sentences = [];
  for (const head of layer.attention) {
    const role = head.roles.find((r) => r in heads);
    sentences.push(`Attention: ${role ? heads[role](pretty(head.does)) : pretty(head.does)}.`);
  }
  const parts = { table: [], product: [], linear: [], gone: [] };
  for (const { does, kind } of layer.mlp) {
    const [, erased] = does.match(/^(?:erase|clear) (.*)$/) ?? [];
    const list = erased ? parts.gone : parts[kind] ?? parts.linear;
    const name = pretty(erased ?? does);
    if (!list.includes(name)) list.push(name);
  }
  if (parts.table.length) sentences.push(`MLP: it looks up a first guess in a table of ReLUs, for ${listed(parts.table)}.`);
  if (parts.product.length) sentences.push(`MLP: at each token it multiplies, for ${listed(parts.product)}.`);
  if (parts.linear.length) sentences.push(`MLP: at each token it adds multiples of columns, for ${listed(parts.linear)}.`);
  if (parts.gone.length) sentences.push(`MLP: it makes room by erasing ${listed(parts.gone)}.`);
  return sentences.length ? sentences : ["This layer only waits for others to be done."];
}

/** Sentences on a layer of a trained model, whose distances from the exact answer are known. */
export function trainedWords(before, after) {
  const moved = after < before ? `closer, from ${short(before)} to ${short(after)}` : `further away, from ${short(before)} to ${short(after)}`;
  return [
    "Nobody wrote down what this layer does: it was trained.",
    `Read through the model's own last weights, its curve comes ${moved} of the largest prediction.`,
  ];
}

function pretty(name) {
  return name
    .replaceAll("alpha", "α").replaceAll("inverse_rho", "1/ρ").replaceAll("rho", "ρ").replaceAll("scale", "s").replaceAll("n|u|²", "|x|²");
}

function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

export { pretty };
