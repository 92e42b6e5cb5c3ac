"""Threads for jobs that run together.

An exception at any instant in the thread that waits, such as Ctrl-C, leaves neither a lock taken
nor a job running: queues and lists of C are all that is shared.  (The locks of a
`ThreadPoolExecutor` are Python code; interrupted inside them, it blocks for ever.)
"""

from __future__ import annotations

import _thread
import atexit
import functools
import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from ..errors import TreadleError
from . import locks

P = ParamSpec("P")
T = TypeVar("T")
#: Where a thread waits for work.
Inbox = SimpleQueue[Callable[[Any], None]]

_idle: list[Inbox] = []
locks.after_fork(_idle.clear)  # the threads of the parent are not here

#: Seconds after which Python lets another thread run while there are jobs: a job that calls C often
#: would wait for the thread that makes the next ones after each call.
SWITCHING = 0.001

#: Seconds after which the waiting thread looks again, in case it was interrupted while being woken.
POLL = 0.1


def concurrently(jobs: Iterable[Callable[[], T]], most: int) -> list[T]:
    """The results of all jobs, run by up to `most` threads, or by this one if there is one job or
    no thread can be started.

    Jobs that are not a sequence are asked for while the earlier ones run.  An exception of a job is
    raised after all have ended, the first job's if there are several.  After a KeyboardInterrupt no
    further job starts, and it is raised when none runs any more.
    """
    if isinstance(jobs, Sequence) and len(jobs) <= 1:
        return [job() for job in jobs]
    usual = sys.getswitchinterval()
    if usual <= SWITCHING:
        return _Run[T](most).results_of(jobs)
    try:
        sys.setswitchinterval(SWITCHING)
        return _Run[T](most).results_of(jobs)
    finally:
        sys.setswitchinterval(usual)


def on_other_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A function that another thread runs when the main one calls it, if a thread can be started.

    Python raises KeyboardInterrupt in the main thread only, so it does not end the function halfway
    (between freeing an object of a C library and noting that it is freed, say).
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args, **kwargs)
        return _Run[T](1).results_of([functools.partial(function, *args, **kwargs)])[0]

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

#: Seconds after which a first call is over.
PATIENCE = 1.0


def later(job: Callable[[], object], after: float | None = None) -> None:
    """Let another thread do what is useful, but not needed, after so many seconds (`PATIENCE`);
    one job at a time.

    It does not run if the process ends before.  If it runs, the end of the process waits for it: it
    may be in a C library, which must not be unloaded.  A `TreadleError` of the job is dropped.
    """

    def work(inbox: Inbox) -> None:
        time.sleep(PATIENCE if after is None else after)
        _later.run(job)
        _idle.append(inbox)

    inbox = _free()
    if inbox is not None:
        inbox.put(work)


class _Run(Generic[T]):
    """Jobs, run by up to `most` threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.todo: deque[tuple[int, Callable[[], T]]] = deque()
        self.results: dict[int, T] = {}
        self.failed: dict[int, BaseException] = {}
        self.interrupts: list[KeyboardInterrupt] = []
        self.active: dict[int, Inbox] = {}  # the threads at work, numbered
        self.numbers = itertools.count()
        self.woken: SimpleQueue[None] = SimpleQueue()

    def results_of(self, jobs: Iterable[Callable[[], T]]) -> list[T]:
        pending = enumerate(jobs)
        while True:
            try:
                # The caller, interrupted, may not have sent the work.
                for number, inbox in list(self.active.items()):
                    inbox.put(functools.partial(self._work, number))
                for one in pending:
                    self.todo.append(one)
                    self._send()
                while self.active or self.todo:
                    if not self._send() and not self.active and self.todo:
                        self._do(*self.todo.popleft())
                    with suppress(Empty):
                        if self.active:
                            self.woken.get(timeout=POLL)
                break
            except KeyboardInterrupt as error:
                self.interrupts.append(error)
            except BaseException as error:  # of the iterator
                self.failed[sys.maxsize] = error
                self.todo.clear()
            pending = enumerate(())
        failed, interrupts = self.failed, self.interrupts
        first = interrupts[0] if interrupts else failed[min(failed)] if failed else None
        if first is None:
            return [self.results[k] for k in range(len(self.results))]
        # The traceback refers to this frame: what the frame refers to must not lead back to it.
        interrupts.clear()
        failed.clear()
        try:
            raise first
        finally:
            del first

    def _send(self) -> bool:
        """Give a further thread work, if there is any for it."""
        if not self.todo or len(self.active) >= self.most:
            return False
        inbox = _free()
        if inbox is None:
            return False
        number = next(self.numbers)
        self.active[number] = inbox
        inbox.put(functools.partial(self._work, number))
        return True

    def _work(self, number: int, inbox: Inbox) -> None:
        """What a thread does: the jobs that nobody has begun."""
        while True:
            try:
                k, job = self.todo.popleft()
            except IndexError:
                break
            self._do(k, job)
        if self.active.pop(number, None) is not None:  # the work may have been sent twice
            _idle.append(inbox)
            self.woken.put(None)

    def _do(self, k: int, job: Callable[[], T]) -> None:
        try:
            if not self.interrupts:
                self.results[k] = job()
        except KeyboardInterrupt as error:
            self.interrupts.append(error)
        except BaseException as error:
            self.failed[k] = error


def _free() -> Inbox | None:
    """A thread without work; None if limits permit no further one."""
    try:
        return _idle.pop()
    except IndexError:
        inbox: Inbox = SimpleQueue()
    try:
        _thread.start_new_thread(_serve, (inbox,))
    except RuntimeError:  # a limit of threads, or of memory for their stacks
        return None
    return inbox


def _serve(inbox: Inbox) -> None:
    while True:
        inbox.get()(inbox)
