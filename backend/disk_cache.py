"""Compiled object code on disk: shared by processes, checked when read, bounded in size.

A file is one line of JSON (what the code needs), and the code, behind a header with the lengths and
a SHA-256 of both and of the key.  Files are written aside and moved into place, so that readers see
whole files only; one that is not whole, not ours, or another key's is deleted and made again.
Nothing here ever raises: a cache that cannot be used is no cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MAGIC = b"TREADLE-CODE-2\n"
_HEADER = struct.Struct("<QQ32s")
_DEFAULT_LIMIT = 512 * 1024 * 1024


def default_directory() -> Path:
    """`TREADLE_CACHE_DIR`, or the user's cache directory of this platform."""
    asked = os.environ.get("TREADLE_CACHE_DIR")
    if asked:
        return Path(asked)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "treadle" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "treadle"
    return Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "treadle"


class DiskCache:
    """Entries by key (a hexadecimal hash), in a folder of each backend's own.

    `directory=None` follows the environment.
    """

    def __init__(self, directory: Path | None = None, limit: int = _DEFAULT_LIMIT, *,
                 folder: str = "native") -> None:  # fmt: skip
        self._directory, self.limit, self.folder = directory, limit, folder
        self._written = 0
        self._usable = True

    @property
    def directory(self) -> Path:
        return (self._directory or default_directory()) / self.folder

    def path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}.o"

    def _name(self, key: str) -> bytes:
        return f"{self.folder}/{key}\n".encode()

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The code and what it needs, or None.  A damaged file is deleted."""
        try:
            path = self.path(key)
            with open(path, "rb") as file:
                data = file.read()
        except (OSError, RuntimeError):
            return None
        found = _decode(data, self._name(key))
        if found is None:
            self.drop(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the oldest are dropped first
        return found

    def put(self, key: str, image: bytes, about: Mapping[str, Any]) -> None:
        """Keep code, if that is possible."""
        if not self._usable:
            return
        data = _encode(image, about, self._name(key))
        try:
            path = self.path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except (OSError, RuntimeError):
            self._usable = False
            return
        self._written += len(data)
        if self._written >= min(self.limit, 16 * 1024 * 1024) or self._written == len(data):
            self.trim()

    def drop(self, key: str) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            os.unlink(self.path(key))

    def trim(self) -> None:
        """Delete the entries used longest ago until the rest fits."""
        self._written = 1
        entries = []
        with contextlib.suppress(OSError):
            for folder in os.scandir(self.directory):
                with contextlib.suppress(OSError):
                    for entry in os.scandir(folder.path):
                        about = entry.stat()
                        entries.append((about.st_mtime, about.st_size, entry.path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _encode(image: bytes, about: Mapping[str, Any], name: bytes) -> bytes:
    text = json.dumps(dict(about), sort_keys=True).encode()
    digest = hashlib.sha256(name + text + image).digest()
    return _MAGIC + _HEADER.pack(len(text), len(image), digest) + text + image


def _decode(data: bytes, name: bytes) -> tuple[bytes, dict[str, Any]] | None:
    start = len(_MAGIC) + _HEADER.size
    if len(data) < start or not data.startswith(_MAGIC):
        return None
    text_length, image_length, digest = _HEADER.unpack_from(data, len(_MAGIC))
    body = data[start:]
    if len(body) != text_length + image_length:
        return None
    if hashlib.sha256(name + body).digest() != digest:
        return None
    try:
        about = json.loads(body[:text_length])
    except ValueError:
        return None
    return (body[text_length:], about) if isinstance(about, dict) else None
