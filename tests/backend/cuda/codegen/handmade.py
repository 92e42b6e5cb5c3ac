"""Small GPU kernels made by hand: every primitive of every type, every statement."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.dsl.expr import Apply, Const, Expr, Var, primitive
from treadle.dsl.graph import Combine
from treadle.dsl.primitives import TABLE, Primitive
from treadle.dsl.types import (
    ScalarType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from treadle.skeletons.ir import arithmetic as at
from treadle.skeletons.ir.kernel import (
    Assign,
    Atomic,
    Barrier,
    Body,
    Buffer,
    Collective,
    Comment,
    Declare,
    Fence,
    Fetch,
    FetchUpdate,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoadVector,
    Publish,
    Reduce,
    Report,
    Statement,
    Store,
    StoreVector,
    While,
)

INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
FLOATS = (float16, bfloat16, float32, float64)
COMPLEXES = (complex64, complex128)
TYPES = (bool_, *INTEGERS, *FLOATS, *COMPLEXES)
THREADS = 256


def apply(name: str, *args: Expr, type_: ScalarType | None = None) -> Apply:
    """A primitive, exactly as written: nothing is simplified."""
    return Apply(primitive(name), args, type_ or args[0].type)


def plus(t: ScalarType, name: str = "add") -> Combine:
    """The combining function of one primitive."""
    left, right = Var("x", t), Var("y", t)
    return Combine((left,), (right,), (apply(name, left, right),))


class Maker:
    """A kernel of one thread per element under construction: `i` is the element's number."""

    def __init__(self, name: str, threads: int = THREADS) -> None:
        self.name, self.threads = name, threads
        self.task, self.thread = Var("task", int64), Var("thread", int64)
        self.n = Var("n", int64)
        self.i = Var("i", int64)
        self.buffers: list[Buffer] = []
        self.body: list[Statement] = [
            Let(self.i, at.add(at.multiply(self.task, threads), self.thread))
        ]

    def buffer(self, name: str, t: ScalarType, role: str = "input", size: int = 0) -> Buffer:
        made = Buffer(name, t, role, Const(size, int64) if size else self.n)
        self.buffers.append(made)
        return made

    def add(self, *body: Statement) -> None:
        self.body += body

    def kernel(self, scalars: Sequence[Var] = (), **more: object) -> Kernel:
        tasks = at.ceil_div(self.n, self.threads)
        body: Body = tuple(self.body)
        return Kernel(
            self.name, tuple(self.buffers), (self.n, *scalars), (), tasks, self.task, body,
            threads=self.threads, thread=self.thread, **more,
        )  # type: ignore[arg-type]  # fmt: skip


def cases(t: ScalarType) -> list[tuple[Primitive, tuple[ScalarType, ...], ScalarType]]:
    """Every primitive that takes arguments of type `t`, and every cast of it."""
    found: list[tuple[Primitive, tuple[ScalarType, ...], ScalarType]] = []
    for p in TABLE.values():
        rule = p.rule(t) if p.name not in ("cast", "select", "complex") else None
        if rule is not None and rule[0] == t:
            found.append((p, (t,) * p.arity, rule[1]))
    found.append((TABLE["select"], (bool_, t, t), t))
    found += [(TABLE["cast"], (t,), u) for u in TYPES]
    if t in (float32, float64):
        found.append((TABLE["complex"], (t, t), complex64 if t == float32 else complex128))
    return found


def primitive_kernel(name: str, some: Sequence[
        tuple[Primitive, tuple[ScalarType, ...], ScalarType]]) -> Kernel:  # fmt: skip
    """out_k[i] = primitive(a_k0[i], a_k1[i], …): element-wise, one output per primitive."""
    m = Maker(name)
    for k, (p, types, result) in enumerate(some):
        ins = [m.buffer(f"{p.name}_{k}_{'abc'[j]}", u) for j, u in enumerate(types)]
        out = m.buffer(f"{p.name}_{k}_out", result, "output")
        m.add(Store(out, m.i, Apply(p, tuple(Load(b, m.i) for b in ins), result)))
    return m.kernel()


