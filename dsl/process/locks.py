"""Process-wide locks, and their state after a fork.

A fork copies the memory and one thread: a lock held by another thread at that moment is never
released in the child.  So every lock that outlives a call is made here:

- `lock()` is free again in the child.  It guards data that is consistent between any two Python
  operations, such as an entry of a dict.
- `held_across_fork()` is acquired by the fork itself, so the data it guards is consistent in the
  child: LLVM, whose internal locks cannot be reset, and the table of expressions.  A fork waits up
  to `LONGEST_WAIT` for all of them together; in the child, `lost(lock)` tells whether this was too
  short.

A fork also waits for modules that another thread is importing, because Python never finishes such
an import in the child.
"""

from __future__ import annotations

import _imp
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

#: Seconds that a fork waits for other threads to finish compiling or importing.
LONGEST_WAIT = 20.0

#: Python's locks of modules being imported, by name: weak references.
_module_locks: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})

_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
_held: list[Any] = []  # in the order in which a fork acquires them
_lost: list[Any] = []


class _Forking(threading.local):
    """The locks that the current fork has acquired, in order."""

    def __init__(self) -> None:
        self.taken: list[Any] = []


_forking = _Forking()


def lock(reentrant: bool = False) -> Any:
    """A `threading.Lock` (or an `RLock`, if `reentrant`) that is free in the child of a fork."""
    made = threading.RLock() if reentrant else threading.Lock()
    _renewed.add(made)
    return made


def after_fork(call: Callable[[], object]) -> None:
    """Register a function to be called in the child of every fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def held_across_fork(lock: Any, innermost: bool = False) -> Any:
    """A `threading.RLock` that a fork acquires; the `innermost` one last: a thread may acquire it
    while holding another lock, and must not acquire another while holding it."""
    if innermost:
        _held.append(lock)
    else:
        _held.insert(0, lock)
    return lock


def lost(of: Any) -> bool:
    """Whether this process was forked while another thread held the lock for longer than a fork
    waits: the data it guards may be inconsistent."""
    return any(one is of for one in _lost)


class _Cached:
    """`functools.cached_property` without the lock that it has before Python 3.12, which is shared
    by all instances of the class and held while the value is computed."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        made = self.compute(instance)
        return instance.__dict__.setdefault(self.name, made)


if TYPE_CHECKING:
    from functools import cached_property

    cached = cached_property
else:
    cached = _Cached


#: Packages whose modules are imported lazily.
_LATE = {"llvmlite", "numpy", "treadle", *sys.stdlib_module_names}


def _importing() -> bool:
    """Whether another thread is importing one of our modules or a dependency: a module's lock
    exists while a thread holds it or is about to.  The global import lock must be held."""
    own = threading.get_ident()
    return any(
        name.split(".")[0] in _LATE and (one := held()) is not None and one.owner != own
        for name, held in list(_module_locks.items())
    )


def _before() -> None:
    """Acquire the locks, the global import lock last, while no other thread imports.

    Waiting for a lock lets other threads start an import, which may need a lock held here, or make
    another lock: all are released before waiting again.
    """
    deadline = time.monotonic() + LONGEST_WAIT
    taken = _forking.taken
    while True:
        wanted = list(_held)
        for one in wanted:
            if one.acquire(timeout=max(0.0, deadline - time.monotonic())):
                taken.append(one)
        _imp.acquire_lock()
        complete = len(wanted) == len(_held) and not _importing()
        if complete or time.monotonic() >= deadline:
            return
        _after_in_parent()
        time.sleep(0.001)


def _after_in_parent() -> None:
    _imp.release_lock()
    while _forking.taken:
        _forking.taken.pop().release()


def _after_in_child() -> None:
    for one in list(_renewed):
        one._at_fork_reinit()
    for one in _held:
        if not any(one is t for t in _forking.taken):
            one._at_fork_reinit()
            _lost.append(one)
    _after_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
