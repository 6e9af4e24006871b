// SVG in a few words.

const SPACE = "http://www.w3.org/2000/svg";

/** An SVG element with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** An HTML element with attributes and children. */
export function html(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A map from [low, high] to pixels, which can be reversed. */
export function scale([low, high], [from, to]) {
  const map = (value) => from + ((value - low) / (high - low)) * (to - from);
  map.back = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
  map.domain = [low, high];
  return map;
}

/** The path through points; it stays within a box, and a gap is left where a value is not a number. */
export function path(points, low = -1e4, high = 1e4) {
  let open = false, text = "";
  for (const [x, y] of points) {
    if (!Number.isFinite(y)) {
      open = false;
      continue;
    }
    text += `${open ? "L" : "M"}${x.toFixed(1)} ${Math.min(high, Math.max(low, y)).toFixed(1)}`;
    open = true;
  }
  return text;
}

/** Puts options, pairs of a value and a label, into a select, unless they are there. */
export function fill(select, options) {
  const wanted = JSON.stringify(options);
  if (select.dataset.options === wanted) return;
  select.dataset.options = wanted;
  select.replaceChildren(...options.map(([value, label]) => html("option", { value }, label)));
}

/** A short form of a number, for people. */
export function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 1e-2) {
    const [digits, power] = value.toExponential(1).split("e");
    return `${digits}·10${[...String(Number(power))].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("")}`;
  }
  return String(Number(value.toPrecision(size >= 100 ? 3 : 2)));
}
