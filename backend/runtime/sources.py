"""Which treadle this is: what is on disk depends on it."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from treadle.dsl import VERSION

#: The folders whose files decide what becomes of a program, and those inside that do not.
_PACKAGES = ("dsl", "skeletons", "backend")
_OTHERS = ("__pycache__", "blocks", "cuda", "dask", "gpu", "engines", "reference", "simulator")


@functools.lru_cache(maxsize=1)
def sources() -> str:
    """A hash of treadle's version, and of its files with their sizes and times: it may be a
    checkout that is being edited."""
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
    """The size and the time of a file."""
    return f"{found.st_size} {found.st_mtime_ns}"
