"""What a visitor sees first."""

from ridgeformer.experiments.demo.run import run

__all__ = ["run"]
