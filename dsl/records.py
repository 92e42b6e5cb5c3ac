"""Data classes that are frozen for type checkers alone.

Python takes a third of the time to make such a class (0.13 instead of 0.4 ms), of which a first
call imports dozens, and a fifth to make an instance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type[T] | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True
    ) -> type[T] | Callable[[type[T]], type[T]]:
        """`dataclasses.dataclass`; a class that inherits a `__repr__` keeps it."""

        def made(cls: type[T]) -> type[T]:
            plain = repr and cls.__repr__ is object.__repr__
            return dataclasses.dataclass(cls, eq=eq, unsafe_hash=eq and frozen, repr=plain)

        return made if cls is None else made(cls)
