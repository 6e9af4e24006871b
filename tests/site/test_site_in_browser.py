"""The site in a browser that is off the network: it asks nobody, formulas are drawn, and the search finds."""

import pytest
from browsing import watched

pytestmark = pytest.mark.site

LOOKED_AT = (
    "index", "get-started", "concepts/softmax", "concepts/what-a-layer-does", "how-to/compile-a-model", "sharp-bits", "compiles",
    "tutorials/index", "tutorials/plot_1_dissect_cg", "reference/ridgeformer.compile",
    "reference/ridgeformer.theory", "commands/compile", "format",
)  # fmt: skip
WIDE, NARROW = 1366, 500
PATIENCE = 300_000
"""Milliseconds; a busy machine takes a minute for thousands of formulas."""


def opened_page(browser, path, width):
    page, troubles = watched(browser, width)
    page.set_default_timeout(PATIENCE)
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    return page, troubles


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_is_quiet_and_fits(browser, site, name, width):
    page, troubles = opened_page(browser, site / f"{name}.html", width)
    broken = page.evaluate("[...document.images].filter(i => !i.naturalWidth && i.loading !== 'lazy').map(i => i.src)")  # fmt: skip
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.context.close()
    assert troubles == []
    assert broken == []
    assert wide <= width


def test_what_is_written_in_a_picture_is_inside_it(browser, site):
    """A picture of panels with a fixed shape can leave no room for its titles."""
    pictures = sorted((site / "_images").glob("*.svg"))
    assert pictures
    for path in pictures:
        page, _ = opened_page(browser, path, WIDE)
        cut = page.evaluate("""() => {
            const box = document.documentElement.viewBox.baseVal;
            return [...document.querySelectorAll("g[id^=text_]")].filter(text => {
                const b = text.getBBox();
                return b.x < box.x - 1 || b.y < box.y - 1 || b.x + b.width > box.width + 1 || b.y + b.height > box.height + 1;
            }).map(text => text.id);
        }""")
        page.context.close()
        assert cut == [], path.name


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_formulas_are_drawn_without_an_error(browser, site, width):
    """All theorems, thousands of formulas: each is drawn, none is left as TeX, and none makes the page wider."""
    page, troubles = opened_page(browser, site / "theorems.html", width)
    page.evaluate("MathJax.startup.promise.then(() => MathJax.startup.document.lazyTypesetAll())")
    page.wait_for_timeout(500)
    drawn = page.evaluate("document.querySelectorAll('mjx-container').length")
    asked = page.evaluate("document.querySelectorAll('.math').length")
    wrong = page.evaluate("[...document.querySelectorAll('mjx-merror, [data-mjx-error]')].map(e => e.textContent)")  # fmt: skip
    raw = page.evaluate("document.querySelector('article').innerText.match(/\\$|\\\\[a-z]{3,}/g) || []")  # fmt: skip
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.context.close()
    assert troubles == []
    assert wide <= width
    assert wrong == []
    assert raw == []
    assert drawn > 1000
    assert drawn >= asked > 1000


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("conjugate gradients", "plot_1_dissect_cg.html"),
        ("certificate", "certificates.html"),
        ("ablate_head", "ridgeformer.ablate_head.html"),
        ("max-eigenvalue", "compile.html"),
    ],
)
def test_the_search_finds_without_a_network(browser, site, query, expected):
    page, troubles = watched(browser, WIDE)
    page.goto(f"{(site / 'search.html').as_uri()}?q={query}")
    page.wait_for_selector("ul.search li a")
    page.wait_for_function("/found|finished/i.test(document.querySelector('.search-summary')?.textContent || '')")  # fmt: skip
    found = page.evaluate("[...document.querySelectorAll('ul.search li a')].map(a => a.getAttribute('href'))")  # fmt: skip
    page.context.close()
    assert [trouble for trouble in troubles if "search" in trouble or "http" in trouble] == []
    assert any(expected in link for link in found), found[:20]


def test_a_search_for_what_is_not_there_finds_nothing(browser, site):
    page, _ = watched(browser, WIDE)
    page.goto(f"{(site / 'search.html').as_uri()}?q=zyzzyva")
    page.wait_for_selector(".search-summary:not(:empty)")
    page.wait_for_timeout(500)
    found = page.evaluate("document.querySelectorAll('ul.search li a').length")
    page.context.close()
    assert found == 0


def test_the_search_box_leads_to_results(browser, site):
    page, troubles = opened_page(browser, site / "index.html", WIDE)
    page.fill("input[name=q]", "Chebyshev")
    page.press("input[name=q]", "Enter")
    page.wait_for_selector("ul.search li a")
    page.context.close()
    assert [trouble for trouble in troubles if "http" in trouble] == []
