"""Operations on whole arrays that a library provides (sorting, a user's `foreign_array`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LibraryOperation:
    """A named operation with static parameters.

    `numpy` maps host arrays to one host array or a tuple of them; `implementations` gives other
    backends' functions by backend name.  Identity is by name and parameters, and for a user's
    functions by the functions themselves.
    """

    name: str
    parameters: tuple[Any, ...]
    numpy: Callable[..., Any] = field(compare=False)
    implementations: tuple[tuple[str, Callable[..., Any]], ...] = ()

    def on(self, backend: str) -> Callable[..., Any]:
        """The implementation for a backend."""
        return dict(self.implementations).get(backend, self.numpy)


_BUILTIN: dict[str, Callable[..., Callable[..., Any]]] = {}


def register(name: str, make: Callable[..., Callable[..., Any]]) -> None:
    """Make an operation of treadle's own known by name: `make(*parameters)` is its function."""
    _BUILTIN[name] = make


def builtin(name: str, parameters: tuple[Any, ...]) -> LibraryOperation:
    """One of treadle's own operations; KeyError when there is none of that name."""
    return LibraryOperation(name, parameters, _BUILTIN[name](*parameters))


def is_builtin(operation: LibraryOperation) -> bool:
    """Whether name and parameters are enough to make the operation again, in any process."""
    return operation.name in _BUILTIN and not operation.implementations
