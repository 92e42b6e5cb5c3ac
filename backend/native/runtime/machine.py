"""What code on disk depends on in addition to the program, found without loading LLVM."""

from __future__ import annotations

import functools
import os
import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from treadle.dsl import VERSION
from treadle.dsl.process.environment import variable

#: The folders whose files decide what becomes of a program, and those inside that do not.
_PACKAGES = ("dsl", "skeletons", "backend")
_OTHERS = ("__pycache__", "blocks", "cuda", "dask", "gpu", "engines", "reference", "simulator")


@functools.lru_cache(maxsize=1)
def sources() -> str:
    """treadle's version, and its files with their sizes and times: it may be a checkout that is
    being edited."""
    root = Path(__file__).parents[3]
    about = [VERSION]
    for package in _PACKAGES:
        folders = [str(root / package)]
        while folders:
            with os.scandir(folders.pop()) as entries:
                found = sorted((entry.name, entry) for entry in entries)
            for name, entry in found:
                if name.endswith((".py", ".ll")):
                    about.append(f"{name} {_stamp(entry.stat())}")
                elif name not in _OTHERS and entry.is_dir():
                    folders.append(entry.path)
    return "\n".join(about)


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_size} {found.st_mtime_ns}"


@functools.lru_cache(maxsize=1)
def llvm() -> str:
    """Which LLVM there is: the file of its binding's library."""
    spec = find_spec("llvmlite")
    for folder in (spec and spec.submodule_search_locations) or ():
        with os.scandir(Path(folder) / "binding") as entries:
            for entry in entries:
                if "llvmlite" in entry.name and not entry.name.endswith(".py"):
                    return f"{entry.name} {_stamp(entry.stat())}"
    return ""


@functools.lru_cache(maxsize=1)
def processor() -> str:
    """The CPU with its features and caches."""
    about = [platform.machine(), sys.platform]
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            first = file.read(8192).split("\n\n")[0].splitlines()
        moving = ("cpu MHz", "bogomips", "BogoMIPS", "apicid", "initial apicid", "core id",
                  "processor", "physical id", "microcode")  # fmt: skip
        about += [line for line in first if not line.startswith(moving)]
        for path in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")):
            about.append(path.read_text(encoding="utf-8"))
    except OSError:
        about.append(platform.processor() or platform.platform())
    if hasattr(os, "confstr") and "CS_GNU_LIBC_VERSION" in os.confstr_names:
        about.append(str(os.confstr("CS_GNU_LIBC_VERSION")))  # which vector routines there are
    return "\n".join(about)


def machine_key() -> str:
    """All of it; `TREADLE_VECTOR_BYTES` counts too."""
    asked = variable("TREADLE_VECTOR_BYTES") or ""
    return "\n".join((sources(), llvm(), processor(), str(asked)))
