// What a model predicts after each of its steps or layers.

/** The place of a site such as blocks.3.resid_mid among the streams of a pass. */
export function placeOf(site) {
  if (site === "embed") return 0;
  const [, block, sublayer] = site.split(".");
  return 2 * Number(block) + (sublayer === "resid_mid" ? 1 : 2);
}

/** The entries of `sites` for as many steps as the pass has; in a loop one entry stands for all later steps. */
export function entriesOf(entries, steps) {
  const found = [];
  for (const entry of entries) {
    if (entry.period === undefined) {
      found.push(entry);
      continue;
    }
    const [, block, sublayer] = entry.site.split(".");
    for (let t = entry.step; t <= steps; t++) {
      const layer = Number(block) + (t - entry.step) * entry.period;
      found.push({ ...entry, step: t, site: `blocks.${layer}.${sublayer}` });
    }
  }
  return found.filter((entry) => entry.step <= steps);
}

/**
 * [{step, place, values, ahead}] in order: at the steps a file names, or else at every layer through its last weights.
 * `values` are at the queries, `ahead` at the rows of the context that are given.
 */
export function readings(transformer, pass, sites, steps, rows = []) {
  if (!sites) {
    return Array.from({ length: pass.order.length + 1 }, (_, l) => ({
      step: l, place: 2 * l, values: transformer.readout(pass.streams[2 * l], pass.context), ahead: null,
    }));
  }
  const { d_model: d } = transformer.config;
  return entriesOf(sites.predictions, steps).map((entry) => {
    const place = placeOf(entry.site);
    const stream = entry.through ? exit(transformer, pass, place, entry) : pass.streams[place];
    const at = (row) => {
      const value = stream[row * d + entry.columns[0]] * (entry.scale ?? 1);
      return entry.over ? value / stream[row * d + entry.over[0]] : value;
    };
    const values = Float64Array.from({ length: pass.n - pass.context }, (_, i) => at(pass.context + i));
    return { step: entry.step, place, values, ahead: rows.map((i) => at(pass.registers + i)) };
  });
}

/** An early step's stream, with some columns in another unit, put through the last blocks. */
function exit(transformer, pass, place, { through, times }) {
  const { d_model: d } = transformer.config;
  const stream = Float64Array.from(pass.streams[place]);
  for (let i = 0; i < pass.n; i++) for (const c of times.columns) stream[i * d + c] *= times.factor;
  return transformer.apply(stream, pass, pass.order.slice(...through));
}
