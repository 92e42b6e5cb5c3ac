"""The C files of this folder as machine code.

build.py has compiled them to LLVM IR.  LLVM compiles that once per machine, and the result is kept
on disk like any kernel.  Optimised code takes as long to compile as five kernels.  The first
processes therefore run code that compiles in a sixth of that time, whose loop operations are slower
(37 instead of 23 ns each); one of them compiles the optimised code for later processes.
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
from typing import TYPE_CHECKING

from treadle.dsl.errors import BackendUnavailable
from treadle.dsl.process.environment import cache_directory
from treadle.dsl.process.workers import later

from ...runtime.disk_cache import DiskCache
from ..codegen.target import Target
from . import machine, objects

if TYPE_CHECKING:
    from ..codegen.engine import Effort

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
    """The addresses of functions, which stay loaded for the life of the process, because threads
    run them.

    `foreign`: addresses of external symbols of the LLVM IR in `path`, except for the C library's.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BackendUnavailable(
            f"the runtime of native cannot be read: {error}.",
            hint="Close files, or raise the limit (ulimit -n), if there are too many open ones; "
            "else install treadle again.",
        ) from None
    made = objects.load(_image(text), exports, (), foreign or {})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return dict(made.addresses)


def _image(text: str) -> bytes:
    """Machine code for the LLVM IR of a module: optimised, if that is on disk; else made later."""
    disk = DiskCache(cache_directory())  # as it is now

    def key(effort: Effort) -> str:
        return hashlib.sha256(f"{machine.machine_key()}|{effort}|{text}".encode()).hexdigest()

    def make(effort: Effort) -> bytes:
        from ..codegen import engine

        host = Target.host()
        image = engine.to_object(engine.header(host) + text, host, effort)
        disk.put(key(effort), image, {})
        return image

    good = disk.get(key("usual"))
    if good is not None:
        return good[0]
    later(lambda: make("usual"))
    soon = disk.get(key("quick"))
    return make("quick") if soon is None else soon[0]


@functools.lru_cache(maxsize=1)
def team() -> dict[str, int]:
    """The addresses of the functions of team.c; without a team, only of those that do not need
    one."""
    target = team_target()
    if target is None:
        return linked(_HERE / "team.generic.ll", ("parallel", "parallel_brief"))
    return linked(
        _HERE / f"team.{target}.ll",
        (
            "parallel",
            "parallel_brief",
            "parallel_interruptible",
            "abandon",
            "use_openmp",
            "forget_threads",
        ),
    )


@functools.lru_cache(maxsize=1)
def passes() -> dict[str, int]:
    """The addresses of the functions of passes.c."""
    foreign = {"parallel": team()["parallel"]}
    return linked(_HERE / "passes.ll", ("keep_arguments", "run_pass", "copy_rows"), foreign)


@functools.lru_cache(maxsize=1)
def late() -> dict[str, int]:
    """The addresses of the functions of late.c."""
    path = _HERE / "late.ll"
    exports = ("hold", "run_evaluation", "fill_memory", "release")
    return linked(path, exports, _python_symbols(path.read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=1)
def replayer() -> dict[str, int]:
    """The addresses of the functions of replay.c."""
    path = _HERE / "replay.ll"
    foreign = {
        **{name: team()[name] for name in ("parallel", "parallel_brief")},
        **passes(),
        **late(),
        "numpy_functions": ctypes.addressof(_numpy_functions()),
        **_python_symbols(path.read_text(encoding="utf-8")),
    }
    exports = ("run_operations", "replay_function", "inspect", "numpy_agrees")
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
