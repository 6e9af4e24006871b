// What is inside the model that is looked at: words on a layer, the residual stream, attention, and its heads.

import { fill, html } from "draw";
import { heat } from "heat";
import { blockWords, headName, pretty, trainedWords } from "words";

const MOST_NAMES = 24;

export class Inside {
  constructor(part, choose) {
    Object.assign(this, { part, choose });
    this.stream = part("stream").querySelector("canvas");
    this.map = part("attention").querySelector("canvas");
    this.token = document.getElementById("token");
    this.head = document.getElementById("head");
    this.token.addEventListener("change", () => choose({ token: this.token.value }));
    this.head.addEventListener("change", () => choose({ head: Number(this.head.value) }));
    for (const kind of ["pointermove", "pointerdown"]) this.stream.addEventListener(kind, (event) => this.tell(event));
    this.stream.addEventListener("keydown", (event) => this.step(event));
    document.getElementById("all-on").addEventListener("click", () => choose({ off: "" }));
  }

  show(looked, position, scrubbed, state, prompt) {
    Object.assign(this, { looked, position, state, prompt });
    const sites = looked.model.config.sites;
    const described = position && sites ? sites.layers[looked.pass.order[position - 1]] : null;
    this.showWords(described, scrubbed);
    this.showStream();
    this.showHeads(described);
  }

  /** A model that refused the prompt holds nothing. */
  empty() {
    this.looked = null;
    this.part("words").replaceChildren(html("p", {}, "The model did not run on these examples, so that there is nothing inside to see."));
    fill(this.token, []);
    this.stream.width = this.stream.height = 1;
    for (const name of [".told", ".legend"]) this.part("stream").querySelector(name).textContent = "";
    this.part("heads").querySelector(".note").textContent = "";
    this.part("heads").querySelector(".list").replaceChildren();
    this.showMap(null, null, -1);
  }

  showWords(described, scrubbed) {
    const { looked, position } = this, last = looked.pass.order.length;
    const step = looked.shown.trained ? "" : `, step ${scrubbed.step} is complete`;
    const title = position ? `After layer ${position} of ${last}${step}` : `Before the first of ${last} layers`;
    let sentences = ["Every token holds its features, and an example its label. Nothing is predicted yet."];
    if (described) sentences = blockWords(described, looked.model.certificate.space);
    else if (position) sentences = trainedWords(looked.errors[position - 1][1], looked.errors[position][1]);
    this.part("words").replaceChildren(html("h3", {}, title), ...sentences.map((s) => html("p", {}, s)));
  }

  /** Rows of the stream by name; queries are told by their x. */
  tokens() {
    const { pass, model } = this.looked, { registers, context, n } = pass;
    const named = [];
    const pairs = model.layout === "pairs";
    for (let i = registers; i < context; i++) {
      const at = i - registers;
      if (pairs && i === context - 1) named.push([`a${i}`, "the aggregator", i]);
      else if (pairs) named.push([`e${at}`, `example ${at + 1}`, i]);
      else named.push([`e${at}`, `${at % 2 ? "pair" : "place"} ${(at >> 1) + 1}`, i]);
    }
    // While a dot is dragged there are fewer queries, at the same places: their names are those of the places.
    for (let i = context, place = 0; i < n; i += Math.max(1, Math.floor((n - context) / 8)), place++) {
      named.push([`q${place}`, `a query at x = ${this.prompt.xs[i - context].toFixed(2)}`, i]);
    }
    return named;
  }

