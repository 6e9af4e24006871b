"""A real browser that is off the network, for tests of pages."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@contextmanager
def started_browser():
    """A browser, or a test that is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is in the extra [dev]")
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    with api.sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        if found is None and not Path(own).exists():
            pytest.skip(
                "The report is not tested in a browser, since there is none: "
                "`apt-get install chromium` or `playwright install chromium` brings one."
            )
        started = playwright.chromium.launch(executable_path=found or own, args=["--no-sandbox"])
        yield started
        started.close()


def watched(browser, width):
    """A page that is off the network, and a list of everything that goes wrong on it."""
    # Offline: whatever is asked of the network fails, and is told.
    context = browser.new_context(viewport={"width": width, "height": 768}, offline=True)
    page, troubles = context.new_page(), []
    page.on("console", lambda m: troubles.append(m.text) if m.type in ("error", "warning") else 0)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    page.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:", "blob:")) else troubles.append(request.url),
    )  # fmt: skip
    return page, troubles


def opened(browser, path, width):
    """The page, after its figures are drawn, and everything that went wrong on the way."""
    page, troubles = watched(browser, width)
    page.goto(path.as_uri())
    page.wait_for_function("window.Plotly !== undefined && document.readyState === 'complete'")
    page.wait_for_timeout(500)
    return page, troubles


def opened_explorer(browser, path, width, view=""):
    """The explorer with the view that a link names, after it was drawn once, and what went wrong on the way."""
    page, troubles = watched(browser, width)
    page.goto(f"{path.as_uri()}#{view}")
    page.wait_for_function("document.body.dataset.ready === 'yes'")
    return page, troubles


def ready(page):
    """Waits until the explorer's view is in the address, which is the last that happens."""
    page.wait_for_timeout(400)
    return page.evaluate("location.hash")


WIDTHS = (1366, 1024, 500)

FIGURES = """() => [...document.querySelectorAll('.plotly-graph-div')].map(div => {
    const svg = div.querySelector('.main-svg'), box = svg ? svg.getBoundingClientRect() : {};
    const shown = div.data ? div.data.filter(t => t.visible !== 'legendonly' && t.visible !== false).length : -1;
    const bar = div.querySelector('.modebar')?.getBoundingClientRect();
    return {
        section: div.closest('section').id, width: box.width || 0, height: box.height || 0,
        asked: shown, drawn: div.querySelectorAll('.trace, .hm').length,
        marks: div.querySelectorAll('.trace path, .trace .point, .bars path, .hm image').length,
        broken: [...div.querySelectorAll('path')].filter(
            p => /NaN|Infinity/.test((p.getAttribute('d') || '') + (p.getAttribute('transform') || ''))).length,
        cut: [...div.querySelectorAll('.xtick text, .ytick text, .xtitle, .ytitle, .annotation text')].filter(t => {
            const b = t.getBoundingClientRect(), d = div.getBoundingClientRect();
            return b.left < d.left - 1 || b.right > d.right + 1 || b.top < d.top - 1 || b.bottom > d.bottom + 1;
        }).map(t => t.textContent),
        covered: [...div.querySelectorAll('.gtitle, .annotation text')].filter(t => {
            const b = t.getBoundingClientRect();
            return bar && bar.width && b.right > bar.left && b.left < bar.right && b.bottom > bar.top && b.top < bar.bottom;
        }).map(t => t.textContent),
        crossed: [...div.querySelectorAll('.annotation text, .xtitle, .ytitle')].filter((t, i, all) => {
            const a = t.getBoundingClientRect();
            return a.width && all.some((other, j) => {
                const b = other.getBoundingClientRect();
                return j > i && b.width && a.right > b.left + 1 && a.left < b.right - 1 && a.bottom > b.top + 1 && a.top < b.bottom - 1;
            });
        }).map(t => t.textContent),
        raw: [...div.querySelectorAll('text')].map(t => t.textContent).filter(t => /(?<![a-z])[a-zα-ω]_[a-zA-Z0-9]|[_^]\\{/.test(t)),
    };
})"""


def page_problems(browser, path, width):
    """What a reader of a page of figures would miss at this width; empty if nothing."""
    page, found = opened(browser, path, width)
    for f in page.evaluate(FIGURES):
        if min(f["width"], f["height"]) < 200 or f["drawn"] < f["asked"] or not f["marks"]:
            found.append(f"{f['section']} is not drawn: {f}")
        if any(f[fault] for fault in ("broken", "cut", "covered", "crossed", "raw")):
            found.append(
                f"{f['section']} has broken paths, or text that is cut, covered or raw: {f}"
            )
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        found.append(f"the page is {wide} wide")
    page.context.close()
    return found


def problems_at_every_width(browser, path):
    return {width: found for width in WIDTHS if (found := page_problems(browser, path, width))}
