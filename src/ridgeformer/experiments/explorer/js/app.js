// The page: what the reader chooses becomes a prompt, the prompt goes through the models, and the results are drawn.

import { largest } from "algebra";
import { errorChart, influenceChart } from "charts";
import { Controls } from "controls";
import { Curve } from "curve";
import { ExactRidge } from "kernels";
import { Inside } from "inside";
import { load, Model } from "models";
import { format, inPlane, parse, pointsOf, writePoints } from "state";
import { Tour } from "guide";
import { worlds } from "worlds";
import { bytesOf } from "files";

const REST = 97, DRAG = 33; // places at which curves are drawn, at rest and while a dot is dragged
const SHOWN = JSON.parse(document.getElementById("models").textContent);

const part = (name) => document.querySelector(`[data-part="${name}"]`);
let state = parse(location.hash);
let points = null;
let result = null;
let running = null;
let waiting = null;

function entry(name) {
  return SHOWN.models.find((m) => m.name === name);
}

/** Models of the chosen world, and a choice that fits them. */
function settle() {
  if (!Object.hasOwn(worlds, state.world)) state.world = "waves";
  const here = SHOWN.models.filter((m) => m.world === state.world);
  const pick = (name, trained) => here.find((m) => m.name === name && m.trained === trained) ?? here.find((m) => m.trained === trained);
  state.model = pick(state.model, false).name;
  if (state.trained !== "none") state.trained = pick(state.trained, true)?.name ?? "none";
  if (state.trained === "none") state.inside = "model";
  const ridges = SHOWN.worlds[state.world].ridges;
  if (ridges.length > 1) {
    const distance = (r) => Math.abs(Math.log(r / state.ridge));
    state.ridge = ridges.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  }
}

/** Takes these examples, and what was chosen about examples is what can be seen of them. */
function take(next) {
  points = next;
  state.count = points.length;
  state.selected = Math.min(state.selected, points.length - 1);
}

function fileOf(shown) {
  const files = shown.files;
  return files.find((f) => f.ridge === state.ridge) ?? files[0];
}

/** The prompt as the models of this world see it. */
function promptOf(count) {
  const world = worlds[state.world], made = SHOWN.worlds[state.world];
  const factor = world.factor(state, { ...made, ridge: made.ridges[0] });
  const embed = world.embed(state, factor);
  const xs = Float64Array.from({ length: count }, (_, i) => -1 + (2 * i) / (count - 1));
  return {
    xs, phi: points.map(([x]) => embed(x)), y: Float64Array.from(points, ([, y]) => y),
    queries: Array.from(xs, embed), kernel: made.kernel,
    // Where λ is a factor of the features, the model's own λ stays what it is.
    ridge: made.ridges.length > 1 ? state.ridge : made.ridges[0],
  };
}

/** One forward pass of a model on the prompt, and how far each reading is from the exact answer. */
async function passOf(shown, prompt, exact) {
  const file = fileOf(shown), model = await load(file);
  const steps = model.certificate?.looped ? state.steps || 30 : Infinity;
  const why = model.refusal(prompt.phi, exact.top());
  if (why) return { shown, file, model, why, readings: [], steps };
  const off = offOf(shown, model, steps);
  const run = model.run(prompt.phi, prompt.y, prompt.queries, { steps, off });
  const own = file.ridge === null || file.ridge === prompt.ridge ? exact
    : new ExactRidge(prompt.phi, prompt.y, prompt.queries, prompt.kernel, file.ridge);
  const size = largest(own.predictions) || 1;
  const errors = run.readings.map((r) => [r.step, largest(r.values, own.predictions) / size]);
  return { shown, file, model, steps, ...run, errors, bound: boundOf(file.bound, model, own, errors, size) };
}

/** The heads that are switched off: by block and number, or all that have a role. */
function offOf(shown, model, steps) {
  const off = new Set();
  const inside = (state.inside === "model") === !shown.trained;
  if (!state.off || !inside) return off;
  const order = model.transformer.applied(model.loops(steps));
  for (const word of state.off.split("_")) {
    const [kind, role] = word.split(":");
    if (kind !== "role") off.add(word);
    else {
      order.forEach((l, i) => model.config.sites?.layers[l].attention.forEach((head, h) => {
        if (head.roles.includes(role)) off.add(`${i}.${h}`);
      }));
    }
  }
  return off;
}

