"""The table of interned expressions and nodes: equal ones are one object.

An object is complete before it enters the table, so no thread finds a partial one.  If two threads
create equal objects concurrently, one publishes its object and both use it.  Entries refer to their
objects weakly and to their keys strongly, so a key must not refer to its object: a node's key
contains its operands, and never its users.

A lookup takes no lock, as reading a dict is atomic with and without a global interpreter lock.
Changes take one, because removing an entry only if it is unchanged takes two steps.  The lock is
reentrant, because entries are removed whenever their objects die, even while it is held.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar, cast

from ..process.locks import held_across_fork

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class _Entry(weakref.ref[Any]):
    """A weak reference with its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_table: dict[tuple[Any, ...], _Entry] = {}
_lock = held_across_fork(RLock(), innermost=True)


def find(key: tuple[Any, ...]) -> Any:
    """The live object of a key, or None.  Raises TypeError for an unhashable key."""
    entry = _table.get(key)
    return None if entry is None else entry()


def publish(key: tuple[Any, ...], made: T) -> T:
    """Enter a complete object, and return the one to use: an equal object published before by
    another thread, else `made`."""
    entry = _Entry(made, _drop)
    entry.key = key
    with _lock:
        first = _table.setdefault(key, entry)
        if first is not entry:
            found = first()
            if found is not None:
                return found  # type: ignore[no-any-return]
            _table[key] = entry  # the old object is dead, but not yet removed
    return made


def _drop(entry: Any, table: dict[tuple[Any, ...], _Entry] = _table, lock: Any = _lock) -> None:
    key = entry.key
    with lock:
        if table.get(key) is entry:  # keep a newer object's entry; an interrupt here loses nothing
            table.pop(key, None)


_UNKNOWN = object()


def cached_per_object(most: int) -> Callable[[F], F]:
    """A decorator that caches a function of a hashable object and plain arguments.  A cached value
    lives as long as its object, to which it must not refer; at most `most` values are kept per
    object."""

    def kept(compute: F) -> F:
        known: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

        @functools.wraps(compute)
        def found(of: Any, *args: Any) -> Any:
            mine = known.get(of)
            if mine is None:
                mine = known.setdefault(of, {})
            cached = mine.get(args, _UNKNOWN)
            if cached is _UNKNOWN:
                cached = compute(of, *args)
                if len(mine) >= most:
                    mine.clear()
                mine[args] = cached
            return cached

        return cast(F, found)

    return kept
