"""Tasks to cores: a team of native threads (team.c), or OpenMP's, or Python's.

OpenMP's threads are the team when something else in the process has loaded GCC's runtime for them:
they spin for milliseconds after their work, so a second team would have to fight them for the
cores.  Python's are used where there is no native team, or when `TREADLE_THREADS=python` asks.
Calling in parallel from several Python threads is safe: a call that finds the team busy runs its
tasks on its own thread.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from treadle.dsl.process import locks
from treadle.dsl.process.environment import variable, warn_of
from treadle.dsl.process.workers import concurrently

from . import modules

#: Work (elementary operations, about a nanosecond each) worth waking the other cores for.
SERIAL_WORK = 30_000.0
#: … and worth handling Python's signals between tasks.
LONG_WORK = 1_000_000.0
#: … and worth the cores that are awake, where a loop repeats it: they cost about a microsecond.
BRIEF_WORK = 15_000.0
#: Threads of a team, at most, and tasks between which Python may handle signals (team.c has both,
#: replay.c the second).
MOST_THREADS = 1024
MOST_TASKS = 128
_RANGES_PER_THREAD = 8


class _State:
    """What belongs to this process, not to its parent."""

    def __init__(self, forked: bool = False) -> None:
        self.busy = locks.lock()
        self.forked = forked
        self.openmp = False


_state = _State()


def _after_fork() -> None:
    """The threads of the parent are not here: never wait for them."""
    global _state
    _state = _State(forked=True)
    if team.cache_info().currsize and team():
        ctypes.CFUNCTYPE(None)(modules.team()["forget_threads"])()


locks.after_fork(_after_fork)


@functools.lru_cache(maxsize=1)
def thread_count() -> int:
    """`TREADLE_NUM_THREADS`, or the cores that this process may use, by affinity and quota."""
    asked: int | None = variable("TREADLE_NUM_THREADS")
    if asked is not None:
        count = asked
        if count > MOST_THREADS:
            most = f"is more than can be: {MOST_THREADS} are used."
            warn_of("TREADLE_NUM_THREADS", str(asked), most)
    elif hasattr(os, "sched_getaffinity"):
        count = min(len(os.sched_getaffinity(0)), _quota())
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, MOST_THREADS))


def _quota(path: str = "/sys/fs/cgroup/cpu.max") -> int:
    """Cores that the control group may use together, rounded up."""
    try:
        with open(path, encoding="utf-8") as file:
            most, period = file.read().split()[:2]
        return -(-int(most) // int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return MOST_THREADS


class Team(NamedTuple):
    """The functions of team.c: `parallel(function, arguments, tasks, threads)`, `interruptible` of
    these and the address of a number that says whether the team is held, and `abandon` of that."""

    parallel: Callable[[int, int, int, int], None]
    interruptible: Callable[[int, int, int, int, int], int]
    abandon: Callable[[int], None]


@functools.lru_cache(maxsize=1)
def team() -> Team | None:
    """Native threads, None without them."""
    if modules.team_target() is None or variable("TREADLE_THREADS") is not None:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    types = (pointer, pointer, number, number)
    found = modules.team()
    return Team(
        ctypes.CFUNCTYPE(None, *types)(found["parallel"]),
        ctypes.CFUNCTYPE(ctypes.c_int32, *types, pointer)(found["parallel_interruptible"]),
        ctypes.CFUNCTYPE(None, pointer)(found["abandon"]),
    )


def join_openmp() -> None:
    """Let the threads of GCC's OpenMP be the team, if somebody has loaded it: asked whenever a
    program meets a kernel for the first time.

    Not in the child of a fork, where they are not, and it would wait for them.
    """
    if _state.openmp or _state.forked or team() is None or not sys.platform.startswith("linux"):
        return
    try:
        library = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD)
        found = library.GOMP_parallel, library.omp_get_thread_num
    except (OSError, AttributeError):
        return
    types = (ctypes.c_void_p, ctypes.c_void_p)
    ctypes.CFUNCTYPE(None, *types)(modules.team()["use_openmp"])(
        *(ctypes.cast(f, ctypes.c_void_p).value for f in found)
    )
    _state.openmp = True


def parallel(entry: int, call: Callable[[int, int, int], None], arguments: int,
             tasks: int, work: float | None = None) -> None:  # fmt: skip
    """Run tasks 0 … tasks − 1 of `entry` (`call` is the same function) and wait for all.

    `work` as a launcher has it.  During long work Python handles signals between tasks: what they
    raise (KeyboardInterrupt) is raised when no thread is within a task, and the rest is not done.
    """
    threads = min(tasks, thread_count())
    long = work is None or work >= LONG_WORK
    native = team()
    if threads <= 1:
        alone(call, arguments, tasks, MOST_TASKS if long else tasks)
    elif native is None:
        _by_python(call, arguments, tasks, threads)
    elif not long:
        native.parallel(entry, arguments, tasks, threads)
    else:
        busy = ctypes.c_int32(0)
        where = ctypes.addressof(busy)
        try:
            while native.interruptible(entry, arguments, tasks, threads, where):
                pass  # here Python handles signals
        finally:
            if busy.value:
                native.abandon(where)


def alone(call: Callable[[int, int, int], None], arguments: int, tasks: int,
          step: int = MOST_TASKS) -> None:  # fmt: skip
    """The same by the calling thread, in order; after every `step` tasks Python handles signals."""
    for first in range(0, tasks, max(step, 1)):
        call(arguments, first, min(first + step, tasks))


def _by_python(call: Callable[[int, int, int], None], arguments: int, tasks: int, threads: int
               ) -> None:  # fmt: skip
    """The same by threads of Python's; alone, if these are taken."""
    state = _state
    if not state.busy.acquire(blocking=False):
        alone(call, arguments, tasks)
        return
    try:
        parts = min(tasks, max(threads * _RANGES_PER_THREAD, -(-tasks // MOST_TASKS)))
        ends = [tasks * k // parts for k in range(parts + 1)]
        concurrently([partial(call, arguments, *part) for part in pairwise(ends)], threads)
    finally:
        state.busy.release()
