"""`python -m ridgeformer.cli`, as torchrun starts it."""

from ridgeformer.cli import app

app()
