"""A small interpreter of the kernel IR: each kernel becomes a Python function, plain and checked.

Vector loops run as ordinary loops, backwards, and tasks in a shuffled order, so that a lowering
that relies on an order it was not promised gives wrong results here.  Every load and store is
range-checked; what was not written is filled with a pattern that shows.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.dsl.expr import Apply, Const, Expr, Extent, Foreign, Param, Read, Var, walk
from treadle.dsl.graph import Input, Leaf, Node, Permute, topological
from treadle.dsl.primitives import convert, value_of
from treadle.dsl.types import as_type
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.ir.hosted import Reciprocal, Stride, reciprocal
from treadle.skeletons.ir.narrow import narrow
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.build import LoweringContext
from treadle.skeletons.lower.lower import lower

Arrays = dict[Leaf, np.ndarray]

_NATIVE = {"add": "+", "subtract": "-", "multiply": "*"}
_COMPARE = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
            "greater_equal": ">="}  # fmt: skip


class Reported(Exception):
    """A check of checked mode failed (kept with the others, raised at the end by `run`)."""


def primitive(op: Any, type_: Any, *args: Any) -> Any:
    """One primitive on scalars, by the table's meaning."""
    return value_of(op, [as_type(np.asarray(a).dtype) for a in args], args, type_)[()]


def _floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def _remainder(a: int, b: int) -> int:
    return a % b if b else 0


