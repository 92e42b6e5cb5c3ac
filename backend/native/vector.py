"""Vector loops: W iterations at once, the rest under a mask, large results past the caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.dsl.expr import Var, walk
from treadle.dsl.types import int64
from treadle.skeletons.kernel.ir import (
    Comment,
    For,
    Let,
    Load,
    Store,
    expressions,
    statements,
)

from . import memory
from .analysis import lanes_for, modified, nodes, varying_variables
from .lanes import BITS, Lanes
from .text import Reg
from .values import LANE, Poly, Value, memory_element, parts

if TYPE_CHECKING:
    from .emitter import Copy, Emitter

#: A loop of more operations is written once, masked, instead of twice: masks cost nothing with
#: AVX-512, and something before it.
_WRITE_ONCE = {64: 400}
_WRITE_ONCE_SHORT = 2000
#: A loop of more operations is bound by them, not by memory.
_STREAM_OPERATIONS = 60


class VectorLoop:
    """One `For(kind="vector")` outside of others, for all copies together."""

    def __init__(self, em: Emitter, s: For, copies: Sequence[Copy], start: Value,
                 stop: Value) -> None:  # fmt: skip
        self.em, self.s, self.copies, self.start = em, s, copies, start
        self.lanes = lanes_for(s.body, em.target)
        self.trips = _trips(em, start, stop, s.step)
        limit = _WRITE_ONCE.get(em.target.vector_bytes, _WRITE_ONCE_SHORT)
        self.once = nodes(s.body) * len(copies) > limit

    def emit(self) -> None:
        em, lanes = self.em, self.lanes
        before_varying = em.varying
        em.varying = before_varying | varying_variables(self.s.body, {self.s.var})
        constant = None if self.trips.const is None else max(int(self.trips.const), 0)
        self.total = em.reg(self.trips, 0)
        whole = self.total
        if not self.once:
            whole = em.code.emit(f"and i64 {self.total}, {-lanes}")
            if constant is not None:
                whole = str(constant // lanes * lanes)
        em.depth += 1
        if whole != "0":
            self._streamed(whole)
        if not self.once and (constant is None or constant % lanes):
            tail, done = em.code.label("tail"), em.code.label("endvector")
            em.code.branch(em.code.emit(f"icmp sgt i64 {self.total}, {whole}"), tail, done)
            em.code.start(tail)
            self._body(whole, self._tail_mask(whole))
            em.code.jump(done)
            em.code.start(done)
            em.touch(modified(self.s.body))
        em.depth -= 1
        em.varying = before_varying

    def _groups(self, whole: Reg) -> None:
        """The loop over groups of W."""
        em = self.em
        head, inner, done = em.code.label("vector"), em.code.label("group"), em.code.label("rest")
        before = em.code.block
        em.code.jump(head)
        em.code.start(head)
        k, at = em.code.phi("i64", "0", before, "k")
        em.code.branch(em.code.emit(f"icmp slt i64 {k}, {whole}"), inner, done)
        em.code.start(inner)
        em.touch(modified(self.s.body))
        self._body(k, self._tail_mask(k) if self.once else None)
        after = em.code.emit(f"add i64 {k}, {self.lanes}")
        em.code.complete(at, after, em.code.block)
        em.code.jump(head)
        em.code.start(done)
        em.touch(modified(self.s.body))

    def _body(self, k: Reg, mask: Reg | None) -> None:
        """Iterations k … k + W − 1, those under the mask."""
        from .statements import block

        em = self.em
        em.lanes, em.mask = self.lanes, mask
        with em.scope():
            index = self._index(em.in_register(int64, (k,), 0))
            for c in self.copies:
                c.values[self.s.var] = index
            block(em, self.s.body, self.copies)
        em.lanes, em.mask = 0, None

    def _index(self, k: Value) -> Value:
        em, step = self.em, self.s.step
        lane = em.polynomial(Poly({(LANE,): step}))
        offset = em.apply("multiply", int64, [k, em.constant(int64, step)], True)
        inner = em.apply("add", int64, [offset, lane], True)
        return em.apply("add", int64, [self.start, inner], True)

    def _tail_mask(self, k: Reg) -> Reg:
        em, lanes = self.em, self.lanes
        rest = em.code.emit(f"sub i64 {self.total}, {k}")
        short = em.code.intrinsic("llvm.smin.i64", "i64", [("i64", rest), ("i64", str(lanes))])
        count = em.code.emit(f"trunc i64 {short} to i32")
        v = Lanes(em.code, lanes)
        return v.compare("ugt", "i32", v.splat("i32", count), v.iota("i32"))

    # --- results larger than the caches ---------------------------------------------------

    def _streamed(self, whole: Reg) -> None:
        """The loop, and for large aligned results a second one that writes past the caches.

        Such a store does not first read the line it overwrites: a quarter to a third of the
        traffic of a short loop.
        """
        em, code = self.em, self.em.code
        condition = self._stream_condition()
        if condition is None:
            self._groups(whole)
            return
        stream, plain, joined = code.label("stream"), code.label("plain"), code.label("joined")
        code.branch(condition, stream, plain)
        code.start(stream)
        em.streaming = True
        with em.scope():
            self._groups(whole)
        em.streaming = False
        em.module.declarations.setdefault("sfence", "declare void @llvm.x86.sse.sfence()")
        code.do("call void @llvm.x86.sse.sfence()")
        code.jump(joined)
        code.start(plain)
        with em.scope():
            self._groups(whole)
        code.jump(joined)
        code.start(joined)

    def _stream_condition(self) -> Reg | None:
        """Whether every store is of whole cache lines of a large array; None: surely not."""
        em, s = self.em, self.s
        limit = em.target.streaming_bytes
        if not limit or len(self.copies) != 1 or s.step != 1 or nodes(s.body) > _STREAM_OPERATIONS:
            return None
        stores = [one for one in s.body if isinstance(one, Store)]
        if not stores or not all(isinstance(one, Comment | Let | Store) for one in s.body):
            return None
        loaded = {
            node.buffer
            for one in statements(em.kernel.body)
            for node in walk(expressions(one))
            if isinstance(node, Load)
        }
        tests: list[Reg] = []
        with em.scope():
            em.lanes = self.lanes
            for store in stores:
                found = None
                if store.buffer.role in ("output", "scratch") and store.buffer not in loaded:
                    found = self._store_test(store, limit)
                if found is None:
                    em.lanes = 0
                    return None
                tests += found
            em.lanes = 0
        result = tests[0]
        for test in tests[1:]:
            result = em.code.emit(f"and i1 {result}, {test}")
        return result

    def _store_test(self, store: Store, limit: int) -> list[Reg] | None:
        em, copy, buffer = self.em, self.copies[0], store.buffer
        bytes_each = BITS[memory_element(buffer.type)] // 8 * parts(buffer.type)
        known = set(copy.values) | set(copy.slots) | {self.s.var}
        for node in walk((store.index, buffer.size)):
            if isinstance(node, Load) or (isinstance(node, Var) and node not in known):
                return None
        if self.lanes * bytes_each % 64:
            return None
        copy.values[self.s.var] = self._index(em.constant(int64, 0))
        base, step = memory.lane_step(em, em.value(store.index, copy))
        if step != 1:
            return None
        code = em.code
        address = code.emit(f"ptrtoint ptr {memory.pointer(em, buffer, base)} to i64")
        within = code.emit(f"and i64 {address}, 63")
        size = em.reg(em.value(buffer.size, copy), 0)
        return [
            code.emit(f"icmp eq i64 {within}, 0"),
            code.emit(f"icmp sge i64 {size}, {limit // bytes_each}"),
        ]


def _trips(em: Emitter, start: Value, stop: Value, step: int) -> Value:
    """How many iterations, never less than 0 (a known number may be)."""
    length = em.apply("subtract", int64, [stop, start], False)
    if step != 1:
        up = em.apply("add", int64, [length, em.constant(int64, step - 1)], True)
        length = em.apply("floor_divide", int64, [up, em.constant(int64, step)], False)
    if length.const is not None:
        return length
    return em.apply("maximum", int64, [length, em.constant(int64, 0)], True)
