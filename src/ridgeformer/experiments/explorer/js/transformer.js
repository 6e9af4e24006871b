// A saved transformer, run as docs/format.md describes. It knows nothing of what the weights were made for.

import { activations } from "functions";
import { fillRows, Matrix } from "matrix";

const EPSILON = 1e-5;

export class Transformer {
  constructor(config, tensors) {
    this.config = config;
    const get = (name) => tensors[name]?.data;
    const matrix = (name) => {
      const [rows, columns] = tensors[name].shape;
      return new Matrix(rows, columns, tensors[name].data);
    };
    this.embed = { W: matrix("embed.W"), b: get("embed.b") };
    this.unembed = { W: matrix("unembed.W"), b: get("unembed.b") };
    this.positions = get("pos");
    this.registers = get("registers");
    this.memory = {};
    this.finalNorm = { w: get("ln_final.w"), b: get("ln_final.b") };
    this.blocks = Array.from({ length: config.n_layers }, (_, l) => {
      const name = `blocks.${l}`;
      const block = { norms: {} };
      for (const norm of ["ln1", "ln2"]) {
        block.norms[norm] = { w: get(`${name}.${norm}.w`), b: get(`${name}.${norm}.b`) };
      }
      for (const c of "QKV") {
        block[c] = sideBySide(tensors[`${name}.attn.W_${c}`]);
        block[`b${c}`] = get(`${name}.attn.b_${c}`);
      }
      const [heads, size, width] = tensors[`${name}.attn.W_O`].shape;
      block.O = new Matrix(heads * size, width, get(`${name}.attn.W_O`));
      block.bO = get(`${name}.attn.b_O`);
      const part = size * width, weights = block.O.data;
      block.speaks = Array.from({ length: heads }, (_, h) => weights.subarray(h * part, (h + 1) * part).some((w) => w !== 0));
      if (config.d_mlp) {
        const heard = rowsWithEntries(tensors[`${name}.mlp.W_out`]);
        block.width = heard.length;
        block.in = { W: columnsAt(tensors[`${name}.mlp.W_in`], heard), b: entriesAt(get(`${name}.mlp.b_in`), heard) };
        block.out = { W: rowsAt(tensors[`${name}.mlp.W_out`], heard) };
        if (config.mlp === "reglu") {
          block.gate = { W: columnsAt(tensors[`${name}.mlp.W_gate`], heard), b: entriesAt(get(`${name}.mlp.b_gate`), heard) };
        }
      }
      block.bOut = get(`${name}.mlp.b_out`);
      return block;
    });
  }

  /** The blocks in the order in which they are applied. */
  applied(loops = 1) {
    const [first, stop] = this.config.loop ?? [0, 0];
    const order = [];
    for (let l = 0; l < first; l++) order.push(l);
    for (let i = 0; i < loops; i++) for (let l = first; l < stop; l++) order.push(l);
    for (let l = stop; l < this.config.n_layers; l++) order.push(l);
    return order;
  }

  /**
   * The residual stream after every sublayer: an array of rows × d_model numbers, first as embedded, then
   * twice for each block that is applied. `off` holds "layer.head" of heads that add nothing.
   */
  run(tokens, context, { loops = 1, off = new Set(), reuse = null } = {}) {
    const { d_model: d, d_in: inputs } = this.config;
    const registers = this.config.n_registers ?? 0;
    const n = tokens.length / inputs + registers;
    const order = this.applied(loops);
    const streams = reuse?.n === n && reuse.streams.length === 1 + 2 * order.length ? reuse.streams
      : Array.from({ length: 1 + 2 * order.length }, () => new Float64Array(n * d));
    const pass = { n, context: context + registers, registers, order, streams };
    this.embedInto(tokens, streams[0], registers);
    order.forEach((l, i) => {
      const isOff = off.size ? (h) => off.has(`${i}.${h}`) : () => false;
      this.applyBlock(this.blocks[l], streams.slice(2 * i, 2 * i + 3), pass, isOff);
    });
    return pass;
  }

  /** Fills in what a stream is after a block's attention and after its MLP. */
  applyBlock(block, [before, between, after], pass, isOff = () => false) {
    between.set(before);
    this.attend(block, before, between, pass, isOff);
    after.set(between);
    this.transform(block, between, after, pass.n);
  }