class _Source:
    """Python source of one kernel."""

    def __init__(self, kernel: ir.Kernel, reverse_vectors: bool) -> None:
        self.kernel, self.reverse = kernel, reverse_vectors
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {
            "primitive": primitive, "fdiv": _floor_divide, "rem": _remainder, "np": np,
            "load": _load, "store": _store, "same": _same_type,
            "first": lambda p, a, b: a if p else b,
        }  # fmt: skip
        self.names: dict[Any, str] = {}

    def name(self, thing: Any, prefix: str = "v") -> str:
        if thing not in self.names:
            self.names[thing] = f"{prefix}{len(self.names)}"
        return self.names[thing]

    def constant(self, value: Any) -> str:
        key = f"c{len(self.constants)}"
        self.constants[key] = value
        return key

    def text(self, e: Expr) -> str:
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, Const):
            if e.type.name in ("int64", "bool"):
                return repr(e.value.item())
            return self.constant(e.value)
        if isinstance(e, ir.Load):
            return f"load({self.name(e.buffer, 'b')}, {self.text(e.index)}, {e.buffer.name!r})"
        assert isinstance(e, Apply | Foreign), e
        args = [self.text(a) for a in e.args]
        if isinstance(e, Foreign):
            return f"{self.constant(e.function)}({', '.join(args)})"
        types = {a.type.name for a in e.args}
        name = e.op.name
        if types == {"int64"} and e.type.name == "int64":
            if name in _NATIVE:
                return f"({args[0]} {_NATIVE[name]} {args[1]})"
            if name in ("minimum", "maximum"):
                return f"{name[:3]}({args[0]}, {args[1]})"
            if name == "floor_divide":
                return f"fdiv({args[0]}, {args[1]})"
            if name == "remainder":
                return f"rem({args[0]}, {args[1]})"
        if types == {"int64"} and name in _COMPARE:
            return f"({args[0]} {_COMPARE[name]} {args[1]})"
        if name == "select":
            return f"first({args[0]}, {args[1]}, {args[2]})"
        if name in ("logical_and", "logical_or"):
            return f"bool({args[0]} {'&' if name == 'logical_and' else '|'} {args[1]})"
        if name == "logical_not":
            return f"(not {args[0]})"
        call = f"primitive({self.constant(e.op)}, {self.constant(e.type)}, {', '.join(args)})"
        if e.op.name == "cast" and {e.type.name} <= {"int64", "bool"}:
            return f"{call}.item()"
        return f"same({call}, {self.constant(e.type)})"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def body(self, body: ir.Body, depth: int) -> None:
        if not any(not isinstance(s, ir.Comment) for s in body):
            self.line(depth, "pass")
        for s in body:
            self.statement(s, depth)

    def statement(self, s: ir.Statement, d: int) -> None:
        match s:
            case ir.Comment():
                pass
            case ir.Let() | ir.Declare() | ir.Assign():
                self.line(d, f"{self.name(s.var)} = {self.text(s.value)}")
            case ir.Store():
                self.line(d, f"store({self.name(s.buffer, 'b')}, {self.text(s.index)}, "
                             f"{self.text(s.value)}, {s.buffer.name!r})")  # fmt: skip
            case ir.Atomic():
                self.atomic(s, d)
            case ir.Fetch():
                self.line(d, f"{self.name(s.var)} = load({self.name(s.buffer, 'b')}, "
                             f"{self.text(s.index)}, {s.buffer.name!r})")  # fmt: skip
            case ir.Publish():
                self.line(d, f"store({self.name(s.buffer, 'b')}, {self.text(s.index)}, "
                             f"{self.text(s.value)}, {s.buffer.name!r})")  # fmt: skip
            case ir.If():
                self.line(d, f"if {self.text(s.condition)}:")
                self.body(s.then, d + 1)
                if s.other:
                    self.line(d, "else:")
                    self.body(s.other, d + 1)
            case ir.For():
                span = f"range({self.text(s.start)}, {self.text(s.stop)}, {s.step})"
                if s.kind != "serial" and self.reverse:
                    span = f"reversed({span})"
                if s.var.type.name == "int32":
                    span = f"map(np.int32, {span})"
                self.line(d, f"for {self.name(s.var)} in {span}:")
                if s.kind == "serial":
                    self.line(d + 1, "if reports: break")
                self.body(s.body, d + 1)
            case ir.While():
                self.line(d, "while True:")
                self.body(s.before, d + 1)
                self.line(d + 1, f"if reports or not {self.text(s.condition)}: break")
                self.body(s.body, d + 1)
            case ir.Reduce():
                span = f"range({self.text(s.start)}, {self.text(s.stop)})"
                if s.var.type.name == "int32":
                    span = f"map(np.int32, {span})"
                self.line(d, f"for {self.name(s.var)} in {span}:")
                self.body(s.body, d + 1)
                self.combine(s.combine, [self.name(a) for a in s.accumulators],
                             [self.text(v) for v in s.values], d + 1)  # fmt: skip
                results = ", ".join(self.text(r) for r in s.combine.results)
                self.line(d + 1, f"{', '.join(self.name(a) for a in s.accumulators)}, = {results},")
            case ir.Report():
                self.line(d, f"if not {self.text(s.ok)}: reports.append(({s.site}, "
                             f"{self.text(s.index)}, {self.text(s.extent)}))")  # fmt: skip
            case _:
                raise AssertionError(s)

    def combine(self, combine: Any, left: list[str], right: list[str], d: int) -> None:
        for variables, values in ((combine.left, left), (combine.right, right)):
            for v, value in zip(variables, values, strict=True):
                self.line(d, f"{self.name(v)} = {value}")

    def atomic(self, s: ir.Atomic, d: int) -> None:
        self.line(d, f"where = {self.text(s.index)}")
        values = [self.text(v) for v in s.values]
        if s.combine is None:
            for b, v in zip(s.buffers, values, strict=True):
                self.line(d, f"store({self.name(b, 'b')}, where, {v}, {b.name!r})")
            return
        old = [f"load({self.name(b, 'b')}, where, {b.name!r})" for b in s.buffers]
        self.combine(s.combine, values, old, d)
        for b, r in zip(s.buffers, s.combine.results, strict=True):
            self.line(d, f"store({self.name(b, 'b')}, where, {self.text(r)}, {b.name!r})")

    def compile(self) -> Any:
        k = self.kernel
        self.body(k.body, 1)
        arguments = [*(self.name(b, "b") for b in k.buffers), *(self.name(v) for v in k.scalars),
                     self.name(k.task), "reports"]  # fmt: skip
        source = f"def kernel({', '.join(arguments)}):\n" + "\n".join(self.lines) + "\n"
        exec(compile(source, f"<{k.name}>", "exec"), self.constants)
        return self.constants["kernel"]


