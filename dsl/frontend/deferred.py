"""Deferred calls: their results are computed where a value is asked for, together with what they
read.

A chain of calls, `td.sqrt(a * 2 + 1)`, has one program, in which everything is fused.  Whatever
reads a deferred array but another such call has the call traced.  Where calls are traced, numbers
that vary are data: the iterations of a loop, `a = a.at[k].set(x) * k`, run the same programs.

In a Python loop, the chain of operations on its state would grow with every iteration.  When the
chain reaches the line of an earlier operation again, or the line where a chain was too long before,
it is cut: one program computes the arrays that are alive and belong to it, so that all iterations
run the same few programs, whether or not their results are looked at.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar, cast
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from .. import late_binding as later, simplify
from ..array import Array
from ..errors import TreadleError, standing_at, user_location
from ..evaluator import evaluator
from ..expr import Needed, Param, Read, extent_needed
from ..graph import Input, Leaf, known
from ..process import locks
from ..process.configuration import refresh_settings, settings, under
from ..process.recent import Recent
from ..scalar import Scalar
from ..types import DEFAULT_OF_KIND, ScalarType, as_type, kind_of_literal
from . import functions, held
from .sources import use
from .tracing import is_tracing, outside

if TYPE_CHECKING:
    pass


R = TypeVar("R")
HostArray: TypeAlias = NDArray[np.generic]
Number: TypeAlias = float | complex | np.generic
#: Which arguments of calls are run-time numbers: floats and NumPy's scalars, or integers too.
Numbers: TypeAlias = Literal["none", "inexact", "all"]

#: The signatures cached per operation.
CALLS = 128
#: The most calls of a chain, each of which reads the one before it, and the most data of it.
MOST_DEEP, MOST_DATA = 32, 24
#: The most places where chains are cut, and the most arrays among which those of a chain are found.
MOST_CUTS, MOST_RECENT = 1024, 1024
#: The most calls of a chain of which parts are computed again.
MOST_AGAIN = 12
#: The calls that differ in their integers only before these are run-time numbers.
MOST_LITERALS = 3
#: The least calls of a chain that is cut.
LEAST_ROUND = 8
_LETTERS = frozenset("?bBhHiIlLqQefdFD")


class _State(threading.local):
    """Whether an operation is being carried out, how often values of data have been read, and the
    arrays returned by the last calls."""

    busy = False
    read = 0
    #: The facts that the operation has looked at, and those of data that stands for other data.
    facts: list[Fact] | None = None
    known: Iterator[Fact] | None = None

    def __init__(self) -> None:
        self.recent: deque[ref[Array]] = deque(maxlen=MOST_RECENT)


thread_state = _State()
making = locks.lock(reentrant=True)


def values_are_read() -> None:
    """Say that an expression depends on values of data, not only on types and shapes."""
    thread_state.read += 1


class Fact(NamedTuple):
    """What a call has looked at: a function of data, which may raise the error of the call, and its
    result."""

    data: HostArray
    of: Callable[[HostArray], object]
    result: object


def fact(array: Array, of: Callable[[HostArray], R]) -> R | None:
    """`of` the elements of an array if they are data on the host, else None.  A cached call serves
    data of which it is the same; it looks at nothing else of it.

    Whoever owns the data may change it before, or between, the runs of what is made of it: what
    memory depends on, each run tests (`needed_by`)."""
    node = array._leaves[0].node
    source = node.source if isinstance(node, Input) else None
    if not isinstance(source, np.ndarray):
        return None
    if thread_state.known is not None:
        return cast("R", next(thread_state.known).result)
    result = of(source)
    if thread_state.facts is not None:
        thread_state.facts.append(Fact(source, of, result))
    return result


def in_range(extent: int, from_end: bool, error: Callable[[int], TreadleError]
             ) -> Callable[[HostArray], bool]:  # fmt: skip
    """The fact that integers are indices of an axis of so many elements (`Needed`); `error` of one
    that is not."""

    def holds(data: HostArray) -> bool:
        if extent_needed(data, from_end) > extent:
            highest = int(data.max())
            raise error(highest if highest >= extent else int(data.min()))
        return True

    return holds


def needed_by(indices: Array, from_end: bool) -> Needed | None:
    """The extent that indices need, as each run finds it, if they are data on the host."""
    node = indices._leaves[0].node
    on_host = isinstance(node, Input) and isinstance(node.source, np.ndarray)
    return Needed(node, from_end) if on_host else None


@contextmanager
def knowing(facts: Iterable[Fact]) -> Iterator[None]:
    """While active, these are the facts, in the order in which they are looked at: of data that
    stands for other data."""
    before, thread_state.known = thread_state.known, iter(facts)
    try:
        yield
    finally:
        thread_state.known = before


@contextmanager
def busy() -> Iterator[list[Fact]]:
    """While active, an operation is being carried out; yields the facts that it looks at."""
    before, outer = thread_state.busy, thread_state.facts
    facts: list[Fact] = []
    thread_state.busy, thread_state.facts = True, facts
    try:
        yield facts
    finally:
        thread_state.busy, thread_state.facts = before, outer


#: The position of the data or the data itself, the function, and the result.
PlacedFact: TypeAlias = "tuple[int | HostArray, Callable[[HostArray], object], object]"


class CallProgram(Protocol):
    """A program that computes the results of a call from its data."""

    def __call__(self, data: Sequence[HostArray], numbers: Sequence[Number]
                 ) -> Sequence[object]: ...  # fmt: skip


class CachedCall:
    """What calls of one signature under the same settings return: `count` arrays, in a `kind` of
    tuple or alone, of these shapes if they are constant.  From the second call on also the program
    that computes them."""

    def __init__(self, function: Callable[..., object], numbers: Numbers, result: object,
                 arrays: Sequence[Array], alone: bool = False) -> None:  # fmt: skip
        self.function, self.numbers, self.settings = function, numbers, settings()
        #: Whether this is one call, which is not cached.
        self.alone = alone
        self.kind, self.count = type(result), len(arrays)
        self.shapes = [known_shape(a) for a in arrays]
        self.types: list[ScalarType] = [a._leaves[0].type for a in arrays]
        self.bytes = [None if s is None else math.prod(s) * a.itemsize
                      for s, a in zip(self.shapes, arrays, strict=True)]  # fmt: skip
        self.program: CallProgram | None = None
        #: What holds of the data.
        self.facts: Sequence[PlacedFact] = ()

    def serves(self, data: Sequence[HostArray]) -> bool:
        """Whether the facts that hold of this data are the same."""
        return all([of(data[at] if isinstance(at, int) else at) == result
                    for at, of, result in self.facts])  # fmt: skip

    def deferred(self, args: Sequence[object], kwargs: Mapping[str, object], read: Reads) -> object:
        call = DeferredCall(self, args, kwargs, read)
        recent = thread_state.recent
        if self.kind is Array:
            result = Array._deferred(Result(call, 0))
            recent.append(ref(result))
            return result
        results = [Array._deferred(Result(call, k)) for k in range(self.count)]
        recent.extend(map(ref, results))
        return self.kind(results) if self.kind is tuple else self.kind(*results)

    def trace(self, args: Sequence[object], kwargs: Mapping[str, object],
              change: Callable[[object], object]) -> list[Array]:  # fmt: skip
        """The arrays that the operation returns for changed arguments, wherever it is traced."""
        changed = [_changed(a, change) for a in args]
        named = {k: _changed(a, change) for k, a in kwargs.items()}
        with under(self.settings):
            found = arrays_of(self.function(*changed, **named))
        if found is None or len(found) != self.count:
            raise AssertionError(f"{self.function!r} returned another kind of result")
        return found


class Result(NamedTuple):
    """A result of a deferred call: what arrays are, and what other calls read."""

    call: DeferredCall
    number: int


class DeferredCall:
    """A call that need not have been traced, with its data and that of the calls that it reads."""

    __slots__ = ("_places", "args", "cached", "computed", "data", "depth", "kwargs", "numbers",
                 "results", "sources", "values", "views", "where")  # fmt: skip

    def __init__(self, cached: CachedCall, args: Sequence[object], kwargs: Mapping[str, object],
                 read: Reads) -> None:  # fmt: skip
        self.cached = cached
        self.args = [_read_by_calls(a) for a in args]
        self.kwargs = {k: _read_by_calls(a) for k, a in kwargs.items()} if kwargs else kwargs
        #: The data, and views of it: their shapes are those of now.
        self.sources: Sequence[HostArray] = read.sources
        self.data: Sequence[HostArray] = read.data
        self.views: Iterable[Hashable] = read.views
        self.numbers: Sequence[Number] = read.numbers
        self.depth = read.depth + 1
        self.where = user_location()
        #: The components of its results, once it has been traced.
        self.results: list[tuple[Leaf, ...]] | None = None
        self.values: Sequence[object] | None = None
        #: Whether an evaluation has computed the results on its way.
        self.computed = False
        self._places: frozenset[Hashable] | None = None

    def places(self) -> frozenset[Hashable]:
        """Where this call and those that it reads are in the user's code (as deep as a chain)."""
        if self._places is None:
            inside = [call.places() for call in self.calls()]
            self._places = frozenset([self.where and self.where.place()]).union(*inside)
        return self._places

    def calls(self) -> Iterator[DeferredCall]:
        """The calls that this one reads, and that have no values yet."""
        return _calls_in((*self.args, *self.kwargs.values()))

    def keep(self, values: Sequence[object]) -> None:
        """Keep the values, and release what the call has read."""
        self.values = values
        self.args, self.kwargs, self._places, self.results = [], {}, frozenset(), None
        self.sources = self.data = self.views = self.numbers = ()


