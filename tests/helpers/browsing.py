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
