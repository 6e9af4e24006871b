"""The public suite, exported once for all tests of it."""

import pytest

from ridgeformer.suite import Suite, export


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Its directory; nothing may change it."""
    directory = tmp_path_factory.mktemp("suite") / "public"
    export(directory)
    return directory


@pytest.fixture(scope="session")
def suite(exported):
    return Suite.load(exported)