def defer(cached: CachedCall, arrays: Sequence[Array], args: Sequence[object],
          kwargs: Mapping[str, object], read: Reads) -> None:  # fmt: skip
    """Let arrays be the results of a call that has been traced."""
    call = DeferredCall(cached, args, kwargs, read)
    call.results = [a._leaves for a in arrays]
    for k, a in enumerate(arrays):
        a._pending = Result(call, k)
        thread_state.recent.append(ref(a))


class Reads:
    """What a call reads: the data, without its repetitions, and the run-time numbers."""

    __slots__ = ("data", "depth", "literals", "numbers", "sources", "types", "views")

    def __init__(self) -> None:
        self.sources: list[HostArray] = []
        self.data: list[HostArray] = []
        #: Where the data is, in the order of its positions.
        self.views: dict[Hashable, int] = {}
        self.numbers: list[Number] = []
        #: The types of the arrays, and whether there are integers that could have been numbers.
        self.types: list[ScalarType | np.dtype[np.generic]] = []
        self.literals = False
        self.depth = 0

    def position(self, source: HostArray, view: HostArray) -> int:
        """The position of data, which is added if it is new."""
        return self._position(_view_key(source, view), source, view)

    def _position(self, key: Hashable, source: HostArray, view: HostArray) -> int:
        k = self.views.setdefault(key, len(self.data))
        if k == len(self.data):
            self.sources.append(source)
            self.data.append(view)
        return k

    def number(self, value: Number) -> int:
        """The position of a number; equal ones of one type are one (zeros have signs)."""
        for k, other in enumerate(self.numbers):
            if other is value or (other == value != 0 and type(other) is type(value)):
                return k
        self.numbers.append(value)
        return len(self.numbers) - 1

    def fit(self) -> bool:
        """Whether the integers fit the types that they meet: others are errors, or compare."""
        return integers_fit(self.numbers, [self.types])

    def of_call(self, call: DeferredCall, k: int) -> Hashable | None:
        """The signature of a result of a deferred call."""
        self.types.append(call.cached.types[k])
        self.depth = max(self.depth, call.depth)
        if call.cached.alone:
            return None
        data = map(self._position, call.views, call.sources, call.data)
        return (call.cached, k, *data, *map(self.number, call.numbers))


