"""A folder of finished builds, found by the hash of everything that went into them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_directory", "cached", "content_key"]


def cache_directory() -> Path:
    """$HWGEN_CACHE, else hwgen in $XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("HWGEN_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hwgen"


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

    One process builds and others wait for it; a build that raises or is interrupted leaves nothing.
    """
    root = cache_directory() / kind
    root.mkdir(parents=True, exist_ok=True)
    final = root / key
    if final.is_dir():
        return final
    with _locked(root / f"{key}.lock"):
        if not final.is_dir():
            work = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=root))
            try:
                build(work)
                work.rename(final)
            finally:
                if work.exists():
                    shutil.rmtree(work, ignore_errors=True)
    return final
