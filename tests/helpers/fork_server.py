"""Runs `ridgeformer …` in processes of their own that need not import torch again.

Started as a program, it imports everything once, reads one request per line, and forks a child for each:
what users see, exit codes and tracebacks included, without the tests' type checks, in a tenth of the
time. `cli` is how tests ask.
"""

import atexit
import gc
import json
import os
import resource
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


def cli(*arguments, cwd=None, **limits):
    """`ridgeformer ARGUMENTS` in a process of its own, whose peak of memory and CPU seconds are told as well."""
    return begin(*arguments, cwd=cwd, **limits).wait()


def begin(*arguments, cwd=None, file_size=None, more_memory=None):
    """The same, without waiting for its end.

    Files may have `file_size` bytes, as on a full disk, and the process `more_memory` bytes beyond what it
    starts with.
    """
    folder = tempfile.TemporaryDirectory()
    files = [f"{folder.name}/{name}" for name in ("out", "err")]
    arguments = [str(a) for a in arguments]
    request = {
        "arguments": arguments, "cwd": str(cwd or os.getcwd()), "files": files,
        "file_size": file_size, "more_memory": more_memory,
    }  # fmt: skip
    return Begun(arguments, folder, asked(request))


def asked(request):
    """The server's answer."""
    process = server()
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@dataclass(frozen=True)
class Begun:
    """A command that runs: it has a number, which signals are sent to, and is waited for once."""

    arguments: list[str]
    folder: tempfile.TemporaryDirectory[str]
    number: int

    def wait(self):
        code, peak, seconds = asked({"wait": self.number})
        output, errors = (Path(self.folder.name, name).read_text() for name in ("out", "err"))
        self.folder.cleanup()
        result = subprocess.CompletedProcess(self.arguments, code, output, errors)
        result.peak, result.seconds = peak, seconds
        return result


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
    if request["file_size"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, 2 * (request["file_size"],))
    if request["more_memory"] is not None:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, 2 * (now + request["more_memory"],))
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
            _, status, used = os.wait4(request["wait"], 0)
            seconds = used.ru_utime + used.ru_stime
            answer = [os.waitstatus_to_exitcode(status), 1024 * used.ru_maxrss, seconds]
        elif (answer := os.fork()) == 0:
            run(request)
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
