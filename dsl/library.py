"""Operations on whole arrays that a library provides (sorting, a user's `foreign_array`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import Location, ShapeError


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


def layout_of(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and extents of an array of the host or (without a copy) of a device."""
    about = getattr(value, "__cuda_array_interface__", None)
    if about is not None:
        return np.dtype(about["typestr"]), tuple(about["shape"])
    array = np.asarray(value)
    return array.dtype, array.shape


def parts_of(
    operation: LibraryOperation, result: Any, extents: Iterator[int], where: Location | None
) -> tuple[Any, ...]:
    """The arrays that an implementation returned; a user's have the extents (those of all results,
    in one row) that kernels will take them to have.  Raises ShapeError."""
    parts = result if isinstance(result, tuple) else (result,)
    if is_builtin(operation):
        return parts
    for part in parts:
        _, found = layout_of(part)
        wanted = tuple(max(int(next(extents)), 0) for _ in found)
        if found != wanted:
            raise ShapeError(
                f"{operation.name}: the implementation returned an array of shape {found}; the "
                f"fallback says {wanted}.",
                hint="Return the extents of the fallback, or change it.",
                where=where,
            )
    return parts


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