def _load(buffer: Any, index: int, name: str) -> Any:
    if isinstance(buffer, dict):
        assert index in buffer, f"load {name}[{index}], strided"
        return buffer[index]
    assert 0 <= index < buffer.size, f"load {name}[{index}] of {buffer.size}"
    value = buffer[index]
    return value.item() if buffer.dtype in (np.int64, np.bool_) else value


def _store(buffer: np.ndarray, index: int, value: Any, name: str) -> None:
    assert 0 <= index < buffer.size, f"store {name}[{index}] of {buffer.size}"
    if buffer.dtype == np.int64:
        value = (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)
    buffer[index] = value


def _same_type(value: Any, type_: Any) -> Any:
    assert value.dtype == type_.numpy, (value.dtype, type_)
    return value.item() if type_.name in ("int64", "bool") else value


# --- host values -------------------------------------------------------------------------------


def evaluate(e: Expr, known: dict[Expr, Any], arrays: Arrays) -> Any:
    """A host expression (or a size over scalars)."""
    values: dict[Expr, Any] = {}
    for x in walk((e,)):
        if x in known:
            values[x] = known[x]
        elif isinstance(x, Const):
            values[x] = x.value
        elif isinstance(x, Extent):
            values[x] = arrays.get(Leaf(x.node, 0), x.node.source).shape[x.axis]
        elif isinstance(x, Reciprocal):
            values[x] = reciprocal(int(values[x.args[0]]), x.part)
        elif isinstance(x, Stride):
            values[x] = arrays[x.leaf].strides[x.axis] // arrays[x.leaf].itemsize
        elif isinstance(x, Read):
            values[x] = arrays[Leaf(x.node, x.component)][tuple(int(values[a]) for a in x.args)]
        elif isinstance(x, Apply):
            values[x] = primitive(x.op, x.type, *(
                np.asarray(values[a], a.type.numpy) for a in x.args))  # fmt: skip
        else:
            raise AssertionError(f"{x!r} is no host value")
    return values[e]


def cut(value: int, type_: Any) -> int:
    """An unbounded integer in another type; int64 stands for unbounded ones too."""
    if type_.name == "int64":
        return value
    return int(convert(np.int64(((value + 2**63) % 2**64) - 2**63), type_))


def holds(condition: Expr, known: dict[Expr, Any]) -> bool:
    """A condition of `Kernel.requires`, in unbounded integers."""
    values: dict[Expr, Any] = {}
    for x in walk((condition,)):
        args = [values[a] for a in x.args]
        if isinstance(x, Const):
            values[x] = x.value.item()
        elif isinstance(x, Var):
            values[x] = known[x]
        else:
            assert isinstance(x, Apply), x
            name = x.op.name
            if name in ("floor_divide", "remainder"):
                values[x] = (_floor_divide if name == "floor_divide" else _remainder)(*args)
            elif name in ("quot", "rem"):
                a, b = args
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
                values[x] = quotient if name == "quot" else a - quotient * b if b else 0
            elif name == "cast":
                values[x] = cut(args[0], x.type)
            else:
                values[x] = x.op.numpy(*(np.asarray(a, object) for a in args))
    return bool(values[condition])


def chosen(kernel: ir.Kernel, known: dict[Expr, Any]) -> ir.Kernel:
    """The first variant of a kernel whose conditions hold (all arrays count as aligned)."""
    while kernel.fallback is not None and not all(holds(c, known) for c in kernel.requires):
        kernel = kernel.fallback
    return kernel


def variants(kernel: ir.Kernel) -> list[ir.Kernel]:
    """A kernel, its fallback, the fallback of that, …"""
    return [kernel, *(variants(kernel.fallback) if kernel.fallback else ())]


def garbage(size: int, dtype: np.dtype) -> np.ndarray:
    """Memory that was not written."""
    made = np.empty(size, dtype)
    made.view(np.uint8)[:] = 0x5B
    return made


