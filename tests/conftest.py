"""Shapes are checked at run time, in the tests only."""

import torch
from hypothesis import settings
from jaxtyping import install_import_hook

# Checks annotations such as Float[Tensor, "batch k p"] in every module imported from here on.
install_import_hook("ridgeformer", "typecheck.check")

settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")
torch.set_num_threads(1)
