"""Cached calls: a program for each operation and argument signature, outside of compiled functions.

Tracing a call such as `td.std(x)` of data makes a dozen of nodes, and its evaluation looks up the
program of an equal expression, which takes much longer than running it on a few thousand elements.
The second time that an operation is called with small arrays of the same types and shapes (and the
same other arguments) its program is cached, if the expression is the same for other data.  Later
calls are deferred: they trace nothing, and their results compute themselves like other arrays.  If
a value is needed, the cached program computes it; if another operation reads the array, the call is
traced after all, so that everything is fused.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import late_binding as later
from ..array import Array
from ..errors import TreadleError, standing_at, user_location
from ..evaluator import evaluator
from ..process import locks
from ..process.configuration import Settings, settings
from ..types import ScalarType
from .sources import use
from .tracing import is_tracing, outside

HostArray: TypeAlias = NDArray[np.generic]

#: The most bytes of the data of such a call: with more the time for tracing does not matter.
MOST_BYTES = 4 << 20
#: The signatures cached per operation.
CALLS = 64
#: Classes of arguments that are part of the call.
_FIXED = frozenset((int, bool, str, type(None), np.dtype, type, ScalarType))
_LETTERS = frozenset("?bBhHiIlLqQefdFD")


class _State(threading.local):
    """Whether an operation is being carried out, and how often values of data have been read."""

    busy = False
    read = 0


_state = _State()
_making = locks.lock(reentrant=True)


def values_are_read() -> None:
    """Say that an expression depends on values of data, not only on types and shapes."""
    _state.read += 1


@contextmanager
def _busy() -> Iterator[None]:
    before = _state.busy
    _state.busy = True
    try:
        yield
    finally:
        _state.busy = before


class CallProgram(Protocol):
    """A program that computes the results of a call from its data."""

    settings: Settings

    def __call__(self, data: Sequence[HostArray]) -> Sequence[object]: ...


class DeferredCall:
    """A call that has not been traced."""

    __slots__ = ("args", "cached", "data", "kwargs", "results", "values", "where")

    def __init__(self, cached: CachedCall, args: Sequence[object], kwargs: Mapping[str, object],
                 data: Sequence[HostArray]) -> None:  # fmt: skip
        self.cached, self.args, self.kwargs = cached, args, kwargs
        #: Views: their shapes are those of now.
        self.data: Sequence[HostArray] = [d.view() for d in data]
        self.where = user_location()
        self.results: list[Array] | None = None
        self.values: Sequence[object] | None = None


class CachedCall:
    """The program of an argument signature, and the `kind` of what `function` returns."""

    def __init__(self, function: Callable[..., object], kind: type, count: int, program: CallProgram
                 ) -> None:  # fmt: skip
        self.function, self.kind, self.count, self.program = function, kind, count, program

    def call(self, args: Sequence[object], kwargs: Mapping[str, object],
             data: Sequence[HostArray]) -> object:  # fmt: skip
        made = DeferredCall(self, args, kwargs, data)
        results = [Array._deferred(made, k) for k in range(self.count)]
        if self.kind is Array:
            return results[0]
        return self.kind(results) if self.kind is tuple else self.kind(*results)


class CallCache:
    """The cached calls of an operation, by argument signature."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.known: dict[Hashable, CachedCall | bool] = {}

    def __call__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """`function(*args, **kwargs)`, or deferred arrays."""
        compute = self.function
        if _state.busy or is_tracing():
            return compute(*args, **kwargs)
        data: list[HostArray] = []
        key = _signature(args, kwargs, data)
        if key is None:
            return compute(*args, **kwargs)
        known = self.known.get(key)
        now = settings()
        if isinstance(known, CachedCall) and known.program.settings is now:
            return known.call(args, kwargs, data)
        with _busy():
            before = _state.read
            result = compute(*args, **kwargs)
            if known is None:  # for the first time
                if len(self.known) >= CALLS:
                    self.known.pop(next(iter(self.known)), None)
                self.known[key] = True
            elif known and not now.check:
                again = None if _state.read != before else self._again(args, kwargs, data)
                self.known[key] = self._cached(result, again, data) or False
        return result

    def _again(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        data: Sequence[HostArray],
    ) -> tuple[object, list[HostArray]] | None:
        """The result for other data, and the data; None if there is none."""
        others = {id(d): np.zeros(d.shape, d.dtype) for d in data}
        try:
            result = self.function(*_replaced(args, others), **_replaced_keywords(kwargs, others))
        except TreadleError:
            return None
        return result, [others[id(d)] for d in data]

    def _cached(self, result: object, again: tuple[object, list[HostArray]] | None,
                data: Sequence[HostArray]) -> CachedCall | None:  # fmt: skip
        if again is None:
            return None
        found, other = _arrays(result), _arrays(again[0])
        if found is None or other is None or len(found) != len(other):
            return None
        program = evaluator().call_program(
            [a._leaves[0] for a in found], data, [a._leaves[0] for a in other], again[1]
        )
        if program is None:
            return None
        return CachedCall(self.function, type(result), len(found), program)


