"""Tasks to cores: GCC's OpenMP runtime where there is one, else Python threads.

Every thread has a span of the tasks, the same one each time, so that what a core has in its caches
is what it works on; ranges of it are handed out by an atomic counter (the compiled `driver`), and
whoever has done its own takes ranges of the others, so cores that are slower or busy do less.
Calling in parallel from several Python threads is safe: whoever comes while the cores are taken
runs its tasks alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from . import engine
from .target import Target

#: Work (elementary operations, about a nanosecond each) worth waking the other cores for.
SERIAL_WORK = 30_000.0
_RANGES_PER_THREAD = 8

#: The fields of `data`, 8 bytes each: a function that says which thread this is (null: whoever
#: comes takes the next number), tasks, tasks per range, function, its arguments, threads, the next
#: number, `GOMP_parallel` (null: the caller starts the threads); then a cache line for each thread
#: with how many of its own tasks have been taken.
_FIELDS = 8
_DRIVER = """
define void @driver(ptr %data) nounwind {
entry:
  %p1 = getelementptr i64, ptr %data, i64 1
  %p2 = getelementptr i64, ptr %data, i64 2
  %p3 = getelementptr i64, ptr %data, i64 3
  %p4 = getelementptr i64, ptr %data, i64 4
  %p5 = getelementptr i64, ptr %data, i64 5
  %p6 = getelementptr i64, ptr %data, i64 6
  %number = load ptr, ptr %data
  %tasks = load i64, ptr %p1
  %range = load i64, ptr %p2
  %function = load ptr, ptr %p3
  %arguments = load ptr, ptr %p4
  %threads = load i64, ptr %p5
  %counts = getelementptr i64, ptr %data, i64 8
  %known = icmp ne ptr %number, null
  br i1 %known, label %ask, label %count
ask:
  %asked = call i32 %number()
  %asked.wide = zext i32 %asked to i64
  br label %start
count:
  %counted = atomicrmw add ptr %p6, i64 1 monotonic
  br label %start
start:
  %me = phi i64 [ %asked.wide, %ask ], [ %counted, %count ]
  br label %span
span:
  %k = phi i64 [ 0, %start ], [ %k.next, %spent ]
  %left = icmp ult i64 %k, %threads
  br i1 %left, label %take, label %done
take:
  %sum = add i64 %me, %k
  %whose = urem i64 %sum, %threads
  %after = add i64 %whose, 1
  %first.up = mul i64 %tasks, %whose
  %last.up = mul i64 %tasks, %after
  %first = udiv i64 %first.up, %threads
  %last = udiv i64 %last.up, %threads
  %line = shl i64 %whose, 3
  %taken = getelementptr i64, ptr %counts, i64 %line
  br label %next
next:
  %got = atomicrmw add ptr %taken, i64 %range monotonic
  %begin = add i64 %first, %got
  %some = icmp slt i64 %begin, %last
  br i1 %some, label %run, label %spent
run:
  %stop = add i64 %begin, %range
  %less = icmp slt i64 %stop, %last
  %end = select i1 %less, i64 %stop, i64 %last
  call void %function(ptr %arguments, i64 %begin, i64 %end)
  br label %next
spent:
  %k.next = add i64 %k, 1
  br label %span
done:
  ret void
}

define void @launch(ptr %data) nounwind {
entry:
  %p5 = getelementptr i64, ptr %data, i64 5
  %p7 = getelementptr i64, ptr %data, i64 7
  %threads = load i64, ptr %p5
  %parallel = load ptr, ptr %p7
  %counts = getelementptr i64, ptr %data, i64 8
  br label %clear
clear:
  %t = phi i64 [ 0, %entry ], [ %t.next, %clear ]
  %line = shl i64 %t, 3
  %taken = getelementptr i64, ptr %counts, i64 %line
  store i64 0, ptr %taken
  %t.next = add i64 %t, 1
  %more = icmp ult i64 %t.next, %threads
  br i1 %more, label %clear, label %ready
ready:
  %known = icmp ne ptr %parallel, null
  br i1 %known, label %go, label %done
go:
  %count = trunc i64 %threads to i32
  call void %parallel(ptr @driver, ptr %data, i32 %count, i32 0)
  br label %done
done:
  ret void
}
"""
_PACK = struct.Struct(f"={_FIELDS}q").pack_into


class _State:
    """The pool of this process."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None
        self.forked = False
        self.space: Any = None  # the `data` of the driver
        self.room = 0  # for how many threads

    def data(self, threads: int) -> tuple[Any, int]:
        """Memory for the fields and the counts of so many threads, and its address."""
        if threads > self.room:
            self.room = max(threads, thread_count())
            raw = ctypes.create_string_buffer(8 * _FIELDS + 64 * (self.room + 1))
            shift = -ctypes.addressof(raw) % 64
            self.space = (ctypes.c_char * (len(raw) - shift)).from_buffer(raw, shift)
            self.address = ctypes.addressof(self.space)
        return self.space, self.address


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
def _driver() -> tuple[Any, Any, Any]:
    """`driver(data)`, `launch(data)`, and what keeps them."""
    linked = engine.link(engine.to_object(_DRIVER, Target.host()), ["driver", "launch"], [], {})
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    return function(linked.addresses["driver"]), function(linked.addresses["launch"]), linked


@functools.lru_cache(maxsize=1)
def _gomp() -> Any:
    """The addresses of `GOMP_parallel` and of `omp_get_thread_num`, or None."""
    if os.environ.get("TREADLE_THREADS", "").lower() == "python":
        return None
    # Threads that spin between kernels starve whoever shares the cores; libgomp reads this once,
    # when it is loaded.
    asked = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        library = ctypes.CDLL("libgomp.so.1")
        found = library.GOMP_parallel, library.omp_get_thread_num
    except (OSError, AttributeError):
        return None
    finally:
        if asked is None:
            del os.environ["OMP_WAIT_POLICY"]
    return tuple(ctypes.cast(f, ctypes.c_void_p).value for f in found)


def runtime() -> str:
    """What runs tasks in parallel here: "gomp", "python" or "serial"."""
    if thread_count() == 1:
        return "serial"
    return "python" if _state.forked or _gomp() is None else "gomp"


def parallel(entry: int, call: Callable[[int, int, int], None], arguments: int,
             tasks: int) -> None:  # fmt: skip
    """Run tasks 0 … tasks − 1 of `entry` (`call` is the same function) and wait for all."""
    threads = thread_count()
    if tasks < threads:
        threads = tasks
    state = _state
    if threads <= 1 or not state.busy.acquire(blocking=False):
        call(arguments, 0, tasks)
        return
    try:
        driver, launch, _ = _driver()
        size = tasks // (threads * _RANGES_PER_THREAD) or 1
        gomp, number = (0, 0) if state.forked else _gomp() or (0, 0)
        space, where = state.data(threads)
        _PACK(space, 0, number, tasks, size, entry, arguments, threads, 0, gomp)
        launch(where)
        if gomp:
            return
        if state.executor is None:
            state.executor = ThreadPoolExecutor(
                max(1, thread_count() - 1), thread_name_prefix="treadle"
            )
        others = [state.executor.submit(driver, where) for _ in range(threads - 1)]
        driver(where)
        wait(others)
        for other in others:
            other.result()
    finally:
        state.busy.release()
