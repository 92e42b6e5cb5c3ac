"""Vector loops: W iterations at once, a masked tail, streaming stores for large results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.dsl.analysis.polynomial import Polynomial
from treadle.dsl.expr import Expr, walk
from treadle.dsl.types import int64
from treadle.skeletons.ir.kernel import Buffer, For, Let, Load, Store, expressions, statements
from treadle.skeletons.ir.ranges import varying_variables

from . import memory, prefetch
from .analysis import lanes_for, modified, nodes
from .divergence import vector_form
from .lanes import BITS, Lanes
from .text import FENCE, Reg, is_number
from .values import LANE, Value, memory_element, parts

if TYPE_CHECKING:
    from .emitter import Copy, Emitter

#: A loop of more operations is emitted once, masked, instead of twice.  Masks are free with
#: AVX-512, but not before it.
_WRITE_ONCE = {64: 1200}
_WRITE_ONCE_SHORT = 2000
#: A loop of more operations per result is bound by computation, not by memory.
_STREAM_OPERATIONS = 150
#: Shorter loops do not gain unless they consist of complete cache lines: otherwise their ends share
#: lines with regular stores.
_STREAM_GROUPS = 24
#: Policies of a schedule's `Hints` for which stores of any size bypass the caches.
PAST_CACHES = ("streaming", "evict_first", "no_l1")


class VectorLoop:
    """One `For(kind="vector")` outside of others, for all copies together."""

    def __init__(self, em: Emitter, s: For, copies: Sequence[Copy], start: Value,
                 stop: Value) -> None:  # fmt: skip
        self.em, self.s, self.copies, self.start = em, s, copies, start
        self.lanes, self.fewer = lanes_for(s.body, em.target)
        self.trips = _trips(em, start, stop, s.step)
        limit = _WRITE_ONCE.get(em.target.vector_bytes, _WRITE_ONCE_SHORT)
        self.form = vector_form(s, em.target, self.lanes)
        # What is emitted for single lanes, too, is emitted once.
        again = any(f.least for f in self.form.loops)
        rare = s.rare and em.target.vector_bytes in _WRITE_ONCE
        if rare:  # like a tail
            self.lanes = self.fewer
        self.once = again or rare or nodes(s.body) * len(copies) > limit

    def emit(self) -> None:
        em, lanes = self.em, self.lanes
        if self.form.scalar:
            self._single()
            return
        before_varying, before_around, em.around = em.varying, em.around, self.s
        em.varying = before_varying | varying_variables(self.s.body, {self.s.var})
        constant = None if self.trips.const is None else max(int(self.trips.const), 0)
        self.total = em.reg(self.trips, 0)
        if constant is not None:
            self.total = str(constant)
        whole = self.total
        if not self.once:
            whole = em.code.emit(f"and i64 {self.total}, {-lanes}")
            if constant is not None:
                whole = str(constant // lanes * lanes)
        with em.loop():
            depth_before, em.prefetch_depth = em.prefetch_depth, em.depth
            streams = None if whole == "0" else self._stream_condition()
            if streams is not None:
                self._streamed(whole, *streams)
            elif whole != "0":
                self._groups("0", whole)
            if streams is None and not self.once and (constant is None or constant % lanes):
                self._piece(whole, self.total)
        em.varying, em.prefetch_depth = before_varying, depth_before
        em.around = before_around

    def _single(self) -> None:
        """One element at a time."""
        em = self.em
        em.thorough = True  # loops of scalars have loads that are made once
        stop = em.apply("add", int64, [self.start, em.apply("multiply", int64, [
            self.trips, em.constant(int64, self.s.step)])])  # fmt: skip
        with em.one_by_one():
            em.uniform_for(replace(self.s, kind="serial"), self.copies, self.start, stop)
        em.touch(modified(self.s.body))

    def _piece(self, first: Reg, end: Reg) -> None:
        """The tail, less than a group: iterations first … end − 1, if there are any."""
        em = self.em
        if self._is_by_lane():
            with em.scope():
                self._one_by_one(first, end)
        elif em.code.whole and is_number(first) and is_number(end):
            for at in range(int(first), int(end), self.fewer):
                part = int(end) - at < self.fewer
                mask = self._mask(str(at), end, self.fewer) if part else None
                with em.scope():
                    self._body(str(at), mask, self.fewer)
                em.touch(modified(self.s.body))
        else:
            with em.counted(first, end, self.fewer, "tail") as k:
                em.touch(modified(self.s.body))
                self._body(k, self._mask(k, end, self.fewer), self.fewer)
        em.touch(modified(self.s.body))

    def _is_by_lane(self) -> bool:
        """Whether active lanes would be loaded or stored one by one, with code as long as that of a
        fully unrolled loop."""
        em, s = self.em, self.s
        with em.scope():
            em.lanes = self.lanes
            copy = type(self.copies[0])(self.copies[0])
            copy.values[s.var] = self._index(em.constant(int64, 0))
            found = False
            for one, known in prefetch.straight(em, s.body, copy) or ():
                for buffer, index in _accesses(one):
                    position = prefetch.known(em, index, known) if buffer.type.bytes < 4 else None
                    if position is not None and position.lanes:
                        found |= memory.lane_step(em, position)[1] not in (1, -1)
            em.lanes = 0
        return found

    def _one_by_one(self, first: Reg, end: Reg) -> None:
        """Iterations first … end − 1 as a loop."""
        em, step = self.em, self.em.constant(int64, self.s.step)
        bounds = []
        for reg in (first, end):
            offset = em.apply("multiply", int64, [em.in_register(int64, (reg,), 0), step])
            bounds.append(em.apply("add", int64, [self.start, offset]))
        em.uniform_for(replace(self.s, kind="serial"), self.copies, *bounds)

    def _groups(self, first: Reg, whole: Reg) -> None:
        """The loop over groups of W from `first` to `whole`."""
        em = self.em
        with em.counted(first, whole, self.lanes, "vector") as k:
            em.touch(modified(self.s.body))
            self._body(k, self._mask(k, self.total, self.lanes) if self.once else None, self.lanes)
        em.touch(modified(self.s.body))

    def _body(self, k: Reg, mask: Reg | None, lanes: int) -> None:
        """Iterations k … k + lanes − 1, restricted by the mask."""
        em = self.em
        if is_number(k):  # for the same reason as the number of lanes in `_mask`
            k = em.code.hidden("i64", k)
        em.lanes, em.mask = lanes, mask
        with em.scope(reached=True):
            index = self._index(em.in_register(int64, (k,), 0))
            for c in self.copies:
                c.values[self.s.var] = index
            if mask is None:
                prefetch.emit(em, self.s.body, self.copies)
            em.block(self.s.body, self.copies)
        em.lanes, em.mask = 0, None

    def _index(self, k: Value) -> Value:
        em, step = self.em, self.s.step
        lane = em.polynomial(Polynomial.atom(LANE) * step)
        offset = em.apply("multiply", int64, [k, em.constant(int64, step)])
        inner = em.apply("add", int64, [offset, lane])
        return em.apply("add", int64, [self.start, inner])

    def _mask(self, k: Reg, end: Reg, lanes: int) -> Reg:
        """Those of the iterations k … k + lanes − 1 that come before `end`.

        Their number is hidden from LLVM, which could otherwise derive it from constant extents.
        LLVM 22 miscompiles a store of truncated values under a constant mask of one lane (8 × 64 to
        8 bits, with AVX-512): it stores the lane before truncation, 7 bytes too many.
        """
        em = self.em
        rest = em.code.emit(f"sub i64 {end}, {k}")
        if self.once:  # in a tail, there are few
            rest = em.code.intrinsic("llvm.smin.i64", "i64", [("i64", rest), ("i64", str(lanes))])
        wide = lanes * 64 <= em.target.vector_bytes * 8  # as wide as the elements
        element = "i64" if wide else "i32"
        if not wide:
            rest = em.code.emit(f"trunc i64 {rest} to i32")
        v = Lanes(em.code, lanes)
        count = v.splat(element, em.code.hidden(element, rest))
        mask = v.compare("sgt", element, count, v.iota(element))
        if is_number(k) and is_number(end):
            em.code.first_lanes[mask] = min(int(end) - int(k), lanes)
        return mask

    # --- results larger than the caches ---------------------------------------------------

    def _streamed(self, whole: Reg, condition: Reg, lead: Reg) -> None:
        """Emit the loop twice: with regular stores, and for large results with streaming stores.

        A streaming store does not first read the line it overwrites, which saves a quarter to a
        third of the traffic of a short loop.  It fills complete lines, so the `lead` iterations
        before the first line are masked like the tail, which both versions share.
        """
        em, code = self.em, self.em.code
        stream, plain, joined = code.label("stream"), code.label("plain"), code.label("joined")
        code.branch(condition, stream, plain)
        code.start(stream)
        after = code.emit(f"sub i64 {self.total}, {lead}")
        groups = code.emit(f"and i64 {after}, {-self.lanes}")
        stop = code.emit(f"add i64 {lead}, {groups}")
        em.streaming = True
        with em.scope():
            self._groups(lead, stop)
        em.streaming = False
        em.module.declarations.setdefault(FENCE, f"declare void @{FENCE}()")
        streamed = code.block
        code.jump(joined)
        code.start(plain)
        with em.scope():
            self._groups("0", whole)
        done = code.block
        code.jump(joined)
        code.start(joined)
        before, at_before = code.phi("i64", lead, streamed)
        reached, at_reached = code.phi("i64", stop, streamed)
        code.complete(at_before, "0", done)
        code.complete(at_reached, whole, done)
        head, piece, end = code.label("pieces"), code.label("piece"), code.label("whole")
        code.jump(head)
        code.start(head)
        which, at_which = code.phi("i64", "0", joined, "piece")
        code.branch(code.emit(f"icmp slt i64 {which}, 2"), piece, end)
        code.start(piece)
        em.touch(modified(self.s.body))
        lower = code.emit(f"icmp eq i64 {which}, 0")
        first = code.emit(f"select i1 {lower}, i64 0, i64 {reached}")
        last = code.emit(f"select i1 {lower}, i64 {before}, i64 {self.total}")
        with em.scope():
            self._piece(first, last)
        code.complete(at_which, code.advance(which, 1), code.block)
        code.jump(head)
        code.start(end)
        em.touch(modified(self.s.body))

    def _stream_condition(self) -> tuple[Reg, Reg] | None:
        """Whether every store can fill complete cache lines of a large array, and the number of
        iterations before the first such line; None if this is never possible."""
        em, s = self.em, self.s
        limit = em.target.streaming_bytes
        policies = dict(em.kernel.policies)
        if not (limit or policies) or len(self.copies) != 1 or s.step != 1 or self.once:
            return None
        loaded = {
            node.buffer
            for one in statements(em.kernel.body)
            for node in walk(expressions(one))
            if isinstance(node, Load)
        }
        code = em.code
        tests: list[Reg] = []
        lead: Reg | None = None
        with em.scope():
            em.lanes = self.lanes
            copy = type(self.copies[0])(self.copies[0])
            copy.values[s.var] = self._index(em.constant(int64, 0))
            inside = prefetch.straight(em, s.body, copy) or ()
            stores = [(one, known) for one, known in inside if isinstance(one, Store)]
            if not stores or nodes(s.body) > _STREAM_OPERATIONS * len(stores):
                em.lanes = 0
                return None
            for store, known in stores:
                found = None
                policy = policies.get(store.buffer)
                own = 1 if policy in PAST_CACHES else 0 if policy else limit
                written = store.buffer.role in ("output", "scratch")
                if written and store.buffer not in loaded and own:
                    found = store_test(em, self.lanes, store, known, own)
                if found is None:
                    em.lanes = 0
                    return None
                first, more = found
                tests += more
                if lead is None:
                    lead = first
                else:
                    tests.append(code.emit(f"icmp eq i64 {first}, {lead}"))
            em.lanes = 0
        assert lead is not None
        long = code.emit(f"icmp sge i64 {self.total}, {_STREAM_GROUPS * self.lanes}")
        rest = code.emit(f"and i64 {self.total}, {self.lanes - 1}")
        ends = code.emit(f"or i64 {lead}, {rest}")
        whole = code.emit(f"icmp eq i64 {ends}, 0")
        tests.append(code.emit(f"or i1 {long}, {whole}"))
        result = tests[0]
        for test in tests[1:]:
            result = code.emit(f"and i1 {result}, {test}")
        return result, lead


def store_test(em: Emitter, lanes: int, store: Store, copy: Copy, limit: int
               ) -> tuple[Reg, list[Reg]] | None:  # fmt: skip
    """Whether vectors of so many lanes can fill whole cache lines of an array of `limit` bytes or
    more: the number of elements before the next line, and the required conditions."""
    buffer = store.buffer
    bytes_each = BITS[memory_element(buffer.type)] // 8 * parts(buffer.type)
    index, extent = (prefetch.known(em, e, copy) for e in (store.index, buffer.size))
    if index is None or extent is None or lanes * bytes_each % 64:
        return None
    base, step = memory.lane_step(em, index)
    if step != 1:
        return None
    code = em.code
    address = code.emit(f"ptrtoint ptr {memory.pointer(em, buffer, base)} to i64")
    behind = code.emit(f"sub i64 0, {address}")
    within = code.emit(f"and i64 {behind}, 63")
    whole = code.emit(f"and i64 {within}, {bytes_each - 1}")
    size = em.reg(extent, 0)
    return code.emit(f"lshr i64 {within}, {bytes_each.bit_length() - 1}"), [
        code.emit(f"icmp eq i64 {whole}, 0"),
        code.emit(f"icmp sge i64 {size}, {limit // bytes_each}"),
    ]


def _accesses(s: Store | Let) -> list[tuple[Buffer, Expr]]:
    """The locations that a statement reads and writes."""
    found = [(e.buffer, e.index) for e in walk(expressions(s)) if isinstance(e, Load)]
    return [*found, (s.buffer, s.index)] if isinstance(s, Store) else found


def _trips(em: Emitter, start: Value, stop: Value, step: int) -> Value:
    """The number of iterations, at least 0 (a constant trip count may be negative)."""
    length = em.apply("subtract", int64, [stop, start])
    if step != 1:
        up = em.apply("add", int64, [length, em.constant(int64, step - 1)])
        length = em.apply("floor_divide", int64, [up, em.constant(int64, step)])
    if length.const is not None:
        return length
    return em.apply("maximum", int64, [length, em.constant(int64, 0)])
