// The tour's box: it points at a part of the page and moves from stop to stop.

import { html, svg } from "draw";
import { STOPS } from "tour";

export class Tour {
  constructor(box, part, choose) {
    Object.assign(this, { box, part, choose });
    document.getElementById("start-tour").addEventListener("click", () => this.go(1));
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.end();
    });
  }

  /** Shows the stop that a link names, without changing its view, or no stop if it names none. */
  resume(stop) {
    if (stop >= 1) this.show(Math.min(stop, STOPS.length));
    else this.hide();
  }

  async go(stop) {
    await this.choose({ ...STOPS[stop - 1].view, tour: stop });
    this.show(stop);
  }

  show(stop) {
    const { title, text, part } = STOPS[stop - 1];
    const button = (label, to) => {
      const made = html("button", { type: "button" }, label);
      made.addEventListener("click", () => (to ? this.go(to) : this.end()));
      return made;
    };
    const last = stop === STOPS.length;
    const buttons = html("div", { class: "buttons" }, ...(stop > 1 ? [button("Back", stop - 1)] : []),
      button(last ? "Done" : "Next", last ? 0 : stop + 1), ...(last ? [] : [button("End the tour", 0)]));
    this.box.replaceChildren(html("p", { class: "count" }, `${stop} of ${STOPS.length}`), html("h2", {}, title), ...(part === "picture" ? [] : [this.picture()]), html("p", {}, text), buttons);
    this.box.hidden = false;
    this.point(this.part(part));
    buttons.querySelector(last ? "button" : "button:nth-last-child(2)").focus({ preventScroll: true });
  }

  /** The picture again, small and alive, since what the words speak of may be elsewhere on the page. */
  picture() {
    return svg("svg", { viewBox: "0 0 720 400", class: "again", role: "img", "aria-label": "The picture, small" }, svg("use", { href: "#curve-all" }));
  }

  point(target) {
    document.querySelectorAll(".pointed").forEach((e) => e.classList.remove("pointed"));
    target?.classList.add("pointed");
    target?.scrollIntoView({ block: "start", behavior: "auto" });
    const box = target?.getBoundingClientRect();
    this.box.classList.toggle("left", Boolean(box) && box.left > innerWidth / 2);
  }

  hide() {
    this.box.hidden = true;
    this.point(null);
  }

  end() {
    this.hide();
    this.choose({ tour: 0, off: "" });
    document.getElementById("start-tour").focus();
  }
}
