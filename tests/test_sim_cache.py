"""The cache of builds: found again, never half there, never without end."""

import os
import time

import pytest
from hwgen.sim import cache

from hwgen.errors import BuildError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HWGEN_CACHE", str(tmp_path))
    return tmp_path


def test_built_once():
    built = []
    for _ in range(3):
        path = cache.cached("kind", "key", lambda work: built.append((work / "file").write_text("x")))
    assert len(built) == 1
    assert (path / "file").read_text() == "x"


def test_a_build_that_fails_leaves_nothing(own_cache):
    def fail(work):
        (work / "half").write_text("")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.cached("kind", "key", fail)
    assert [path.name for path in (own_cache / "kind").iterdir()] == ["key.lock"]


def test_old_folders_go(own_cache, monkeypatch):
    monkeypatch.setattr(cache, "KEEP", 3)
    for number in range(6):
        path = cache.cached("kind", f"key{number}", lambda work: None)
        old = time.time() - cache.IDLE - 100 + number
        os.utime(path, (old, old))
    cache.cached("kind", "key1", lambda work: None)  # asked for: young again
    cache.cached("kind", "new", lambda work: None)
    left = sorted(path.name for path in (own_cache / "kind").iterdir() if path.is_dir())
    assert left == ["key1", "key5", "new"]


def test_young_folders_stay(own_cache, monkeypatch):
    monkeypatch.setattr(cache, "KEEP", 1)
    for number in range(4):
        cache.cached("kind", f"key{number}", lambda work: None)
    assert sum(path.is_dir() for path in (own_cache / "kind").iterdir()) == 4


def test_keys_depend_on_the_cut():
    assert cache.content_key("ab", "c") != cache.content_key("a", "bc")


def test_a_cache_that_cannot_be_written(monkeypatch, own_cache):
    (own_cache / "file").write_text("")
    monkeypatch.setenv("HWGEN_CACHE", str(own_cache / "file"))
    expected = r".+/file/kind: cannot be written \(Not a directory\); set HWGEN_CACHE to another directory"
    with pytest.raises(BuildError, match=f"^{expected}$"):
        cache.cached("kind", "key", lambda work: None)


def test_blanks_in_the_path_of_a_cache(monkeypatch, own_cache):
    monkeypatch.setenv("HWGEN_CACHE", str(own_cache / "my cache"))
    expected = r".+/my cache/kind: make cannot build where a path has blanks; set HWGEN_CACHE to another .+"
    with pytest.raises(BuildError, match=f"^{expected}$"):
        cache.cached("kind", "key", lambda work: None)
    assert not (own_cache / "my cache").exists()


def test_a_finished_build_needs_no_permission(monkeypatch):
    path = cache.cached("kind", "key", lambda work: None)

    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "utime", refused)
    assert cache.cached("kind", "key", lambda work: None) == path
