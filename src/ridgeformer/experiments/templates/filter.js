// Shows the sections that fit the reader's words and choices, with their rows in tables; figures are drawn anew.
{
  const form = document.querySelector(".filter");
  const sections = [...document.querySelectorAll("section[data-group]")];
  const rowOf = new Map([...document.querySelectorAll("table.linked td a")].map((a) => [a.getAttribute("href"), a.closest("tr")]));
  const texts = new Map(sections.map((s) => {
    const row = rowOf.get(`#${s.id}`);
    const said = [...s.querySelectorAll("h2, p, table")].map((e) => e.textContent).join(" ");
    return [s, `${s.id} ${said} ${row ? row.textContent : ""}`.toLowerCase()];
  }));
  const choose = () => {
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const section of sections) {
      const shown = words.every((w) => texts.get(section).includes(w))
        && (!form.group.value || section.dataset.group === form.group.value)
        && (!form.flagged.checked || Boolean(section.dataset.flag));
      const appears = shown && section.hidden;
      section.hidden = !shown;
      const row = rowOf.get(`#${section.id}`);
      if (row) row.hidden = !shown;
      if (appears) section.querySelectorAll(".plotly-graph-div").forEach((figure) => Plotly.Plots.resize(figure));
      count += shown;
    }
    form.querySelector("output").textContent = count === sections.length ? "" : `${count} of ${sections.length}`;
  };
  form.addEventListener("input", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  // A link to a section that is hidden shows all of them again.
  addEventListener("hashchange", () => {
    if (document.getElementById(location.hash.slice(1))?.hidden) {
      form.reset();
      choose();
      document.querySelector(location.hash).scrollIntoView();
    }
  });
}
