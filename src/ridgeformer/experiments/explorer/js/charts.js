// Charts beside the picture: errors step by step, and the influence of one label.

import { path, scale, short, svg } from "draw";

const SIZE = { width: 420, height: 230, left: 46, right: 12, top: 12, bottom: 34 };

function frame(root, label) {
  const made = svg("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, class: "chart", role: "img", "aria-label": label });
  made.append(svg("rect", { x: SIZE.left, y: SIZE.top, width: SIZE.width - SIZE.left - SIZE.right,
    height: SIZE.height - SIZE.top - SIZE.bottom, class: "ground" }));
  root.replaceChildren(made);
  return made;
}

function axes(made, x, y, xTicks, yTicks, title) {
  const { height, bottom, left, width, right } = SIZE;
  for (const [value, text] of xTicks) {
    made.append(svg("text", { x: x(value), y: height - bottom + 14, "text-anchor": "middle" }, text));
  }
  for (const [value, text] of yTicks) {
    made.append(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    made.append(svg("text", { x: left - 5, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  made.append(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, title));
}

/** series: [{kind, points: [[step, error]]}] on a logarithmic axis; `now` marks a place on the lower one. */
export function errorChart(root, series, now, title) {
  const made = frame(root, "Errors after each step, on a logarithmic scale");
  const values = series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => v > 0 && Number.isFinite(v));
  if (!values.length) return;
  const high = Math.min(4, Math.ceil(Math.log10(Math.max(...values)) + 0.01));
  const low = Math.max(-16, Math.min(high - 2, Math.floor(Math.log10(Math.min(...values)))));
  const last = Math.max(1, ...series.flatMap((s) => s.points.map((p) => p[0])));
  const { width, height, left, right, top, bottom } = SIZE;
  const x = scale([0, last], [left + 6, width - right - 6]), y = scale([low, high], [height - bottom, top]);
  const every = Math.max(1, Math.ceil((high - low) / 5)), each = Math.max(1, Math.ceil(last / 8));
  const powers = Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((p) => (high - p) % every === 0);
  const steps = Array.from({ length: last + 1 }, (_, i) => i).filter((i) => i % each === 0);
  axes(made, x, y, steps.map((i) => [i, String(i)]), powers.map((p) => [p, short(10 ** p).replace("1·", "").replace("1.0·", "")]), title);
  if (now !== null) made.append(svg("line", { x1: x(now), x2: x(now), y1: top, y2: height - bottom, class: "now" }));
  for (const { kind, points } of series) {
    const places = points.map(([t, e]) => [x(t), e > 0 && Number.isFinite(e) ? y(Math.max(low, Math.log10(e))) : e === 0 ? y(low) : NaN]);
    made.append(svg("path", { d: path(places, top, height - bottom), class: `line ${kind}` }));
    if (points.length < 30 && kind !== "bound") {
      for (const [px, py] of places) {
        if (Number.isFinite(py)) made.append(svg("circle", { cx: px, cy: Math.max(top, py), r: 2.6, class: `mark ${kind}` }));
      }
    }
  }
}

/** curves: [{kind, ys}] over xs in [−1, 1]; `at` is where the label is that is turned. */
export function influenceChart(root, xs, curves, at) {
  const made = frame(root, "How far the prediction moves at each x when the label moves by one");
  const finite = curves.flatMap((c) => Array.from(c.ys)).filter(Number.isFinite);
  if (!finite.length) return;
  const most = Math.max(1.0, ...finite) * 1.05, least = Math.min(-0.3, ...finite) * 1.05;
  const { width, height, left, right, top, bottom } = SIZE;
  const x = scale([-1, 1], [left, width - right]);
  const y = scale([Math.max(-3, least), Math.min(4, most)], [height - bottom, top]);
  const ticks = [-2, -1, 0, 1, 2, 3].filter((v) => v >= y.domain[0] && v <= y.domain[1]);
  axes(made, x, y, [-1, 0, 1].map((v) => [v, String(v).replace("-", "−")]), ticks.map((v) => [v, String(v).replace("-", "−")]), "x");
  made.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "now" }));
  for (const { kind, ys } of curves) {
    const places = Array.from(xs, (v, i) => [x(v), y(ys[i])]);
    made.append(svg("path", { d: path(places, top, height - bottom), class: `line ${kind}` }));
  }
}
