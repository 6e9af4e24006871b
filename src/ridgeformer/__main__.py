"""`python -m ridgeformer`, the same as `ridgeformer`."""

from ridgeformer.cli import app

app(prog_name="ridgeformer")