  /** The stream after some blocks, which are named by their numbers in the file. */
  apply(stream, pass, blocks) {
    for (const l of blocks) {
      const next = [stream, new Float64Array(stream.length), new Float64Array(stream.length)];
      this.applyBlock(this.blocks[l], next, pass);
      stream = next[2];
    }
    return stream;
  }

  embedInto(tokens, x, registers) {
    const { d_model: d, d_in: inputs, positional, n_registers: count } = this.config;
    const n = tokens.length / inputs;
    if (count) x.set(this.registers);
    const rest = x.subarray(registers * d);
    fillRows(rest, this.embed.b, d, 0, n);
    this.embed.W.addProduct(tokens, rest, 0, n);
    for (let i = 0; i < n * d && positional !== "none"; i++) {
      rest[i] += positional === "learned" ? this.positions[i] : sinusoid(Math.floor(i / d), i % d, d);
    }
  }

  /** Numbers for a purpose, at least so many: what the last pass left is written over, since new memory takes time. */
  room(purpose, size) {
    if (!(this.memory[purpose]?.length >= size)) this.memory[purpose] = new Float64Array(size);
    return this.memory[purpose];
  }

  project(block, x, n, c) {
    const out = this.room(c, n * block[c].columns);
    fillRows(out, block[`b${c}`], block[c].columns, 0, n);
    block[c].addProduct(x, out, 0, n);
    return out;
  }

  /** Adds to `out` what the heads read. */
  attend(block, stream, out, pass, isOff) {
    const { n_heads: heads, d_head: size } = this.config;
    addRow(out, block.bO, pass.n);
    if (!block.speaks.some(Boolean)) return;
    const x = this.normed(stream, block.norms.ln1, pass.n);
    const [q, k, v] = ["Q", "K", "V"].map((c) => this.project(block, x, pass.n, c));
    const mixed = this.room("mixed", pass.n * heads * size).fill(0, 0, pass.n * heads * size);
    for (let h = 0; h < heads; h++) {
      if (!block.speaks[h] || isOff(h)) continue; // what it reads would be multiplied by 0
      const head = { q, k, v, mixed, from: h * size, width: heads * size, size };
      if (this.config.attention === "linear") this.mixLinear(head, pass);
      else this.mixSoftmax(head, pass);
    }
    block.O.addProduct(mixed, out, 0, pass.n);
  }

  /** Linear attention keeps Σ k_i v_iᵀ of what is visible, and never has a matrix of all pairs. */
  mixLinear({ q, k, v, mixed, from, width, size }, { n, context }) {
    const { attn_scale: scale, mask } = this.config;
    const memory = new Float64Array(size * size);
    const add = (i) => {
      for (let a = 0; a < size; a++) {
        const key = scale * k[i * width + from + a];
        if (key === 0) continue;
        for (let b = 0; b < size; b++) memory[a * size + b] += key * v[i * width + from + b];
      }
    };
    const read = (j) => {
      for (let a = 0; a < size; a++) {
        const query = q[j * width + from + a];
        if (query === 0) continue;
        for (let b = 0; b < size; b++) mixed[j * width + from + b] += query * memory[a * size + b];
      }
    };
    for (let i = 0; i < context; i++) {
      add(i);
      if (mask === "causal") read(i);
    }
    for (let j = mask === "causal" ? context : 0; j < n; j++) {
      read(j);
      if (j < context || mask === "context") continue;
      let own = 0;
      for (let a = 0; a < size; a++) own += q[j * width + from + a] * k[j * width + from + a];
      for (let b = 0; b < size; b++) mixed[j * width + from + b] += scale * own * v[j * width + from + b];
    }
  }

