// How a prompt becomes tokens, [φ | y | is_support | is_aggregator | is_query], and which rows answer queries.

/**
 * {tokens, context, ahead} of a prompt: phi is k rows of p numbers, y has k entries, queries are q rows. `ahead` are
 * the tokens of the context that hold an input before its target, where a decoder predicts it.
 */
export function tokensOf(layout, phi, y, queries, features) {
  return layouts[layout](phi, y, queries, features);
}

function filled(features) {
  const width = features + 4;
  const rows = [];
  return {
    add(phi, y, flag) {
      const row = new Float64Array(width);
      if (phi) row.set(phi);
      if (y !== null) row[features] = y;
      row[features + 1 + flag] = 1;
      rows.push(row);
    },
    all() {
      const tokens = new Float64Array(rows.length * width);
      rows.forEach((row, i) => tokens.set(row, i * width));
      return tokens;
    },
  };
}

const SUPPORT = 0, AGGREGATOR = 1, QUERY = 2;

const layouts = {
  pairs(phi, y, queries, features) {
    const rows = filled(features);
    phi.forEach((x, i) => rows.add(x, y[i], SUPPORT));
    rows.add(null, null, AGGREGATOR);
    queries.forEach((x) => rows.add(x, null, QUERY));
    return { tokens: rows.all(), context: phi.length + 1, ahead: [] };
  },
  alternating(phi, y, queries, features) {
    const rows = filled(features);
    phi.forEach((x, i) => {
      rows.add(x, null, QUERY);
      rows.add(x, y[i], SUPPORT);
    });
    queries.forEach((x) => rows.add(x, null, QUERY));
    return { tokens: rows.all(), context: 2 * phi.length, ahead: phi.map((_, i) => 2 * i) };
  },
};
