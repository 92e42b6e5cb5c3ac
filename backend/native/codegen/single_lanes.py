"""Loops inside vector loops that run lane by lane: from the beginning, or once few lanes still
iterate.

The variables that differ between lanes are stored as vectors; for each lane, its elements are
loaded, the loop continues with scalars, and what it assigned is stored back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.dsl.expr import Var
from treadle.skeletons.ir.kernel import For, While

from .analysis import modified
from .divergence import form_of, free
from .lanes import Lanes
from .text import Reg, vector
from .values import Value, register_element

if TYPE_CHECKING:
    from .emitter import Copy, Emitter


def threshold(em: Emitter, s: For | While) -> int:
    """The number of iterating lanes below which a loop continues lane by lane; 0: never; more than
    there are lanes: from the beginning.

    In checked kernels it is 0: all lanes leave a loop together when a check fails.
    """
    if em.kernel.errors:
        return 0
    return form_of(s, em.lanes, em.varying, em.target, em.around).least


def at_least(em: Emitter, mask: Reg, few: int) -> Reg:
    """Whether at least so many lanes of a mask are set."""
    word = f"i{em.lanes}"
    count = em.code.intrinsic(f"llvm.ctpop.{word}", word, [(word, _bits(em, mask))])
    return em.code.emit(f"icmp uge {word} {count}, {few}")


@contextmanager
def some(em: Emitter, s: For | While, mask: Reg) -> Iterator[None]:
    """The code emitted inside, the loop `s`, runs if any lane is set."""
    some, none = em.code.label("some"), em.code.label("none")
    em.code.branch(Lanes(em.code, em.lanes).any(mask), some, none)
    em.code.start(some)
    with em.scope():
        yield
    em.code.jump(none)
    em.code.start(none)
    em.touch(modified((s,)))


def _bits(em: Emitter, mask: Reg) -> Reg:
    return em.code.emit(f"bitcast {vector('i1', em.lanes)} {mask} to i{em.lanes}")


@contextmanager
def each(em: Emitter, bits: Reg) -> Iterator[Reg]:
    """The code emitted inside runs for every lane of which the bit is set, in order; gives its
    number (an i64)."""
    code, word = em.code, f"i{em.lanes}"
    loop, run, done = code.label("lanes"), code.label("lane"), code.label("endlanes")
    before = code.block
    code.jump(loop)
    code.start(loop)
    left, at_left = code.phi(word, bits, before, "left")
    code.branch(code.emit(f"icmp eq {word} {left}, 0"), done, run)
    code.start(run)
    narrow = Lanes(code, 0).call_immediate("cttz", word, left, True)
    lane = narrow if word == "i64" else code.emit(f"zext {word} {narrow} to i64")
    below = code.emit(f"sub {word} {left}, 1")
    rest = code.emit(f"and {word} {left}, {below}")
    yield lane
    code.complete(at_left, rest, code.block)
    code.jump(loop)
    code.start(done)


def emit(em: Emitter, s: For | While, copy: Copy, mask: Reg, first: Value | None = None) -> None:
    """Run a loop for each lane of a mask, beginning with the current values of its variables, and a
    counted one with `first`."""
    em.thorough = True  # loops of scalars have loads that are made once
    assigned = [v for v in modified((s,)) if isinstance(v, Var)]
    with em.scope():
        stored_values = [(v, x, stored(em, x)) for v in free(s) if (x := em.value(v, copy)).lanes]
        start = None if first is None or not first.lanes else stored(em, first)
        bits = _bits(em, mask)
        with em.loop(tested=True), each(em, bits) as lane, em.one_by_one():
            one = type(copy)(copy)
            for v, x, pointers in stored_values:
                value = loaded(em, x, pointers, lane)
                if v in assigned:
                    em.declare(v, value, one)
                else:
                    one.slots.pop(v, None)
                    one.values[v] = value
            if isinstance(s, For):
                begin = first
                if start is not None and first is not None:
                    begin = loaded(em, first, start, lane)
                begin = begin or em.value(s.start, one)
                stop = em.value(s.stop, one)
                em.uniform_for(replace(s, kind="serial"), [one], begin, stop)
            else:
                em.statement(s, [one])
            for v, _, pointers in stored_values:
                if v in assigned:
                    _store(em, em.value(v, one), pointers, lane)
    for v, _, pointers in stored_values:
        if v in assigned:
            em.reload(v, pointers, copy)
    em.touch(modified((s,)))


def _element(x: Value) -> str:
    """The type of an element in memory, whose address is a whole number of bytes."""
    e = register_element(x.type)
    return "i8" if e == "i1" else e


def stored(em: Emitter, x: Value) -> list[Reg]:
    """Where the vectors of a value are stored."""
    found, e, v = [], register_element(x.type), Lanes(em.code, em.lanes)
    for reg in em.regs(x, em.lanes):
        t = vector(_element(x), em.lanes)
        whole = v.convert("zext", "i1", "i8", reg) if e == "i1" else reg
        at = em.code.allocate(t)
        em.code.do(f"store {t} {whole}, ptr {at}")
        found.append(at)
    return found


def _at(em: Emitter, x: Value, pointer: Reg, lane: Reg) -> Reg:
    return em.code.emit(f"getelementptr {_element(x)}, ptr {pointer}, i64 {lane}")


def loaded(em: Emitter, x: Value, pointers: list[Reg], lane: Reg) -> Value:
    """The element of a lane."""
    regs = []
    for p in pointers:
        got = em.code.emit(f"load {_element(x)}, ptr {_at(em, x, p, lane)}")
        if register_element(x.type) == "i1":
            got = em.code.emit(f"trunc i8 {got} to i1")
        regs.append(got)
    return em.in_register(x.type, tuple(regs), 0)


def _store(em: Emitter, x: Value, pointers: list[Reg], lane: Reg) -> None:
    for p, reg in zip(pointers, em.regs(x, 0), strict=True):
        whole = em.code.emit(f"zext i1 {reg} to i8") if register_element(x.type) == "i1" else reg
        em.code.do(f"store {_element(x)} {whole}, ptr {_at(em, x, p, lane)}")
