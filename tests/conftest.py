"""Shapes are checked at run time, in the tests only."""

import pytest
import torch
from hypothesis import settings
from jaxtyping import config, install_import_hook

# Checks annotations such as Float[Tensor, "batch k p"] in every module imported from here on.
install_import_hook("ridgeformer", "typecheck.check")

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def unchecked():
    """Lifts the checks for a file that compiles many models, where they take most of the time."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