def integers_fit(numbers: Sequence[Number], types: Sequence[object]) -> bool:
    """Whether Python's integers fit the types, of arrays, that they meet."""
    found = [as_type(t) for some in types if isinstance(some, list | tuple) for t in some]
    met = [t for t in found if t.is_integer]
    return all(t.lowest <= n <= t.highest for n in numbers if type(n) is int for t in met)


class Literals:
    """The integers, or other numbers, that calls of the same signature otherwise have had."""

    def __init__(self) -> None:
        self.seen = Recent[Hashable, set[Hashable]](CALLS)

    def vary(self, family: Hashable, literals: Hashable) -> bool:
        """Whether these follow `MOST_LITERALS` others."""
        seen = self.seen.pop(family, set())
        self.seen[family] = seen
        if len(seen) < MOST_LITERALS:
            seen.add(literals)
        return literals not in seen


def find_program(cached: CachedCall, args: Sequence[object], kwargs: Mapping[str, object],
                 read: Reads) -> bool:  # fmt: skip
    """Find the program of a cached call; false if there can be none."""
    others = [np.empty(d.shape, d.dtype) for d in read.data]
    numbers = [Scalar(_nth_number(k, *_type_of(v))) for k, v in enumerate(read.numbers)]
    before = thread_state.read
    try:
        with busy() as facts:
            found = _Substituted(read, read.data, numbers).call(cached, args, kwargs, read)
        with busy(), knowing(facts):
            other = _Substituted(read, others, numbers).call(cached, args, kwargs, read)
    except (TreadleError, StopIteration):  # (of facts, for which other data cannot stand)
        return False
    except _ComputedMeanwhileError:
        return True
    if thread_state.read != before:
        return False
    cached.program = evaluator().call_program(
        [a._leaves[0] for a in found], read.data, [a._leaves[0] for a in other], others,
        [_nth_number(k, *_type_of(v)) for k, v in enumerate(read.numbers)],
    )  # fmt: skip
    return cached.program is not None


