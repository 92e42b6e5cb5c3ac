"""Threads for jobs that run together.

An exception at any instant in the thread that waits, such as Ctrl-C, leaves neither a lock taken
nor a job running: queues and lists of C are all that is shared.  (The locks of a
`ThreadPoolExecutor` are Python code; interrupted inside them, it blocks for ever.)
"""

from __future__ import annotations

import _thread
import atexit
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from ..errors import TreadleError
from . import locks

P = ParamSpec("P")
T = TypeVar("T")
#: Where a thread waits for work.
Inbox = SimpleQueue[Callable[[Any], None]]

_idle: list[Inbox] = []
locks.after_fork(_idle.clear)  # the threads of the parent are not here

#: Seconds after which the waiting thread looks again, in case it was interrupted while being woken.
POLL = 0.1


def concurrently(jobs: Sequence[Callable[[], T]], most: int) -> list[T]:
    """The results of all jobs, run by up to `most` threads, or by this one if there is
    one job or no thread can be started.

    An exception of a job is raised after all have ended, the first job's if there are several.
    After a KeyboardInterrupt no further job starts, and it is raised when none runs any more.
    """
    helpers = _threads(min(most, len(jobs))) if len(jobs) > 1 else []
    return _run(jobs, helpers) if helpers else [job() for job in jobs]


def on_other_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A function that another thread runs when the main one calls it, if a thread can be started.

    Python raises KeyboardInterrupt in the main thread only, so it does not end the function halfway
    (between freeing an object of a C library and noting that it is freed, say).
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        main = threading.get_ident() == threading.main_thread().ident
        helpers = _threads(1) if main else []
        if not helpers:
            return function(*args, **kwargs)
        return _run([functools.partial(function, *args, **kwargs)], helpers)[0]

    return called


class _Later:
    """What runs when there is time."""

    def __init__(self) -> None:
        self.lock = locks.lock()  # held by the job that runs
        self.ending = False

    def run(self, job: Callable[[], object]) -> None:
        with self.lock:
            if not self.ending:
                with suppress(TreadleError):
                    job()

    def end(self) -> None:
        """Let the job that runs come to its end, and no other begin."""
        self.ending = True
        self.lock.acquire()


_later = _Later()
atexit.register(_later.end)

#: Seconds until `later` begins: a first call is over.
PATIENCE = 1.0


def later(job: Callable[[], object]) -> None:
    """Let another thread do what is useful, but not needed, after a while; one job at a time.

    It does not run if the process ends before.  If it runs, the end of the process waits for it: it
    may be in a C library, which must not be unloaded.  A `TreadleError` of the job is dropped.
    """

    def work(inbox: Inbox) -> None:
        time.sleep(PATIENCE)
        _later.run(job)
        _idle.append(inbox)

    for inbox in _threads(1):
        inbox.put(work)


def _run(jobs: Sequence[Callable[[], T]], helpers: Sequence[Inbox]) -> list[T]:
    """The results of all jobs, run by the threads `helpers`: see `together`."""
    todo = deque(enumerate(jobs))
    results: dict[int, T] = {}
    failed: dict[int, BaseException] = {}
    woken: SimpleQueue[None] = SimpleQueue()
    interrupts: list[KeyboardInterrupt] = []
    resting: set[int] = set()  # the helpers that have nothing left to do

    def work(inbox: Inbox) -> None:
        while True:
            try:
                k, job = todo.popleft()
            except IndexError:
                break
            try:
                if not interrupts:
                    results[k] = job()
            except BaseException as error:
                failed[k] = error
        if id(inbox) not in resting:  # the caller, interrupted, may have sent the work twice
            _idle.append(inbox)
            resting.add(id(inbox))
            woken.put(None)

    while True:
        try:
            for inbox in helpers:
                inbox.put(work)
            while len(resting) < len(helpers):
                with suppress(Empty):
                    woken.get(timeout=POLL)
            break
        except KeyboardInterrupt as error:
            interrupts.append(error)
    first = interrupts[0] if interrupts else failed[min(failed)] if failed else None
    if first is None:
        return [results[k] for k in range(len(jobs))]
    # The traceback refers to this frame: what the frame refers to must not lead back to it.
    interrupts.clear()
    failed.clear()
    try:
        raise first
    finally:
        del first


def _threads(count: int) -> list[Inbox]:
    """Up to `count` threads without work, as many as limits permit."""
    found: list[Inbox] = []
    while len(found) < count:
        try:
            found.append(_idle.pop())
        except IndexError:
            inbox: Inbox = SimpleQueue()
            try:
                _thread.start_new_thread(_serve, (inbox,))
            except RuntimeError:  # a limit of threads, or of memory for their stacks
                break
            found.append(inbox)
    return found


def _serve(inbox: Inbox) -> None:
    while True:
        inbox.get()(inbox)
