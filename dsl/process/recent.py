"""Dictionaries of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """The entries that were added last, of which there are at most so many.

    >>> squares = Recent[int, int](2)
    >>> [squares.made(n, lambda: n * n) for n in (1, 2, 3)], list(squares)
    ([1, 4, 9], [2, 3])
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        while len(self) > self.most:
            self.popitem(last=False)

    def made(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if there is none."""
        found = self.get(key)
        if found is None:
            found = self[key] = make()
        return found

    def seen(self: Recent[K, None], key: K) -> bool:
        """Whether this was asked of the key before, as far as that is remembered."""
        if key in self:
            return True
        self[key] = None
        return False
