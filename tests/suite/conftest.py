"""The public suite, exported once for all tests of it."""

import pytest
from jaxtyping import config

from ridgeformer.suite import Suite, export


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Its directory; nothing may change it."""
    directory = tmp_path_factory.mktemp("suite") / "public"
    config.update("jaxtyping_disable", True)  # half of the time; other tests check the shapes
    try:
        export(directory)
    finally:
        config.update("jaxtyping_disable", False)
    return directory


@pytest.fixture(scope="session")
def suite(exported):
    return Suite.load(exported)
