"""32-bit index arithmetic: the narrow kernel computes what the wide one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings, strategies as st

import treadle as td
from tests.skeletons.ir.interpret import cut, holds, primitive, run_array
from treadle.dsl import simplify
from treadle.dsl.expr import Apply, Const, Expr, Param, Var, constant, primitive as op, walk
from treadle.dsl.primitives import RECIPROCAL_DIVIDE
from treadle.dsl.types import bool_, float32, int32, int64
from treadle.skeletons import schedules as sc
from treadle.skeletons.ir import arithmetic as at, kernel as ir
from treadle.skeletons.ir.hosted import Reciprocal, reciprocal
from treadle.skeletons.ir.narrow import narrow
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.lower import LoweringContext, lower

TOP = 2**31 - 1

# --- reciprocals ---------------------------------------------------------------------------------


def divided(n: int, d: int) -> int:
    parts = (np.int32(reciprocal(d, part)) for part in ("multiplier", "shift"))
    return int(RECIPROCAL_DIVIDE.numpy(np.int32(n), *parts))


def test_small_divisors_divide_every_small_number():
    for d in range(1, 70):
        assert [divided(n, d) for n in range(300)] == [n // d for n in range(300)]


@given(st.integers(1, TOP) | st.builds(lambda k, e: min((1 << k) + e, TOP),
                                       st.integers(2, 31), st.integers(-2, 2)),
       st.integers(0, TOP), st.integers(-2, 2))  # fmt: skip
def test_reciprocals_divide_near_multiples(d, n, near):
    for number in (n, min(max(n // d * d + near, 0), TOP), TOP, TOP // d * d):
        assert divided(number, d) == number // d


def test_what_has_no_reciprocal():
    for d in (0, -3, 2**31, 2**40):
        assert reciprocal(d, "multiplier") == reciprocal(d, "shift") == 0


# --- random programs -----------------------------------------------------------------------------


class Machine:
    """Runs a kernel with numbers of their types; what it stores, in order."""

    def __init__(self, kernel: ir.Kernel, scalars: dict[str, int]) -> None:
        self.kernel, self.stores = kernel, []
        self.values: dict[Any, Any] = {}
        for v, host in zip(kernel.scalars, kernel.scalar_values, strict=True):
            self.values[v] = self.typed(self.host(host, scalars), v)

    @staticmethod
    def host(e: Expr, scalars: dict[str, int]) -> int:
        if isinstance(e, Param):
            return scalars[e.name]
        if isinstance(e, Reciprocal):
            return reciprocal(Machine.host(e.args[0], scalars), e.part)
        if isinstance(e, Const):
            return int(e.value)
        assert isinstance(e, Apply)
        values = [Machine.host(a, scalars) for a in e.args]
        if e.op.name in ("floor_divide", "remainder", "quot", "rem") and values[1] == 0:
            return 0
        if e.op.name == "cast":
            return cut(values[0], e.type)
        if e.op.name in ("quot", "rem"):
            a, b = values
            whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return whole if e.op.name == "quot" else a - whole * b
        return int(e.op.numpy(*(np.asarray(v, object) for v in values)))

    @staticmethod
    def typed(value: int, v: Var) -> Any:
        assert v.type == int64 or -(2**31) <= value <= TOP, v
        return v.type.numpy.type(value)

    def value(self, e: Expr) -> Any:
        known: dict[Expr, Any] = {}
        for x in walk((e,)):
            if isinstance(x, Const):
                known[x] = x.value
            elif isinstance(x, Var):
                known[x] = self.values[x]
            elif isinstance(x, ir.Load):
                known[x] = data(x.buffer.type, self.place(x.buffer, int(known[x.index])))
            elif x.op.name == "cast":
                known[x] = primitive(op("cast"), x.type, known[x.args[0]])
            else:
                known[x] = primitive(x.op, x.type, *(known[a] for a in x.args))
        return known[e]

    def place(self, buffer: ir.Buffer, index: int) -> int:
        assert 0 <= index < int(self.value(buffer.size)), (buffer, index)
        return index

    def run(self, body: ir.Body) -> None:
        for s in body:
            match s:
                case ir.Let() | ir.Declare() | ir.Assign():
                    self.values[s.var] = self.value(s.value)
                    assert self.values[s.var].dtype == s.var.type.numpy
                case ir.Store():
                    at_ = int(self.value(s.index))
                    if s.buffer.name == "anywhere":
                        self.place(s.buffer, at_)
                    self.stores.append((s.buffer.name, at_, self.value(s.value).item()))
                case ir.If():
                    self.run(s.then if self.value(s.condition) else s.other)
                case ir.For():
                    for k in range(int(self.value(s.start)), int(self.value(s.stop)), s.step):
                        self.values[s.var] = self.typed(k, s.var)
                        self.run(s.body)
                case _:
                    raise AssertionError(s)


def data(type_: Any, index: int) -> Any:
    """What lies in memory: anything."""
    bits = (index * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64 >> (0 if index % 3 else 50)
    return primitive(op("cast"), type_, np.uint64(bits))


SCALARS = ("n0", "n1", "seed")
BINARY = ("add", "subtract", "multiply", "floor_divide", "remainder", "minimum", "maximum",
          "quot", "rem", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
          "right_shift")  # fmt: skip
LIKELY = ("add", "subtract", "multiply", "floor_divide", "remainder", "minimum", "maximum")
NUMBERS = st.sampled_from([-(2**31) - 1, -1, 0, 1, 2, 3, 7, 8, 31, 32, 33, 256, 2**16, 2**30,
                           TOP, 2**31, 2**40, 2**63 - 1])  # fmt: skip
SIZES = st.integers(1, 40) | st.integers(1, TOP) | st.integers(-5, 2**33) | NUMBERS


class Draft:
    """A random kernel: names for random numbers, tests of them, stores of them and at them."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.scalars = tuple(Var(name, int64) for name in (*SCALARS, "size", "tasks"))
        hosts = tuple(Param(v.name, int64) for v in self.scalars)
        size = self.scalars[3]
        self.buffers = tuple(
            ir.Buffer(name, type_, role, size if role != "output" else constant(64))
            for name, type_, role in [("longs", int64, "input"), ("ints", int32, "input"),
                                      ("out", int64, "output"), ("bits", bool_, "output"),
                                      ("reals", float32, "output"), ("anywhere", int64, "update")]
        )  # fmt: skip
        self.task = Var("task", int64)
        self.atoms: list[Expr] = [self.task, *self.scalars[:3]]
        self.mutable: list[Var] = []
        body = self.block(3)
        self.kernel = ir.Kernel("random", self.buffers, self.scalars, hosts, self.scalars[4],
                                self.task, body)  # fmt: skip

    def expression(self, depth: int) -> Expr:
        kind = self.draw(st.integers(0, 10 if depth else 3))
        if kind <= 2:
            return self.draw(st.sampled_from(self.atoms))
        if kind == 3:
            return Const(self.draw(NUMBERS), int64)
        if kind == 4:
            a = self.expression(depth - 1)
            return at.select(self.condition(depth - 1), a, self.expression(depth - 1))
        if kind == 5:
            buffer = self.buffers[self.draw(st.integers(0, 1))]
            inside = at.minimum(at.maximum(self.expression(depth - 1), 0),
                                at.subtract(buffer.size, 1))  # fmt: skip
            return simplify.cast(ir.Load(buffer, inside), int64)
        if kind == 6:
            short = self.draw(st.sampled_from([int32, bool_]))
            return simplify.cast(simplify.cast(self.expression(depth - 1), short), int64)
        if kind == 10:  # by one of two scalars, as orders of a whole plane do
            number = at.maximum(self.expression(depth - 1), 0)
            sides = [self.draw(st.sampled_from([*self.scalars[:3], constant(0), constant(6)]))
                     for _ in range(2)]  # fmt: skip
            divide = self.draw(st.sampled_from([at.floor_divide, at.remainder]))
            return divide(number, at.select(self.condition(0), *sides))
        name = self.draw(st.sampled_from(LIKELY if kind < 9 else BINARY))
        args = self.expression(depth - 1), self.expression(depth - 1)
        return simplify.apply(op(name), args, int64)

    def condition(self, depth: int) -> Expr:
        name = self.draw(st.sampled_from(["less", "less_equal", "equal"]))
        args = self.expression(depth), self.expression(depth)
        return simplify.apply(op(name), args, bool_)

    def block(self, depth: int) -> ir.Body:
        kept = len(self.atoms), len(self.mutable)
        made = [s for _ in range(self.draw(st.integers(1, 4))) for s in self.statement(depth)]
        del self.atoms[kept[0] :], self.mutable[kept[1] :]
        return tuple(made)

    def name(self, kind: type, value: Expr) -> ir.Statement:
        var = Var(f"{kind.__name__.lower()}{len(self.atoms)}", int64)
        self.atoms.append(var)
        if kind is ir.Declare:
            self.mutable.append(var)
        return kind(var, value)

    def statement(self, depth: int) -> list[ir.Statement]:
        kind = self.draw(st.integers(0, 9 if depth else 6))
        longs, _, out, bits, reals, anywhere = self.buffers
        e = self.expression(3)
        if kind <= 1:
            return [self.name(ir.Let, e)]
        if kind == 2:
            return [self.name(ir.Declare, e)]
        if kind == 3 and self.mutable:
            return [ir.Assign(self.draw(st.sampled_from(self.mutable)), e)]
        if kind == 4:
            return [ir.Store(out, at.remainder(e, 64), self.expression(2))]
        if kind == 5:
            return [ir.Store(bits, constant(0), self.condition(2)),
                    ir.Store(reals, constant(1), simplify.cast(e, float32))]  # fmt: skip
        if kind <= 7 or not depth:
            inside = at.in_range(e, longs.size)
            value = at.add(ir.Load(longs, e), 1)
            return [ir.If(inside, (ir.Store(anywhere, e, value),))]
        if kind == 8:
            return [ir.If(self.condition(2), self.block(depth - 1), self.block(depth - 1))]
        iterations = self.draw(st.integers(1, 3))
        step = self.draw(st.integers(1, 2))
        var = Var("k", int64)
        first = self.name(ir.Let, at.minimum(e, constant(2**62)))
        last = at.minimum(at.add(first.var, iterations), self.expression(1))
        self.atoms.append(var)
        inner = self.block(depth - 1)
        self.atoms.remove(var)
        start = at.maximum(first.var, at.subtract(last, iterations))
        return [first, ir.For(var, start, last, inner, "serial", step)]


