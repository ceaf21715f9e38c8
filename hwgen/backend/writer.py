"""Files reach the disk all together or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ..errors import BuildError

__all__ = ["move_directory", "require_writable", "staging", "write_tree"]

PREFIX = ".hwgen-"
"""How the names of temporary directories begin."""
HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that wait while files are moved."""


def require_writable(directory: Path) -> None:
    """Raises BuildError if ``directory`` cannot be written, or made: before long work, not after it."""
    place = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise BuildError(f"{place}: cannot be written ({error.strerror}); nothing was changed") from None


def write_tree(directory: Path, files: Mapping[str, str | bytes], remove: Iterable[str] = ()) -> None:
    """Writes ``files`` (relative path → content; text as UTF-8) below ``directory``, which is made if needed.

    Files that already have their content are left alone, others beside them too, except those named in
    ``remove``. Everything is written to a temporary directory on the same file system first and then moved
    into place, so a full disk or Ctrl-C leaves the old state. Raises BuildError, in one line, if the disk is
    full, a path is not writable or is a file where a directory is needed, and so on.
    """
    contents = {
        name: text.encode() if isinstance(text, str) else text for name, text in sorted(files.items())
    }
    remove = [name for name in remove if name not in contents]
    for name in (*contents, *remove):
        if not _stays_below(name):
            raise BuildError(f"{directory}: {name!r} is no path below it; nothing was changed")
    try:
        if directory.exists():
            _update(directory, contents, remove)
        else:
            _create(directory, contents)
    except OSError as error:
        place = Path(os.fsdecode(error.filename)) if error.filename is not None else directory
        if any(part.startswith(PREFIX) for part in place.parts):
            place = directory
        raise BuildError(f"{place}: cannot be written ({error.strerror}); nothing was changed") from None


def _stays_below(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _create(directory: Path, contents: Mapping[str, bytes]) -> None:
    made = _make_parents(directory.parent)
    try:
        with staging(directory.parent) as staged:
            tree = staged / "tree"
            tree.mkdir()
            _write(tree, contents)
            tree.rename(directory)
    except BaseException:
        if not directory.exists():
            for parent in reversed(made):
                parent.rmdir()
        raise


def _update(directory: Path, contents: Mapping[str, bytes], remove: list[str]) -> None:
    changed = {name: content for name, content in contents.items() if not _holds(directory / name, content)}
    gone = [name for name in remove if (directory / name).is_file()]
    if not changed and not gone:
        _require_directory(directory)
        return
    with staging(directory) as staged:
        new, old = staged / "new", staged / "old"
        new.mkdir()
        old.mkdir()
        _write(new, changed)
        with _uninterrupted():
            _swap(directory, new, old, list(changed), gone)
            _prune(directory, gone)


def _swap(directory: Path, new: Path, old: Path, changed: list[str], gone: list[str]) -> None:
    """Moves files from ``new`` into place and what they replace to ``old``; undoes all if one step fails."""
    undo: list[Callable[[], object]] = []
    try:
        for name in (*changed, *gone):
            target, kept = directory / name, old / name
            for parent in _make_parents(target.parent):
                undo.append(parent.rmdir)
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
            if target.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                target.rename(kept)
                undo.append(lambda kept=kept, target=target: kept.rename(target))  # type: ignore[misc]
            if name in changed:
                (new / name).rename(target)
                undo.append(target.unlink)
    except OSError:
        for step in reversed(undo):
            step()
        raise


def _prune(directory: Path, gone: list[str]) -> None:
    """Removes the directories that ``gone`` files have left empty."""
    for name in gone:
        parent = (directory / name).parent
        while parent != directory and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent


def _require_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))


def _make_parents(directory: Path) -> list[Path]:
    """Makes ``directory`` and its parents; those that were new, outermost first."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    made: list[Path] = []
    try:
        for path in reversed(missing):
            path.mkdir()
            made.append(path)
        _require_directory(directory)
    except OSError:
        for path in reversed(made):
            path.rmdir()
        raise
    return made


def _write(directory: Path, contents: Mapping[str, bytes]) -> None:
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # some file systems report a full disk only here


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(content) and path.read_bytes() == content


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A temporary directory in ``parent``, so that moving out of it is a rename."""
    _require_directory(parent)
    staged = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        yield staged
    finally:
        with _uninterrupted():
            shutil.rmtree(staged, ignore_errors=True)


def move_directory(source: Path, target: Path) -> None:
    """Moves a directory on its file system, whatever signal comes. Raises BuildError if that cannot be done."""
    try:
        with _uninterrupted():
            source.rename(target)
    except OSError as error:
        raise BuildError(f"{target}: cannot be written ({error.strerror})") from None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Holds Ctrl-C and its like back until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A signal mask would not do: the kernel may hand the signal to a thread of numpy's.
    held: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: held.append(number)) for number in HELD_BACK
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])
