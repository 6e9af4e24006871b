"""The command line, one file per command; the only room that knows flags."""

from ridgeformer.cli.app import app
