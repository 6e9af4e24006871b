"""The command line, one file per command; the only room that knows flags."""

try:
    from ridgeformer.cli.app import app
except KeyboardInterrupt:  # before there is a command that could say more
    raise SystemExit(130) from None
