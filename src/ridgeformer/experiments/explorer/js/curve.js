// The picture in the middle: examples that can be moved, and the functions that are fitted to them.

import { path, scale, svg } from "draw";
import { round } from "random";

const STILL = 8; // a finger or a mouse that moved by fewer pixels meant to tap
const SIZE = { width: 720, height: 400, left: 34, right: 10, top: 10, bottom: 26 };

export class Curve {
  /** `on` has what happens: add(x, y), move(i, x, y, done), select(i), flip(i), remove(i). */
  constructor(root, on) {
    const { width, height, left, right, top, bottom } = SIZE;
    this.on = on;
    this.x = scale([-1, 1], [left, width - right]);
    this.y = scale([-3, 3], [height - bottom, top]);
    this.svg = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "curve", role: "group",
      "aria-label": "Examples, and the functions fitted to them" });
    this.lines = svg("g");
    this.dots = svg("g");
    this.svg.append(svg("g", { id: "curve-all" }, this.axes(), this.lines, this.dots)); // the tour shows it again
    root.replaceChildren(this.svg);
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    // A finger on a dot drags it; elsewhere it scrolls the page.
    const hold = (event) => event.target.closest(".dot") && event.preventDefault();
    this.svg.addEventListener("touchstart", hold, { passive: false });
    this.svg.addEventListener("pointermove", (event) => this.drag(event));
    this.svg.addEventListener("pointerup", (event) => this.drop(event));
    this.svg.addEventListener("pointercancel", () => this.drop(null)); // the page is scrolled instead
  }

  axes() {
    const { width, height, left, right, bottom, top } = SIZE;
    const group = svg("g", { class: "axes" });
    group.append(svg("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom, class: "ground" }));
    for (const x of [-1, -0.5, 0, 0.5, 1]) {
      const anchor = x === 1 ? "end" : "middle";
      group.append(svg("text", { x: this.x(x), y: height - 8, "text-anchor": anchor }, String(x).replace("-", "−")));
    }
    for (const y of [-2, 0, 2]) {
      group.append(svg("line", { x1: left, x2: width - right, y1: this.y(y), y2: this.y(y) }));
      group.append(svg("text", { x: left - 6, y: this.y(y) + 4, "text-anchor": "end" }, String(y).replace("-", "−")));
    }
    return group;
  }

  /** curves: [{xs, ys, kind}], the later ones above the earlier; `ahead` is what was predicted at each example. */
  show(points, selected, curves, ahead) {
    const { height, top, bottom } = SIZE;
    this.points = points;
    this.lines.replaceChildren(...curves.map(({ xs, ys, kind }) => {
      const line = Array.from(xs, (x, i) => [this.x(x), this.y(ys[i])]);
      return svg("path", { d: path(line, top, height - bottom), class: `line ${kind}` });
    }), ...ahead.map((y, i) => {
      const [cx, cy] = [this.x(points[i][0]), Math.min(height - bottom, Math.max(top, this.y(y)))];
      return svg("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 5, class: "ahead" });
    }));
    const old = this.dots.children;
    const focused = this.dots.contains(document.activeElement);
    if (old.length !== points.length) this.dots.replaceChildren(...points.map((_, i) => this.dot(i)));
    points.forEach(([x, y], i) => {
      const dot = this.dots.children[i];
      dot.setAttribute("transform", `translate(${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)})`);
      dot.classList.toggle("selected", i === selected);
      dot.setAttribute("tabindex", i === selected || (selected < 0 && i === 0) ? 0 : -1);
      dot.setAttribute("aria-label", `Example ${i + 1} of ${points.length}: x ${round(x)}, label ${round(y)}`);
    });
    if (focused && !this.dots.contains(document.activeElement)) old[Math.max(0, selected)]?.focus();
  }

  dot(i) {
    // The wide, invisible circle is what fingers meet.
    const dot = svg("g", { class: "dot", role: "button" }, svg("circle", { r: 15, class: "touch" }), svg("circle", { r: 5.5 }));
    dot.addEventListener("keydown", (event) => this.key(event, i));
    dot.addEventListener("focus", () => this.on.select(i));
    return dot;
  }

  key(event, i) {
    if (event.ctrlKey || event.metaKey || event.altKey) return; // the browser's own
    const [x, y] = this.points[i], step = event.shiftKey ? 0.25 : 0.05, n = this.points.length;
    const act = {
      ArrowLeft: () => this.on.move(i, x - step / 2, y, true),
      ArrowRight: () => this.on.move(i, x + step / 2, y, true),
      ArrowUp: () => this.on.move(i, x, y + step, true),
      ArrowDown: () => this.on.move(i, x, y - step, true),
      PageDown: () => this.focus((i + 1) % n),
      PageUp: () => this.focus((i + n - 1) % n),
      f: () => this.on.flip(i),
      Delete: () => this.on.remove(i),
      Backspace: () => this.on.remove(i),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  focus(i) {
    this.on.select(i);
    this.dots.children[i]?.focus();
  }

  /** Where an event is, in the picture's own units. */
  at(event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    return [this.x.back(point.x), this.y.back(point.y)];
  }

  /** The example nearest to an event: what fingers meet of one dot may lie over another dot. */
  nearest(event) {
    const [x, y] = this.at(event).map((value, i) => [this.x, this.y][i](value));
    const far = this.points.map(([px, py]) => Math.hypot(this.x(px) - x, this.y(py) - y));
    return far.indexOf(Math.min(...far));
  }

  press(event) {
    if (event.button !== 0 || !event.isPrimary) return;
    const dot = event.target.closest(".dot");
    this.tapped = dot ? null : event;
    if (dot) {
      this.held = this.nearest(event);
      this.moved = false;
      this.svg.setPointerCapture(event.pointerId);
      this.on.select(this.held);
      event.preventDefault();
    }
  }

  drag(event) {
    if (this.held === undefined || !event.isPrimary) return;
    this.moved = true;
    this.on.move(this.held, ...this.at(event), false);
  }

  drop(event) {
    if (this.held !== undefined && this.moved) this.on.move(this.held, ...this.points[this.held], true);
    this.held = undefined;
    const { tapped } = this;
    this.tapped = null;
    if (!event || !tapped || Math.hypot(event.clientX - tapped.clientX, event.clientY - tapped.clientY) > STILL) return;
    const [x, y] = this.at(event);
    if (Math.abs(x) <= 1 && Math.abs(y) <= 3) this.on.add(x, y);
  }
}
