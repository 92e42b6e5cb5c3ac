"""Reductions: 64 interleaved partial results, in blocks, combined in a fixed tree.

Element k of a block is added to partial k mod 64, whatever the body and the vector length, so the
bits of a result depend on the elements only.  Each block of 8 192 elements has its own partials,
which are added to the global partials at its end: the error of a float sum then grows with
n / 8 192 instead of n / 64.  At the end, partials p and p + 32, then p + 16, … are combined; the
initial value of the accumulator comes last, as the left operand.

A body that is one `If` on an interval of the counter (the interior of a stencil) is emitted twice:
only its inner branch for the groups of 64 elements inside the interval, and the complete body, a
vector at a time, for the elements before and after.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle.dsl.analysis.polynomial import Polynomial
from treadle.dsl.expr import Apply, Expr, Var, primitive, walk
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType, int64
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.ranges import varying_variables

from . import prefetch
from .analysis import is_light, modified, nodes
from .lanes import Lanes, slice_lanes
from .text import FENCE, Reg, is_number, vector
from .values import LANE, Value, parts, register_element
from .vector import store_test

if TYPE_CHECKING:
    from .emitter import Copy, Emitter

PARTIALS = 64
BLOCK = 128 * PARTIALS
#: The prefetch distance of a reduction of one array, in bytes.  It saves 9 % of the time of a sum
#: from the last-level cache, because a block ends before the hardware prefetcher detects the stride
#: again.  Reductions that also store do not prefetch: they would take a third longer.
_AHEAD = 2048
#: A body of more operations is emitted once per vector instead of once per 64 elements.
_HEAVY = 60
#: A body of at most this many operations is emitted separately for every vector of a rest of fewer
#: than 64 elements, with and without a mask, which halves the time for rows of 100.  (Not if the
#: range is known to be long: the rest would then be most of the code.)
_LIGHT = 16

#: Where a vector of partials is stored: a pointer for each part.
Slot = tuple[Reg, ...]


def identity(name: str, t: ScalarType) -> Any:
    """The neutral element of a primitive; None if none is defined here."""
    match name:
        case "add":
            return -0.0 if t.is_float else complex(-0.0, -0.0) if t.is_complex else 0
        case "multiply":
            return 1
        case "minimum" | "maximum" if not t.is_complex:
            return t.highest if name == "minimum" else t.lowest
        case "fmin" | "fmax" if not t.is_complex:
            if t.is_float:
                return math.nan
            return t.highest if name == "fmin" else t.lowest
        case "logical_and":
            return True
        case "logical_or" | "logical_xor":
            return False
        case "bitwise_and":
            return True if t.family == "bool" else -1 if t.signed else t.highest
        case "bitwise_or" | "bitwise_xor":
            return 0
    return None


def _primitives(s: ir.Reduce) -> list[str] | None:
    """The known primitive of each component, or None."""
    found = []
    for k, e in enumerate(s.combine.results):
        left, right = s.combine.left[k], s.combine.right[k]
        if not isinstance(e, Apply) or set(e.args) != {left, right} or e.type != left.type:
            return None
        if identity(e.op.name, e.type) is None:
            return None
        found.append(e.op.name)
    return found


def reduce(em: Emitter, s: ir.Reduce, copy: Copy) -> None:
    """Emit a reduction: vectors outside vector loops, one lane per reduction inside them."""
    names = _primitives(s)
    if em.lanes or em.single or names is None:
        em.statement(ir.as_loop(s), [copy])
        return
    _Reduction(em, s, copy, names).emit()


@dataclass(frozen=True)
class _Interior:
    """The iterations low … high − 1 of a reduction, where its body is that of `inner`."""

    low: Expr
    high: Expr
    inner: ir.Reduce


def _interior(s: ir.Reduce) -> _Interior | None:
    """The interior, if the body begins with a test of its counter: `if low <= k and k < high`."""
    at = next((n for n, x in enumerate(s.body) if not isinstance(x, ir.Declare)), len(s.body))
    match s.body[at : at + 1]:
        case (
            ir.If(
                Apply(
                    args=(Apply(args=(low, k)) as least, Apply(args=(also, high)) as most)
                ) as both
            ) as test,
        ) if k is also is s.var:
            names = both.op.name, least.op.name, most.op.name
            fixed = not any(x is s.var for x in walk((low, high)))
            if names == ("logical_and", "less_equal", "less") and fixed:
                body = (*s.body[:at], *test.then, *s.body[at + 1 :])
                return _Interior(low, high, replace(s, body=body))
    return None


class _Reduction:
    """One reduction.  The partials of a block are in registers while whole groups are reduced, and
    in memory, addressed by the counter, while single vectors are reduced."""

    def __init__(self, em: Emitter, s: ir.Reduce, copy: Copy, names: list[str]) -> None:
        self.em, self.s, self.copy, self.names = em, s, copy, names
        self.interior = _interior(s)
        self.lanes = 16 if em.target.vector_bytes == 64 else 8
        self.count = PARTIALS // self.lanes
        self.types = [a.type for a in s.accumulators]
        self.inner = [self._slots(t) for t in self.types]
        self.outer, self.in_memory = [self._arrays() for _ in range(2)]
        self.start = em.value(s.start, copy)
        #: How many elements there are, if that is known, and they are fewer than the partials; the
        #: other partials are left out where they would change nothing.
        self.few: int | None = None
        body = list(ir.statements(s.body))
        found = walk([e for b in body for e in ir.expressions(b)] + list(s.values))
        self.stores = any(isinstance(b, ir.Store) for b in body)
        single = sum(isinstance(e, ir.Load) for e in found) == 1
        self.ahead = _AHEAD if single and not self.stores else 0
        self.varying = em.varying | varying_variables(s.body, {s.var})

    def _vector(self, t: ScalarType) -> str:
        return vector(register_element(t), self.lanes)

    def _slots(self, t: ScalarType) -> list[Slot]:
        type_ = self._vector(t)
        return [
            tuple(self.em.code.allocate(type_) for _ in range(parts(t))) for _ in range(self.count)
        ]

    def _arrays(self) -> list[Slot]:
        """Arrays of all vectors of partials, one for each part of each component."""
        return [
            tuple(self.em.code.allocate(self._vector(t), count=self.count) for _ in range(parts(t)))
            for t in self.types
        ]

    def _slot(self, k: int, arrays: Sequence[Slot], at: Reg) -> Slot:
        """A vector of partials of component `k` in memory."""
        type_ = self._vector(self.types[k])
        return tuple(
            self.em.code.emit(f"getelementptr {type_}, ptr {a}, i64 {at}") for a in arrays[k]
        )

    def _get(self, t: ScalarType, slot: Slot) -> tuple[Reg, ...]:
        return tuple(self.em.code.emit(f"load {self._vector(t)}, ptr {p}") for p in slot)

    def _set(self, t: ScalarType, slot: Slot, regs: tuple[Reg, ...]) -> None:
        for p, r in zip(slot, regs, strict=True):
            self.em.code.do(f"store {self._vector(t)} {r}, ptr {p}")

    def _clear(self) -> None:
        for name, t, column in zip(self.names, self.types, self.inner, strict=True):
            regs = self.em.regs(self.em.constant(t, t.numpy.type(identity(name, t))), self.lanes)
            for slot in column:
                self._set(t, slot, regs)

    def _to(self, arrays: Sequence[Slot]) -> None:
        """Store the partials of the block to memory."""
        for k, t in enumerate(self.types):
            for n, slot in enumerate(self.inner[k]):
                self._set(t, self._slot(k, arrays, str(n)), self._get(t, slot))

    @contextmanager
    def _partials_in_memory(self) -> Iterator[None]:
        self._to(self.in_memory)
        yield
        for k, t in enumerate(self.types):
            for n, slot in enumerate(self.inner[k]):
                self._set(t, slot, self._get(t, self._slot(k, self.in_memory, str(n))))

    def _combine(self, k: int, a: tuple[Reg, ...], b: tuple[Reg, ...],
                 lanes: int) -> tuple[Reg, ...]:  # fmt: skip
        t = self.types[k]
        operands = [Value(t, r, lanes, 0) for r in (a, b)]
        return self.em.combine(primitive(self.names[k]), t, operands, lanes)

    def emit(self) -> None:
        em, code = self.em, self.em.code
        stop = em.value(self.s.stop, self.copy)
        length = em.apply("subtract", int64, [stop, self.start])
        if length.const is None:
            trips = em.reg(em.apply("maximum", int64, [length, em.constant(int64, 0)]), 0)
        else:
            trips = str(max(int(length.const), 0))
        self._clear()
        if is_number(trips) and 0 < int(trips) < self._at_once(self.s) and self.interior is None:
            self.few = int(trips)
        changed = modified(self.s.body)
        with em.loop(), em.counted("0", trips, BLOCK, "block") as first:
            em.touch(changed)
            end = trips
            if not is_number(first):
                next_block = code.emit(f"add i64 {first}, {BLOCK}")
                end = code.intrinsic("llvm.smin.i64", "i64", [("i64", next_block), ("i64", trips)])
            self._clear()
            with em.scope(reached=True):
                self._block(first, end, changed)
            if not is_number(first):
                with self._if(f"icmp sgt i64 {first}, 0", "joined"):
                    self._add_outer()
                with self._if(f"icmp slt i64 {end}, {trips}", "kept"):
                    self._to(self.outer)
        em.touch(changed)
        for k, accumulator in enumerate(self.s.accumulators):
            total = em.in_register(self.types[k], self._tree(k), 0)
            old = em.variable(accumulator, self.copy)
            em.assign(accumulator, em.apply(self.names[k], self.types[k], [old, total]), self.copy)

    @contextmanager
    def _if(self, condition: str, name: str) -> Iterator[None]:
        """What is emitted inside is executed only if the condition (an instruction) holds."""
        code = self.em.code
        then, through = code.label(name), code.label(f"end_{name}")
        code.branch(code.emit(condition), then, through)
        code.start(then)
        with self.em.scope():
            yield
        code.jump(through)
        code.start(through)

    def _add_outer(self) -> None:
        """Combine the global partials with those of the block."""
        for k, t in enumerate(self.types):
            for n, slot in enumerate(self.inner[k]):
                outer = self._get(t, self._slot(k, self.outer, str(n)))
                self._set(t, slot, self._combine(k, outer, self._get(t, slot), self.lanes))

    def _block(self, first: Reg, end: Reg, changed: set[Var | ir.Buffer]) -> None:
        """Reduce elements first … end − 1 into the inner partials."""
        if self.interior is not None:
            limit = self._whole(first, end, PARTIALS)
            self._around(first, limit, end, self.interior, changed)
            return
        limit = self._whole(first, end, self._at_once(self.s))
        self._groups(self.s, first, limit, changed)
        if is_number(limit) and is_number(end):
            self._last(int(limit), int(end), changed)
        elif len(self.types) == 1 and not self.s.long and is_light(self.s, self.em.target, _LIGHT):
            self._light_rest(limit, end, changed)
        else:
            with self._if(f"icmp slt i64 {limit}, {end}", "tail"):
                self._rest(limit, end, changed)

    def _whole(self, first: Reg, end: Reg, size: int) -> Reg:
        """The end of the whole groups of `size` elements."""
        code = self.em.code
        if is_number(first) and is_number(end):
            return str(int(first) + (int(end) - int(first)) // size * size)
        count = code.emit(f"sub i64 {end}, {first}")
        return code.emit(f"add i64 {first}, {code.emit(f'and i64 {count}, {-size}')}")

    def _at_once(self, s: ir.Reduce) -> int:
        """How many elements an iteration of `_groups` reduces."""
        return self.lanes if nodes(s.body) > _HEAVY else PARTIALS

    def _groups(self, s: ir.Reduce, first: Reg, limit: Reg, changed: set[Var | ir.Buffer]) -> None:
        """Reduce whole groups of 64 elements, or whole vectors."""
        em = self.em
        if limit == first:
            return
        if self._at_once(s) < PARTIALS:
            with self._partials_in_memory():
                self._vectors(s, first, limit, changed)
            return
        condition = self._stream_condition(s, first) if self.stores else None
        if condition is None:
            self._whole_groups(s, first, limit, changed)
            return
        code, before = em.code, em.streaming
        stream, plain, joined = code.label("stream"), code.label("plain"), code.label("joined")
        code.branch(condition, stream, plain)
        for label, em.streaming in ((stream, True), (plain, False)):
            code.start(label)
            with em.scope():
                self._whole_groups(s, first, limit, changed)
            code.jump(joined)
        em.streaming = before
        em.module.declarations.setdefault(FENCE, f"declare void @{FENCE}()")
        code.start(joined)

    def _whole_groups(self, s: ir.Reduce, first: Reg, limit: Reg,
                      changed: set[Var | ir.Buffer]) -> None:  # fmt: skip
        em = self.em
        with em.loop(), em.counted(first, limit, PARTIALS, "group") as k:
            em.touch(changed)
            self._step(k, None, self.inner, changed, s)
        em.touch(changed)

    def _stream_condition(self, s: ir.Reduce, first: Reg) -> Reg | None:
        """The condition for streaming stores: everything stored from element `first` on fills cache
        lines of large arrays.  None if this is never possible."""
        em, limit = self.em, self.em.target.streaming_bytes
        tests: list[Reg] = []
        with em.scope():
            em.lanes = self.lanes
            copy = type(self.copy)(self.copy)
            index = em.apply("add", int64, [em.in_register(int64, (first,), 0),
                                            em.polynomial(Polynomial.atom(LANE))])  # fmt: skip
            copy.values[s.var] = em.apply("add", int64, [self.start, index])
            for store, known in prefetch.straight(em, s.body, copy) or ():
                if isinstance(store, ir.Store):
                    found = store_test(em, self.lanes, store, known, limit) if limit else None
                    if found is None:
                        tests = []
                        break
                    tests += [*found[1], em.code.emit(f"icmp eq i64 {found[0]}, 0")]
            em.lanes = 0
        if not tests:
            return None
        return functools.reduce(lambda a, b: em.code.emit(f"and i1 {a}, {b}"), tests)

    def _around(self, first: Reg, limit: Reg, end: Reg, interior: _Interior,
                changed: set[Var | ir.Buffer]) -> None:  # fmt: skip
        """Reduce the groups before the interior, those inside, and the rest."""
        em, code = self.em, self.em.code

        def clamped(e: Expr, up: int) -> Reg:
            """The number of elements from `first` to a bound, as whole groups and at most to
            `limit`."""
            stop = em.value(self.s.stop, self.copy)
            bound = em.apply("maximum", int64, [em.value(e, self.copy), self.start])
            bound = em.apply("minimum", int64, [bound, stop])
            bound = em.apply("subtract", int64, [bound, self.start])
            ahead = code.emit(f"sub i64 {em.reg(bound, 0)}, {first}")
            most = code.emit(f"sub i64 {limit}, {first}")
            for name, other in (("smax", "0"), ("smin", most)):
                ahead = code.intrinsic(f"llvm.{name}.i64", "i64", [("i64", ahead), ("i64", other)])
            whole = code.emit(f"and i64 {code.emit(f'add i64 {ahead}, {up}')}, {-PARTIALS}")
            return code.emit(f"add i64 {first}, {whole}")

        low = clamped(interior.low, PARTIALS - 1)
        high = clamped(interior.high, 0)
        high = code.intrinsic("llvm.smax.i64", "i64", [("i64", low), ("i64", high)])
        with em.loop(), em.counted("0", "2", 1, "part") as part:
            em.touch(changed)
            before = code.emit(f"icmp eq i64 {part}, 0")
            stop = code.emit(f"select i1 {before}, i64 {low}, i64 {high}")
            with em.scope():
                self._groups(interior.inner, low, stop, changed)
            start = code.emit(f"select i1 {before}, i64 {first}, i64 {high}")
            stop = code.emit(f"select i1 {before}, i64 {low}, i64 {end}")
            with self._if(f"icmp slt i64 {start}, {stop}", "tail"):
                self._rest(start, stop, changed)
        em.touch(changed)

    def _rest(self, first: Reg, end: Reg, changed: set[Var | ir.Buffer]) -> None:
        """Reduce any number of elements: whole vectors, then a masked one."""
        code = self.em.code
        with self._partials_in_memory():
            whole = first
            if self._at_once(self.s) == PARTIALS or self.interior is not None:
                whole = self._whole(first, end, self.lanes)
                self._vectors(self.s, first, whole, changed)
            with self._if(f"icmp slt i64 {whole}, {end}", "masked"):
                count = code.emit(f"trunc i64 {code.emit(f'sub i64 {end}, {whole}')} to i32")
                self._step(whole, self._mask(count), self._of(whole), changed, self.s)

    def _last(self, limit: int, end: int, changed: set[Var | ir.Buffer]) -> None:
        """`_rest` for a known number of elements, fewer than 64."""
        for k in range(limit, end, self.lanes):
            mask = self._mask(str(end - k)) if end - k < self.lanes else None
            at = k // self.lanes % self.count
            slots = [column[at : at + 1] for column in self.inner]
            self._step(str(k), mask, slots, changed, self.s)

    def _light_rest(self, first: Reg, end: Reg, changed: set[Var | ir.Buffer]) -> None:
        """`_rest` for fewer than 64 elements, with the partials in registers; the code of each
        vector is emitted separately, with a mask and without."""
        em, code = self.em, self.em.code
        count = code.emit(f"sub i64 {end}, {first}")
        odd = code.emit(f"and i64 {count}, {self.lanes - 1}")
        mask = self._mask(code.emit(f"trunc i64 {odd} to i32"))
        done = code.label("end_rest")
        for u in range(self.count):
            slots = [column[u : u + 1] for column in self.inner]
            whole, part, masked = (code.label(name) for name in ("whole", "part", "masked"))
            most = u + 1 == self.count  # a whole vector here would be one of a group
            if not most:
                enough = code.emit(f"icmp sge i64 {count}, {(u + 1) * self.lanes}")
                code.branch(enough, whole, part)
                code.start(part)
            code.branch(code.emit(f"icmp sgt i64 {count}, {u * self.lanes}"), masked, done)
            code.start(masked)
            with em.scope():
                self._step(first, mask, slots, changed, self.s, u)
            code.jump(done)
            if not most:
                code.start(whole)
                with em.scope():
                    self._step(first, None, slots, changed, self.s, u)
        code.start(done)
        em.touch(changed)

    def _mask(self, count: Reg) -> Reg:
        """The mask of the first `count` lanes."""
        v = Lanes(self.em.code, self.lanes)
        mask = v.compare("ugt", "i32", v.splat("i32", count), v.iota("i32"))
        if is_number(count):
            self.em.code.first_lanes[mask] = int(count)
        return mask

    def _vectors(self, s: ir.Reduce, first: Reg, end: Reg, changed: set[Var | ir.Buffer]) -> None:
        """Reduce whole vectors into partials in memory, one by one."""
        em = self.em
        with em.loop(), em.counted(first, end, self.lanes, "vector") as k:
            em.touch(changed)
            self._step(k, None, self._of(k), changed, s)
        em.touch(changed)

    def _of(self, k: Reg) -> list[list[Slot]]:
        """The partials in memory to which the vector from element `k` on is added."""
        code = self.em.code
        number = code.emit(f"lshr i64 {k}, {self.lanes.bit_length() - 1}")
        at = code.emit(f"and i64 {number}, {self.count - 1}")
        return [[self._slot(c, self.in_memory, at)] for c in range(len(self.types))]

    def _step(self, k: Reg, mask: Reg | None, slots: Sequence[Sequence[Slot]],
              changed: set[Var | ir.Buffer], s: ir.Reduce, ahead: int = 0) -> None:  # fmt: skip
        """Reduce vectors, of which the first is `ahead` vectors behind element `k`, into one vector
        of partials each."""
        em = self.em
        before_varying, em.varying = em.varying, self.varying
        em.lanes, em.mask = self.lanes, mask
        em.ahead = self.ahead
        with em.scope(reached=mask is None):
            base = em.in_register(int64, (k,), 0)
            copies = []
            for u in range(len(slots[0])):
                one = type(self.copy)(self.copy)
                lane = em.polynomial(Polynomial.atom(LANE) + (ahead + u) * self.lanes)
                index = em.apply("add", int64, [base, lane])
                one.values[s.var] = em.apply("add", int64, [self.start, index])
                copies.append(one)
            em.block(s.body, copies)
            self._accumulate(s, copies, slots, mask)
        em.lanes, em.mask, em.varying, em.ahead = 0, None, before_varying, 0
        em.touch(changed)

    def _accumulate(self, s: ir.Reduce, copies: Sequence[Copy], slots: Sequence[Sequence[Slot]],
                    mask: Reg | None) -> None:  # fmt: skip
        em = self.em
        v = Lanes(em.code, self.lanes)
        for k, t in enumerate(self.types):
            e = register_element(t)
            for slot, one in zip(slots[k], copies, strict=True):
                value = em.regs(em.value(s.values[k], one), self.lanes)
                old = self._get(t, slot)
                new = value if self._is_plain(k) else self._combine(k, old, value, self.lanes)
                if mask is not None:
                    new = tuple(v.select(e, mask, n, o) for n, o in zip(new, old, strict=True))
                self._set(t, slot, new)

    def _is_plain(self, k: int) -> bool:
        """Whether partials without elements are known, and combining others with them, the neutral
        element, changes no bit of a number that is combined once more."""
        exact = not self.types[k].is_inexact or self.names[k] in ("minimum", "maximum")
        return self.few is not None and (exact or self.names[k] == "add")

    def _tree(self, k: int) -> tuple[Reg, ...]:
        """Combine all partials of a component into one number."""
        t = self.types[k]
        e = register_element(t)
        most = self.few if self.few is not None and self._is_plain(k) else PARTIALS
        partials = [self._get(t, slot) for slot in self.inner[k]][: -(-most // self.lanes)]
        half = self.count // 2
        while half:
            others = partials[half:]
            partials = [
                self._combine(k, a, others[i], self.lanes) if i < len(others) else a
                for i, a in enumerate(partials[:half])
            ]
            half //= 2
        regs, lanes = partials[0], self.lanes
        while lanes > 2:
            half = lanes // 2
            low = tuple(slice_lanes(self.em.code, e, r, lanes, 0, half) for r in regs)
            if most > half:
                high = tuple(slice_lanes(self.em.code, e, r, lanes, half, half) for r in regs)
                low = self._combine(k, low, high, half)
            regs, lanes = low, half
        v = Lanes(self.em.code, lanes)
        first = tuple(v.extract(e, r, 0) for r in regs)
        if most == 1:
            return first
        second = tuple(v.extract(e, r, 1) for r in regs)
        return self._combine(k, first, second, 0)