#: The numbers of deferred calls that are traced.
_traced = Literals()


def data_number(number: Number) -> Scalar:
    """A number as data, which is weak if the number is: expressions that differ only in it are
    one, and have one program."""
    type_, weak = _type_of(number)
    data = Input("number", type_, (), "number", np.array(number, type_.numpy), user_location())
    return Scalar(simplify.cast(Read(data, 0, ()), type_, weak))


@lru_cache(maxsize=1024)
def _nth_number(number: int, type_: ScalarType, weak: bool) -> Param:
    """The same for all signatures: equal expressions are one graph."""
    return Param(f"number {number}", type_, weak=weak)


def _type_of(number: Number) -> tuple[ScalarType, bool]:
    """The type, and whether it is weak."""
    if isinstance(number, np.generic):
        return as_type(number.dtype), False
    return DEFAULT_OF_KIND[kind_of_literal(number) or "float"], True


class _ComputedMeanwhileError(Exception):
    """A deferred call has read an array that has become a value since."""


class _Substituted:
    """Calls over other `data`, and over `numbers`, in place of what `read` has."""

    def __init__(self, read: Reads, data: Sequence[HostArray], numbers: Sequence[Scalar]) -> None:
        self.read, self.data, self.numbers = read, data, numbers
        self.results: dict[int, list[Array]] = {}

    def call(self, cached: CachedCall, args: Sequence[object], kwargs: Mapping[str, object],
             read: Reads | DeferredCall) -> list[Array]:  # fmt: skip
        def other(a: object) -> object:
            if is_number(a, cached.numbers):
                return self.numbers[self.read.number(a)] if self.numbers else a
            result = _result(a)
            if result is not None and result.call.values is None:
                call, k = result
                if id(call) not in self.results:
                    with standing_at(call.where):
                        made = self.call(call.cached, call.args, call.kwargs, call)
                    self.results[id(call)] = made
                return self.results[id(call)][k]
            source = data_of(a)
            if source is None:
                return a
            data = self.data[self.read.position(source, _view_in(read, source))]
            return use(data)

        return cached.trace(args, kwargs, other)


