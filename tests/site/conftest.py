"""What the tests of the site share: its pages, and a browser."""

from pathlib import Path

import pytest
from docs.building.paths import SITE


@pytest.fixture(scope="session")
def site() -> Path:
    if not (SITE / "index.html").exists():
        pytest.fail("There is no site to test: `make site` builds it.")
    return SITE


@pytest.fixture(scope="session")
def pages(site):
    """Every page that Sphinx made."""
    return sorted(path for path in site.rglob("*.html") if path.name != "explorer.html")
