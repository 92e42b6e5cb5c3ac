"""Operations on whole arrays by a library: sorting, a user's `foreign_array`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..errors import Location, ShapeError


@dataclass(frozen=True)
class LibraryOperation:
    """A named operation with static parameters.

    `numpy` maps host arrays to one host array or a tuple of them; `implementations` contains
    functions for other backends by name.  Operations are equal if name and parameters are, for user
    functions also the functions.  `sized`: the functions also take `shape`, that of their result.
    """

    name: str
    parameters: tuple[Any, ...]
    numpy: Callable[..., Any] = field(compare=False)
    implementations: tuple[tuple[str, Callable[..., Any]], ...] = ()
    sized: bool = field(default=False, compare=False)

    def on(self, backend: str) -> Callable[..., Any]:
        """The implementation for a backend."""
        return dict(self.implementations).get(backend, self.numpy)

    def options(self, shape: Sequence[int]) -> dict[str, Any]:
        """What a function takes in addition to arrays, for a (first) result of this shape."""
        return {"shape": tuple(max(int(n), 0) for n in shape)} if self.sized else {}


def layout_of(value: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and extents of a host array or, without a copy, of a device array."""
    about = getattr(value, "__cuda_array_interface__", None)
    if about is not None:
        return np.dtype(about["typestr"]), tuple(about["shape"])
    array = np.asarray(value)
    return array.dtype, array.shape


def parts_of(
    operation: LibraryOperation, result: Any, extents: Iterator[int], where: Location | None
) -> tuple[Any, ...]:
    """The arrays returned by an implementation.  ShapeError if those of a user function do not have
    the extents (of all results, concatenated) that kernels assume."""
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


#: Functions of any array module: the module (NumPy, CuPy), static parameters, and arrays; they
#: return a tuple of arrays.
Portable = Callable[..., tuple[Any, ...]]
#: The built-in operations that are functions of any array module.
PORTABLE: dict[str, Portable] = {}
_BUILTIN: dict[str, Callable[..., Callable[..., Any]]] = {}
_SIZED: set[str] = set()


#: The axes of the (first) array along which an operation combines elements, by its parameters and
#: the rank of the array; what has another index along its other axes is computed by itself.
Along = Callable[[tuple[Any, ...], int], tuple[int, ...]]
_ALONG: dict[str, Along] = {}


def register(
    name: str, make: Callable[..., Callable[..., Any]], along: Along | None = None
) -> None:
    """Register a built-in operation: `make(*parameters)` returns its function."""
    _BUILTIN[name] = make
    if along is not None:
        _ALONG[name] = along


def register_portable(
    name: str, function: Portable, sized: bool = False, along: Along | None = None
) -> None:
    """Register a built-in operation that is a function of any array module."""
    PORTABLE[name] = function
    if sized:
        _SIZED.add(name)
    register(name, lambda *parameters: partial(function, np, parameters), along)


def combined_axes(operation: LibraryOperation, rank: int) -> tuple[int, ...] | None:
    """See `Along`; None for an operation of whole arrays."""
    along = _ALONG.get(operation.name)
    return None if along is None else along(operation.parameters, rank)


def builtin(name: str, parameters: tuple[Any, ...]) -> LibraryOperation:
    """A built-in operation; KeyError if there is none of that name."""
    function = _BUILTIN[name](*parameters)
    return LibraryOperation(name, parameters, function, sized=name in _SIZED)


def is_builtin(operation: LibraryOperation) -> bool:
    """Whether name and parameters suffice to recreate the operation in any process."""
    return operation.name in _BUILTIN and not operation.implementations