def catalogue(t: ScalarType) -> Kernel:
    """Every primitive on a, b, c of type `t`, under its name."""
    m = Maker(f"catalogue_{t.name}")
    values = {n: (m.buffer(f"{n}s", u), Var(n, u)) for n, u in
              (("a", t), ("b", t), ("c", t), ("p", bool_))}  # fmt: skip
    m.add(*(Let(v, Load(b, m.i)) for b, v in values.values()))
    for p, types, result in cases(t):
        if p.formula is not None:  # made of the others
            continue
        out = m.buffer(f"{p.name}_{result.name if p.name == 'cast' else 'of'}", result, "output")
        args = [values["p"][1]] if p.name == "select" else []
        args += [values[n][1] for n in "abc"[: len(types) - len(args)]]
        m.add(Store(out, m.i, Apply(p, tuple(args), result)))
    return m.kernel()


# --- one kernel per statement -----------------------------------------------------------------


def lit(value: object, t: ScalarType) -> Const:
    return Const(value, t)


def _simple(name: str, t: ScalarType = float32) -> tuple[Maker, Expr, Buffer]:
    m = Maker(name)
    a = m.buffer("a", t)
    return m, Load(a, m.i), m.buffer("out", t, "output")


def _let() -> Kernel:
    """Names, comments, compound assignment, sharing."""
    m, x, out = _simple("let_line1")
    y, total = Var("y", float32), Var("total", float32)
    deep = apply("exp", apply("add", x, lit(1, float32)))
    m.add(
        Comment("blur, example.py:7"),
        Let(y, apply("multiply", apply("subtract", deep, x), apply("negative", deep))),
        Declare(total, y),
        Assign(total, apply("add", total, lit(0.1, float32))),
        Assign(total, apply("multiply", total, apply("subtract", total, y))),
        Store(out, m.i, total),
    )
    return m.kernel()


def _control() -> Kernel:
    """if, else if, else; loops of every kind."""
    m, x, out = _simple("control_line2")
    value, n = Var("value", float32), Var("k", int64)
    twice, iteration = Var("u", int64), Var("t", int64)
    again = apply("less", value, lit(100, float32), type_=bool_)
    positive = apply("greater", x, lit(0, float32), type_=bool_)
    small = apply("less", x, lit(-1, float32), type_=bool_)
    m.add(
        Declare(value, x),
        If(
            at.less(m.i, m.n),
            (
                If(positive, (Assign(value, apply("sqrt", value)),),
                   (If(small, (Assign(value, lit(-1, float32)),),
                       (Assign(value, apply("negative", value)),)),)),
                For(n, Const(0, int64), at.minimum(m.n, m.i),
                    (Assign(value, apply("add", value, lit(1, float32))),), step=2),
                For(twice, Const(0, int64), Const(4, int64),
                    (Assign(value, apply("multiply", value, value)),), "unrolled"),
                While((), again, (Assign(value, apply("multiply", value, lit(3, float32))),)),
                While((Let(iteration, apply("cast", value, type_=int64)),),
                      at.less(iteration, m.n), (Assign(value, apply("exp", value)),)),
                Store(out, m.i, value),
            ),
        ),
    )  # fmt: skip
    return m.kernel()


def _reduce() -> Kernel:
    """A reduction of two components."""
    m = Maker("reduce_line3")
    a = m.buffer("a", float32)
    count, total = m.buffer("count", int32, "output"), m.buffer("total", float32, "output")
    k, some, added = Var("k", int64), Var("some", int32), Var("added", float32)
    value = Load(a, at.add(at.multiply(m.i, m.n), k))
    left = (Var("x", float32), Var("c", int32))
    right = (Var("y", float32), Var("d", int32))
    both = Combine(left, right, tuple(apply("add", p, q) for p, q in zip(left, right, strict=True)))
    m.add(
        Declare(added, lit(0, float32)),
        Declare(some, lit(0, int32)),
        Reduce(k, Const(0, int64), m.n, (), (value, lit(1, int32)), (added, some), both),
        Store(total, m.i, added),
        Store(count, m.i, some),
    )
    return m.kernel()


def _checked() -> Kernel:
    """Checked mode."""
    m, _, out = _simple("checked_line4")
    where = m.buffer("where", int64)
    index, ok, value = Load(where, m.i), Var("ok", bool_), Var("value", float32)
    m.add(
        Let(ok, at.both(at.less_equal(0, index), at.less(index, m.n))),
        Report(ok, 2, index, m.n),
        Declare(value, lit(0, float32)),
        If(ok, (Assign(value, Load(m.buffers[0], index)),)),
        Store(out, m.i, value),
    )
    return m.kernel()


