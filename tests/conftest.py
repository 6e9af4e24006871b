"""Shapes are checked at run time, in the tests only; costly fixtures are built once."""

from contextlib import contextmanager

import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

# Checks annotations such as Float[Tensor, "batch k p"] in every module imported from here on.
install_import_hook("ridgeformer", "typecheck.check")

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")
torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Every test of the compiler is portable, and so is every conformance test, new ones too."""
    for item in items:
        if item.path.parent.name in ("compiler", "conformance"):
            item.add_marker("portable")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests that share a fixture of many seconds go to one worker, other tests to any.

    Not by marks (--dist loadgroup): xdist 3.8 writes them where pytest 9.2 no longer reads them.
    """
    from xdist.scheduler import LoadScopeScheduling

    together = {
        "test_executor": "explorer",
        "test_explorer": "explorer",
        "test_report": "report",
        "test_verify.py::test_the_theorem_holds": "report",
        "test_studies": "studies",
        "test_training": "training",
        "test_suite": "suite",
    }

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, rest = nodeid.partition("::")
            name = file.rpartition("/")[2] + "::" + rest
            groups = (group for start, group in together.items() if name.startswith(start))
            return next(groups, nodeid)

    return Scheduling(config, log)


@contextmanager
def without_checks():
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def unchecked():
    """Lifts the checks for a file that compiles many models, where they take most of the time."""
    with without_checks():
        yield


@pytest.fixture(scope="session")
def fast_report(tmp_path_factory):
    """The findings of `verify --fast`, and the directory of its page."""
    from ridgeformer.experiments.theorems import THEOREMS, verify

    out = tmp_path_factory.mktemp("verify")
    with without_checks():
        return verify(list(THEOREMS.values()), out, seed=0, fast=True), out


@pytest.fixture(scope="session")
def explorer(tmp_path_factory):
    """The file of the explorer."""
    from ridgeformer.experiments.explorer.build import page

    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    with without_checks():
        path.write_text(page())
    return path


@pytest.fixture(scope="module")
def browser():
    from browsing import started_browser

    with started_browser() as started:
        yield started
