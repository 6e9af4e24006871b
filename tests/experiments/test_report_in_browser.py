"""The report of `verify`, opened in a real browser that is off the network."""

import pytest
from browsing import FIGURES, WIDTHS, opened, page_problems

from ridgeformer.experiments.theorems import THEOREMS, verify

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.pages]


@pytest.fixture(scope="module")
def short_report(unchecked, tmp_path_factory):
    out = tmp_path_factory.mktemp("short")
    verify([THEOREMS["chebyshev-worst-mode"], THEOREMS["query-error"]], out, fast=True)
    return out / "index.html"


def problems(browser, path, width):
    """What a reader at this width would miss; empty if nothing."""
    found = page_problems(browser, path, width)
    page, _ = opened(browser, path, width)
    figures = page.evaluate(FIGURES)
    sections = page.evaluate("[...document.querySelectorAll('section')].map(s => s.id)")
    if [f["section"] for f in figures] != [s for s in sections if s != "summary"]:
        found.append("not one figure for each theorem")
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
    "titles that cross": (
        "</main>",
        "<script>setTimeout(() => document.querySelectorAll('.ytitle').forEach(t => t.after(t.cloneNode(true))), 250)"
        "</script></main>",
    ),
    "a link that leads nowhere": ('<section id="query-error"', "<section"),
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


def shown_sections(page):
    return page.evaluate(
        "[...document.querySelectorAll('section[data-group]')].filter(s => !s.hidden).map(s => s.id)"
    )


def test_readers_choose_sections_by_words_group_and_verdict(browser, short_report):
    page, troubles = opened(browser, short_report, 1024)
    names = ["chebyshev-worst-mode", "query-error"]
    assert shown_sections(page) == names
    page.get_by_label("Words").fill("chebyshev")
    assert shown_sections(page) == names[:1]
    assert page.locator("table.linked tbody tr:visible").count() == 1
    page.get_by_label("Words").fill("")
    page.get_by_label("About").select_option(THEOREMS["query-error"].group)
    assert shown_sections(page) == names[1:]
    page.get_by_label("About").select_option("everything")
    page.get_by_label("only what does not hold").check()
    assert shown_sections(page) == []
    page.evaluate("location.hash = 'query-error'")  # a link to what is hidden shows it again
    page.wait_for_function("!document.getElementById('query-error').hidden")
    assert troubles == []
    page.context.close()


def test_readers_choose_lines_in_the_legend(browser, short_report):
    page, troubles = opened(browser, short_report, 1024)
    keys = page.locator("#query-error .keys button")
    visible = (
        "document.querySelector('#query-error .plotly-graph-div').data.map(t => t.visible ?? true)"
    )
    assert set(page.evaluate(visible)) == {True}
    keys.nth(0).click()
    assert page.evaluate(visible).count(False) >= 1
    assert keys.nth(0).get_attribute("aria-pressed") == "false"
    keys.nth(0).click()
    for alone in (True, False):
        keys.nth(1).dblclick()
        pressed = [k.get_attribute("aria-pressed") == "true" for k in keys.all()]
        assert pressed == [n == 1 or not alone for n in range(len(pressed))]
    assert troubles == []
    page.context.close()


def test_every_theorem_says_what_it_is_about():
    from ridgeformer.experiments.theorems.base import OWN

    assert not [name for name, theorem in THEOREMS.items() if theorem.group == OWN]


def test_the_verdict_of_every_theorem_is_seen_on_a_phone(browser, fast_report):
    page, _ = opened(browser, fast_report[1] / "index.html", 500)
    table = page.locator("#summary .wide")
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth")
    said = page.locator("section p.soft").filter(has=page.locator("a")).first
    assert said.inner_text().endswith(". All theorems")
    page.context.close()
