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