async function compute(count = REST) {
  const prompt = promptOf(count);
  const exact = new ExactRidge(prompt.phi, prompt.y, prompt.queries, prompt.kernel, prompt.ridge);
  const main = await passOf(entry(state.model), prompt, exact);
  const trained = state.trained === "none" ? null : await passOf(entry(state.trained), prompt, exact);
  result = { prompt, exact, main, trained };
}

/** What the theorems allow after each step, [[step, error]], as a share of the largest prediction; null if they are silent. */
function boundOf(bound, model, own, errors, size) {
  if (!bound) return null;
  const { condition, scale } = own.system(model.certificate.space === "feature" ? model.features : null);
  const root = Math.sqrt(condition), rate = (root - 1) / (root + 1);
  const factor = (t) => (bound.factors ? bound.factors[t] : (2 * rate ** t) / (1 + rate ** (2 * t)));
  return errors.map(([t]) => [t, (scale / size) * factor(t)]);
}

function inside() {
  return state.inside === "trained" ? result.trained : result.main;
}

/** The reading that a block's end shows: the last step that is complete there. */
function readingAt(pass, position) {
  const done = pass.readings.filter((r) => r.place <= 2 * position);
  return done.at(-1) ?? pass.readings[0];
}

function blocksOf(pass) {
  return pass.pass?.order.length ?? 0;
}

function positionOf(pass) {
  const last = blocksOf(pass);
  return state.position < 0 ? last : Math.min(state.position, last);
}

function draw() {
  const { prompt, exact, main, trained } = result;
  const { xs } = prompt, looked = inside(), position = positionOf(looked);
  const curves = [];
  const scrubbed = looked.why ? null : readingAt(looked, position);
  if (scrubbed) {
    const earlier = looked.readings.filter((r) => r.place < scrubbed.place).slice(-5);
    earlier.forEach((r) => curves.push({ xs, ys: r.values, kind: `${kindOf(looked)} earlier` }));
  }
  for (const pass of [trained, main]) {
    if (!pass || pass.why) continue;
    const ys = pass === looked ? scrubbed.values : pass.predictions;
    curves.push({ xs, ys, kind: kindOf(pass) });
  }
  curves.push({ xs, ys: exact.predictions, kind: "exact" });
  curve.show(points, state.selected, curves, (looked === main ? scrubbed : main.readings.at(-1))?.ahead ?? []);
  part("refusal").textContent = main.why ? `The compiled model refuses this prompt: ${main.why}. That is outside its certificate; a larger λ or fewer examples bring it back.` : "";
  drawErrors(looked, scrubbed);
  if (looked.why) panels.empty();
  else panels.show(looked, position, scrubbed, state, prompt);
  controls.show(state, points, looked, position, main);
}

function kindOf(pass) {
  return pass.shown.trained ? "trained" : "compiled";
}

function drawErrors(looked, scrubbed) {
  const { main, trained } = result;
  const series = [];
  if (main.bound) series.push({ kind: "bound", points: main.bound });
  if (!main.why) series.push({ kind: "compiled", points: main.errors });
  if (trained) series.push({ kind: "trained", points: trained.errors });
  const own = trained?.file.ridge, known = !trained || own === result.prompt.ridge;
  part("errors").querySelector(".known").textContent = known ? ""
    : `The trained model cannot be told λ. It was trained for λ = ${own}, so that its error is counted from ridge regression with that λ.`;
  errorChart(part("errors").querySelector(".plot"), series, scrubbed?.step ?? null, "step, or layer of the trained model");
}

