"""Cached calls: a program for each operation and argument signature, outside of compiled functions.

Tracing a call such as `td.std(x)` of data makes a dozen nodes, and its evaluation looks up the
program of an equal expression, which takes much longer than running it on a few thousand elements.
The second time that an operation is called with arrays of the same types and shapes (and the same
other arguments; functions by their code, and what they refer to) its program is cached, if the
expression is the same for other data.  Later calls are deferred: they trace nothing, and their
results compute themselves like other arrays.

The signature of an argument that such a call returned is that call and its data, so a chain of
calls has one program (`deferred.py`).  Operators take floats, and NumPy's scalars, as run-time
numbers; integers, too, once a few calls differed only in them, as well as the positions of `a[k]`,
`a[k : k + n]` and `a.at[k]`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import EllipsisType, FunctionType
from typing import TYPE_CHECKING, Literal, cast
from weakref import WeakSet

import numpy as np

from .. import late_binding as later
from ..array import Array
from ..errors import user_location
from ..graph import Input, topological
from ..node import Node
from ..process.configuration import settings
from ..process.recent import Recent
from ..scalar import Scalar
from ..types import ScalarType
from . import functions
from .deferred import (
    CALLS,
    LEAST_ROUND,
    MOST_DATA,
    MOST_DEEP,
    CachedCall,
    HostArray,
    Literals,
    Numbers,
    Reads,
    arrays_of,
    busy,
    call_values,
    cut_chain,
    data_number,
    data_of,
    defer,
    find_program,
    handles,
    integers_fit,
    is_number,
    is_small,
    known_shape,
    making,
    placed,
    shape,
    thread_state,
    value,
)
from .operators import Operators
from .sources import IN_PARTS, computed, is_lazy
from .tracing import is_tracing

if TYPE_CHECKING:
    from ..annotations import Indexing
    from ..operations.indexing.index_space import WindowAxes


#: The most entries of a list or a tuple.
MOST_ENTRIES = 64
#: Classes of arguments that are part of the signature.
_FIXED = frozenset((int, bool, str, type(None), np.dtype, type, ScalarType, EllipsisType))
_INDICES = frozenset((int, slice, type(None), EllipsisType))
_ARRAYS = frozenset((Array, np.ndarray))


class CallCache:
    """The cached calls of an operation, by argument signature.

    Arguments that are `numbers` are run-time numbers, as those of compiled functions: its results
    have the same bits as with literals.
    """

    def __init__(self, function: Callable[..., object], numbers: Numbers = "none") -> None:
        self.function, self.numbers = function, numbers
        self.literals = Literals()
        #: By settings and signature; False if calls of a signature are not cached.
        self.known = Recent[Hashable, CachedCall | Literal[False]](CALLS)

    def __call__(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """`function(*args, **kwargs)`, or deferred arrays."""
        compute = self.function
        if thread_state.busy or is_tracing():
            return compute(*args, **kwargs)
        read = Reads()
        key = _signature(args, kwargs, read, self.numbers)
        if read.depth >= LEAST_ROUND and cut_chain((*args, *kwargs.values()), read.depth):
            read = Reads()
            key = _signature(args, kwargs, read, self.numbers)
        if key is None:
            return self._alone(compute(*self._with_data(args), **kwargs), args, kwargs, read)
        now = settings()
        cached, numbers = self.known.get((now, key)), self.numbers
        if cached is None and read.literals:
            varying = Reads()
            family = _signature(args, kwargs, varying, "all")
            if varying.fit() and self.literals.vary(family, key):
                key, read, numbers = family, varying, "all"
                cached = self.known.get((now, key))
        if isinstance(cached, CachedCall) and cached.program is not None:
            if cached.serves(read.data):
                return cached.deferred(args, kwargs, read)
            cached = False
        args = tuple([_kept(a) for a in args])
        kwargs = {k: _kept(a) for k, a in kwargs.items()}
        with busy() as facts:
            before = thread_state.read
            result = compute(*(_data_for(args) if numbers == "all" else args), **kwargs)
            if now.check:
                return result
            if cached is False:
                return self._alone(result, args, kwargs, read)
            if thread_state.read != before:
                found = None
            elif cached is None:  # for the first time
                found = self._first(numbers, result, args, kwargs)
            else:
                found = self._second(cached, key, args, kwargs)
            if found is not None and facts:
                known = placed(facts, read, (*args, *kwargs.values()))
                found.facts = known or ()
                found = found if known else None
            self.known[now, key] = found or False
        if found:
            defer(found, arrays_of(result) or (), args, kwargs, read)
        return result

    def _alone(self, result: object, args: Sequence[object], kwargs: Mapping[str, object],
               read: Reads) -> object:  # fmt: skip
        """The result of a call that is not cached, but part of a chain: if its data is in one
        piece, and no symbol of a derivative is in it or in a function that it takes."""
        if read.depth >= MOST_DEEP or not all(map(_has_value, (*args, *kwargs.values()))):
            return result
        arrays = arrays_of(result)
        if (arrays and _is_new(arrays, args, kwargs) and all(map(reads_whole, arrays))
                and all(map(later.computed.is_closed, arrays))):  # fmt: skip
            cached = CachedCall(self.function, self.numbers, result, arrays, alone=True)
            defer(cached, arrays, args, kwargs, read)
        return result

    def _with_data(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments of a call that is not cached, with data in place of numbers that vary from
        call to call at a line."""
        numbers = tuple([a for a in args if is_number(a, "all")])
        if self.numbers == "none" or not numbers:
            return args
        if self.numbers != "all":
            where = user_location()
            types = tuple([a.types if type(a) is Array else type(a) for a in args])
            family = where and where.place(), types
            if not self.literals.vary(family, numbers) or not integers_fit(numbers, types):
                return args
        return _data_for(args)

    def _first(self, numbers: Numbers, result: object, args: Sequence[object],
               kwargs: Mapping[str, object]) -> CachedCall | None:  # fmt: skip
        arrays = arrays_of(result)
        if arrays is None or not _is_new(arrays, args, kwargs):
            return None
        return CachedCall(self.function, numbers, result, arrays)

    def _second(self, cached: CachedCall, key: Hashable, args: Sequence[object],
                kwargs: Mapping[str, object]) -> CachedCall | None:  # fmt: skip
        """The cached call with its program, if the expression is the same for other data.

        It is traced with arrays of treadle's for all data: an operation cannot look at their
        values without saying so."""
        with making:
            read = Reads()
            if _signature(args, kwargs, read, cached.numbers) != key:
                return cached  # an argument has been computed in the meantime
            return cached if find_program(cached, args, kwargs, read) else None