@st.composite
def programs(draw: Any) -> tuple[ir.Kernel, dict[str, int], list[int]]:
    kernel = Draft(draw).kernel
    scalars = {name: draw(SIZES) for name in SCALARS}
    scalars["size"] = draw(st.integers(1, 50) | st.integers(1, 2**33))
    tasks = scalars["tasks"] = draw(st.integers(1, 50) | st.integers(1, 2**33))
    chosen = {0, tasks - 1, draw(st.integers(0, tasks - 1))}
    return kernel, scalars, sorted(chosen)


def stores(kernel: ir.Kernel, scalars: dict[str, int], wide: ir.Kernel, task: int) -> Any:
    machine = Machine(wide, scalars)
    sizes = machine.values
    if kernel is not wide:
        machine = Machine(kernel, scalars)
        machine.values.update(sizes)  # sizes of buffers are over the wide scalars
    machine.values[kernel.task] = machine.typed(task, kernel.task)
    machine.run(kernel.body)
    return machine.stores


@settings(max_examples=120, deadline=None)
@given(programs(), st.booleans())
def test_random_programs(program, indices):
    _means_the_same(program, indices)


@pytest.mark.long
@settings(max_examples=2000, deadline=None)
@given(programs(), st.booleans())
def test_many_random_programs(program, indices):
    _means_the_same(program, indices)


