"""Threads for jobs that run together.

An exception at any instant in the thread that waits, such as Ctrl-C, leaves neither a lock taken
nor a job running: queues and lists of C are all that is shared.  (The locks of a
`ThreadPoolExecutor` are Python code; interrupted inside them, it blocks for ever.)
"""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from . import locks

T = TypeVar("T")
#: Where a thread waits for work.
Inbox = SimpleQueue[Callable[[Any], None]]

_idle: list[Inbox] = []
locks.after_fork(_idle.clear)  # the threads of the parent are not here

#: Seconds after which the waiting thread looks again, in case it was interrupted while being woken.
AGAIN = 0.1


def together(jobs: Sequence[Callable[[], T]], most: int) -> list[T]:
    """The results of all jobs, run by up to `most` threads, or by this one if there is
    one job or no thread can be started.

    An exception of a job is raised after all have ended, the first job's if there are several.
    After a KeyboardInterrupt no further job starts, and it is raised when none runs any more.
    """
    helpers = _threads(min(most, len(jobs))) if len(jobs) > 1 else []
    if not helpers:
        return [job() for job in jobs]
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
                    woken.get(timeout=AGAIN)
            break
        except KeyboardInterrupt as error:
            interrupts.append(error)
    if interrupts:
        raise interrupts[0]
    if failed:
        raise failed[min(failed)]
    return [results[k] for k in range(len(jobs))]


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