  mixSoftmax({ q, k, v, mixed, from, width, size }, { n, context }) {
    const scores = this.room("scores", context + 1), sum = new Float64Array(size);
    const values = rowsOf(v, context, width, from, size, this.room("values", context * size));
    const keys = columnsOf(k, context, width, from, size, this.room("keys", context * size));
    for (let j = 0; j < n; j++) {
      const at = j * width + from;
      const count = this.weigh(scores, q, k, keys, at, j, context, size);
      const shared = Math.min(count, context), whole = shared - (shared % 4);
      sum.fill(0);
      for (let i = 0; i < whole; i += 4) { // four at a time: the sum is loaded and stored once for four products
        const r = i * size, c = scores[i], d = scores[i + 1], e = scores[i + 2], f = scores[i + 3];
        for (let b = 0; b < size; b++) {
          sum[b] += c * values[r + b] + d * values[r + size + b] + e * values[r + 2 * size + b] + f * values[r + 3 * size + b];
        }
      }
      for (let i = whole; i < shared; i++) {
        for (let b = 0; b < size; b++) sum[b] += scores[i] * values[i * size + b];
      }
      if (count > context) for (let b = 0; b < size; b++) sum[b] += scores[context] * v[at + b];
      for (let b = 0; b < size; b++) mixed[at + b] = sum[b];
    }
  }

  /** How many tokens reader j reads: the context, or as much of it as it may see, and a query after it itself. */
  visible(j, context) {
    if (this.config.mask === "causal" && j < context) return j + 1;
    return j < context || this.config.mask === "context" ? context : context + 1;
  }

  /** Fills in the scores of reader j, whose query is at q[at …], and returns how many there are. */
  score(scores, q, k, keys, at, j, context, size) {
    const count = this.visible(j, context), shared = Math.min(count, context), scale = this.config.attn_scale;
    const whole = size - (size % 4);
    scores.fill(0, 0, shared);
    for (let a = 0; a < whole; a += 4) { // four at a time here, too
      const row = a * context, row2 = row + context, row3 = row2 + context, row4 = row3 + context;
      const b = scale * q[at + a], c = scale * q[at + a + 1], d = scale * q[at + a + 2], e = scale * q[at + a + 3];
      for (let i = 0; i < shared; i++) scores[i] += b * keys[row + i] + c * keys[row2 + i] + d * keys[row3 + i] + e * keys[row4 + i];
    }
    for (let a = whole; a < size; a++) {
      const query = scale * q[at + a], row = a * context;
      for (let i = 0; i < shared; i++) scores[i] += query * keys[row + i];
    }
    if (count > context) {
      let own = 0;
      for (let a = 0; a < size; a++) own += q[at + a] * k[at + a];
      scores[context] = scale * own;
    }
    return count;
  }

  /** The softmax of those scores. */
  weigh(scores, q, k, keys, at, j, context, size) {
    const count = this.score(scores, q, k, keys, at, j, context, size);
    let largest = -Infinity, total = 0;
    for (let i = 0; i < count; i++) if (scores[i] > largest) largest = scores[i];
    for (let i = 0; i < count; i++) total += scores[i] = Math.exp(scores[i] - largest);
    for (let i = 0; i < count; i++) scores[i] /= total;
    return count;
  }

  /** The matrix [reader, read] of one head in the i-th block that was applied. */
  attention(pass, i, head) {
    const { n_heads: heads, d_head: size, attention } = this.config;
    const { n, context, order, streams } = pass;
    const block = this.blocks[order[i]];
    const x = this.normed(streams[2 * i], block.norms.ln1, n);
    const [q, k] = ["Q", "K"].map((c) => this.project(block, x, n, c));
    const width = heads * size, keys = columnsOf(k, context, width, head * size, size, this.room("keys", context * size));
    const map = new Float64Array(n * n), scores = new Float64Array(context + 1);
    for (let j = 0; j < n; j++) {
      const at = j * width + head * size;
      const count = attention === "softmax" ? this.weigh(scores, q, k, keys, at, j, context, size)
        : this.score(scores, q, k, keys, at, j, context, size);
      for (let i = 0; i < count; i++) map[j * n + (i < context ? i : j)] = scores[i];
    }
    return map;
  }

  /** For each token, whether one head in the i-th block that was applied takes anything from it: its value is not 0. */
  gives(pass, i, head) {
    const { n_heads: heads, d_head: size } = this.config, block = this.blocks[pass.order[i]];
    const v = this.project(block, this.normed(pass.streams[2 * i], block.norms.ln1, pass.n), pass.n, "V");
    const from = (j) => (j * heads + head) * size;
    return Array.from({ length: pass.n }, (_, j) => v.subarray(from(j), from(j) + size).some((value) => value !== 0));
  }

