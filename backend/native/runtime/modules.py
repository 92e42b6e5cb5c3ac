"""The part of the back end that is machine code itself: a team of threads, and calls replayed.

`team.ll` and `replay.ll` are compiled once for a machine and kept on disk like any kernel.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.disk_cache import DiskCache
from . import machine

#: Nanoseconds for which an idle worker looks for the next job: longer than Python needs between
#: two calls, shorter than anybody who wants the core would notice.
SPIN = 25_000
#: Nanoseconds that OpenMP's threads may keep a caller waiting that has no more to do.
STALL = 200_000
#: Nanoseconds after which a long job lets Python see to its signals.
PATIENCE = 50_000_000
#: Tasks of a range of such a job, at most: some milliseconds.
MOST_TASKS = 128
#: Ranges of a thread's span.
RANGES = 16
#: Threads of a team, at most.
MOST_THREADS = 1024
#: Operations are six numbers each: what, and what with (replay.ll).
LAUNCH, FILL, COPY, TEST, NUMBER, FAILURE = range(6)
OPERATION = 6
#: The kinds of numbers among arguments.
FLOAT, INT, BOOL = range(3)


def _futex() -> int | None:
    """The number of the system call, None where there is none (or none that is known)."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    return {"x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98}.get(platform.machine().lower())


def has_team() -> bool:
    """Whether this machine runs tasks on threads of native code."""
    return _futex() is not None


def _text(name: str, **values: Any) -> str:
    """A module, with `$NAME` replaced."""
    text = (Path(__file__).parent / f"{name}.ll").read_text(encoding="utf-8")
    for key in sorted(values, key=len, reverse=True):
        text = text.replace(f"${key}", str(values[key]))
    return text


def _team() -> str:
    """The text of the team's module."""
    futex = _futex()
    if futex is None:
        return _text("alone")
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    pause, argument = ("x86.sse2.pause", "") if x86 else ("aarch64.hint", "i32 1")
    return _text(
        "team",
        FUTEX=futex,
        SPIN=SPIN,
        STALL=STALL,
        PATIENCE=PATIENCE,
        MOST_TASKS=MOST_TASKS,
        RANGES=RANGES,
        MOST=MOST_THREADS,
        PAUSE=f"call void @llvm.{pause}({argument})",
        DECLARE_PAUSE=f"declare void @llvm.{pause}({argument[:3]})",
    )


def linked(
    text: str, exports: tuple[str, ...], foreign: dict[str, int] | None = None
) -> dict[str, int]:
    """The addresses of functions that stay for the life of the process: threads are in them."""
    disk = DiskCache()
    key = hashlib.sha256(f"{machine.machine_key()}|{text}".encode()).hexdigest()
    held = disk.get(key)
    from ..codegen import engine

    if held is not None:
        image = held[0]
    else:
        from ..codegen.target import Target

        image = engine.to_object(text, Target.host())
        disk.put(key, image, {})
    made = engine.link(image, exports, (), foreign or {})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return dict(made.addresses)


@functools.lru_cache(maxsize=1)
def team() -> dict[str, int]:
    """The addresses of the functions of team.ll."""
    return linked(_team(), ("parallel", "patiently", "abandon", "openmp", "forget"))


@functools.lru_cache(maxsize=1)
def replayer() -> dict[str, int]:
    """The addresses of `turns` and `replay` (replay.ll)."""
    found = {"parallel": team()["parallel"], **_foreign()}
    return linked(_text("replay"), ("turns", "replay"), found)


def _foreign() -> dict[str, int]:
    """The addresses of what replay asks of Python and NumPy."""
    api = ctypes.pythonapi
    names = {
        "SaveThread": "PyEval_SaveThread",
        "RestoreThread": "PyEval_RestoreThread",
        "IncRef": "Py_IncRef",
        "DecRef": "Py_DecRef",
        "ErrClear": "PyErr_Clear",
        "FloatAsDouble": "PyFloat_AsDouble",
        "LongAsLongLongAndOverflow": "PyLong_AsLongLongAndOverflow",
        "TupleNew": "PyTuple_New",
        "TupleSetItem": "PyTuple_SetItem",
    }
    found = {
        f"py.{k}": ctypes.cast(getattr(api, v), ctypes.c_void_p).value for k, v in names.items()
    }
    for name, thing in (("None", None), ("True", True), ("float", float), ("int", int),
                        ("bool", bool), ("ndarray", np.ndarray)):  # fmt: skip
        found[f"py.{name}"] = id(thing)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    # NumPy's table of C functions; the places of these two never change (NumPy's own headers).
    capsule = importlib.import_module("numpy._core.multiarray")._ARRAY_API
    table = (ctypes.c_void_p * 300).from_address(pointer(capsule, None))
    found["np.NewFromDescr"], found["np.SetBaseObject"] = table[94], table[282]
    return {k: int(v or 0) for k, v in found.items()}