def _kept(a: object) -> object:
    """An argument; a function with the arrays of NumPy's as they are now."""
    return functions.frozen(a) if type(a) is FunctionType else a


def _is_new(arrays: Sequence[Array], args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether the arrays that a call returned are expressions of its own."""
    given = {id(a) for a in (*args, *kwargs.values())}
    return not any(
        a._pending is not None or isinstance(a._leaves[0].node, Input) or id(a) in given
        for a in arrays
    )


def _has_value(a: object) -> bool:
    """Whether all arrays in an argument are data or results of calls, and so no symbols."""
    if type(a) is list or type(a) is tuple:
        return all(map(_has_value, a))
    if type(a) is not Array or a._pending is not None:
        return True
    return all([getattr(leaf.node, "source", None) is not None for leaf in a._leaves])


@lru_cache(maxsize=256)
def of_operator(name: str, swapped: bool | None) -> CallCache:
    """The cached calls of an operator of arrays: of two operands, swapped or not; of one (None)."""

    def binary(array: Array, other: object) -> object:
        return Operators._binary(array, name, other, bool(swapped))

    def unary(array: Array) -> object:
        return Operators._unary(array, name)

    return CallCache(unary if swapped is None else binary, "none" if name == "power" else "inexact")


def of_slices(array: Array, index: Indexing) -> object:
    """`array[index]`: a cached call if the index is made of Python's numbers and of arrays; of
    data, a view if that is a small part in one piece."""
    parts = index if type(index) is tuple else (index,)
    if not all(type(x) in _INDICES for x in parts):
        known = all(type(x) in _INDICES or type(x) in _ARRAYS for x in parts)
        return _slices((array, index), {}) if known else later.slice_array(array, index)
    if not (thread_state.busy or is_tracing()):
        view = _small_part(data_of(array), parts)
        if view is not None:
            return computed([view])
        extents = extents_of(array)
        window = None if extents is None else later.window_of(extents, parts)
        if window is not None and _positions.vary((extents, window.axes), window.starts):
            return _windows((array, window.axes, *window.starts), {})
    return _slices((array, index), {})


def _small_part(data: HostArray | None, index: tuple[object, ...]) -> HostArray | None:
    """`data[index]` if that is in one piece, and less than half: the first axes at a position, and
    perhaps a part of the next.  Several larger parts (`a[1:] - a[:-1]`) are read as one array."""
    if data is None or not data.flags.c_contiguous or len(index) > data.ndim:
        return None
    if any(type(x) is not int for x in index[:-1]):
        return None
    last = index[-1] if index else None
    if type(last) is slice:
        bounds = last.start, last.stop, last.step
        if not all(b is None or type(b) is int for b in bounds) or last.step not in (None, 1):
            return None
    elif type(last) is not int:
        return None
    at = cast("tuple[int | slice, ...]", index)
    try:
        view = data[(*at, ...)]
    except (IndexError, OverflowError):  # the operation says what is wrong
        return None
    return view if 2 * view.size < data.size else None


def slices(array: Array, indices: Iterable[Indexing]) -> tuple[Array, ...]:
    """`array[index]` for each index, as calls of their own also within an operation: slices of the
    same extents run one program."""
    before, thread_state.busy = thread_state.busy, False
    try:
        return tuple(array[index] for index in indices)
    finally:
        thread_state.busy = before


def _slice(array: Array, index: Indexing) -> Array:
    return later.slice_array(array, index)


def _read_window(array: Array, axes: WindowAxes, *starts: int | Scalar) -> Array:
    return later.read_window(array, axes, starts)


def extents_of(array: Array) -> tuple[int, ...] | None:
    """The extents if they are known, without tracing a deferred call."""
    return shape(array) if array._pending is not None else known_shape(array)


def type_of(array: Array) -> ScalarType | None:
    """The type of an array of scalars, without tracing a deferred call."""
    if array._pending is not None:
        call, k = array._pending
        return call.cached.types[k]
    return array._leaves[0].type if array.structure.is_leaf else None


#: Nodes for which `reads_whole` holds.
_whole: WeakSet[Node] = WeakSet()


def reads_whole(array: Array) -> bool:
    """Whether what an array consists of is in one piece: of the blocks of others only those are
    read that positions known in advance need."""
    nodes = [leaf.node for leaf in array._leaves]
    with making:
        for node in topological(array._leaves, known=_whole):
            if isinstance(node, Input) and not _is_whole(node.source):
                return False
        if len(_whole) > CALLS:
            _whole.clear()
        _whole.update(nodes)
    return True


def _is_whole(source: object) -> bool:
    return not (is_lazy(source) or type(source) in IN_PARTS)


_slices = CallCache(_slice)
#: Slices of the same extents at positions that vary, and the positions of other slices.
_windows = CallCache(_read_window, "all")
_positions = Literals()


def _data_for(args: Sequence[object]) -> tuple[object, ...]:
    """The arguments with data in place of numbers, if what they read is in one piece."""
    whole = all([reads_whole(a) if type(a) is Array else _is_whole(a) for a in args])
    return tuple([data_number(a) if whole and is_number(a, "all") else a for a in args])


def _signature(args: Sequence[object], kwargs: Mapping[str, object], read: Reads, numbers: Numbers
               ) -> Hashable | None:  # fmt: skip
    """The types, shapes and other arguments of a call, without what it reads; None if such a call
    is not cached."""
    parts = [_part(a, read, numbers) for a in (*args, *kwargs.values())]
    few = len(read.data) <= MOST_DATA and read.depth < MOST_DEEP
    return (len(args), *kwargs, *parts) if few and None not in parts else None


def _part(a: object, read: Reads, numbers: Numbers) -> Hashable | None:
    """The signature of one argument."""
    kind = type(a)
    if kind is int and numbers != "none":
        if is_number(a, numbers):
            return kind, "number", read.number(a)
        read.literals = True
    if kind in _FIXED:
        return kind, a
    if type(a) is Array and a._pending is not None:
        call, k = a._pending
        if call.values is None and not (call.computed and is_small(call)
                                        and value(a) is not None):  # fmt: skip
            return read.of_call(call, k)
    if (source := data_of(a)) is not None:
        count = len(read.data)
        position = read.position(source, source.view())
        read.types.append(source.dtype)
        return (kind, position) if position < count else (kind, source.dtype, source.shape)
    if is_number(a, numbers):
        return kind, read.number(a)
    if type(a) is float:
        return kind, a.hex()
    if isinstance(a, FunctionType):
        function = functions.key_of(a, lambda array: _captured(array, read))
        return None if function is None else (kind, function)
    if type(a) is slice:
        bounds = a.start, a.stop, a.step
        return (kind, *bounds) if all(type(b) in (int, type(None)) for b in bounds) else None
    if (type(a) is tuple or type(a) is list) and len(a) <= MOST_ENTRIES:
        parts = [_part(x, read, "none") for x in a]
        return None if None in parts else (kind, *parts)
    return (kind, a) if isinstance(a, functions.Fixed) else None


def _captured(array: Array, read: Reads) -> Hashable | None:
    """The signature of an array that a function refers to, which is data or the result of a call
    that has been computed."""
    if array._pending is not None and array._pending.call.values is None:
        return None
    return None if data_of(array) is None else _part(array, read, "none")


def fresh_together(arrays: Sequence[object]) -> Sequence[object] | None:
    """The values of several deferred arrays, by one program, for `td.run`; None if none has one."""
    for a in arrays:
        if not (type(a) is Array and a._pending and a._pending[0].values is None):
            return None
    made = arrays_of(_together(tuple(arrays), {})) if arrays else None
    pending = made[0]._pending if made else None
    return None if pending is None else call_values(pending[0])


_together = CallCache(handles)


later.offer(call_cache=sys.modules[__name__])
