"""Equal expressions are one object, and so are equal nodes: the table of those that live.

An object is whole before it is in the table, so no thread finds one half made; of two threads that
make equal objects at once one publishes, and both get its object.  Entries hold their objects
weakly and their keys strongly, so a key must not lead to its object: a node's key holds what the
node is made of, and never what is made of the node.

Looking up takes no lock (reading a dict is atomic, with an interpreter lock and without); changing
the table does: that an entry goes only while it is still the same one takes two steps.  The lock is
one that its thread may take again, for entries go whenever their objects do, also in here.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar, cast

from .locks import held_across_fork

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class _Held(weakref.ref[Any]):
    """A weak reference that knows its key."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_table: dict[tuple[Any, ...], _Held] = {}
_lock = held_across_fork(RLock(), innermost=True)


def find(key: tuple[Any, ...]) -> Any:
    """The living object of a key, or None.  Raises TypeError for a key that cannot be hashed."""
    held = _table.get(key)
    return None if held is None else held()


def publish(key: tuple[Any, ...], made: T) -> T:
    """Enter an object that is whole; the one to use instead of it: another thread's, if that was
    first, else `made`."""
    held = _Held(made, _drop)
    held.key = key
    with _lock:
        first = _table.setdefault(key, held)
        if first is not held:
            found = first()
            if found is not None:
                return found  # type: ignore[no-any-return]
            _table[key] = held  # its object is gone, and it will be in a moment
    return made


def _drop(held: Any, table: dict[tuple[Any, ...], _Held] = _table, lock: Any = _lock) -> None:
    with lock:
        key = held.key
        if table.get(key) is held:
            table.pop(key, None)


_UNKNOWN = object()


def kept_with(most: int) -> Callable[[F], F]:
    """A cache of a function of an object that is hashed, and of plain values: what was found goes
    with the object, to which it must not lead.  For each, at most so many values are kept."""

    def kept(compute: F) -> F:
        known: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

        @functools.wraps(compute)
        def found(of: Any, *args: Any) -> Any:
            mine = known.get(of)
            if mine is None:
                mine = known.setdefault(of, {})
            held = mine.get(args, _UNKNOWN)
            if held is _UNKNOWN:
                held = compute(of, *args)
                if len(mine) >= most:
                    mine.clear()
                mine[args] = held
            return held

        return cast(F, found)

    return kept