def _view_key(source: HostArray, view: HostArray) -> Hashable:
    """Equal for views of the same elements of an array that is alive."""
    owner = source.base
    kind = view.shape, view.strides, view.dtype.num
    if owner is None:
        return id(source), kind
    if type(owner) is np.ndarray and owner.base is None and owner.shape == source.shape:
        if owner.strides == source.strides:  # all of it: finding an address takes microseconds
            return id(owner), kind
    return id(owner), kind, source.ctypes.data


def _same_memory(a: HostArray, b: HostArray) -> bool:
    """Whether arrays begin at the same place: an array and its view, which `td.use` makes."""
    same = (a if a.base is None else a.base) is (b if b.base is None else b.base)
    return same and bool(a.ctypes.data == b.ctypes.data)


def _view_in(read: Reads | DeferredCall, source: HostArray) -> HostArray:
    """The view of data that a call has."""
    found = [
        (s, v) for s, v in zip(read.sources, read.data, strict=True)
        if s is source or _same_memory(s, source)
    ]  # fmt: skip
    if not found:
        raise _ComputedMeanwhileError
    same = [
        v for s, v in found
        if s is source
        or (s.shape, s.strides, s.dtype) == (source.shape, source.strides, source.dtype)
    ]  # fmt: skip
    return next(iter(same), next((v for _, v in found if v.shape == source.shape), found[0][1]))


def placed(facts: Iterable[Fact], read: Reads, args: Iterable[object]) -> list[PlacedFact] | None:
    """Facts by the positions of their data in what a call reads, or of arrays in the key of its
    arguments; None if one is of other data."""
    found: list[PlacedFact] = []
    for data, of, result in facts:
        at = [k for k, s in enumerate(read.sources) if _is_whole_of(data, s)]
        if at:
            found.append((at[0], of, result))
            continue
        functions_ = [a for a in args if type(a) is FunctionType or isinstance(a, functions.Fixed)]
        if not any(_is_whole_of(data, s) for a in functions_ for s in functions.arrays_in(a)):
            return None
        found.append((data, of, result))
    return found


def _is_whole_of(data: HostArray, source: HostArray) -> bool:
    return data is source or (_same_memory(data, source) and data.shape == source.shape)


def _changed(value: object, change: Callable[[object], object]) -> object:
    """An argument with `change` applied, also to what its lists and tuples consist of but numbers,
    which are literals there."""
    if type(value) is list or type(value) is tuple:
        return type(value)([x if is_number(x, "all") else _changed(x, change) for x in value])
    return change(value)


def arrays_of(result: object) -> list[Array] | None:
    """The arrays of scalars that a call returned; None if it returned anything else."""
    if type(result) is Array:
        parts = [result]
    elif isinstance(result, tuple) and all(type(a) is Array for a in result):
        parts = list(result)
    else:
        return None
    return parts if parts and all(a.structure.is_leaf for a in parts) else None


def data_of(array: object) -> HostArray | None:
    """The data of an array of NumPy's, or of treadle's if it has data: of a type that needs no
    conversion."""
    if type(array) is Array:
        if array._pending is not None:
            array = array._pending
        else:
            array = (
                getattr(array._leaves[0].node, "source", None) if array.structure.is_leaf else None
            )
    if type(array) is Result:
        array = None if array.call.values is None else array.call.values[array.number]
    if type(array) is np.ndarray and array.dtype.char in _LETTERS and array.dtype.isnative:
        return array
    return None


def is_number(value: object, numbers: Numbers) -> TypeGuard[Number]:
    """Whether an argument is a run-time number of calls that take such `numbers`."""
    if numbers == "none":
        return False
    if type(value) is int:
        return numbers == "all" and -(1 << 63) <= value < 1 << 63
    return type(value) in (float, complex) or (
        isinstance(value, np.generic) and value.dtype.char in _LETTERS
    )


