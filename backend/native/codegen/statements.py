"""The statements of kernel IR: straight-line code, branches, masks and loops.

`copies` are the interleaved copies that an unrolled loop makes of a body: each simple statement is
emitted for all of them before the next, and loops whose bounds they share run them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.dsl.expr import walk
from treadle.dsl.types import int64
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.ranges import is_varying
from treadle.skeletons.ir.verify import InvalidKernel

from . import atomics, memory, single_lanes
from .analysis import modified, worth_skipping
from .emitter import Copy, Emitter
from .lanes import Lanes
from .reduction import reduce
from .target import Target
from .text import Reg, literal, vector
from .values import Value
from .vector import VectorLoop


def block(em: Emitter, body: ir.Body, copies: Sequence[Copy]) -> None:
    """Statements in order, for every copy."""
    at = 0
    while at < len(body):
        row = _row_of_stores(em, body, at)
        if len(copies) > 1 or len(row) < 2 or not _store_row(em, row, copies[0]):
            statement(em, body[at], copies)
            at += 1
            continue
        at += len(row)


def _row_of_stores(em: Emitter, body: ir.Body, at: int) -> list[ir.Store]:
    """The consecutive stores to one buffer from a statement on, which do not read from it."""
    found: list[ir.Store] = []
    if not em.lanes or em.mask is not None:
        return found
    for s in body[at : at + memory.WIDEST_ROW]:
        if not isinstance(s, ir.Store) or (found and s.buffer is not found[0].buffer):
            break
        if any(isinstance(e, ir.Load) and e.buffer is s.buffer for e in walk((s.index, s.value))):
            break
        found.append(s)
    return found


def _store_row(em: Emitter, row: Sequence[ir.Store], copy: Copy) -> bool:
    """Store a row of elements per lane, if the rows of the lanes are contiguous."""
    positions = [em.value(s.index, copy) for s in row]
    if not memory.are_rows(em, row[0].buffer, positions):
        return False
    memory.store_rows(em, row[0].buffer, positions[0], [em.value(s.value, copy) for s in row])
    return True


def statement(em: Emitter, s: ir.Statement, copies: Sequence[Copy]) -> None:
    match s:
        case ir.Comment():
            em.code.remark(s.text)
        case ir.Let():
            for c in copies:
                c.values[s.var] = em.value(s.value, c)
        case ir.Declare():
            for c in copies:
                em.declare(s.var, em.value(s.value, c), c)
        case ir.Assign():
            for c in copies:
                _check_assignment(em, s, c)
                em.assign(s.var, em.value(s.value, c), c)
        case ir.Store():
            for c in copies:
                memory.store(em, s.buffer, em.value(s.index, c), em.value(s.value, c))
        case ir.If():
            _if(em, s, copies)
        case ir.For():
            _for(em, s, copies)
        case ir.While():
            _while(em, s, copies)
        case ir.Reduce():
            for c in copies:
                reduce(em, s, c)
        case ir.Atomic():
            for c in copies:
                atomics.atomic(em, s, c)
        case ir.Report():
            for c in copies:
                atomics.report(em, s, c)
        case ir.Fetch():
            for c in copies:
                c.values[s.var] = atomics.fetch(em, s, c)
        case ir.Publish():
            for c in copies:
                atomics.publish(em, s, c)
        case _:
            raise AssertionError(f"{type(s).__name__} in kernel IR")


def _check_assignment(em: Emitter, s: ir.Assign, copy: Copy) -> None:
    if s.var in em.varying and not copy.slots[s.var].lanes:
        raise InvalidKernel(
            f"{em.kernel.name}: {s.var.name} is declared outside a vector loop that assigns it"
        )


# --- branches ---------------------------------------------------------------------------------


def _if(em: Emitter, s: ir.If, copies: Sequence[Copy]) -> None:
    if em.lanes and is_varying(s.condition, em.varying):
        for c in copies:
            condition = em.reg(em.value(s.condition, c), em.lanes)
            _masked_block(em, s.then, condition, c)
            if s.other:
                inverse = Lanes(em.code, em.lanes).inverse(condition)
                _masked_block(em, s.other, inverse, c)
        return
    shared = em.same(s.condition, copies)
    if shared is None:
        for c in copies:
            _branch(em, s, em.value(s.condition, c), [c])
    else:
        _branch(em, s, shared, copies)


def _branch(em: Emitter, s: ir.If, condition: Value, copies: Sequence[Copy]) -> None:
    """A real branch on a uniform condition."""
    if condition.const is not None:
        block(em, s.then if bool(condition.const) else s.other, copies)
        return
    then, other, done = em.code.label("then"), em.code.label("else"), em.code.label("endif")
    em.code.branch(em.reg(condition, 0), then, other if s.other else done)
    em.code.start(then)
    with em.scope():
        block(em, s.then, copies)
    em.code.jump(done)
    if s.other:
        em.code.start(other)
        with em.scope():
            block(em, s.other, copies)
        em.code.jump(done)
    em.code.start(done)
    em.touch(modified((s,)))


def narrowed(em: Emitter, condition: Reg) -> Reg:
    """The active lanes for which `condition` holds."""
    if em.mask is None:
        return condition
    return Lanes(em.code, em.lanes).both(em.mask, condition)


def _masked_block(em: Emitter, body: ir.Body, condition: Reg, copy: Copy) -> None:
    mask = narrowed(em, condition)
    if not worth_skipping(body):
        with em.masked(mask):
            block(em, body, [copy])
        return
    some, done = em.code.label("some"), em.code.label("none")
    em.code.branch(Lanes(em.code, em.lanes).any(mask), some, done)
    em.code.start(some)
    with em.masked(mask):
        block(em, body, [copy])
    em.code.jump(done)
    em.code.start(done)
    em.touch(modified(body))


# --- loops ------------------------------------------------------------------------------------


def _for(em: Emitter, s: ir.For, copies: Sequence[Copy]) -> None:
    if s.step < 1:
        raise InvalidKernel(f"{em.kernel.name}: a loop with step {s.step}")
    if s.kind == "unrolled":
        start, stop = em.same(s.start, copies), em.same(s.stop, copies)
        if start is not None and stop is not None:
            length = em.apply("subtract", int64, [stop, start]).const
            if length is not None:
                _unrolled(em, s, copies, start, int(length))
                return
    differ = is_varying(s.start, em.varying) or is_varying(s.stop, em.varying)
    if em.lanes and differ:
        for c in copies:
            _masked_for(em, s, c)
        return
    start, stop = em.same(s.start, copies), em.same(s.stop, copies)
    if start is None or stop is None:
        for c in copies:
            uniform_for(em, s, [c], em.value(s.start, c), em.value(s.stop, c))
    else:
        uniform_for(em, s, copies, start, stop)


def _unrolled(em: Emitter, s: ir.For, copies: Sequence[Copy], start: Value, length: int) -> None:
    """Emit every iteration as a copy; the copies are interleaved."""
    made = []
    for c in copies:
        for k in range(0, length, s.step):
            one = Copy(c)
            offset = em.constant(int64, k)
            one.values[s.var] = em.apply("add", int64, [start, offset])
            made.append(one)
    if made:
        block(em, s.body, made)


def uniform_for(em: Emitter, s: ir.For, copies: Sequence[Copy], start: Value, stop: Value) -> None:
    if s.kind == "vector" and not (em.lanes or em.single):
        VectorLoop(em, s, copies, start, stop).emit()
        return
    first, last = em.reg(start, 0), em.reg(stop, 0)
    with em.loop(), em.counted(first, last, s.step, "for") as counter:
        em.touch(modified(s.body))
        with em.scope(reached=True):
            index = em.in_register(int64, (counter,), 0)
            before_row, em.row = em.row, (em.atom(index), s.step)
            for c in copies:
                c.values[s.var] = index
            block(em, s.body, copies)
            em.row = before_row
    em.touch(modified(s.body))


def _masked_for(em: Emitter, s: ir.For, copy: Copy) -> None:
    """A serial loop inside a vector loop whose bounds differ between lanes."""
    few = single_lanes.threshold(em, s)
    if few > em.lanes:
        single_lanes.emit(em, s, copy, em.mask or literal("i1", 1, em.lanes))
        return
    start, stop = em.value(s.start, copy), em.value(s.stop, copy)
    v, m = Lanes(em.code, em.lanes), vector("i1", em.lanes)
    stops = em.reg(stop, em.lanes)
    head, body, done = em.code.label("for"), em.code.label("body"), em.code.label("endfor")
    entry_mask = em.mask or literal("i1", 1, em.lanes)
    before = em.code.block
    with em.loop(tested=True):
        em.code.jump(head)
        em.code.start(head)
        k, at = em.code.phi("i64", "0", before, "k")
        active, at_mask = em.code.phi(m, entry_mask, before, "active")
        em.touch(modified(s.body))
        with em.scope():
            count = em.in_register(int64, (k,), 0)
            index = em.apply("add", int64, [start, count])
            copy.values[s.var] = index
            inside = v.compare("slt", "i64", em.reg(index, em.lanes), stops)
            mask = v.both(active, inside)
            em.code.branch(_go_on(em, mask, few), body, done)
            em.code.start(body)
            with em.masked(mask):
                block(em, s.body, [copy])
            after = em.code.advance(k, s.step)
            em.code.complete(at, after, em.code.block)
            em.code.complete(at_mask, mask, em.code.block)
            em.code.jump(head)
            em.code.start(done)
    em.touch(modified(s.body))
    if few:
        with single_lanes.some(em, s, mask):
            first = em.apply("add", int64, [start, em.in_register(int64, (k,), 0)])
            single_lanes.emit(em, s, copy, mask, first)


def _go_on(em: Emitter, mask: Reg, few: int) -> Reg:
    """Whether to go on with a vector of these lanes."""
    if few:
        return single_lanes.at_least(em, mask, few)
    return em.unless_reported(Lanes(em.code, em.lanes).any(mask))


def _while(em: Emitter, s: ir.While, copies: Sequence[Copy]) -> None:
    both = s.before + s.body
    if em.lanes and is_varying(s.condition, em.varying):
        for c in copies:
            _masked_while(em, s, c)
        return
    if len(copies) > 1:
        for c in copies:
            _while(em, s, [c])
        return
    copy = copies[0]
    head, body, done = em.code.label("while"), em.code.label("body"), em.code.label("endwhile")
    with em.loop(tested=True):
        em.code.jump(head)
        em.code.start(head)
        em.touch(modified(both))
        with em.scope():
            block(em, s.before, copies)
            go_on = em.reg(em.value(s.condition, copy), 0)
            em.code.branch(em.unless_reported(go_on), body, done)
            em.code.start(body)
            with em.scope():
                block(em, s.body, copies)
            em.code.jump(head)
            em.code.start(done)
    em.touch(modified(both))


def _masked_while(em: Emitter, s: ir.While, copy: Copy) -> None:
    """Iterate until every lane is done; a lane that is done keeps its values."""
    few = single_lanes.threshold(em, s)
    if few > em.lanes:
        single_lanes.emit(em, s, copy, em.mask or literal("i1", 1, em.lanes))
        return
    both = s.before + s.body
    v, m = Lanes(em.code, em.lanes), vector("i1", em.lanes)
    outer = em.mask
    head, body, done = em.code.label("while"), em.code.label("body"), em.code.label("endwhile")
    before = em.code.block
    with em.loop(tested=True):
        em.code.jump(head)
        em.code.start(head)
        active, at = em.code.phi(m, outer or literal("i1", 1, em.lanes), before, "active")
        em.touch(modified(both))
        with em.masked(active):
            block(em, s.before, [copy])
            condition = em.reg(em.value(s.condition, copy), em.lanes)
            mask = v.both(active, condition)
            em.code.branch(_go_on(em, mask, few), body, done)
            em.code.start(body)
            with em.masked(mask):
                block(em, s.body, [copy])
            em.code.complete(at, mask, em.code.block)
            em.code.jump(head)
            em.code.start(done)
    em.touch(modified(both))
    if few:
        with single_lanes.some(em, s, mask):
            single_lanes.emit(em, s, copy, mask)


class KernelEmitter(Emitter):
    """The emitter of complete kernels."""

    def block(self, body: Sequence[ir.Statement], copies: Sequence[Copy]) -> None:
        block(self, tuple(body), copies)

    def statement(self, s: ir.Statement, copies: Sequence[Copy]) -> None:
        statement(self, s, copies)

    def uniform_for(self, s: ir.For, copies: Sequence[Copy], start: Value, stop: Value) -> None:
        uniform_for(self, s, copies, start, stop)


def emit(
    kernel: ir.Kernel, target: Target, fast_math: bool = False, foreign: Sequence[Any] = ()
) -> tuple[str, Emitter]:
    """The LLVM IR of a kernel, and the emitter with the symbols it needs.

    The foreign function at position k of `foreign` is called `foreign.k`.
    """
    emitter = KernelEmitter(kernel, target, fast_math)
    emitter.foreign = list(foreign)
    return emitter.emit(), emitter
