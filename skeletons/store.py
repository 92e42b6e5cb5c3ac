"""What was measured, kept between runs: one JSON file per key, checked when read.

Timings of `tune` in one folder, the ceilings of devices in another.

Files are written aside and moved into place, so that concurrent writers leave whole files; one
that is damaged is deleted and measured again.  A store that cannot be used is no store: nothing
here raises.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

from treadle import dsl
from treadle.dsl.environment import cache_directory, keep

FORMAT = "treadle tuning"
VERSION = 1
TUNING = "tuning"


def directory(folder: str = TUNING) -> Path:
    """A folder in that of the cache."""
    return cache_directory() / folder


def key(*parts: Any) -> str:
    """The name of an entry: a hash of everything that it depends on.

    >>> len(key("program", [10, 11])), key(1) == key(1), key(1) == key(2)
    (64, True, False)
    """
    return hashlib.sha256(_text(parts).encode()).hexdigest()


def get(name: str, folder: str = TUNING) -> Any:
    """The value kept under a key, or None; a damaged entry is deleted."""
    try:
        path = directory(folder) / f"{name}.json"
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    try:
        document = json.loads(text)
        head = [document[k] for k in ("format", "version", "key", "sha256")]
        checksum = hashlib.sha256(_text(document["value"]).encode()).hexdigest()
        if head == [FORMAT, VERSION, name, checksum]:
            return document["value"]
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    with contextlib.suppress(OSError):
        path.unlink()
    return None


def put(name: str, value: Any, folder: str = TUNING) -> None:
    """Keep a value of JSON's types, if that is possible."""
    document = {"format": FORMAT, "version": VERSION, "key": name, "value": value,
                "sha256": hashlib.sha256(_text(value).encode()).hexdigest()}  # fmt: skip
    keep(lambda: directory(folder) / f"{name}.json", _text(document).encode())


def drop(name: str, folder: str = TUNING) -> None:
    """Forget an entry that turned out to be unusable."""
    with contextlib.suppress(OSError):
        (directory(folder) / f"{name}.json").unlink()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


#: Packages that make or run kernels, beside treadle, by backend.
MAKERS = {
    "cuda": ("numpy", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "cupy-cuda13x",
             "cupy-cuda12x"),
}  # fmt: skip


def machine(backend: str = "native") -> list[Any]:
    """What timings on this host depend on: processor, cores, versions."""
    from importlib import metadata

    versions = []
    for package in MAKERS.get(backend, ("numpy", "llvmlite")):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{package} {metadata.version(package)}")
    return [processor(), os.cpu_count(), platform.machine(), platform.system(), versions,
            f"treadle {dsl.VERSION}"]  # fmt: skip


def processor() -> str:
    """The CPU, as it calls itself."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
        for line in text.splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
