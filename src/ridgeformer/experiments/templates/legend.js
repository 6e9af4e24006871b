// A name in a legend shows or hides its lines; a double click shows it alone, or all of them again.
for (const legend of document.querySelectorAll(".keys")) {
  const figure = document.getElementById(legend.dataset.for), keys = [...legend.querySelectorAll("button")];
  const pressed = (key) => key.getAttribute("aria-pressed") === "true";
  const show = () => {
    const on = new Set(keys.filter(pressed).map((key) => key.dataset.group));
    const known = new Set(keys.map((key) => key.dataset.group));
    const groups = figure.data.map((trace) => trace.legendgroup ?? trace.name);
    Plotly.restyle(figure, { visible: groups.map((g) => !known.has(g) || on.has(g)) });
  };
  for (const key of keys) {
    key.addEventListener("click", () => {
      key.setAttribute("aria-pressed", String(!pressed(key)));
      show();
    });
    key.addEventListener("dblclick", () => {
      const alone = keys.every((k) => k === key || !pressed(k));
      for (const k of keys) k.setAttribute("aria-pressed", String(alone || k === key));
      show();
    });
  }
}
