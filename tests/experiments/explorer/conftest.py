"""Pages of the explorer, on each of which nothing may go wrong."""

import pytest
from browsing import opened_explorer


@pytest.fixture
def opened(browser, explorer):
    pages = []

    def open_view(view="", width=1024):
        page, troubles = opened_explorer(browser, explorer, width, view)
        pages.append((page, troubles))
        return page

    yield open_view
    for page, troubles in pages:
        assert troubles == []
        page.context.close()
