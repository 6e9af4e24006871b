"""The report of `verify`, opened in a real browser that is off the network."""

import pytest
from browsing import opened

from ridgeformer.experiments.theorems import THEOREMS, verify

pytestmark = pytest.mark.usefixtures("unchecked")

WIDTHS = (pytest.param(1366, marks=pytest.mark.slow), 1024)


@pytest.fixture(scope="module")
def short_report(unchecked, tmp_path_factory):
    out = tmp_path_factory.mktemp("short")
    verify([THEOREMS["chebyshev-worst-mode"], THEOREMS["query-error"]], out, fast=True)
    return out / "index.html"


FIGURES = """() => [...document.querySelectorAll('.plotly-graph-div')].map(div => {
    const svg = div.querySelector('.main-svg'), box = svg ? svg.getBoundingClientRect() : {};
    const paths = [...div.querySelectorAll('.trace path, .trace .point, .bars path')];
    return {
        section: div.closest('section').id, width: box.width || 0, height: box.height || 0,
        traces: div.querySelectorAll('.trace').length, asked: div.data ? div.data.length : -1, drawn: paths.length,
        broken: [...div.querySelectorAll('path')].filter(
            p => /NaN|Infinity/.test((p.getAttribute('d') || '') + (p.getAttribute('transform') || ''))).length,
        cut: [...div.querySelectorAll('.legend text, .xtick text, .ytick text, .xtitle, .ytitle')].filter(t => {
            const b = t.getBoundingClientRect(), d = div.getBoundingClientRect();
            return b.left < d.left - 1 || b.right > d.right + 1 || b.top < d.top - 1 || b.bottom > d.bottom + 1;
        }).map(t => t.textContent),
    };
})"""


def problems(browser, path, width):
    """What a reader at this width would miss; empty if nothing."""
    page, found = opened(browser, path, width)
    figures = page.evaluate(FIGURES)
    sections = page.evaluate("[...document.querySelectorAll('section')].map(s => s.id)")
    if [f["section"] for f in figures] != [s for s in sections if s != "summary"]:
        found.append("not one figure for each theorem")
    for f in figures:
        if min(f["width"], f["height"]) < 200 or f["traces"] != f["asked"] or not f["drawn"]:
            found.append(f"{f['section']} is not drawn: {f}")
        if f["broken"] or f["cut"]:
            found.append(f"{f['section']} has broken paths or cut text: {f}")
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        found.append(f"the page is {wide} wide")
    targets = page.evaluate(
        "[...document.querySelectorAll('td a')].map(a => a.getAttribute('href'))"
    )
    if targets != [f"#{s}" for s in sections if s != "summary"]:
        found.append(f"links lead elsewhere: {targets}")
    page.context.close()
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_is_drawn(browser, fast_report, width):
    assert problems(browser, fast_report[1] / "index.html", width) == []


PLANTED = {
    "a script that fails": ("</main>", "<script>undefined_name()</script></main>"),
    "something fetched": ("</main>", '<img src="https://example.org/x.png"></main>'),
    "a figure left out": ("Plotly.newPlot(", "(() => 0)("),
    "something too wide": ("</main>", '<div style="width: 1500px">wide</div></main>'),
    "a value that is not a number": (
        "Plotly.newPlot(",
        "((id, data, ...rest) => Plotly.newPlot(id, data.map(t => ({...t, x: t.x.map(() => null)})), ...rest))(",
    ),
    "text that is cut": (
        "</main>",
        "<style>.ytitle { transform: translate(-200px) !important; }</style></main>",
    ),
    "a link that leads nowhere": ('<section id="query-error">', "<section>"),
}


def test_a_short_report_is_whole(browser, short_report):
    """What is broken below is not broken before."""
    assert problems(browser, short_report, 1366) == []


@pytest.mark.parametrize(
    "planted",
    [p if n < 3 else pytest.param(p, marks=pytest.mark.slow) for n, p in enumerate(PLANTED)],
)
def test_a_broken_page_is_noticed(browser, short_report, tmp_path, planted):
    page, (old, new) = short_report.read_text(), PLANTED[planted]
    head, body = page.split("<body>")
    broken = tmp_path / "index.html"
    broken.write_text(head + "<body>" + body.replace(old, new, 1))
    assert old in body
    assert problems(browser, broken, 1366)
