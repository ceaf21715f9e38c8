"""A folder of finished builds, found by the hash of everything that went into them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import BuildError
from ..toolchain import cache_directory

__all__ = ["cached", "content_key"]

KEEP = 64
"""Folders of a kind that stay, however old."""
ADVICE = "set HWGEN_CACHE to another directory"
IDLE = 6 * 3600
"""Seconds after which a folder may go; no simulation lies idle so long between its build and its start."""


def content_key(*parts: str) -> str:
    """Hash of texts, each with its length, so that no two lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:24]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def cached(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder ``kind``/``key``; if it is not there, ``build`` fills a new one that then takes its name.

    One process builds and others wait for it; a build that raises or is interrupted leaves nothing. After a
    build the oldest folders beyond KEEP go, if nobody has asked for them for IDLE seconds. Raises BuildError
    if nothing can be written there, or its path has a blank, with which make does not work.
    """
    root = cache_directory().absolute() / kind
    final = root / key
    if final.is_dir():
        with suppress(OSError):  # a cache that only others may write
            os.utime(final)
        return final
    if re.search(r"\s", str(root)):
        raise BuildError(f"{root}: make cannot build where a path has blanks; {ADVICE}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        raise BuildError(f"{root}: cannot be written ({error.strerror}); {ADVICE}") from None
    with _locked(root / f"{key}.lock"):
        if not final.is_dir():
            work = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=root))
            try:
                build(work)
                work.rename(final)
            finally:
                if work.exists():
                    shutil.rmtree(work, ignore_errors=True)
            _prune(root)
    return final


def _prune(root: Path) -> None:
    ages = {path: path.stat().st_mtime for path in root.iterdir() if path.is_dir() and "." not in path.name}
    for path in sorted(ages, key=ages.__getitem__, reverse=True)[KEEP:]:
        if ages[path] < time.time() - IDLE:
            shutil.rmtree(path, ignore_errors=True)
            (root / f"{path.name}.lock").unlink(missing_ok=True)