def _vectors(t: ScalarType = float32, count: int = 4, streaming: bool = False) -> Kernel:
    """Wide accesses, parts in another order, a whole vector copied."""
    m, _, out = _simple(f"vectors_{t.name}_{count}", t)
    copy = m.buffer("copy", t, "output")
    x = tuple(Var("x", t) for _ in range(count))
    first = Var("first", int64)
    m.add(
        Let(first, at.multiply(m.i, count)),
        LoadVector(x, m.buffers[0], first, streaming),
        StoreVector(out, first, x[::-1], streaming),
        StoreVector(copy, first, x, streaming),
    )
    return m.kernel(aligned=tuple(m.buffers))


def _shared() -> Kernel:
    """Shared memory, a thread's own array, barriers."""
    m, x, out = _simple("shared_line5")
    tile = m.buffer("tile", float32, "shared", THREADS)
    window = m.buffer("window", float32, "local", 3)
    k, total = Var("k", int64), Var("total", float32)
    place = at.remainder(at.add(m.thread, k), THREADS)
    m.add(
        Store(tile, m.thread, x),
        Barrier(),
        For(k, Const(0, int64), Const(3, int64),
            (Store(window, k, Load(tile, place)),), "unrolled"),
        Declare(total, lit(0, float32)),
        For(k, Const(0, int64), Const(3, int64),
            (Assign(total, apply("add", total, Load(window, k))),), "unrolled"),
        Store(out, m.i, total),
    )  # fmt: skip
    return m.kernel(resident=4)


def _large_shared() -> Kernel:
    """More shared memory than a kernel may declare."""
    m, x, out = _simple("large_shared_line6")
    one = m.buffer("one", float32, "shared", 16_000)
    two = m.buffer("two", float64, "shared", 1_000)
    wide = apply("cast", Load(one, m.thread), type_=float64)
    m.add(
        Store(one, m.thread, x),
        Barrier(),
        Store(two, m.thread, wide),
        Barrier(),
        Store(out, m.i, apply("cast", Load(two, m.thread), type_=float32)),
    )
    return m.kernel()


def _warps() -> Kernel:
    """What the threads of a warp do together."""
    m, x, out = _simple("warps_line7")
    bits = m.buffer("bits", uint32, "output")
    keys = m.buffer("keys", int32)
    some = [Var("v", float32) for _ in range(4)]
    same, positive = Var("same", uint32), Var("positive", uint32)
    m.add(
        Collective(some[0], "shuffle", (x, Const(0, int32))),
        Collective(some[1], "shuffle_up", (some[0], Const(1, int32))),
        Collective(some[2], "shuffle_down", (some[1], Const(2, int32))),
        Collective(some[3], "shuffle_xor", (some[2], Const(16, int32))),
        Collective(positive, "ballot", (apply("greater", x, lit(0, float32), type_=bool_),)),
        Collective(same, "match", (Load(keys, m.i),)),
        Store(out, m.i, some[3]),
        Store(bits, m.i, apply("bitwise_and", same, positive)),
    )
    return m.kernel()


def _blocks() -> Kernel:
    """What passes between blocks: a ticket, and a chain from block to block."""
    m = Maker("blocks_line8", 32)
    out = m.buffer("out", float32, "output")
    ticket = m.buffer("zero_ticket", int32, "scratch", 1)
    flags = m.buffer("zero_flags", uint32, "scratch")
    sums = m.buffer("sums", float32, "scratch")
    mine, seen, before = Var("mine", int32), Var("seen", uint32), Var("before", float32)
    state = Var("state", uint32)
    at_ = apply("cast", mine, type_=int64)
    after = at.add(at_, 1)
    waiting = apply("equal", state, lit(0, uint32), type_=bool_)
    m.add(
        If(
            at.equal(m.thread, 0),
            (
                FetchUpdate(mine, ticket, Const(0, int64), lit(1, int32), "add"),
                Declare(state, lit(0, uint32)),
                While((Fetch(seen, flags, at_), Assign(state, seen)), waiting, ()),
                Fetch(before, sums, at_),
                Publish(sums, after, apply("add", before, lit(1, float32))),
                Fence(),
                Publish(flags, after, lit(1, uint32)),
                Store(out, at_, before),
            ),
        )
    )
    return m.kernel()


