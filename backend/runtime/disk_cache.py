"""Compiled object code on disk: shared by processes, checked when read, bounded in size.

A file is a header (the lengths, a SHA-256 of the contents, and the key), one line of JSON with what
the code needs, and the code.  Files are written under a temporary name and then renamed, so readers
see complete files only.  A file that is truncated, corrupt or of another key is deleted and written
again.  Nothing here raises: an unusable cache acts as an empty one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treadle.dsl import VERSION
from treadle.dsl.process.environment import cache_directory, keep

_MAGIC = b"TREADLE-CODE-2\n"
_HEADER = struct.Struct("<QQ32s")
_DEFAULT_LIMIT = 512 * 1024 * 1024
_MOST_ENTRIES = 20_000
#: Scanning many entries takes seconds.  It is done by the first process that writes on a day, and
#: by processes that write a lot.
_STAMP = "trimmed"
_DAY = 24 * 3600.0
_OFTEN = 16 * 1024 * 1024


class DiskCache:
    """Entries by key (a hexadecimal hash), in a separate folder for each backend.

    `directory=None` follows the environment.  At most `limit` bytes and `most` entries are kept.
    """

    def __init__(self, directory: Path | None = None, limit: int = _DEFAULT_LIMIT, *,
                 most: int = _MOST_ENTRIES, folder: str = "native") -> None:  # fmt: skip
        self._directory, self.limit, self.most, self.folder = directory, limit, most, folder
        self._written = 0
        self._usable = True

    @property
    def directory(self) -> Path:
        return (self._directory or cache_directory()) / self.folder

    def path(self, key: str) -> Path:
        return Path(self._file(key))

    def _file(self, key: str) -> str:
        folder = self._directory or cache_directory()
        return f"{folder}{os.sep}{self.folder}{os.sep}{key[:1]}{os.sep}{key}.o"

    def _name(self, key: str) -> bytes:
        return f"{self.folder}/{key}\n".encode()

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """The code and what it needs, or None.  Deletes a corrupt file."""
        try:
            path = self._file(key)
            if not os.path.isfile(path):  # e.g. a link to a device that never ends
                return None
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        found = _decode(data, self._name(key))
        if found is None:
            self.drop(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # for eviction of the least recently used
        return found

    def put(self, key: str, image: bytes, about: Mapping[str, Any]) -> None:
        if not self._usable:
            return
        data = _encode(image, about, self._name(key))
        self._usable = keep(lambda: self._file(key), data)
        if not self._usable:
            return
        first = self._written == 0
        self._written += len(data)
        if self._written >= min(self.limit, _OFTEN) or (first and self._is_due()):
            self.trim()

    def _is_due(self) -> bool:
        """Whether no process has trimmed the folder for a day."""
        try:
            age = time.time() - os.stat(self.directory / _STAMP).st_mtime
        except OSError:
            return True
        return not 0 <= age < _DAY

    def drop(self, key: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._file(key))

    def trim(self) -> None:
        """If there are too many entries or bytes, delete the least recently used entries, down to
        three quarters of the limits, so that this is seldom needed."""
        self._written = 1
        with contextlib.suppress(OSError):
            (self.directory / _STAMP).touch()
        entries = []
        with contextlib.suppress(OSError):
            for folder in os.scandir(self.directory):
                with contextlib.suppress(OSError):
                    for entry in os.scandir(folder.path):
                        about = entry.stat()
                        entries.append((about.st_mtime, about.st_size, entry.path))
        total, count = sum(size for _, size, _ in entries), len(entries)
        if total <= self.limit and count <= self.most:
            return
        for _, size, path in sorted(entries):
            if total <= self.limit * 3 // 4 and count <= self.most * 3 // 4:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total, count = total - size, count - 1


def _encode(image: bytes, about: Mapping[str, Any], name: bytes) -> bytes:
    text = json.dumps(dict(about)).encode()
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


#: The packages whose files determine the compiled code, and folders inside them that do not.
_PACKAGES = ("dsl", "skeletons", "backend")
_OTHERS = ("__pycache__", "blocks", "cuda", "dask", "gpu", "engines", "reference", "simulator")


@functools.lru_cache(maxsize=1)
def sources() -> str:
    """A hash of treadle's version and its files' sizes and times, for checkouts under edit."""
    root = str(Path(__file__).parents[2])
    about = [VERSION]
    for package in _PACKAGES:
        folders = [os.path.join(root, package)]
        while folders:
            folder = folders.pop()
            for name in sorted(os.listdir(folder)):
                path = f"{folder}{os.sep}{name}"
                if name.endswith((".py", ".ll")):
                    about.append(f"{name} {stamp(os.stat(path))}")
                elif "." not in name and name not in _OTHERS and os.path.isdir(path):
                    folders.append(path)
    return hashlib.sha256("\n".join(about).encode()).hexdigest()


def stamp(found: os.stat_result) -> str:
    return f"{found.st_size} {found.st_mtime_ns}"