  showStream() {
    const { looked, position, state } = this, { pass, model } = looked;
    const d = model.config.d_model, tokens = this.tokens();
    fill(this.token, tokens.map(([value, label]) => [value, label]));
    const first = model.layout === "pairs" ? 0 : pass.context - pass.registers - 2; // a decoder's first place sees nothing
    const chosen = tokens.find(([value]) => value === state.token) ?? tokens[first];
    this.token.value = chosen[0];
    this.row = chosen[2];
    const last = 2 * position;
    heat(this.stream, pass.streams.length, d,
      (r, c) => (r <= last ? pass.streams[r][this.row * d + c] : NaN), { logarithmic: true, marked: last });
    this.columns = this.columnNames(chosen[0][0]);
    const names = [...new Set((this.columns ?? []).flat().map((name) => pretty(name).replace(/\[\d+\]$/, "")))];
    const rest = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} others, which the pointer tells` : "";
    this.part("stream").querySelector(".legend").textContent = names.length
      ? `Its columns hold in turn: ${names.slice(0, MOST_NAMES).join(", ")}${rest}.` : `${d} columns, which mean nothing one by one: training chose the basis.`;
    if (this.cell) this.name(...this.cell);
  }

  columnNames(kind) {
    const channels = this.looked.model.config.sites?.channels;
    return channels ? channels[kind === "a" ? "aggregator" : "data"] : null;
  }

  /** Says what is under the pointer. */
  tell(event) {
    if (!this.looked) return;
    const { pass, model } = this.looked, box = this.stream.getBoundingClientRect();
    this.name(Math.floor(((event.clientX - box.left) / box.width) * model.config.d_model),
      Math.floor(((event.clientY - box.top) / box.height) * pass.streams.length));
  }

  /** The same by keyboard: arrow keys go to the cells beside. */
  step(event) {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move || !this.looked) return;
    event.preventDefault();
    const [column, place] = this.cell ?? [0, 2 * this.position];
    this.name(column + move[0], place + move[1]);
  }

  name(column, place) {
    const { pass, model } = this.looked, d = model.config.d_model;
    column = Math.max(0, Math.min(d - 1, column));
    place = Math.max(0, Math.min(pass.streams.length - 1, place));
    this.cell = [column, place];
    const where = place === 0 ? "as embedded" : `after the ${place % 2 ? "attention" : "MLP"} of layer ${Math.ceil(place / 2)}`;
    const names = this.columns?.[column]?.map(pretty).join(", ") || "";
    const value = pass.streams[place][this.row * d + column];
    this.part("stream").querySelector(".told").textContent =
      `Column ${column}${names ? ` (${names})` : ""} ${where}: ${place > 2 * this.position ? "not there yet" : value.toPrecision(4)}`;
  }

  showHeads(described) {
    const { looked, position, state } = this, list = this.part("heads").querySelector(".list");
    const { model, pass } = looked, count = position ? model.config.n_heads : 0;
    const used = model.config.sites ? described?.attention.length ?? 0 : count;
    const names = Array.from({ length: used }, (_, h) => `head ${h}${described ? `: ${headName(described.attention[h])}` : ""}`);
    fill(this.head, names.map((name, h) => [String(h), name]));
    const head = Math.min(state.head, Math.max(0, used - 1));
    this.head.value = String(head);
    const places = () => [...list.querySelectorAll("input, button")];
    const focused = places().indexOf(document.activeElement);
    list.replaceChildren(...names.map((name, h) => this.box(name, `${position - 1}.${h}`, described?.attention[h]?.roles[0])));
    places()[focused]?.focus(); // whoever works by keyboard stays where they are
    const note = this.part("heads").querySelector(".note");
    if (!position) note.textContent = "Move to a layer to see its heads.";
    else note.textContent = used ? "" : "No head of this layer does anything.";
    const roles = state.off.split("_").filter((w) => w.startsWith("role:")).map((w) => w.slice(5));
    if (roles.length) note.textContent += ` Switched off in all layers: ${roles.join(", ")}.`;
    this.showMap(pass, model, used ? head : -1);
  }

  box(name, place, role) {
    const { state } = this, words = state.off.split("_").filter(Boolean);
    const isOff = words.includes(place) || words.includes(`role:${role}`);
    const input = html("input", { type: "checkbox" });
    input.checked = !isOff;
    input.addEventListener("change", () => {
      const rest = words.filter((w) => w !== place && w !== `role:${role}`);
      this.choose({ off: (isOff ? rest : [...words, place]).join("_") });
    });
    const row = html("div", { class: "head" }, html("label", {}, input, ` ${name}`));
    if (role) {
      const all = html("button", { type: "button" }, `all “${role}” heads off`);
      all.addEventListener("click", () => this.choose({ off: [...words.filter((w) => w !== `role:${role}`), `role:${role}`].join("_") }));
      row.append(all);
    }
    return row;
  }

  /** Rows are the tokens that read, the queries thinned out; columns are those that are read. */
  showMap(pass, model, head) {
    const figure = this.part("attention");
    figure.querySelector(".wide").hidden = head < 0;
    figure.querySelector(".choice").hidden = head < 0;
    figure.querySelector(".none").hidden = head >= 0;
    figure.querySelector(".silent").hidden = true;
    if (head < 0) return;
    const scores = model.transformer.attention(pass, this.position - 1, head);
    const rows = [];
    for (let i = 0; i < pass.context; i++) rows.push(i);
    for (let i = pass.context; i < pass.n; i += Math.max(1, Math.floor((pass.n - pass.context) / 16))) rows.push(i);
    // Under a softmax every weight matters to the others; products by themselves say nothing without a value.
    const linear = model.config.attention === "linear";
    const gives = linear ? model.transformer.gives(pass, this.position - 1, head) : null;
    figure.querySelector(".silent").hidden = !gives?.slice(0, pass.context).includes(false);
    heat(this.map, rows.length, pass.context, (r, c) => (gives && !gives[c] ? NaN : scores[rows[r] * pass.n + c]));
  }
}