def _arrays(result: object) -> list[Array] | None:
    """The arrays of scalars that a call returned; None if it returned anything else."""
    if type(result) is Array:
        parts = [result]
    elif isinstance(result, tuple) and all(type(a) is Array for a in result):
        parts = list(result)
    else:
        return None
    return parts if parts and all(a.structure.is_leaf for a in parts) else None


def _data_of(array: object) -> HostArray | None:
    """The data of an array of NumPy's, or of treadle's if it has data: small, and of a type that
    needs no conversion."""
    if type(array) is Array:
        pending = array._pending
        if pending is not None:
            array = None if pending[0].values is None else pending[0].values[pending[1]]
        else:
            array = (
                getattr(array._leaves[0].node, "source", None) if array.structure.is_leaf else None
            )
    if type(array) is np.ndarray and array.dtype.char in _LETTERS and array.dtype.isnative:
        return array
    return None


def _signature(args: Sequence[object], kwargs: Mapping[str, object], data: list[HostArray]
         ) -> Hashable | None:  # fmt: skip
    """The types, shapes and other arguments of a call, whose data is put into the list; None if
    such a call is not cached."""
    parts: list[Hashable] = []
    left = MOST_BYTES
    for a in (*args, *kwargs.values()):
        kind = type(a)
        if kind in _FIXED:
            parts.append((kind, a))
        elif type(a) is float:
            parts.append(a.hex())
        elif type(a) is tuple:
            if not all(type(x) in _FIXED for x in a):
                return None
            parts.append((kind, a, tuple(map(type, a))))
        else:
            found = _data_of(a)
            if found is None:
                return None
            left -= found.nbytes
            for k, other in enumerate(data):
                if other is found:
                    parts.append(k)
                    break
            else:
                data.append(found)
                parts.append((kind, found.dtype, found.shape))
    if not data or left < 0:
        return None
    return (len(args), *kwargs, *parts)


def _replaced(args: Sequence[object], others: Mapping[int, HostArray]) -> list[object]:
    found = ((a, _data_of(a)) for a in args)
    return [a if d is None else use(others[id(d)]) if type(a) is Array else others[id(d)]
            for a, d in found]  # fmt: skip


def _replaced_keywords(
    kwargs: Mapping[str, object], others: Mapping[int, HostArray]
) -> dict[str, object]:
    return dict(zip(kwargs, _replaced(list(kwargs.values()), others), strict=True))


def value(array: Array) -> object:
    """The value of a deferred array, which it keeps; None if it is another one, or settings have
    changed since."""
    pending = array._pending
    if pending is None:
        return None
    call, k = pending
    if call.values is None:
        with _making:
            if call.values is None:
                call.values = _values(call)
                if call.values is None:
                    return None
                call.args, call.kwargs, call.data = (), {}, ()
    return call.values[k]


def fresh(array: Array) -> object:
    """The same for `td.run`, which keeps nothing."""
    pending = array._pending
    if pending is None or pending[0].values is not None:
        return None
    found = _values(pending[0])
    return None if found is None else found[pending[1]]


def _values(call: DeferredCall) -> Sequence[object] | None:
    if call.results is not None or call.cached.program.settings is not settings():
        return None
    try:
        return call.cached.program(call.data)
    except TreadleError:
        return None  # the operation itself knows the line


def make(array: Array) -> None:
    """Give a deferred array its nodes: of its value, or by tracing the call."""
    with _making:
        pending = array._pending
        if pending is None:
            return
        call, k = pending
        if call.values is not None:
            leaves = use(call.values[k])._leaves
        else:
            if call.results is None:
                call.results = _results(call)
            leaves = call.results[k]._leaves
        array._become(leaves)


def _results(call: DeferredCall) -> list[Array]:
    """What the operation returns.  (A view is given instead of an array whose shape was set.)"""
    kept = iter(call.data)
    others: dict[int, HostArray] = {}
    for a in (*call.args, *call.kwargs.values()):
        data = _data_of(a)
        if data is not None and id(data) not in others:
            view = next(kept)
            same = (data.shape, data.dtype, data.strides) == (view.shape, view.dtype, view.strides)
            others[id(data)] = data if same else view
    args, keywords = _replaced(call.args, others), _replaced_keywords(call.kwargs, others)
    with _busy(), outside(), standing_at(call.where):
        found = _arrays(call.cached.function(*args, **keywords))
    if found is None:
        raise AssertionError(f"{call.cached.function!r} returned another kind of result")
    return found


later.offer(call_cache=sys.modules[__name__])
