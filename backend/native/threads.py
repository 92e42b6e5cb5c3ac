"""Tasks to cores: GCC's OpenMP runtime where there is one, else Python threads.

Tasks are handed out in ranges by an atomic counter (the compiled `driver`), so cores that are
slower or busy take fewer.  Calling in parallel from several Python threads is safe: whoever comes
while the cores are taken runs its tasks alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from . import engine
from .target import Target

#: Work (elementary operations, about a nanosecond each) worth waking the other cores for.
SERIAL_WORK = 30_000.0
_RANGES_PER_THREAD = 8

#: data: next task (counts up), tasks, tasks per range, function, arguments.
_DRIVER = """
define void @driver(ptr %data) nounwind {
entry:
  %p1 = getelementptr i64, ptr %data, i64 1
  %p2 = getelementptr i64, ptr %data, i64 2
  %p3 = getelementptr i64, ptr %data, i64 3
  %p4 = getelementptr i64, ptr %data, i64 4
  %tasks = load i64, ptr %p1
  %range = load i64, ptr %p2
  %function = load ptr, ptr %p3
  %arguments = load ptr, ptr %p4
  br label %next
next:
  %begin = atomicrmw add ptr %data, i64 %range monotonic
  %some = icmp slt i64 %begin, %tasks
  br i1 %some, label %run, label %done
run:
  %after = add i64 %begin, %range
  %less = icmp slt i64 %after, %tasks
  %end = select i1 %less, i64 %after, i64 %tasks
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  br label %next
done:
  ret void
}
"""


class _State:
    """The pool of this process."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None
        self.forked = False


_state = _State()


def _after_fork() -> None:
    """The threads of the parent are not here: never wait for them."""
    global _state
    _state = _State()
    _state.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.lru_cache(maxsize=1)
def thread_count() -> int:
    """`TREADLE_NUM_THREADS`, or the cores that this process may use."""
    asked = os.environ.get("TREADLE_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@functools.lru_cache(maxsize=1)
def _driver() -> tuple[Any, int, Any]:
    linked = engine.link(engine.to_object(_DRIVER, Target.host()), ["driver"], [], {})
    address = linked.addresses["driver"]
    return linked, address, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


@functools.lru_cache(maxsize=1)
def _gomp() -> Any:
    """`GOMP_parallel(function, data, threads, flags)`, or None."""
    if os.environ.get("TREADLE_THREADS", "").lower() == "python":
        return None
    # Threads that spin between kernels starve whoever shares the cores; libgomp reads this once,
    # when it is loaded.
    asked = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        function = ctypes.CDLL("libgomp.so.1").GOMP_parallel
    except (OSError, AttributeError):
        return None
    finally:
        if asked is None:
            del os.environ["OMP_WAIT_POLICY"]
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    function.restype = None
    return function


def runtime() -> str:
    """What runs tasks in parallel here: "gomp", "python" or "serial"."""
    if thread_count() == 1:
        return "serial"
    return "python" if _state.forked or _gomp() is None else "gomp"


_DATA = ctypes.c_int64 * 5


def parallel(entry: int, call: Callable[[int, int, int], None], arguments: int,
             tasks: int) -> None:  # fmt: skip
    """Run tasks 0 … tasks − 1 of `entry` (`call` is the same function) and wait for all."""
    threads = min(thread_count(), tasks)
    state = _state
    if threads <= 1 or not state.busy.acquire(blocking=False):
        call(arguments, 0, tasks)
        return
    try:
        _, address, driver = _driver()
        size = max(1, tasks // (threads * _RANGES_PER_THREAD))
        data = _DATA(0, tasks, size, entry, arguments)
        gomp = None if state.forked else _gomp()
        if gomp is not None:
            gomp(address, ctypes.addressof(data), threads, 0)
            return
        if state.executor is None:
            state.executor = ThreadPoolExecutor(
                max(1, thread_count() - 1), thread_name_prefix="treadle"
            )
        where = ctypes.addressof(data)
        others = [state.executor.submit(driver, where) for _ in range(threads - 1)]
        driver(where)
        wait(others)
        for other in others:
            other.result()
    finally:
        state.busy.release()