  /** Adds to `out` what the MLP writes. */
  transform(block, stream, out, n) {
    const { mlp } = this.config, { width } = block;
    if (block.bOut) addRow(out, block.bOut, n);
    if (!width) return;
    const x = this.normed(stream, block.norms.ln2, n);
    const hidden = this.room("hidden", n * width);
    fillRows(hidden, block.in.b, width, 0, n);
    block.in.W.addProduct(x, hidden, 0, n);
    if (mlp === "reglu") {
      const gate = this.room("gate", n * width);
      fillRows(gate, block.gate.b, width, 0, n);
      block.gate.W.addProduct(x, gate, 0, n);
      for (let i = 0; i < n * width; i++) hidden[i] = gate[i] > 0 ? gate[i] * hidden[i] : 0;
    } else activations[mlp](hidden, n * width);
    block.out.W.addProduct(hidden, out, 0, n);
  }

  normed(x, { w, b }, n) {
    const { norm, d_model: d } = this.config;
    if (norm === "none") return x;
    const out = this.room("normed", n * d);
    for (let i = 0; i < n; i++) {
      const from = i * d;
      let mean = 0, square = 0;
      if (norm === "layernorm") for (let j = 0; j < d; j++) mean += x[from + j];
      mean /= d;
      for (let j = 0; j < d; j++) square += (x[from + j] - mean) ** 2;
      const factor = 1 / Math.sqrt(square / d + EPSILON);
      for (let j = 0; j < d; j++) out[from + j] = (x[from + j] - mean) * factor * w[j] + (b?.[j] ?? 0);
    }
    return out;
  }

  /** The outputs that the rows first … of a stream are mapped to. */
  readout(stream, first) {
    const { d_model: d, d_out: outputs } = this.config;
    const rows = stream.subarray(first * d), n = rows.length / d;
    const out = new Float64Array(n * outputs);
    fillRows(out, this.unembed.b, outputs, 0, n);
    this.unembed.W.addProduct(this.normed(rows, this.finalNorm, n), out, 0, n);
    return out;
  }
}

/** One head's part of the first rows, closely packed. */
function rowsOf(all, rows, width, from, size, part) {
  for (let i = 0; i < rows; i++) for (let a = 0; a < size; a++) part[i * size + a] = all[i * width + from + a];
  return part;
}

/** The same by columns. */
function columnsOf(all, rows, width, from, size, part) {
  for (let i = 0; i < rows; i++) for (let a = 0; a < size; a++) part[a * rows + i] = all[i * width + from + a];
  return part;
}

function addRow(out, row, n) {
  const d = row.length;
  for (let i = 0; i < n; i++) for (let j = 0; j < d; j++) out[i * d + j] += row[j];
}

/** The matrices of all heads, [heads, d_model, d_head], as one of d_model × (heads·d_head). */
function sideBySide({ shape: [heads, d, size], data }) {
  const all = new Float64Array(data.length);
  for (let h = 0; h < heads; h++) {
    for (let c = 0; c < d; c++) {
      for (let e = 0; e < size; e++) all[c * heads * size + h * size + e] = data[(h * d + c) * size + e];
    }
  }
  return new Matrix(d, heads * size, all);
}

/** The rows of a matrix that are not zero: what they would be multiplied by matters to nothing. */
function rowsWithEntries({ shape: [rows, columns], data }) {
  return Array.from({ length: rows }, (_, r) => r).filter((r) => data.subarray(r * columns, (r + 1) * columns).some((w) => w !== 0));
}

function rowsAt({ shape: [, columns], data }, chosen) {
  const part = new Float64Array(chosen.length * columns);
  chosen.forEach((r, i) => part.set(data.subarray(r * columns, (r + 1) * columns), i * columns));
  return new Matrix(chosen.length, columns, part);
}

function columnsAt({ shape: [rows, columns], data }, chosen) {
  const part = new Float64Array(rows * chosen.length);
  for (let r = 0; r < rows; r++) for (let i = 0; i < chosen.length; i++) part[r * chosen.length + i] = data[r * columns + chosen[i]];
  return new Matrix(rows, chosen.length, part);
}

function entriesAt(data, chosen) {
  return data && Float64Array.from(chosen, (i) => data[i]);
}

function sinusoid(position, column, d) {
  const angle = position / 10000 ** ((column - (column % 2)) / d);
  return column % 2 ? Math.cos(angle) : Math.sin(angle);
}
