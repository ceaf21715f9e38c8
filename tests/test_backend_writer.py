"""Files are written all together or not at all, whatever goes wrong on the way."""

import errno
import os
import re
import resource
import signal
from pathlib import Path

import pytest

from hwgen.backend import writer
from hwgen.backend.writer import write_tree
from hwgen.errors import BuildError


def tree(directory):
    """Every entry below a directory: files with their content, directories as None."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


FILES = {"a.txt": "ä\n", "deep/er/b.bin": b"\x00\xff"}
WRITTEN = {"a.txt": "ä\n".encode(), "deep": None, "deep/er": None, "deep/er/b.bin": b"\x00\xff"}


@pytest.fixture
def old(tmp_path):
    """A directory with an earlier state, and a file of the user's."""
    out = tmp_path / "out"
    write_tree(out, {"a.txt": "old", "gone/c.txt": "c", "same.txt": "same"})
    (out / "mine.txt").write_text("mine")
    return out


def refused(out, files=FILES, **options):
    with pytest.raises(BuildError) as error:
        write_tree(out, files, **options)
    return str(error.value)


def test_new_directory(tmp_path):
    write_tree(tmp_path / "x" / "y", FILES)
    assert tree(tmp_path / "x" / "y") == WRITTEN
    assert list((tmp_path / "x").iterdir()) == [tmp_path / "x" / "y"]


def test_new_directory_has_the_usual_mode(tmp_path):
    write_tree(tmp_path / "out", FILES)
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_empty_directory_and_no_files(tmp_path):
    write_tree(tmp_path, FILES)
    assert tree(tmp_path) == WRITTEN
    write_tree(tmp_path / "empty", {})
    assert tree(tmp_path / "empty") == {}


def test_update_touches_only_what_changed(old):
    before = {name: (old / name).stat() for name in ("same.txt", "mine.txt", "a.txt")}
    write_tree(old, {**FILES, "same.txt": "same"}, remove=["gone/c.txt", "a.txt", "never/was.txt"])
    assert tree(old) == {**WRITTEN, "same.txt": b"same", "mine.txt": b"mine"}
    after = {name: (old / name).stat() for name in before}
    for name in ("same.txt", "mine.txt"):
        assert (after[name].st_ino, after[name].st_mtime_ns) == (
            before[name].st_ino,
            before[name].st_mtime_ns,
        )
    assert after["a.txt"].st_ino != before["a.txt"].st_ino


def test_nothing_to_do_touches_nothing(old):
    before = old.stat().st_mtime_ns
    write_tree(old, {"a.txt": "old"})
    assert old.stat().st_mtime_ns == before


def test_removal_keeps_directories_in_use(old):
    (old / "gone" / "mine.txt").write_text("mine")
    write_tree(old, {}, remove=["gone/c.txt"])
    assert (old / "gone" / "mine.txt").exists()
    assert not (old / "gone" / "c.txt").exists()


def test_target_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    message = refused(tmp_path / "out")
    assert re.fullmatch(r".*/out: cannot be written \(Not a directory\); nothing was changed", message)
    assert tree(tmp_path) == {"out": b"mine"}


def test_parent_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    message = refused(tmp_path / "out" / "x" / "y")
    assert re.fullmatch(r".*/out.*: cannot be written \(Not a directory\); nothing was changed", message)
    assert tree(tmp_path) == {"out": b"mine"}


def test_directory_where_a_file_goes(old):
    (old / "deep" / "er" / "b.bin").mkdir(parents=True)
    before = tree(old)
    message = refused(old, {**FILES, "z/new.txt": "new"}, remove=["gone/c.txt"])
    assert re.fullmatch(r".*/b\.bin: cannot be written \(Is a directory\); nothing was changed", message)
    assert tree(old) == before


def test_file_where_a_directory_goes(old):
    (old / "deep").write_text("mine")
    before = tree(old)
    message = refused(old)
    assert re.fullmatch(
        r".*/deep.*: cannot be written \((Not a directory|File exists)\); nothing was changed", message
    )
    assert tree(old) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(old):
    before = tree(old)
    old.chmod(0o555)
    try:
        message = refused(old)
        new = refused(old / "x" / "y")
    finally:
        old.chmod(0o755)
    assert re.fullmatch(r".*/out: cannot be written \(Permission denied\); nothing was changed", message)
    assert re.fullmatch(r".*/out/x: cannot be written \(Permission denied\); nothing was changed", new)
    assert tree(old) == before


def test_no_permission_as_any_user(old, monkeypatch):
    def denied(*_, **where):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"{where['dir']}/.hwgen-abc")

    monkeypatch.setattr("tempfile.mkdtemp", denied)
    before = tree(old)
    expected = r".*/out: cannot be written \(Permission denied\); nothing was changed"
    assert re.fullmatch(expected, refused(old))
    assert tree(old) == before


@pytest.mark.parametrize("exists", [True, False])
def test_full_disk(tmp_path, old, exists):
    """The file size limit stops a write half way, as a full disk does."""
    out = old if exists else tmp_path / "new" / "out"
    before = tree(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        message = refused(out, {"a.txt": "new", "big.bin": bytes(20_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert re.fullmatch(r".*/out: cannot be written \(File too large\); nothing was changed", message)
    assert tree(tmp_path) == before


def test_full_disk_reported_late(old, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = tree(old)
    monkeypatch.setattr("os.fsync", full)
    message = refused(old)
    assert re.fullmatch(
        r".*/out: cannot be written \(No space left on device\); nothing was changed", message
    )
    assert tree(old) == before


@pytest.mark.parametrize("failing", range(6))
def test_a_failed_move_is_undone(old, monkeypatch, failing):
    """Whichever of the moves fails, the ones before it are taken back."""
    before, calls, rename = tree(old), [], Path.rename

    def flaky(path, target):
        calls.append(path)
        if len(calls) == failing + 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", flaky)
    files = {**FILES, "same.txt": "other"}
    assert re.fullmatch(
        r".*: cannot be written \(Input/output error\); nothing was changed",
        refused(old, files, remove=["gone/c.txt"]),
    )
    assert len(calls) > failing
    assert tree(old) == before


@pytest.mark.parametrize("exists", [True, False])
def test_ctrl_c_while_writing_leaves_the_old_state(tmp_path, old, monkeypatch, exists):
    def interrupted(_):
        signal.raise_signal(signal.SIGINT)

    out = old if exists else tmp_path / "new" / "out"
    before = tree(tmp_path)
    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_tree(out, FILES)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_while_moving_waits_until_all_is_moved(old, monkeypatch, number):
    swap = writer._swap
    before = signal.signal(number, signal.default_int_handler)

    def interrupted(*arguments):
        signal.raise_signal(number)
        swap(*arguments)

    monkeypatch.setattr(writer, "_swap", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_tree(old, FILES, remove=["gone/c.txt"])
    signal.signal(number, before)
    assert tree(old) == {**WRITTEN, "same.txt": b"same", "mine.txt": b"mine"}


@pytest.mark.parametrize("name", ["../x", "/x", "", "a/../../x"])
def test_paths_outside_are_refused(tmp_path, name):
    assert re.fullmatch(
        r".*: '.*' is no path below it; nothing was changed", refused(tmp_path / "o", {name: "x"})
    )
    assert refused(tmp_path / "o", {}, remove=[name])
    assert tree(tmp_path) == {}
