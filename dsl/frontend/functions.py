"""What a user's function computes, as a key: functions with the same key compute the same.

`td.stencil(lambda w: w[-1] + w[1], a)` makes another function object in every call, with the same
code.  A function whose result may depend on more than its code and immutable values has no key:
if it refers to lists or objects, changes a variable outside of it, or calls something that is not
known to be pure, its operation is traced in each call.  The arrays of treadle's that it refers to
are data like arguments, as no function sees their elements; of NumPy's arrays the elements are part
of the key, unless these are many.
"""

from __future__ import annotations

import builtins
import dis
import math
import operator
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..array import Array
from ..evaluator import evaluator, public
from ..types import ScalarType

#: Functions in functions, and entries of a tuple, at most.
MOST_NESTED, MOST_ENTRIES = 4, 16

#: The bytes of an array that is part of a key, at most.
MOST_BYTES = 1 << 18

#: (Many are names of attributes, too: td.map.)
_PURE_BUILTINS = frozenset((
    "abs", "all", "any", "bin", "bool", "callable", "chr", "complex", "dict", "divmod", "enumerate",
    "filter", "float", "format", "frozenset", "getattr", "hasattr", "int", "isinstance",
    "issubclass", "iter", "len", "list", "map", "max", "min", "next", "ord", "pow", "range", "repr",
    "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
))  # fmt: skip
#: Attributes of the modules below that depend on more than their arguments, or change something.
_IMPURE = frozenset((
    "Generator", "RandomState", "config", "default_rng", "errstate", "foreign", "foreign_array",
    "fromfile", "genfromtxt", "geterr", "load", "loadtxt", "memmap", "open_memmap", "random",
    "seed", "seterr", "setdefault",
))  # fmt: skip
_CHANGING = frozenset(
    dis.opmap[name]
    for name in ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")
)
_CLOSURE = frozenset(dis.opmap[name] for name in ("STORE_DEREF", "DELETE_DEREF"))
_IMMUTABLE = frozenset((int, bool, str, bytes, type(None), np.dtype, ScalarType, type(...)))
_CLASSES = frozenset((int, bool, float, complex, tuple, list, str))


class Fixed:
    """A hashable argument of a cached call that is part of its signature."""


class FixedArray(Fixed):
    """A small array of NumPy's with the elements that it had: equal ones have the same."""

    def __init__(self, array: NDArray[np.generic]) -> None:
        self.array = array.copy("K")  # np.ravel may take elements in the order of memory
        self.array.flags.writeable = False
        digest = blake2b(self.array.tobytes()).digest()
        self._key = array.dtype.str, array.shape, self.array.strides, digest

    @classmethod
    def of(cls, array: NDArray[np.generic]) -> FixedArray | None:
        """None for a large array, one of objects, and one of a subclass, as a matrix."""
        known = type(array) is np.ndarray and array.dtype.kind in "biufc"
        return cls(array) if known and array.nbytes <= MOST_BYTES else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FixedArray) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


#: The key of an array of treadle's; None if it is no data.
Key: TypeAlias = Callable[[Array], "Hashable | None"]


def key_of(function: FunctionType, of_array: Key = id, nested: int = 0) -> Hashable | None:
    """The key, None if there is none."""
    if public(function.__name__) is function:
        return "treadle's", function.__name__
    names = _names(function.__code__)
    if names is None or nested > MOST_NESTED or function.__dict__:
        return None
    used: list[Hashable] = []
    for name, value in _reached(function, names):
        part = _part(name, value, of_array, nested)
        if part is None:
            return None
        used.append(part)
    return function.__code__, *used