/** What one label does, found by turning it. */
function drawInfluence() {
  const { prompt, exact, main, trained } = result, i = state.selected;
  const plot = part("influence").querySelector(".plot");
  if (!(i >= 0 && i < points.length)) return plot.replaceChildren();
  const y = Float64Array.from(prompt.y);
  y[i] = Math.abs(y[i]) > 0.2 ? -y[i] : y[i] + 1;
  const curves = [{ kind: "exact", ys: exact.influence(i) }];
  for (const pass of [trained, main]) {
    if (!pass || pass.why) continue;
    const before = Float64Array.from(pass.predictions);
    const off = offOf(pass.shown, pass.model, pass.steps);
    pass.model.buffers = null; // what is shown stays as it is
    const after = pass.model.run(prompt.phi, y, prompt.queries, { steps: pass.steps, off }).predictions;
    curves.push({ kind: kindOf(pass), ys: before.map((v, j) => (after[j] - v) / (y[i] - prompt.y[i])) });
    pass.model.buffers = null;
  }
  influenceChart(plot, prompt.xs, curves, points[i][0]);
  part("influence").querySelector(".chosen").textContent = `Example ${i + 1}, label ${points[i][1].toFixed(2)}.`;
}

/** Computes and draws once; what is asked meanwhile is done afterwards, and only the last of it. */
async function refresh({ dragging = false, view = false } = {}) {
  if (running) {
    running = { dragging: dragging && (running.dragging ?? true), again: true };
    return;
  }
  do {
    running = {};
    try {
      if (!view || !result) await compute(dragging ? DRAG : REST);
      draw();
      if (!dragging) {
        drawInfluence();
        remember();
      }
    } catch (error) {
      running = null;
      part("refusal").textContent = `This page cannot show that: ${error.message}`;
      throw error;
    }
    ({ dragging = false } = running);
    view = false;
    if (!running.again) running = null;
  } while (running);
  document.body.dataset.ready = "yes";
}

/** Puts the view into the address once the reader pauses: browsers do not like it to change all the time. */
function remember() {
  clearTimeout(waiting);
  waiting = setTimeout(() => history.replaceState(null, "", `#${format(state)}`), 150);
}

/** Changes what is chosen. Only a change of the view leaves the models' results as they are. */
function choose(change) {
  const view = Object.keys(change).every((name) => ["position", "selected", "token", "head", "tour", "inside"].includes(name))
    && !(change.inside && state.off);
  const redraw = ["count", "noise", "seed"].some((name) => name in change);
  state = { ...state, ...change };
  if (redraw && !("points" in change)) state.points = "";
  settle();
  take(redraw || "points" in change ? pointsOf(state) : points);
  return refresh({ view });
}

function edited(next, dragging = false) {
  take(next);
  state.points = writePoints(points);
  return refresh({ dragging });
}

const edits = {
  add: (x, y) => {
    if (points.length >= SHOWN.most) return;
    state.selected = points.length;
    edited([...points, inPlane(x, y)]);
  },
  move: (i, x, y, done) => edited(points.map((p, j) => (j === i ? inPlane(x, y) : p)), !done),
  select: (i) => state.selected !== i && choose({ selected: i }),
  flip: (i) => edited(points.map(([x, y], j) => (j === i ? [x, -y] : [x, y]))),
  remove: (i) => points.length > 1 && edited(points.filter((_, j) => j !== i)),
};

const curve = new Curve(part("picture").querySelector(".plot"), edits);
const panels = new Inside(part, choose);
const controls = new Controls(part, SHOWN, worlds, choose, edits);
const tour = new Tour(part("tour"), part, choose);

addEventListener("hashchange", () => {
  const next = location.hash.slice(1);
  if (next === format(state)) return;
  state = parse(next);
  settle();
  take(pointsOf(state));
  refresh().then(() => tour.resume(state.tour));
});

settle();
take(pointsOf(state));
refresh().then(() => tour.resume(state.tour));

/** For tests and for the console: models on prompts of one's own, and how long an update takes. */
globalThis.explorer = {
  names: () => SHOWN.models.map((m) => m.name),
  files: (name) => entry(name).files,
  load: (config, base64) => new Model(config, bytesOf(base64)),
  open: (name, i = 0) => load(entry(name).files[i]),
  state: () => ({ ...state }),
  errors: () => ({ errors: result.main.errors, bound: result.main.bound, refused: result.main.why ?? null }),
  choose,
  async drags(count) {
    const took = [];
    for (let i = 0; i < count; i++) {
      const from = performance.now();
      await edits.move(0, 0.3 + i / 500, 0.5, false);
      document.body.getBoundingClientRect(); // what was drawn is laid out, too
      took.push(performance.now() - from);
    }
    return took;
  },
};
