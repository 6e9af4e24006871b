// The controls: every one has a label, works by keyboard, and shows its value.

import { fill, html, short } from "draw";

const SLIDERS = {
  condition: { label: "Condition number κ of the features", from: 0, to: 2, step: 0.02, power: true },
  ridge: { label: "Ridge λ", from: -1, to: 1, step: 0.02, power: true },
  width: { label: "Kernel width ℓ", from: 0.2, to: 1, step: 0.01 },
  temperature: { label: "Temperature τ", from: 0.4, to: 4, step: 0.05 },
  count: { label: "Number of examples", from: 1, to: 64, step: 1 },
  noise: { label: "Noise of the labels", from: 0, to: 1, step: 0.05 },
  steps: { label: "Steps of the method", from: 0, to: 64, step: 1 },
};

export class Controls {
  constructor(part, shown, worlds, choose, edits) {
    Object.assign(this, { part, shown, worlds, choose, edits });
    const form = part("controls").querySelector("form");
    form.addEventListener("submit", (event) => event.preventDefault());
    this.rows = {};
    const add = (name, input, label) => {
      const value = html("output", { for: `c-${name}` });
      input.id = `c-${name}`;
      this.rows[name] = { row: html("div", { class: "row" }, html("label", { for: `c-${name}` }, label), input, value), input, value };
      form.append(this.rows[name].row);
    };
    add("world", this.select(Object.entries(worlds).map(([name, w]) => [name, w.title]), "world"), "Kernel");
    add("model", this.select([], "model"), "Compiled model");
    add("trained", this.select([], "trained"), "Trained model");
    for (const [name, slider] of Object.entries(SLIDERS)) add(name, this.slider(name, slider), slider.label);
    add("ridges", this.select([], "ridge"), "Ridge λ");
    form.append(this.buttons());
    const play = document.getElementById("play");
    play.addEventListener("click", () => this.play(play));
    document.getElementById("layer").addEventListener("input", (event) => choose({ position: Number(event.target.value) }));
    for (const input of document.querySelectorAll('input[name="inside"]')) {
      input.addEventListener("change", () => choose({ inside: input.value, position: -1, head: 0, off: "" }));
    }
    document.getElementById("turn").addEventListener("click", () => this.state.selected >= 0 && edits.flip(this.state.selected));
  }

  select(options, name) {
    const made = html("select");
    fill(made, options);
    made.addEventListener("change", () => {
      const change = { [name]: name === "ridge" ? Number(made.value) : made.value };
      const other = name !== "ridge";
      this.choose(other ? { ...change, position: -1, off: "", head: 0, token: "" } : change);
    });
    return made;
  }

  slider(name, { from, to, step, power }) {
    const made = html("input", { type: "range", min: from, max: to, step });
    made.addEventListener("input", () => {
      const value = power ? 10 ** Number(made.value) : Number(made.value);
      this.choose(name === "steps" ? this.stepChange(value) : { [name]: value });
    });
    return made;
  }

  /** A looped model is run for so many steps; in another one, the slider goes to the layer where the step ends. */
  stepChange(step) {
    if (this.main.model?.certificate?.looped) return { steps: step, position: -1 };
    const place = this.main.readings.find((r) => r.step === step)?.place ?? 0;
    return { inside: "model", position: Math.ceil(place / 2) };
  }

  buttons() {
    const button = (label, act) => {
      const made = html("button", { type: "button" }, label);
      made.addEventListener("click", act);
      return made;
    };
    // Each new example is at a place of its own: multiples of the golden ratio do not meet.
    this.more = button("Add one", () => this.edits.add(1.8 * ((0.618034 * this.count) % 1) - 0.9, 0.5));
    this.fewer = button("Remove the selected one", () => this.edits.remove(this.state.selected));
    return html("div", { class: "buttons" },
      button("Other examples", () => this.choose({ seed: (this.state.seed + 1) % 10000, selected: 0 })), this.more, this.fewer);
  }

  play(button) {
    if (this.timer) return this.stop(button);
    button.textContent = "Pause";
    if (this.position >= this.last) this.choose({ position: 0 });
    this.timer = setInterval(() => {
      if (this.position >= this.last) this.stop(button);
      else this.choose({ position: this.position + 1 });
    }, 250);
  }

  stop(button) {
    clearInterval(this.timer);
    this.timer = null;
    button.textContent = "Play";
  }

  show(state, points, looked, position, main) {
    Object.assign(this, { state, position, main, last: looked.pass?.order.length ?? 0, count: points.length });
    const none = state.selected < 0;
    this.more.disabled = points.length >= this.shown.most;
    this.fewer.disabled = none || points.length < 2;
    document.getElementById("turn").disabled = none;
    document.getElementById("play").disabled = document.getElementById("layer").disabled = !this.last;
    const here = this.shown.models.filter((m) => m.world === state.world);
    const world = this.shown.worlds[state.world];
    fill(this.rows.model.input, here.filter((m) => !m.trained).map((m) => [m.name, m.label]));
    const trained = here.filter((m) => m.trained).map((m) => [m.name, m.label]);
    fill(this.rows.trained.input, [...trained, ["none", trained.length ? "none" : "none for this kernel"]]);
    fill(this.rows.ridges.input, world.ridges.map((r) => [String(r), String(r)]));
    for (const name of ["world", "model", "trained"]) this.rows[name].input.value = state[name];
    this.rows.ridges.input.value = String(state.ridge);
    const knobs = this.worlds[state.world].knobs, many = world.ridges.length > 1;
    for (const name of ["condition", "width", "temperature"]) this.rows[name].row.hidden = !knobs.includes(name);
    this.rows.ridge.row.hidden = many;
    this.rows.ridges.row.hidden = !many;
    this.showSteps(main, looked, position);
    for (const [name, { power }] of Object.entries(SLIDERS)) {
      const value = name === "count" ? points.length : state[name];
      if (name === "steps") continue;
      this.rows[name].input.value = power ? Math.log10(value) : value;
      this.rows[name].value.textContent = short(value);
    }
    const slider = document.getElementById("layer");
    slider.max = this.last;
    slider.value = position;
    slider.setAttribute("aria-valuetext", `layer ${position} of ${this.last}`);
    for (const input of document.querySelectorAll('input[name="inside"]')) {
      input.checked = input.value === state.inside;
      input.disabled = input.value === "trained" && state.trained === "none";
    }
    const about = here.find((m) => m.name === (looked.shown.name)).about;
    this.part("about").textContent = about;
  }

  showSteps(main, looked, position) {
    const { row, input, value } = this.rows.steps;
    const steps = main.why ? 0 : main.model.certificate.looped ? 64 : main.readings.at(-1).step;
    row.hidden = steps < 2;
    if (row.hidden) return;
    input.max = steps;
    input.min = main.model.certificate.looped ? 1 : 0;
    const done = main.model.certificate.looped ? main.steps
      : (looked === main ? main.readings.filter((r) => r.place <= 2 * position) : main.readings).at(-1)?.step ?? 0;
    input.value = done;
    value.textContent = String(done);
  }
}