def is_small(call: DeferredCall) -> bool:
    """Whether the results of a call may be kept where nobody has asked for them."""
    most = max(held.MOST_KEPT, sum(d.nbytes for d in call.data))
    return all(n is not None and n <= most for n in call.cached.bytes)


def value(array: Array) -> object:
    """The value of a deferred array, which it keeps; None if it is another one, or settings have
    changed since."""
    pending = array._pending
    if pending is None:
        return None
    call, k = pending
    values = call.values
    if values is None:
        with making:
            values = call_values(call) if call.values is None else call.values
            if values is None:
                return None
            call.keep(values)
    if array._is_made():
        array._become(use(values[k])._leaves)
    return values[k]


def fresh(array: Array) -> object:
    """The same for `td.run`, which keeps nothing."""
    pending = array._pending
    if pending is None or pending[0].values is not None:
        return None
    found = call_values(pending[0])
    return None if found is None else found[pending[1]]


def handles(*arrays: Array) -> tuple[Array, ...]:
    return tuple([Array(a._leaves) for a in arrays])


def call_values(call: DeferredCall) -> Sequence[object] | None:
    refresh_settings()
    program = call.cached.program
    if program is None or call.cached.settings is not settings():
        return None
    if call.depth > 1 and _note_computed(call) and call.depth > MOST_AGAIN:
        return None  # what is computed on the way is kept by an ordinary evaluation (held.py)
    try:
        return program(call.data, call.numbers)
    except TreadleError:
        return None  # the operation itself knows the line


def _read_by_calls(a: object) -> object:
    """An argument as a call keeps it: arrays of the user's that are results, as these; lists as
    they are now."""
    if type(a) is Array and a._pending is not None:
        return a._pending
    if type(a) is list or type(a) is tuple:
        return type(a)([_read_by_calls(x) for x in a])
    if type(a) is FunctionType and functions.key_of(a) is not None:
        return functions.frozen(a)
    return a


def _result(a: object) -> Result | None:
    """The result of a call that an argument is."""
    if type(a) is Array:
        return a._pending
    return a if type(a) is Result else None


def _calls_in(args: Sequence[object]) -> Iterator[DeferredCall]:
    """The calls without values whose results are among arguments."""
    for a in args:
        for x in a if type(a) is list or type(a) is tuple else (a,):
            result = _result(x)
            if result is not None and result.call.values is None:
                yield result.call


def _note_computed(call: DeferredCall) -> bool:
    """Note in the calls that a call reads that they have been computed; whether some had been.
    Those of arrays that are read again are computed once more, and kept."""
    again = False
    for read in call.calls():
        if read.computed:
            again = True
        else:
            read.computed = True
            again |= _note_computed(read)
    return again


#: The places where chains are cut.
_cuts = Recent[Hashable, None](MOST_CUTS)
#: What has been computed there together, by its signature.
_parts = Recent[Hashable, CachedCall](CALLS)


def cut_chain(args: Sequence[object], depth: int) -> bool:
    """Compute the calls that the arguments read if a loop has come round, or where chains are cut
    because they were too long before.  Whether any have been computed."""
    where = user_location()
    place = where and where.place()
    calls = list(dict.fromkeys(_calls_in(args)))
    state = [call for call in calls if place in call.places()]
    if not state and (depth >= MOST_DEEP - 1 or place in _cuts):
        state = [call for call in calls if call.depth >= LEAST_ROUND and is_small(call)]
        if state and place not in _cuts:
            _cuts[place] = None
    if not state:
        return False
    for together in (_belonging(state), state):  # an error of another array is not that of these
        with making, suppress(TreadleError):  # raised where the array is looked at
            _compute([call for call in together if call.values is None])
            return True
    return False


