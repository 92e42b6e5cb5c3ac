"""Which treadle this is: what is on disk depends on it."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from treadle.dsl import VERSION

#: The folders whose files decide what becomes of a program, and those inside that do not.
_PACKAGES = ("dsl", "skeletons", "backend")
_OTHERS = ("__pycache__", "blocks", "cuda", "dask", "gpu", "engines", "reference", "simulator")


@functools.lru_cache(maxsize=1)
def sources() -> str:
    """treadle's version, and its files with their sizes and times: it may be a checkout that is
    being edited."""
    root = Path(__file__).parents[2]
    about = [VERSION]
    for package in _PACKAGES:
        folders = [str(root / package)]
        while folders:
            with os.scandir(folders.pop()) as entries:
                found = sorted((entry.name, entry) for entry in entries)
            for name, entry in found:
                if name.endswith((".py", ".ll")):
                    about.append(f"{name} {stamp(entry.stat())}")
                elif name not in _OTHERS and entry.is_dir():
                    folders.append(entry.path)
    return "\n".join(about)


def stamp(found: os.stat_result) -> str:
    """The size and the time of a file."""
    return f"{found.st_size} {found.st_mtime_ns}"
