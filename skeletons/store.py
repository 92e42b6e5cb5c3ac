"""A persistent store of measurements: one JSON file per key, validated when read.

It has a folder for timings of `tune`, and one for the ceilings of devices.

Files are written under another name and then renamed, so that concurrent writers leave complete
files. A damaged file is deleted, and the values are measured again.  If the store cannot be used,
nothing is stored: no function here raises.
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
from treadle.dsl.process.environment import cache_directory, keep

FORMAT = "treadle tuning"
VERSION = 1
TUNING = "tuning"


def directory(folder: str = TUNING) -> Path:
    """A folder inside the cache directory."""
    return cache_directory() / folder


def key(*parts: Any) -> str:
    """The key of an entry: a hash of everything that it depends on.

    >>> len(key("program", [10, 11])), key(1) == key(1), key(1) == key(2)
    (64, True, False)
    """
    return hashlib.sha256(_text(parts).encode()).hexdigest()


def get(name: str, folder: str = TUNING) -> Any:
    """The value stored under a key, or None; deletes a damaged entry."""
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
    """Stores a JSON value, if possible."""
    document = {"format": FORMAT, "version": VERSION, "key": name, "value": value,
                "sha256": hashlib.sha256(_text(value).encode()).hexdigest()}  # fmt: skip
    keep(lambda: str(directory(folder) / f"{name}.json"), _text(document).encode())


def drop(name: str, folder: str = TUNING) -> None:
    """Deletes an entry that is unusable."""
    with contextlib.suppress(OSError):
        (directory(folder) / f"{name}.json").unlink()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


#: Packages other than treadle that compile or run kernels, by backend.
MAKERS = {
    "cuda": ("numpy", "cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "cupy-cuda13x",
             "cupy-cuda12x"),
}  # fmt: skip


def machine(backend: str = "native") -> list[Any]:
    """The properties of this host that timings depend on: processor, cores, versions."""
    from importlib import metadata  # takes longer to load than the rest of a first call's modules

    versions = []
    for package in MAKERS.get(backend, ("numpy", "llvmlite")):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions.append(f"{package} {metadata.version(package)}")
    return [processor(), os.cpu_count(), platform.machine(), platform.system(), versions,
            f"treadle {dsl.VERSION}"]  # fmt: skip


def processor() -> str:
    """The model name of the CPU."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
        for line in text.splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