def execute(lowered: ir.Lowered, node: Node, arrays: Arrays, parameters: dict[Expr, Any],
            seed: int = 0) -> list[tuple[Any, int, int]]:  # fmt: skip
    """Run the kernels on `arrays`, adding the node's outputs; the failed checks."""
    memory: dict[ir.Buffer, np.ndarray] = {}
    reports: list[tuple[Any, int, int]] = []
    known: dict[Expr, Any] = dict(parameters)
    for whole in lowered.kernels:
        verify(whole)
        for kernel in variants(whole):
            for var, host in zip(kernel.scalars, kernel.scalar_values, strict=True):
                value = evaluate(host, parameters, arrays)
                known[var] = int(value) if host.type.name in ("int64", "bool") else value
    for leaf in node.leaves:
        shape = tuple(int(evaluate(e, parameters, arrays)) for e in leaf.shape)
        if isinstance(node, Permute):
            arrays[leaf] = arrays[node.defaults[leaf.component]].copy()
        else:
            size = int(np.prod(shape, dtype=np.int64))
            arrays[leaf] = garbage(size, leaf.type.numpy).reshape(shape)
    for buffer in lowered.scratch:
        size = int(evaluate(buffer.size, known, arrays))
        made = garbage(size, buffer.type.numpy)
        if buffer.name.startswith("zero_"):
            made[:] = 0
        memory[buffer] = made
    order = random.Random(seed)
    for whole in lowered.kernels:
        kernel = chosen(whole, known)
        function = _Source(kernel, seed % 2 == 1).compile()
        own: list[tuple[int, int, int]] = []
        held = []
        for b in kernel.buffers:
            if b.leaf is not None:
                array = arrays.get(b.leaf, getattr(b.leaf.node, "source", None))
                held.append(_flat(array))
                assert b.role == "input" or array.flags.c_contiguous
            elif b.role == "local":
                held.append(None)
            else:
                held.append(memory[b])
        scalars = [_typed(known[v], v) for v in kernel.scalars]
        tasks = list(range(int(evaluate(kernel.tasks, known, arrays))))
        order.shuffle(tasks)
        for task in tasks:
            buffers = [garbage(int(b.size.value), b.type.numpy) if h is None else h
                       for b, h in zip(kernel.buffers, held, strict=True)]  # fmt: skip
            with np.errstate(all="ignore"):
                function(*buffers, *scalars, _typed(task, kernel.task), own)
        reports += [(kernel.sites[site], index, extent) for site, index, extent in own]
    return reports


def _typed(value: Any, var: Var) -> Any:
    """A number as a scalar of a kernel."""
    return np.int32(value) if var.type.name == "int32" else value


def _flat(array: np.ndarray) -> Any:
    """The memory of an array; of a strided one the elements by their distance from the first."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    steps = [s // array.itemsize for s in array.strides]
    held = {}
    for ix in np.ndindex(*array.shape):
        value = array[ix]
        held[sum(i * s for i, s in zip(ix, steps, strict=True))] = (
            value.item() if array.dtype in (np.int64, np.bool_) else value
        )
    return held


def run(*roots: Leaf, check: bool = False, schedule: Any = None, seed: int = 0,
        strided: frozenset[Leaf] = frozenset(), parameters: dict[Param, Any] | None = None,
        narrowed: bool | None = None) -> list[np.ndarray]:  # fmt: skip
    """Compute leaves with every node lowered on its own; `IndexError` if a check failed.

    `narrowed`: by kernels with 32-bit indices; False: only divisions are narrowed.
    """
    arrays: Arrays = {}
    context = LoweringContext(check=check, strided=strided)
    failed: list[Any] = []
    values: dict[Expr, Any] = dict(parameters or {})
    for node in topological(roots):
        if isinstance(node, Input):
            dense = np.ascontiguousarray(node.source).reshape(node.source.shape)
            arrays[node.leaf()] = node.source if node.leaf() in strided else dense
            continue
        options = context
        if schedule is not None and node is roots[0].node:
            options = LoweringContext(check=check, strided=strided, schedule=schedule)
        lowered = lower(node, options)
        if narrowed is not None:
            kernels = tuple(narrow(k, narrowed) or k for k in lowered.kernels)
            lowered = replace(lowered, kernels=kernels)
        failed += execute(lowered, node, arrays, values, seed)
    if failed:
        raise Reported(failed)
    return [arrays[r] for r in roots]


def run_array(array: Any, **options: Any) -> Any:
    """`td.run` by this interpreter: an array, or a tuple for tuple elements."""
    found = run(*array._leaves, **options)
    return array.structure.build(found)
