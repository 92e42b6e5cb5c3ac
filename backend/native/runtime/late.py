"""Numbers that the operations of a recording compute: extents, task counts and scalars that depend
on a loop counter, or on what a loop's body has computed.

A `Late` number is a register.  `Numbers.evaluate` takes a host function: what is known while
recording is computed at once, and the rest becomes instructions, which `replay.c` runs at this
point of the recording.  A `Late` number has no value in Python: asking for it raises
`Unrecordable`, so code whose control flow would depend on it ends the recording.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Never

import numpy as np

from treadle.dsl.types import ALL_TYPES, ScalarType, bool_, int32, int64

from ...runtime.host import HostFunction
from ...runtime.run import Unrecordable
from ...runtime.types import DType, HostArray
from .structures import InstructionKind as Kind

_TYPES = {t.name: t for t in ALL_TYPES}
_KINDS = {
    "add": Kind.ADD, "subtract": Kind.SUBTRACT, "multiply": Kind.MULTIPLY,
    "minimum": Kind.MINIMUM, "maximum": Kind.MAXIMUM, "negative": Kind.NEGATIVE,
    "absolute": Kind.ABSOLUTE, "floor_divide": Kind.FLOOR_DIVIDE, "remainder": Kind.REMAINDER,
    "select": Kind.SELECT, "logical_and": Kind.BITWISE_AND, "logical_or": Kind.BITWISE_OR,
    "logical_xor": Kind.BITWISE_XOR, "bitwise_and": Kind.BITWISE_AND,
    "bitwise_or": Kind.BITWISE_OR, "bitwise_xor": Kind.BITWISE_XOR, "invert": Kind.INVERT,
    "cast": Kind.CAST, "less": Kind.LESS, "less_equal": Kind.LESS_EQUAL, "equal": Kind.EQUAL,
    "not_equal": Kind.NOT_EQUAL,
}  # fmt: skip
_OF_INTEGERS: Mapping[Kind, Callable[[int, int], int]] = {
    Kind.ADD: operator.add, Kind.MULTIPLY: operator.mul,
    Kind.MINIMUM: min, Kind.MAXIMUM: max,
}  # fmt: skip
_SWAPPED = {"greater": Kind.LESS, "greater_equal": Kind.LESS_EQUAL}


class Late:
    """The number in a register."""

    __slots__ = ("register",)

    def __init__(self, register: int) -> None:
        self.register = register

    def _unknown(self, *_: object) -> Never:
        raise Unrecordable("a number that operations compute decides what runs next")

    __int__ = __index__ = __float__ = __bool__ = _unknown
    __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = _unknown


#: A number, known while recording or computed later.
Extent = int | Late


class Growing(HostArray):
    """An array whose extents are computed by operations.  Its memory belongs to the recording and
    grows geometrically; the data that Python sees is meaningless."""

    extents: tuple[Extent, ...]

    @staticmethod
    def of(extents: tuple[Extent, ...], dtype: DType) -> Growing:
        made = np.empty(0, dtype).view(Growing)
        made.extents = extents
        return made

    @property  # type: ignore[misc]
    def shape(self) -> Any:
        return self.extents

    @property
    def ndim(self) -> int:
        return len(self.extents)

    @property
    def nbytes(self) -> Any:
        raise Unrecordable("extents depend on data")

    size = nbytes


class Instruction(NamedTuple):
    """An instruction of replay.c.  Numbers are register numbers or addresses of arrays."""

    kind: Kind
    to: int | HostArray
    a: int | HostArray = 0
    b: int = 0
    c: int = 0
    type: ScalarType = int64
    exact: bool = False


class Numbers:
    """The registers of a recording, and the instructions that compute them."""

    def __init__(self) -> None:
        self.first: list[int] = []  # the first value of each register
        self._constants: dict[int, int] = {}

    @property
    def known(self) -> dict[int, int]:
        """The numbers in the registers that no instruction changes."""
        return {register: value for value, register in self._constants.items()}

    def register(self, value: Any) -> int:
        """The register of a number."""
        if isinstance(value, Late):
            return value.register
        number = int(value)
        if number not in self._constants:
            if not -(1 << 63) <= number < 1 << 63:
                raise Unrecordable("a number of more than 63 bits")
            self._constants[number] = self._new(number)
        return self._constants[number]

    def _new(self, value: int = 0) -> int:
        self.first.append(value)
        return len(self.first) - 1

    def apply(self, code: list[Instruction], kind: Kind, *args: Any, type: ScalarType = int64,
              exact: bool = False) -> Late:  # fmt: skip
        """Append an instruction over numbers."""
        to = self._new()
        a, b, c = ([self.register(x) for x in args] + [0, 0])[:3]
        code.append(Instruction(kind, to, a, b, c, type, exact))
        return Late(to)

    def load(self, code: list[Instruction], array: HostArray, index: Extent, type: ScalarType
             ) -> Late:  # fmt: skip
        """An element of a dense array, by its number."""
        to = self._new()
        code.append(Instruction(Kind.LOAD, to, array, self.register(index), type=type))
        return Late(to)

    def size(self, code: list[Instruction], array: Growing) -> Late:
        """The size of an array in bytes."""
        to = self._new()
        code.append(Instruction(Kind.SIZE, to, array))
        return Late(to)

    def evaluate(self, code: list[Instruction], host: HostFunction, slots: Sequence[Any],
                 params: Sequence[Any]) -> list[Any]:  # fmt: skip
        """The results of a host function: numbers and `Late` numbers."""
        late = _late(host, slots)
        wanted = {r for r in host.results if not late[r]}
        for at, entry in enumerate(host.entries):
            if late[at]:
                wanted.update(k for k in _arguments(entry) if not late[k])
        known = _known(host, sorted(wanted), slots, params)
        return _Recorder(self, code, host.entries, slots, known).results(host.results, late)


def _arguments(entry: Sequence[Any]) -> list[int]:
    """The entries that an entry reads."""
    match list(entry):
        case ["apply" | "bound", _, _, args] | ["read", _, _, args]:
            return list(args)
        case ["cond", predicate, then, other]:
            return [predicate, *then, *other]
        case ["proj" | "reciprocal", of, *_]:
            return [of]
    return []


def is_late(host: HostFunction, slots: Sequence[Any]) -> bool:
    """Whether some results are not known while recording."""
    late = any(_late(host, slots))
    return late and any(_late(host, slots)[r] for r in host.results)


def _late(host: HostFunction, slots: Sequence[Any]) -> list[bool]:
    """Which entries are computed later."""
    late: list[bool] = []
    for entry in host.entries:
        kind, *fields = entry
        here = kind == "read" or (
            kind in ("extent", "stride") and isinstance(slots[fields[0]], Growing)
        )
        late.append(here or any(late[k] for k in _arguments(entry)))
    return late


def _known(host: HostFunction, wanted: Sequence[int], slots: Sequence[Any], params: Sequence[Any]
           ) -> Mapping[int, Any]:  # fmt: skip
    """The values of the entries that do not depend on late numbers."""
    needed: set[int] = set()
    stack = list(wanted)
    while stack:
        at = stack.pop()
        if at not in needed:
            needed.add(at)
            stack += _arguments(host.entries[at])
    order = sorted(needed)
    position = {at: k for k, at in enumerate(order)}
    entries = [_moved(host.entries[at], position) for at in order]
    function = HostFunction(entries, [position[at] for at in wanted]).function()
    return dict(zip(wanted, function(slots, params), strict=True))


def _moved(entry: Sequence[Any], position: Mapping[int, int]) -> list[Any]:
    match list(entry):
        case ["apply" | "bound" as kind, op, type_, args]:
            return [kind, op, type_, [position[a] for a in args]]
        case ["cond", predicate, then, other]:
            sides = ([position[a] for a in side] for side in (then, other))
            return ["cond", position[predicate], *sides]
        case ["proj" | "reciprocal" as kind, of, *rest]:
            return [kind, position[of], *rest]
    return list(entry)


class _Recorder:
    """The late entries of one host function as instructions."""

    def __init__(self, numbers: Numbers, code: list[Instruction], entries: Sequence[Sequence[Any]],
                 slots: Sequence[Any], known: Mapping[int, Any]) -> None:  # fmt: skip
        self.numbers, self.code, self.entries, self.slots = numbers, code, entries, slots
        self.values: dict[int, Any] = dict(known)

    def results(self, wanted: Sequence[int], late: Sequence[bool]) -> list[Any]:
        needed: set[int] = set()
        stack = list(wanted)
        while stack:
            at = stack.pop()
            if late[at] and at not in needed:
                needed.add(at)
                stack += _arguments(self.entries[at])
        for at in sorted(needed):
            kind, *fields = self.entries[at]
            self.values[at] = getattr(self, f"_{kind}", self._refuse)(*fields)
        return [self.values[r] for r in wanted]

    def _refuse(self, *fields: Any) -> Never:
        raise Unrecordable("a number of another kind depends on data")

    def _typed(self, name: str) -> ScalarType:
        t = _TYPES[name]
        if not (t == bool_ or t.is_integer) or (t.bits == 64 and not t.signed):
            self._refuse()
        return t

    def _extent(self, slot: int, axis: int) -> Any:
        return self.slots[slot].extents[axis]

    def _read(self, slot: int, type_: str, at: Sequence[int]) -> Late:
        array = self.slots[slot]
        if at and (isinstance(array, Growing) or not (array.size and array.flags.c_contiguous)):
            self._refuse()
        number: Extent = 0
        for index, extent in zip([self.values[k] for k in at], array.shape, strict=True):
            inside = self._integer(Kind.MAXIMUM, 0, index)  # (see `_element` in host.py)
            inside = self._integer(Kind.MINIMUM, inside, extent - 1)
            before = self._integer(Kind.MULTIPLY, number, extent)
            number = self._integer(Kind.ADD, before, inside)
        return self.numbers.load(self.code, array, number, self._typed(type_))

    def _integer(self, kind: Kind, a: Extent, b: Extent) -> Extent:
        if isinstance(a, Late) or isinstance(b, Late):
            return self.numbers.apply(self.code, kind, a, b)
        return _OF_INTEGERS[kind](int(a), int(b))

    def _apply(self, op: str, type_: str, arguments: Sequence[int], exact: bool = False) -> Any:
        t = self._typed(type_)
        args = [self.values[a] for a in arguments]
        if op == "also":  # the other one is tested by kernels only
            return args[0]
        if any(isinstance(a, float | np.inexact) for a in args):
            self._refuse()
        if op == "logical_not":
            return self.numbers.apply(self.code, Kind.EQUAL, args[0], 0, type=t)
        if op == "cast" and t == bool_:
            return self.numbers.apply(self.code, Kind.NOT_EQUAL, args[0], 0, type=t)
        if op in _SWAPPED:
            return self.numbers.apply(self.code, _SWAPPED[op], *reversed(args), type=t)
        if op not in _KINDS:
            self._refuse()
        return self.numbers.apply(self.code, _KINDS[op], *args, type=t, exact=exact)

    def _bound(self, op: str, type_: str, arguments: Sequence[int]) -> Any:
        return self._apply(op, type_, arguments, exact=True)

    def _reciprocal(self, divisor: int, part: str) -> Late:
        kind = Kind.MULTIPLIER if part == "multiplier" else Kind.SHIFT
        return self.numbers.apply(self.code, kind, self.values[divisor], type=int32)

    def _cond(self, predicate: int, then: Sequence[int], other: Sequence[int]) -> tuple[Any, ...]:
        return self.values[predicate], then, other

    def _proj(self, of: int, which: int, type_: str) -> Late:
        predicate, then, other = self.values[of]
        sides = [self.values[side[which]] for side in (then, other)]
        if any(isinstance(a, float | np.inexact) for a in sides):
            self._refuse()
        kind, t = Kind.SELECT, self._typed(type_)
        return self.numbers.apply(self.code, kind, predicate, *sides, type=t)