def _belonging(state: Sequence[DeferredCall]) -> list[DeferredCall]:
    """The calls, and those of arrays that are alive and whose chains share calls with theirs."""
    alive = [a for r in thread_state.recent if (a := r()) is not None]
    others = dict.fromkeys(_calls_in(alive))
    chains = {call: _chain(call) for call in (*state, *others)}
    inside = set[DeferredCall]().union(*[chains[call] for call in state])
    while more := [call for call in others if not inside.isdisjoint(chains[call])]:
        for call in more:
            del others[call]
            inside |= chains[call]
    found = dict.fromkeys(state)
    room: float = max(held.MOST_KEPT, sum(d.nbytes for call in state for d in call.data))
    for call in chains:
        size = sum(math.inf if n is None else n for n in call.cached.bytes)
        if call not in others and call not in found and size <= room:
            found[call] = None
            room -= size
    thread_state.recent.clear()
    thread_state.recent.extend(ref(a) for a in alive if a._pending and a._pending.call in others)
    return list(found)


def _chain(call: DeferredCall) -> set[DeferredCall]:
    """A call and those that it needs."""
    found, left = {call}, [call]
    while left:
        new = [c for c in left.pop().calls() if c not in found]
        found.update(new)
        left += new
    return found


def _compute(calls: Sequence[DeferredCall]) -> None:
    """Compute calls by one program, which serves all those of the same signature."""
    refresh_settings()
    results = [Result(call, k) for call in calls for k in range(call.cached.count)]
    read = Reads()
    key = tuple([read.of_call(*r) for r in results])
    values: Sequence[object] | None = None
    if None not in key and not settings().check:
        cached = _parts.get(key)
        if cached is None or cached.program is None or cached.settings is not settings():
            arrays = tuple(map(Array._deferred, results))
            cached = CachedCall(handles, "none", arrays, arrays)
            find_program(cached, arrays, {}, read)
            _parts[key] = cached
        if cached.program is not None:
            values = cached.program(read.data, read.numbers)
    if values is None:
        nodes = [Array(Array._deferred(r)._leaves) for r in results]
        if all(map(later.computed.is_closed, nodes)):
            values = evaluator().values([a._leaves[0] for a in nodes])
    left = iter(values or ())
    for call in calls if values else ():
        call.keep([next(left) for _ in range(call.cached.count)])


def known_shape(array: Array) -> tuple[int, ...] | None:
    found = [known(e) for e in array._shape]
    return None if None in found else tuple(int(n) for n in found if n is not None)


def shape(array: Array) -> tuple[int, ...] | None:
    """The shape of a deferred array, if it is the same for all data."""
    pending = array._pending
    if pending is None or thread_state.busy or is_tracing():  # (an operation sees extents)
        return None
    return pending[0].cached.shapes[pending[1]]


def make(array: Array) -> None:
    """Give a deferred array its nodes: of its value, or by tracing the call."""
    with making:
        pending = array._pending
        if pending is None:
            return
        call, k = pending
        if call.values is not None:
            array._become(use(call.values[k])._leaves)
        else:
            if call.results is None:
                call.results = _results(call)
            array._become(call.results[k], pending)


def forget(array: Array) -> None:
    """Let an array consist of its nodes only, and not hold what its call has read."""
    if array._pending is not None:
        make(array)
        array._pending = None


def _results(call: DeferredCall) -> list[tuple[Leaf, ...]]:
    """The components of what the operation returns.  (A view is given instead of an array whose
    shape was set.)"""

    own = tuple([a for a in call.args if is_number(a, call.cached.numbers)])
    vary = own and (call.cached.numbers == "all" or _traced.vary(call.cached, own))

    def given(a: object) -> object:
        if vary and is_number(a, call.cached.numbers):
            return data_number(a)
        if type(a) is Result:
            a = Array._deferred(a)
        data = data_of(a)
        if data is None or not any(data is s or _same_memory(data, s) for s in call.sources):
            return a
        view = _view_in(call, data)
        if (data.shape, data.dtype, data.strides) == (view.shape, view.dtype, view.strides):
            return a
        return use(view) if type(a) is Array else view

    with busy(), outside(), standing_at(call.where):
        return [a._leaves for a in call.cached.trace(call.args, call.kwargs, given)]


later.offer(deferred=sys.modules[__name__])
