"""The command line, one file per command."""

from ridgeformer.cli.app import app

__all__ = ["app"]
