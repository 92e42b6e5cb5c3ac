"""What a user's function computes, as a key: functions with the same key compute the same.

`td.stencil(lambda w: w[-1] + w[1], a)` makes another function object in every call, with the same
code.  A function whose result may depend on more than its code and immutable values has no key:
if it refers to arrays, lists or objects, changes a variable outside of it, or calls something that
is not known to be pure, its operation is traced in each call.
"""

from __future__ import annotations

import builtins
import dis
import math
import operator
from collections.abc import Hashable, Iterator
from contextlib import suppress
from functools import lru_cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..evaluator import evaluator, public
from ..types import ScalarType

#: Functions in functions, and entries of a tuple, at most.
MOST_NESTED, MOST_ENTRIES = 4, 16

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


def key_of(function: FunctionType, nested: int = 0) -> Hashable | None:
    """The key, None if there is none."""
    if public(function.__name__) is function:
        return "treadle's", function.__name__
    names = _names(function.__code__)
    if names is None or nested > MOST_NESTED or function.__dict__:
        return None
    used: list[Hashable] = []
    for name, value in _reached(function, names):
        part = _part(name, value, nested)
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


def _part(name: str, value: Any, nested: int) -> Hashable | None:
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
    if kind is tuple and len(value) <= MOST_ENTRIES:
        parts = [_part("", x, nested + 1) for x in value] if nested <= MOST_NESTED else [None]
        return None if None in parts else (name, kind, *parts)
    if kind is FunctionType:
        found = key_of(value, nested + 1)
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
    copy = FunctionType(function.__code__, own, function.__name__, function.__defaults__,
                        closure if function.__closure__ else None)  # fmt: skip
    copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
    made[id(function)] = copy

    def value(x: object) -> object:
        if type(x) is FunctionType:
            return _frozen(x, made)
        return tuple(map(value, x)) if type(x) is tuple else x

    for name in _names(function.__code__) or ():
        if name in outside:
            own[name] = value(outside[name])
    for cell, old in zip(closure, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is not bound yet
            cell.cell_contents = value(old.cell_contents)
    return copy
