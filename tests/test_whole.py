"""Files and directories are there whole or as they were, whenever their writer is ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ridgeformer import whole
from ridgeformer.whole import remove_whole, write_whole, written_whole


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if not p.is_dir()}


def write_half(target, stop):
    with written_whole(target) as partial:
        partial.write_bytes(b"half")
        raise stop


def write_directory(target, content, stop=None):
    with written_whole(target) as partial:
        partial.mkdir()
        (partial / "a").write_bytes(content)
        if stop is not None:
            raise stop
        (partial / "b").write_bytes(content)


def test_a_file_is_as_it_was_if_its_successor_cannot_be_written(tmp_path):
    write_whole(tmp_path / "file", b"before")
    for stop in (KeyboardInterrupt, OSError):
        with pytest.raises(stop):
            write_half(tmp_path / "file", stop)
    assert contents(tmp_path) == {"file": b"before"}
    write_whole(tmp_path / "file", b"after")
    assert contents(tmp_path) == {"file": b"after"}


def test_a_pipe_is_not_replaced(tmp_path):
    """Nor a device, which only root could show: /dev/null would be a file afterwards, for everybody."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        for write in (write_whole, write_directory):
            with pytest.raises(FileExistsError, match="a device or a pipe"):
                write(tmp_path / name, b"1")
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    write_whole(tmp_path / "there/file", b"1")
    write_directory(tmp_path / "there/model", b"1")
    for name in ("file", "model", "new"):
        (tmp_path / name).symlink_to(Path("there", name))
    write_whole(tmp_path / "file", b"2")
    write_whole(tmp_path / "new", b"2")
    write_directory(tmp_path / "model", b"2")
    assert all((tmp_path / name).is_symlink() for name in ("file", "model", "new"))
    assert contents(tmp_path / "there") == dict.fromkeys(
        ("file", "new", "model/a", "model/b"), b"2"
    )
    assert sorted(os.listdir(tmp_path)) == ["file", "model", "new", "there"]


def test_links_that_lead_in_a_circle_are_refused(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "one", b"1")
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_a_directory_is_replaced_whole_or_not_at_all(tmp_path):
    write_directory(tmp_path / "model", b"1")
    with pytest.raises(KeyboardInterrupt):
        write_directory(tmp_path / "model", b"2", KeyboardInterrupt)
    assert contents(tmp_path) == {"model/a": b"1", "model/b": b"1"}
    write_directory(tmp_path / "model", b"3")
    assert contents(tmp_path) == {"model/a": b"3", "model/b": b"3"}
    assert os.listdir(tmp_path) == ["model"]


def test_an_interruption_between_the_renames_brings_the_old_directory_back(tmp_path, monkeypatch):
    write_directory(tmp_path / "model", b"1")
    rename = Path.rename

    def interrupted(path, to):
        if to == tmp_path / "model" and path.suffix == f".{whole.PART}":
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_directory(tmp_path / "model", b"2")
    assert contents(tmp_path) == {"model/a": b"1", "model/b": b"1"}
    assert os.listdir(tmp_path) == ["model"]


def test_a_directory_that_is_removed_is_never_there_in_part(tmp_path, monkeypatch):
    write_directory(tmp_path / "old", b"1")
    monkeypatch.setattr(whole, "remove", lambda path: None)  # as if it was killed there
    remove_whole(tmp_path / "old")
    assert not (tmp_path / "old").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from ridgeformer import whole
target, moment = Path(sys.argv[1]), sys.argv[2]
rename = Path.rename
def killed(path, to):
    if path.suffix == f".{whole.PART}":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, to)
if moment == "between":
    Path.rename = killed
with whole.written_whole(target) as partial:
    partial.mkdir()
    (partial / "a").write_bytes(b"2")
    if moment == "writing":
        os.kill(os.getpid(), signal.SIGKILL)
    (partial / "b").write_bytes(b"2")
"""


@pytest.mark.parametrize("moment", ["writing", "between"])
def test_what_a_killed_process_leaves_is_hidden_and_cleared_by_the_next(tmp_path, moment):
    write_directory(tmp_path / "model", b"1")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "model"), moment]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    left = sorted(os.listdir(tmp_path))
    assert [name for name in left if not name.startswith(".")] == ["model"] * (moment == "writing")
    assert len(left) == 2
    write_whole(tmp_path / "another", b"")
    assert contents(tmp_path) == {"model/a": b"1", "model/b": b"1", "another": b""}


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    with written_whole(tmp_path / "one") as partial:
        partial.write_bytes(b"1")
        write_whole(tmp_path / "two", b"2")
        assert partial.exists()
    assert contents(tmp_path) == {"one": b"1", "two": b"2"}
