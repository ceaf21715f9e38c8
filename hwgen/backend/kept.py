"""Finished Verilog modules, kept from build to build: found by what they are made of, checked when they are read."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import amaranth

from .. import __version__

__all__ = ["KEPT_BYTES", "Kept"]

KEPT_BYTES = 1 << 30
"""Most bytes of kept modules; the ones that were not asked for longest go first."""
SOURCES = ("backend", "gateware", "host", "ir", "plan")
"""Packages whose sources say what the text of a module is."""


@cache
def _version() -> str:
    """A hash of everything but the request that a module's text depends on."""
    digest = hashlib.sha256(f"{__version__} {amaranth.__version__}".encode())
    root = Path(__file__).parent.parent
    for path in sorted(path for name in SOURCES for path in (root / name).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Kept:
    """Modules below ``directory``. What cannot be read, written or is damaged is as if it were not there."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.damaged = 0

    def get(self, key: str) -> str | None:
        """The text that was put under ``key`` by this version of hwgen; None if there is none."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        text = _unpacked(content)
        if text is None:
            self.damaged += 1
            return None
        with suppress(OSError):  # a cache that only others may write
            os.utime(path)
        return text

    def put(self, key: str, text: str) -> None:
        """Keeps a text, whole or not at all."""
        with suppress(OSError):
            self.directory.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".new-", dir=self.directory)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_packed(text))
                Path(name).rename(self._path(key))
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def prune(self) -> None:
        """Makes room, if there is more than KEPT_BYTES."""
        with suppress(OSError):
            ages = sorted((path.stat().st_mtime, path) for path in self.directory.glob("*.module"))
            sizes = [path.stat().st_size for _, path in ages]
            excess = sum(sizes) - KEPT_BYTES
            for (_, path), size in zip(ages, sizes, strict=True):
                if excess <= 0:
                    return
                path.unlink(missing_ok=True)
                excess -= size

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(f'{_version()} {key}'.encode()).hexdigest()[:40]}.module"


def _packed(text: str) -> bytes:
    data = text.encode()
    return hashlib.sha256(data).digest() + zlib.compress(data, 1)


def _unpacked(content: bytes) -> str | None:
    try:
        data = zlib.decompress(content[32:])
    except zlib.error:
        return None
    return data.decode() if hashlib.sha256(data).digest() == content[:32] else None
