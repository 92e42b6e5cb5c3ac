"""Statements that run one lane at a time: atomic updates, reports, foreign calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from treadle.dsl.expr import Foreign
from treadle.dsl.target import NATIVE
from treadle.dsl.types import ScalarType, float64
from treadle.skeletons.ir.decompose import machine_update
from treadle.skeletons.ir.kernel import Atomic, Buffer, Fetch, Publish, Report

from . import single_lanes
from .half import from_storage, to_storage
from .lanes import BITS, Lanes
from .text import Reg, vector
from .values import Value, memory_element, parts, register_element

if TYPE_CHECKING:
    from .emitter import Copy, Emitter

#: The machine's atomic operations on integers.
_MACHINE = {"add": "add", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


def each_lane(em: Emitter, values: list[Value],
              body: Callable[[list[tuple[Reg, ...]], Reg], None]) -> None:  # fmt: skip
    """Run `body` with the scalars of `values` for every active lane, in order.

    `body` also gets the number of the lane (an i64); it must end in the block it leaves open.
    """
    slots = [single_lanes.stored(em, value) if value.lanes else None for value in values]
    bits = "-1"
    if em.mask is not None:
        bits = em.code.emit(f"bitcast {vector('i1', em.lanes)} {em.mask} to i{em.lanes}")
    with single_lanes.each(em, bits) as lane:
        scalars = [
            em.regs(value, 0) if slot is None else single_lanes.loaded(em, value, slot, lane).regs
            for value, slot in zip(values, slots, strict=True)
        ]
        outer = em.lanes, em.mask
        em.lanes, em.mask = 0, None
        with em.scope():
            body(scalars, lane)
        em.lanes, em.mask = outer


# --- atomic updates ---------------------------------------------------------------------------


def atomic(em: Emitter, s: Atomic, copy: Copy) -> None:
    """`buffers[index] = combine(values, old)`, atomically, for every active lane."""
    index = em.value(s.index, copy)
    values = [em.value(v, copy) for v in s.values]
    lock_size = em.value(s.locks.size, copy) if s.locks is not None else None

    def one(scalars: list[tuple[Reg, ...]], lane: Reg) -> None:
        at = scalars[0][0]
        if s.locks is not None and lock_size is not None:
            _locked(em, s, copy, at, scalars[1:], em.reg(lock_size, 0))
        else:
            if len(s.buffers) != 1 or s.buffers[0].type.bits > 64:
                raise AssertionError(f"{em.kernel.name}: an atomic update of several words")
            _single(em, s, copy, at, scalars[1])

    if em.lanes:
        each_lane(em, [index, *values], one)
    else:
        with em.scope():
            one([em.regs(x, 0) for x in (index, *values)], "0")
    em.touch(s.buffers)


def fetch(em: Emitter, s: Fetch, copy: Copy) -> Value:
    """An integer that other threads may store meanwhile, outside of vector loops."""
    at = _address(em, s.buffer, em.reg(em.value(s.index, copy), 0))
    t, how = s.buffer.type, "acquire" if s.ordered else "monotonic"
    found = em.code.emit(f"load atomic i{t.bits}, ptr {at} {how}, align {t.bytes}")
    return em.in_register(t, (found,), 0)


def publish(em: Emitter, s: Publish, copy: Copy) -> None:
    """Store an integer that other threads may fetch meanwhile, outside of vector loops."""
    at = _address(em, s.buffer, em.reg(em.value(s.index, copy), 0))
    t, how = s.buffer.type, "release" if s.ordered else "monotonic"
    value = em.reg(em.value(s.value, copy), 0)
    em.code.do(f"store atomic i{t.bits} {value}, ptr {at} {how}, align {t.bytes}")
    em.touch((s.buffer,))


def _address(em: Emitter, buffer: Buffer, at: Reg) -> Reg:
    e = memory_element(buffer.type)
    group = f"[2 x {e}]" if buffer.type.is_complex else e
    return em.code.emit(f"getelementptr {group}, ptr {em.pointers[buffer]}, i64 {at}")


def _combined(em: Emitter, s: Atomic, copy: Copy, new: list[tuple[Reg, ...]],
              old: list[tuple[Reg, ...]]) -> list[tuple[Reg, ...]]:  # fmt: skip
    """combine(new, old), in registers."""
    if s.combine is None:
        return new
    one = type(copy)(copy)
    for var, regs in [*zip(s.combine.left, new, strict=True),
                      *zip(s.combine.right, old, strict=True)]:  # fmt: skip
        one.values[var] = em.in_register(var.type, regs, 0)
    return [em.regs(em.value(e, one), 0) for e in s.combine.results]


def _single(em: Emitter, s: Atomic, copy: Copy, index: Reg, value: tuple[Reg, ...]) -> None:
    """An atomic update of one word of up to eight bytes."""
    code, t = em.code, s.buffers[0].type
    at = _address(em, s.buffers[0], index)
    word = "i8" if t.family == "bool" else f"i{t.bits}"
    align = BITS[memory_element(t)] // 8 if t.is_complex else t.bytes
    if s.combine is None:
        bits = _pack(em, t, value)
        if align == t.bytes:
            code.do(f"store atomic {word} {bits}, ptr {at} monotonic, align {align}")
        else:
            code.do(f"store {word} {bits}, ptr {at}, align {align}")
        return
    update = machine_update(NATIVE, s, 0)
    if update is not None:
        hardware = _MACHINE.get(update) or ("" if t.signed else "u") + update[:3]
        bits = _pack(em, t, value)
        code.emit(f"atomicrmw {hardware} ptr {at}, {word} {bits} monotonic, align {align}")
        return
    loop, done = code.label("attempt"), code.label("updated")
    first = code.emit(f"load {word}, ptr {at}, align {align}")
    before = code.block
    code.jump(loop)
    code.start(loop)
    seen, at_seen = code.phi(word, first, before, "seen")
    with em.scope():
        (result,) = _combined(em, s, copy, [value], [_unpack(em, t, seen)])
        bits = _pack(em, t, result)
    both = code.emit(
        f"cmpxchg ptr {at}, {word} {seen}, {word} {bits} monotonic monotonic, align {t.bytes}"
    )
    found = code.emit(f"extractvalue {{ {word}, i1 }} {both}, 0")
    success = code.emit(f"extractvalue {{ {word}, i1 }} {both}, 1")
    code.complete(at_seen, found, code.block)
    code.branch(success, done, loop)
    code.start(done)


def _pack(em: Emitter, t: ScalarType, regs: tuple[Reg, ...]) -> Reg:
    """A scalar as the integer stored in memory."""
    v, code = Lanes(em.code, 0), em.code
    words = [to_storage(v, t, r) for r in regs]
    e = memory_element(t)
    if e in ("half", "float", "double"):
        words = [code.emit(f"bitcast {e} {r} to i{BITS[e]}") for r in words]
    if len(words) == 1:
        return words[0]
    low = code.emit(f"zext i32 {words[0]} to i64")
    high = code.emit(f"shl i64 {code.emit(f'zext i32 {words[1]} to i64')}, 32")
    return code.emit(f"or i64 {low}, {high}")


def _unpack(em: Emitter, t: ScalarType, word: Reg) -> tuple[Reg, ...]:
    v, code = Lanes(em.code, 0), em.code
    e = memory_element(t)
    if t.is_complex:
        low = code.emit(f"trunc i64 {word} to i32")
        high = code.emit(f"trunc i64 {code.emit(f'lshr i64 {word}, 32')} to i32")
        return v.convert("bitcast", "i32", e, low), v.convert("bitcast", "i32", e, high)
    if e in ("half", "float", "double"):
        word = code.emit(f"bitcast i{BITS[e]} {word} to {e}")
    return (from_storage(v, t, word),)


def _locked(em: Emitter, s: Atomic, copy: Copy, index: Reg, values: list[tuple[Reg, ...]],
            size: Reg) -> None:  # fmt: skip
    """An update of several words, or of a word over eight bytes, under a spin lock."""
    code = em.code
    assert s.locks is not None
    number = code.emit(f"urem i64 {index}, {size}")
    lock = _address(em, s.locks, number)
    attempt, wait, locked = code.label("lock"), code.label("wait"), code.label("locked")
    code.jump(attempt)
    code.start(attempt)
    both = code.emit(f"cmpxchg ptr {lock}, i32 0, i32 1 acquire monotonic, align 4")
    code.branch(code.emit(f"extractvalue {{ i32, i1 }} {both}, 1"), locked, wait)
    code.start(wait)
    if em.target.is_x86:
        em.module.declarations.setdefault("pause", "declare void @llvm.x86.sse2.pause()")
        code.do("call void @llvm.x86.sse2.pause()")
    code.jump(attempt)
    code.start(locked)
    v = Lanes(code, 0)
    positions: list[list[Reg]] = []
    old: list[tuple[Reg, ...]] = []
    for b in s.buffers:
        e = memory_element(b.type)
        at = _address(em, b, index)
        where = [at]
        if b.type.is_complex:
            where.append(code.emit(f"getelementptr {e}, ptr {at}, i64 1"))
        positions.append(where)
        size_of = BITS[e] // 8
        loaded = [code.emit(f"load {e}, ptr {p}, align {size_of}") for p in where]
        old.append(tuple(from_storage(v, b.type, r) for r in loaded))
    with em.scope():
        results = _combined(em, s, copy, values, old)
        for b, where, regs in zip(s.buffers, positions, results, strict=True):
            e = memory_element(b.type)
            for p, r in zip(where, regs, strict=True):
                code.do(f"store {e} {to_storage(v, b.type, r)}, ptr {p}, align {BITS[e] // 8}")
    code.do(f"store atomic i32 0, ptr {lock} release, align 4")


# --- reports ----------------------------------------------------------------------------------


def report(em: Emitter, s: Report, copy: Copy) -> None:
    """Unless `ok` in every active lane, report (site + 1, index, extent); the first report wins."""
    code = em.code
    ok, index, extent = (em.value(e, copy) for e in (s.ok, s.index, s.extent))
    lanes = em.lanes if ok.lanes else 0
    v = Lanes(code, lanes)
    bad = v.inverse(em.reg(ok, lanes))
    if lanes and em.mask is not None:
        bad = v.both(bad, em.mask)
    wrong, fine = code.label("wrong"), code.label("fine")
    code.branch(v.any(bad), wrong, fine)
    code.start(wrong)
    with em.scope():
        numbers = []
        if lanes:
            word = f"i{lanes}"
            bits = code.emit(f"bitcast {vector('i1', lanes)} {bad} to {word}")
            narrow = Lanes(code, 0).call_immediate("cttz", word, bits, True)
            lane = narrow if word == "i64" else code.emit(f"zext {word} {narrow} to i64")
        for value in (index, extent):
            r = em.regs(value)[0]
            numbers.append(Lanes(code, value.lanes).extract("i64", r, lane) if value.lanes else r)
        with first_error(em, s.site + 1):
            for k, r in enumerate(numbers, 1):
                _report(em, k, r)
    code.jump(fine)
    code.start(fine)


@contextmanager
def first_error(em: Emitter, number: int) -> Iterator[None]:
    """What is done if nothing has failed so far: from now on `number` has."""
    code = em.code
    first, done = code.label("first"), code.label("reported")
    both = code.emit(f"cmpxchg ptr {em.errors}, i64 0, i64 {number} monotonic monotonic, align 8")
    code.branch(code.emit(f"extractvalue {{ i64, i1 }} {both}, 1"), first, done)
    code.start(first)
    with em.scope():
        yield
    code.jump(done)
    code.start(done)


def _report(em: Emitter, position: int, word: Reg) -> None:
    at = em.code.emit(f"getelementptr i64, ptr {em.errors}, i64 {position}")
    em.code.do(f"store i64 {word}, ptr {at}, align 8")


# --- foreign functions ------------------------------------------------------------------------


def call_foreign(em: Emitter, node: Foreign, args: list[Value]) -> Value:
    """Call a compiled scalar function by its address, lane by lane."""
    function = node.function
    if function not in em.foreign:
        em.foreign.append(function)
    symbol = f"foreign.{em.foreign.index(function)}"
    code, t = em.code, node.type
    key = em.number((symbol, t.name, *(a.key for a in args)))
    known = em.memo.get(key)
    if known is not None:
        return known  # type: ignore[no-any-return]
    if not any(a.lanes for a in args):
        regs = _call_scalar(em, function, symbol, [(a.type, em.regs(a, 0)) for a in args])
        return em.remember(key, em.in_register(t, regs, 0))  # type: ignore[no-any-return]
    lanes, e = em.lanes, register_element(t)
    store_as = "i8" if e == "i1" else e
    slots = [code.allocate(vector(store_as, lanes)) for _ in range(parts(t))]
    for at in slots:
        code.do(f"store {vector(store_as, lanes)} zeroinitializer, ptr {at}")

    def one(scalars: list[tuple[Reg, ...]], lane: Reg) -> None:
        given = [(a.type, r) for a, r in zip(args, scalars, strict=True)]
        for at, r in zip(slots, _call_scalar(em, function, symbol, given), strict=True):
            if e == "i1":
                r = code.emit(f"zext i1 {r} to i8")
            pointer = code.emit(f"getelementptr {store_as}, ptr {at}, i64 {lane}")
            code.do(f"store {store_as} {r}, ptr {pointer}")

    each_lane(em, args, one)
    v = Lanes(code, lanes)
    loaded = [code.emit(f"load {vector(store_as, lanes)}, ptr {at}") for at in slots]
    if e == "i1":
        loaded = [v.compare("ne", "i8", r, v.lit("i8", 0)) for r in loaded]
    return em.remember(key, em.in_register(t, tuple(loaded), lanes))  # type: ignore[no-any-return]


def _call_scalar(em: Emitter, function: Any, symbol: str,
                 args: list[tuple[ScalarType, tuple[Reg, ...]]]) -> tuple[Reg, ...]:  # fmt: skip
    """One call in Numba's calling convention: the addresses of the result and of the exception
    data, then the arguments (a complex number is two); the returned status is 0 on success."""
    code, t, v = em.code, function.result, Lanes(em.code, 0)
    types, given = ["ptr", "ptr"], []
    for kind, regs in args:
        element = memory_element(kind)
        for r in regs:
            types.append(element)
            given.append(f"{element} {to_storage(v, kind, r)}")
    element = memory_element(t)
    size = BITS[element] // 8
    result, exception = code.allocate(element, 8, parts(t)), code.allocate("ptr")
    positions = [result, *([code.emit(f"getelementptr {element}, ptr {result}, i64 1")]
                        if t.is_complex else [])]  # fmt: skip
    if function.raises:
        for at in positions:
            code.do(f"store {element} zeroinitializer, ptr {at}, align {size}")
    em.module.declarations.setdefault(symbol, f"declare i32 @{symbol}({', '.join(types)})")
    passed = ", ".join([f"ptr {result}", f"ptr {exception}", *given])
    status = code.emit(f"call i32 @{symbol}({passed})")
    if function.raises:
        _raised(em, function, code.emit(f"icmp ne i32 {status}, 0"), args)
    loaded = [code.emit(f"load {element}, ptr {at}, align {size}") for at in positions]
    return tuple(from_storage(v, t, r) for r in loaded)


def _raised(em: Emitter, function: Any, failed: Reg,
            args: list[tuple[ScalarType, tuple[Reg, ...]]]) -> None:  # fmt: skip
    """After a failed call, report its arguments, unless an error is reported already."""
    code, kernel = em.code, em.kernel
    wrong, fine = code.label("raised"), code.label("fine")
    code.branch(failed, wrong, fine)
    code.start(wrong)
    with first_error(em, len(kernel.sites) + kernel.raising.index(function) + 1):
        at = 1
        for t, regs in args:
            halves = [(float64, (r,)) for r in regs] if t.name == "complex128" else [(t, regs)]
            for kind, part in halves:
                bits = _pack(em, kind, part)
                width = "i8" if kind.family == "bool" else f"i{kind.bits}"
                word = bits if width == "i64" else code.emit(f"zext {width} {bits} to i64")
                _report(em, at, word)
                at += 1
    code.jump(fine)
    code.start(fine)