def _means_the_same(program, indices):
    kernel, scalars, tasks = program
    verify(kernel)
    small = narrow(kernel, indices)
    if small is None:
        event("nothing to narrow")
        return
    verify(small)
    hosts = zip(small.scalars, small.scalar_values, strict=True)
    known = {v: Machine.host(h, scalars) for v, h in hosts}
    fits = all(holds(c, known) for c in small.requires)
    event(f"narrow: {fits}")
    if not fits:
        return
    with np.errstate(all="ignore"):
        for task in tasks:
            expected = stores(kernel, scalars, kernel, task)
            assert stores(small, scalars, kernel, task) == expected


# --- whole operations ----------------------------------------------------------------------------


def blur(w):
    return w[-1, 0] + w[0, -1] + w[0, 0] + w[0, 1] + w[1, 0]


def kernels(array: Any, **context: Any) -> list[ir.Kernel]:
    made = lower(array._leaves[0].node, LoweringContext(**context)).kernels
    return [narrow(k) or k for k in made]


IMAGE = np.arange(35, dtype="i8").reshape(5, 7)
OPERATIONS = {
    "map": lambda: td.use(IMAGE) * 3 + 2**40,
    "where am I": lambda: td.generate((5, 7), lambda i, j: i * 2**31 + j),
    "transpose": lambda: td.use(IMAGE).T,
    "reshape": lambda: td.reshape(td.use(IMAGE).T, (7, 5)),
    "slice": lambda: td.use(IMAGE)[::-1, 1::2],
    "gather": lambda: td.gather(td.use(IMAGE[0]), np.array([3, 6, 0])),
    "stencil": lambda: td.stencil(blur, IMAGE),
    "wrapped": lambda: td.stencil(blur, IMAGE, boundary=td.wrap),
    "mirrored": lambda: td.stencil(blur, IMAGE, boundary=td.mirror),
    "padded": lambda: td.stencil(blur, IMAGE, boundary=td.constant(2**35)),
    "column": lambda: td.stencil(blur, IMAGE, schedule=sc.Column(4)),
    "zigzag": lambda: td.stencil(blur, IMAGE, schedule=sc.ZigZag(3)),
    "morton": lambda: td.stencil(blur, IMAGE, schedule=sc.Morton()),
    "hilbert": lambda: td.stencil(blur, IMAGE, schedule=sc.Hilbert()),
    "tile": lambda: td.stencil(blur, IMAGE, schedule=sc.Tile(2, 3)),
    "sum": lambda: td.sum(td.use(IMAGE) * 2**40),
    "sum across": lambda: td.sum(td.use(IMAGE), axis=0),
    "argmax": lambda: td.argmax(td.use(IMAGE) % 11),
    "cumsum": lambda: td.cumsum(td.use(IMAGE), axis=1),
    "segments": lambda: td.fold_seg(lambda a, b: a + b, 0, IMAGE[0], np.array([3, 0, 4])),
    "histogram": lambda: td.permute(lambda a, b: a + b, np.zeros(4, "i8"),
                                    lambda i: td.use(IMAGE[1])[i] % 4, IMAGE[0] << 40),
    "loop": lambda: td.map(lambda x: td.while_loop(lambda s: s < 2**40, lambda s: s * 3, x + 1),
                           IMAGE),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("check", [False, True])
def test_operations(name, check):
    array = OPERATIONS[name]()
    expected = run_array(array, check=check)
    assert np.array_equal(run_array(array, check=check, narrowed=True), expected)
    assert np.array_equal(run_array(array, check=check, narrowed=False), expected)
    for kernel in kernels(array, check=check):
        verify(kernel)
        assert (kernel.fallback is not None) == bool(kernel.requires)


@pytest.mark.parametrize("name", ["map", "transpose", "stencil"])
def test_strided_arrays(name):
    whole = np.arange(4 * 35, dtype="i8").reshape(10, 14)[::-2, ::2]
    made = {"map": lambda a: a + 1, "transpose": lambda a: a.T, "stencil": lambda a: td.stencil(
        blur, a)}[name](td.use(whole))  # fmt: skip
    strided = frozenset(made._leaves[0].node.inputs())
    expected = run_array(made, strided=strided)
    assert np.array_equal(run_array(made, strided=strided, narrowed=True), expected)


def test_the_narrow_kernel_is_for_small_arrays_only():
    (kernel,) = kernels(td.use(np.zeros((3, 4), "f4")).T)
    wide = kernel.fallback
    sizes = {"n0": (3, 50_000), "n1": (4, 50_000)}
    for which, expected in ((0, True), (1, False)):
        known = {v: sizes[v.name][which] if v.name in sizes else 1 for v in kernel.scalars}
        assert all(holds(c, known) for c in kernel.requires) == expected
    assert wide is not None and wide.fallback is None
    assert {b for b in kernel.buffers} == {b for b in wide.buffers}


@pytest.mark.parametrize("indices", [True, False])
def test_divisors_that_a_kernel_names(indices):
    """A value that the host can compute has a reciprocal, also as a variable of the kernel."""
    extent = Param("n", int64)
    scalar, task, i, t = (Var(name, int64) for name in ("n", "task", "i", "t"))
    buffer = ir.Buffer("out", int64, "output", constant(8))
    inside = at.maximum(at.subtract(scalar, 2), 0)
    loop = ir.For(i, constant(0), constant(8), (ir.Store(buffer, i, at.floor_divide(i, t)),))
    body = (ir.Let(t, inside), loop)
    wide = ir.Kernel("rows", (buffer,), (scalar,), (extent,), constant(1), task, body)
    small = narrow(wide, indices=indices)
    assert small is not None
    operations = {
        e.op
        for e in walk(e for s in ir.statements(small.body) for e in ir.expressions(s))
        if isinstance(e, Apply)
    }
    assert RECIPROCAL_DIVIDE in operations and op("floor_divide") not in operations
    assert [v.name for v in small.scalars] == ["n", "t_multiplier", "t_shift"]


def test_data_are_no_reason_to_stay_wide():
    """A factor of 64 bits is not cut, and does not send the kernel to its fallback."""
    seed = Param("seed", int64)
    (kernel,) = kernels(td.map(lambda x: x * td.int64(2**50 + 1), IMAGE))
    (store,) = [s for s in ir.statements(kernel.body) if isinstance(s, ir.Store)]
    assert store.value.type == int64
    buffer = ir.Buffer("out", int64, "output", constant(8))
    task, scalar = Var("task", int64), Var("seed", int64)
    body = (ir.Store(buffer, at.remainder(task, 8), at.multiply(task, scalar)),)
    wide = ir.Kernel("scaled", (buffer,), (scalar,), (seed,), constant(8), task, body)
    small = narrow(wide)
    assert small is not None and small.scalars == wide.scalars
    assert not any("2147483647" in str(c) for c in small.requires)