def _reached(function: FunctionType, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """What the function refers to, and its defaults; values of cells that are empty are unknown."""
    outside, own = function.__globals__, vars(builtins)
    for name in names:
        if name in outside:
            yield name, outside[name]
        elif name in own:  # perhaps an attribute of this name
            yield name, own[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            yield name, cell
    yield "", function.__defaults__
    yield "", tuple((function.__kwdefaults__ or {}).items())


def _part(name: str, value: Any, of_array: Key, nested: int) -> Hashable | None:
    """The key of a value that a function refers to by this name."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return name, kind, value
    if kind is float:
        return name, kind, value.hex()
    if kind is complex:
        return name, kind, value.real.hex(), value.imag.hex()
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return name, kind, value.tobytes()
    if kind is np.ndarray:
        elements = FixedArray.of(value)
        return None if elements is None else (name, elements)
    if kind is Array:
        data = of_array(value)
        return None if data is None else (name, Array, data)
    if kind is tuple and len(value) <= MOST_ENTRIES:
        deep = nested > MOST_NESTED
        parts = [None if deep else _part("", x, of_array, nested + 1) for x in value]
        return None if None in parts else (name, tuple, *parts)
    if kind is FunctionType:
        found = key_of(value, of_array, nested + 1)
        return None if found is None else (name, found)
    if isinstance(value, ModuleType):
        return (name, value) if value in (np, math, operator, evaluator().module) else None
    if getattr(builtins, name, None) is value:
        return (name,) if name in _PURE_BUILTINS else None
    if kind is type and (value in _CLASSES or issubclass(value, np.generic)):
        return name, value
    pure = value is getattr(math, name, None) or value is getattr(operator, name, None)
    # (np.frompyfunc makes functions of objects, whose code is Python.)
    compiled = kind is np.ufunc and not value.signature and len(value.types) > 1
    return (name, value) if pure or compiled else None


@lru_cache(maxsize=1024)
def _names(code: CodeType) -> tuple[str, ...] | None:
    """The names of globals and attributes in the code of a function and of those in it; None if
    the code changes what is outside of it."""
    operations = frozenset(code.co_code[::2])
    if not operations.isdisjoint(_CHANGING) or not _IMPURE.isdisjoint(code.co_names):
        return None
    if code.co_freevars and not operations.isdisjoint(_CLOSURE):
        return None
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _names(constant)
            if inner is None:
                return None
            found.update(dict.fromkeys(inner))
    return tuple(found)


def arrays_in(value: object) -> Iterator[NDArray[np.generic]]:
    """The arrays of NumPy's in the key of an argument: those that a function refers to."""
    if isinstance(value, FixedArray):
        yield value.array
    elif type(value) is np.ndarray:
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from arrays_in(part)
    elif type(value) is FunctionType and public(value.__name__) is not value:
        for _, part in _reached(value, _names(value.__code__) or ()):
            if part is not value:
                yield from arrays_in(part)


def frozen(function: FunctionType) -> FunctionType:
    """A function with a key that computes the same when what it refers to is bound anew."""
    return _frozen(function, {})


def _frozen(function: FunctionType, made: dict[int, FunctionType]) -> FunctionType:
    """`made`: the copies of functions, which may refer to each other."""
    known: object = public(function.__name__)
    if known is function:
        return function  # an operation of treadle stays as it is
    if id(function) in made:
        return made[id(function)]
    outside = function.__globals__
    own = {n: v for n, v in outside.items() if n.startswith("__") and n.endswith("__")}
    closure = tuple(CellType() for _ in function.__closure__ or ())
    copy = FunctionType(function.__code__, own, function.__name__, None,
                        closure if function.__closure__ else None)  # fmt: skip
    copy.__qualname__ = function.__qualname__
    made[id(function)] = copy

    def value(x: object) -> object:
        if type(x) is FunctionType:
            return _frozen(x, made)
        if type(x) is np.ndarray:
            return x.copy("K")
        return tuple(map(value, x)) if type(x) is tuple else x

    copy.__defaults__ = tuple(map(value, function.__defaults__ or ())) or None
    copy.__kwdefaults__ = {k: value(x) for k, x in (function.__kwdefaults__ or {}).items()} or None
    for name in _names(function.__code__) or ():
        if name in outside:
            own[name] = value(outside[name])
    for cell, old in zip(closure, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is not bound yet
            cell.cell_contents = value(old.cell_contents)
    return copy
