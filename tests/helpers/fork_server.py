"""Runs `ridgeformer …` in processes of their own that need not import torch again.

Started as a program, it imports everything once, reads one request per line, and forks a child for each:
what users see, exit codes and tracebacks included, without the tests' type checks, in a tenth of the
time. `cli` is how tests ask.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SECONDS = 300


@cache
def server():
    """One per process that tests, started when it is first asked."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    atexit.register(process.kill)
    return process


def cli(*arguments, cwd=None):
    """`ridgeformer ARGUMENTS` in a process of its own."""
    return begin(*arguments, cwd=cwd).wait()


def begin(*arguments, cwd=None):
    """The same, without waiting for its end."""
    folder = tempfile.TemporaryDirectory()
    files = [f"{folder.name}/{name}" for name in ("out", "err")]
    arguments = [str(a) for a in arguments]
    request = {"arguments": arguments, "cwd": str(cwd or os.getcwd()), "files": files}
    return Begun(arguments, folder, asked(request))


def asked(request):
    """The server's answer, which is a number."""
    process = server()
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


@dataclass(frozen=True)
class Begun:
    """A command that runs: it has a number, which signals are sent to, and is waited for once."""

    arguments: list[str]
    folder: tempfile.TemporaryDirectory[str]
    number: int

    def wait(self):
        code = asked({"wait": self.number})
        output, errors = (Path(self.folder.name, name).read_text() for name in ("out", "err"))
        self.folder.cleanup()
        return subprocess.CompletedProcess(self.arguments, code, output, errors)


def refused(result, *words):
    """Exit 2, one sentence, no traceback."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    text = " ".join(result.stderr.replace("│", " ").split())
    for word in words:
        assert word in text, text


def run(request):
    """In the child: the command, as the console script would run it."""
    for number, file in zip((1, 2), request["files"], strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(request["cwd"])
    signal.alarm(SECONDS)
    # Whatever started the tests may ignore Ctrl-C, as a shell does for what runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from ridgeformer.cli import app

    sys.argv = ["ridgeformer", *request["arguments"]]
    code = 0
    try:
        app()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the second that taking torch down would cost


def main():
    import matplotlib.pyplot  # noqa: F401
    import plotly.io  # noqa: F401
    import sklearn  # noqa: F401
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # so that children do not copy what they never touch
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        elif (answer := os.fork()) == 0:
            run(request)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
