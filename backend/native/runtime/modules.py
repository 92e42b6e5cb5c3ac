"""The C files of this folder as machine code.

build.py has compiled them to LLVM IR; LLVM makes machine code of that once for a machine, which is
kept on disk like any kernel.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from treadle.dsl.errors import BackendUnavailable

from ...runtime.disk_cache import DiskCache
from ..codegen import engine
from ..codegen.target import Target
from . import machine

_HERE = Path(__file__).parent
_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def team_target() -> str | None:
    """The system and processor whose team of threads runs here, None without one."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    processor = _PROCESSORS.get(platform.machine().lower())
    return processor and f"linux-{processor}"


def linked(path: Path, exports: tuple[str, ...],
           foreign: Mapping[str, int] | None = None) -> dict[str, int]:  # fmt: skip
    """The addresses of functions that stay for the life of the process: threads are in them.

    `foreign`: addresses of what the LLVM IR in `path` uses of others, but for the C library.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BackendUnavailable(
            f"the runtime of native cannot be read: {error}.",
            hint="Close files, or raise the limit (ulimit -n), if there are too many open ones; "
            "else install treadle again.",
        ) from None
    disk = DiskCache()
    key = hashlib.sha256(f"{machine.machine_key()}|{text}".encode()).hexdigest()
    cached = disk.get(key)
    if cached is not None:
        image = cached[0]
    else:
        host = Target.host()
        image = engine.to_object(engine.header(host) + text, host)
        disk.put(key, image, {})
    made = engine.link(image, exports, (), foreign or {})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return dict(made.addresses)


@functools.lru_cache(maxsize=1)
def team() -> dict[str, int]:
    """The addresses of the functions of team.c; `parallel` alone where there is no team."""
    target = team_target()
    if target is None:
        return linked(_HERE / "team.generic.ll", ("parallel",))
    return linked(
        _HERE / f"team.{target}.ll",
        ("parallel", "parallel_interruptible", "abandon", "use_openmp", "forget_threads"),
    )


@functools.lru_cache(maxsize=1)
def replayer() -> dict[str, int]:
    """The addresses of the functions of replay.c."""
    path = _HERE / "replay.ll"
    foreign = {
        "parallel": team()["parallel"],
        "numpy_functions": ctypes.addressof(_numpy_functions()),
        **_python_symbols(path.read_text(encoding="utf-8")),
    }
    exports = ("run_operations", "replay_function", "inspect", "numpy_agrees", "fill_memory",
               "release")  # fmt: skip
    return linked(path, exports, foreign)


def _python_symbols(text: str) -> dict[str, int]:
    """The addresses of Python's functions and objects that LLVM IR uses."""
    names = re.findall(r"^(?:declare .*)?@(_?Py\w+)(?:\(| = external)", text, re.M)
    api = ctypes.pythonapi
    return {name: ctypes.addressof(ctypes.c_char.in_dll(api, name)) for name in names}


@functools.lru_cache(maxsize=1)
def _numpy_functions() -> ctypes.c_void_p:
    """What NumPy's headers call `PyArray_API`: a pointer to its table of C functions."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    capsule = importlib.import_module("numpy._core.multiarray")._ARRAY_API
    return ctypes.c_void_p(pointer(capsule, None))