def atomic_kernel(t: ScalarType, op: str, locks: bool = False) -> Kernel:
    """out[where[i]] = op(a[i], out[where[i]])."""
    m, x, _ = _simple(f"atomic_{op}_{t.name}", t)
    m.buffers.pop()
    where = m.buffer("where", int64)
    out = m.buffer("out", t, "update")
    lock = m.buffer("locks", int32, "scratch", 64) if locks else None
    m.add(Atomic((out,), Load(where, m.i), (x,), plus(t, op), lock))
    return m.kernel()


def _tuples(combine: bool) -> Kernel:
    """The larger pair wins; or the last: whole pairs under a lock."""
    m = Maker("pairs_line9" if combine else "overwrite_line10")
    keys, values = m.buffer("keys", int32), m.buffer("values", complex128)
    where = m.buffer("where", int64)
    best, of = m.buffer("best", int32, "update"), m.buffer("of", complex128, "update")
    locks = m.buffer("locks", int32, "scratch", 1024)
    left = (Var("key", int32), Var("value", complex128))
    right = (Var("old_key", int32), Var("old_value", complex128))
    larger = apply("greater", left[0], right[0], type_=bool_)
    wins = Combine(
        left,
        right,
        tuple(
            apply("select", larger, p, q, type_=p.type) for p, q in zip(left, right, strict=True)
        ),
    )
    m.add(Atomic((best, of), Load(where, m.i), (Load(keys, m.i), Load(values, m.i)),
                 wins if combine else None, locks))  # fmt: skip
    return m.kernel()


def _data() -> Kernel:
    """Integer data wraps; index arithmetic is written plainly."""
    m, x, out = _simple("hash_line11", int32)
    seed = Var("seed", int32)
    mixed = apply("add", apply("multiply", x, lit(1664525, int32)), lit(1013904223, int32))
    folded = apply("bitwise_xor", mixed, apply("right_shift", mixed, lit(16, int32)))
    place = at.remainder(at.multiply(m.i, 2654435761), m.n)
    m.add(Store(out, at.add(at.multiply(place, m.n), 1), apply("add", folded, seed)))
    return m.kernel(scalars=(seed,))


STATEMENTS = {
    "let": _let, "control": _control, "reduce": _reduce, "checked": _checked,
    "vectors": _vectors, "vectors_half": lambda: _vectors(float16, 8),
    "vectors_streaming": lambda: _vectors(float32, 4, True),
    "vectors_half_streaming": lambda: _vectors(float16, 4, True), "shared": _shared,
    "large_shared": _large_shared, "warps": _warps, "blocks": _blocks,
    "atomic_add": lambda: atomic_kernel(float32, "add"),
    "atomic_maximum": lambda: atomic_kernel(float32, "maximum"),
    "atomic_multiply_int8": lambda: atomic_kernel(int8, "multiply"),
    "atomic_complex": lambda: atomic_kernel(complex128, "multiply", True),
    "pairs": lambda: _tuples(True), "overwrite": lambda: _tuples(False), "hash": _data,
}  # fmt: skip


def exchanges(t: ScalarType) -> Kernel:
    """Shuffles, and what one block fetches and publishes, of one type."""
    m, x, out = _simple(f"exchanges_{t.name}", t)
    sums = m.buffer("sums", t, "scratch")
    values = [Var("v", t) for _ in range(5)]
    ops = ("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor")
    before: Expr = x
    for v, op in zip(values, ops, strict=False):
        m.add(Collective(v, op, (before, Const(1, int32))))
        before = v
    m.add(Fetch(values[4], sums, m.i), Publish(sums, at.add(m.i, 1), before))
    m.add(Fetch(values[4], sums, m.i, False), Publish(sums, at.add(m.i, 2), before, False))
    m.add(Store(out, m.i, values[4]))
    if t.is_integer:
        same = Var("same", uint32)
        some = m.buffer("some", uint32, "output")
        m.add(Collective(same, "match", (x,)), Store(some, m.i, same))
    if t.is_integer and t.bits >= 32:
        for op in ("add", "minimum", "maximum", "bitwise_and", "bitwise_xor", "exchange"):
            m.add(FetchUpdate(Var("old", t), sums, m.i, x, op))
    return m.kernel()
