"""What code on disk depends on in addition to the program, found without loading LLVM."""

from __future__ import annotations

import functools
import os
import platform
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from treadle.dsl.process.environment import variable

from ...runtime.disk_cache import sources, stamp


@functools.lru_cache(maxsize=1)
def llvm() -> str:
    """Which LLVM there is: the file of its binding's library."""
    spec = find_spec("llvmlite")
    for folder in (spec and spec.submodule_search_locations) or ():
        with os.scandir(Path(folder) / "binding") as entries:
            for entry in entries:
                if "llvmlite" in entry.name and not entry.name.endswith(".py"):
                    return f"{entry.name} {stamp(entry.stat())}"
    return ""


@functools.lru_cache(maxsize=1)
def caches() -> list[str]:
    """The sizes of the caches of the first core, as the system writes them."""
    folder, found = "/sys/devices/system/cpu/cpu0/cache", list[str]()
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else ()
    for name in names:
        with suppress(OSError), open(f"{folder}/{name}/size", encoding="utf-8") as file:
            found.append(file.read())
    return found


@functools.lru_cache(maxsize=1)
def own_cache() -> int:
    """The bytes of the largest cache that a core does not share: the second level's; 1 MB if the
    system does not report it."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    for place in folder.glob("index*"):
        with suppress(OSError, ValueError):
            if int((place / "level").read_text(encoding="utf-8")) == 2:
                text = (place / "size").read_text(encoding="utf-8").strip()
                return int(text.rstrip("KM")) << (20 if text.endswith("M") else 10)
    return 1 << 20


@functools.lru_cache(maxsize=1)
def processor() -> str:
    """The CPU with its features and caches."""
    about = [platform.machine(), sys.platform]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read(8192).split("\n\n")[0].splitlines()
        moving = ("cpu MHz", "bogomips", "BogoMIPS", "apicid", "initial apicid", "core id",
                  "processor", "physical id", "microcode")  # fmt: skip
        about += [line for line in first if not line.startswith(moving)]
        about += caches()
    except OSError:
        about.append(platform.processor() or platform.platform())
    if hasattr(os, "confstr") and "CS_GNU_LIBC_VERSION" in os.confstr_names:
        about.append(str(os.confstr("CS_GNU_LIBC_VERSION")))  # which vector routines there are
    return "\n".join(about)


def machine_key() -> str:
    """All of it; `TREADLE_VECTOR_BYTES` counts too."""
    asked = variable("TREADLE_VECTOR_BYTES") or ""
    return "\n".join((sources(), llvm(), processor(), str(asked)))
