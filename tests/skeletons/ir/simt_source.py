"""From a GPU kernel to a Python function over lanes: the compiler of the SIMT interpreter.

A value that every thread of a block shares stays one number, any other is an array with an element
per thread.  Conditions that differ between threads become masks: None (all lanes) or a `Mask`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tests.skeletons.ir.simt_memory import Endless, KernelFault, Lockstep, Mask, Memory
from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, walk
from treadle.dsl.primitives import convert, value_of
from treadle.dsl.types import as_type
from treadle.skeletons.ir import kernel as ir

#: Iterations of a loop before it counts as endless.
ITERATIONS = 300_000

_PLAIN = {"add": "+", "subtract": "-", "multiply": "*", "bitwise_and": "&", "bitwise_or": "|",
          "bitwise_xor": "^", "logical_and": "&", "logical_or": "|", "logical_xor": "^",
          "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
          "greater_equal": ">="}  # fmt: skip
_SIMPLE_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                 "float32", "float64")  # fmt: skip
_UPDATES: dict[str, Callable[..., Any]] = {
    "add": np.add, "minimum": np.minimum, "maximum": np.maximum, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "exchange": lambda old, new: new,
}  # fmt: skip


# --- what generated code calls ------------------------------------------------------------------


def _general(op: Any, type_: Any, *args: Any) -> Any:
    """A primitive by the table's meaning, on lanes or single values."""
    return value_of(op, [as_type(np.asarray(a).dtype) for a in args], args, type_)[()]


def _divide(op: Any, a: Any, b: Any) -> Any:
    """Floor division or remainder of integers; fast for one positive divisor."""
    if np.ndim(b) == 0 and b > 0:
        return a // b if op.name == "floor_divide" else a % b
    return np.asarray(op.numpy(np.asarray(a), np.asarray(b)))[()]


def _convert(value: Any, type_: Any) -> Any:
    return convert(np.asarray(value), type_)[()]


def _choose(p: Any, a: Any, b: Any) -> Any:
    if np.ndim(p) == 0:
        return a if p else b
    return np.where(p, a, b)


def _assign(mask: Mask | None, new: Any, old: Any) -> Any:
    return new if mask is None else np.where(mask.on, new, old)


def _foreign(step: Lockstep, mask: Mask | None, function: Any, type_: Any, *args: Any) -> Any:
    rows = [step.spread(a, mask) for a in args]
    found = [function(*values) for values in zip(*rows, strict=True)]
    return step.fill(np.array(found, type_.numpy), mask)


def _report(step: Lockstep, mask: Mask | None, reports: list[Any], site: int, ok: Any, index: Any,
            extent: Any) -> None:  # fmt: skip
    bad = ~step.spread(ok, mask)
    if bad.any():
        rows = zip(step.spread(index, mask)[bad], step.spread(extent, mask)[bad], strict=True)
        reports.extend((site, int(i), int(n)) for i, n in rows)


def _load_vector(step: Lockstep, mask: Mask | None, memory: Memory, index: Any, count: int) -> Any:
    at = memory.where(step, index, mask, count, "vector load")
    found = []
    for k in range(count):
        memory.read(step, at + k, mask)
        found.append(step.fill(memory.data[at + k], mask))
    return found


def _store_vector(step: Lockstep, mask: Mask | None, memory: Memory, index: Any,
                  *values: Any) -> None:  # fmt: skip
    at = memory.where(step, index, mask, len(values), "vector store")
    for k, value in enumerate(values):
        memory.put(step, at + k, value, mask)


def _publish(step: Lockstep, mask: Mask | None, memory: Memory, index: Any, value: Any) -> None:
    at = memory.where(step, index, mask, what="publish")
    _fence(step, mask)
    if value.dtype != memory.data.dtype:
        raise KernelFault(f"{step.grid.name}: {value.dtype} published to {memory.name}")
    memory.data[at] = step.spread(value, mask)
    memory.write(step, at, mask, atomic=True)


def _fence(step: Lockstep, mask: Mask | None) -> None:
    step.grid.fence(step, mask)


def _rounds(at: np.ndarray) -> Iterable[np.ndarray]:
    """Lanes in groups that touch different elements: the k-th of each element is in group k."""
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    turn = np.arange(len(at)) - np.repeat(first, np.diff(np.r_[first, len(at)]))
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    return np.split(order[by_turn], ends[:-1])


def _update(step: Lockstep, mask: Mask | None, memory: Memory, index: Any, value: Any,
            op: str) -> np.ndarray:  # fmt: skip
    at = memory.where(step, index, mask, what="update")
    values = step.spread(value, mask)
    old = np.empty(len(at), memory.data.dtype)
    step.grid.progress += 1
    for lanes in _rounds(at):
        old[lanes] = memory.data[at[lanes]]
        memory.data[at[lanes]] = _UPDATES[op](old[lanes], values[lanes])
    memory.write(step, at, mask, atomic=True)
    return step.fill(old, mask)


def _atomic(step: Lockstep, mask: Mask | None, memories: Sequence[Memory], index: Any,
            values: Sequence[Any], combine: Callable[..., Any] | None, locks: Memory | None
            ) -> None:  # fmt: skip
    if locks is not None and locks.high < 1:
        raise KernelFault(f"{step.grid.name}: no locks in {locks.name}")
    places = [m.where(step, index, mask, what="atomic") for m in memories]
    rows = [step.spread(v, mask) for v in values]
    for lanes in _rounds(places[0]):
        new = [r[lanes] for r in rows]
        if combine is not None:
            old = [m.data[at[lanes]] for m, at in zip(memories, places, strict=True)]
            new = combine(len(lanes), *new, *old)
        for m, at, v in zip(memories, places, new, strict=True):
            m.data[at[lanes]] = v
    for m, at in zip(memories, places, strict=True):
        m.write(step, at, mask, atomic=True)


def _turn(count: int, name: str) -> int:
    if count > ITERATIONS:
        raise Endless(f"{name}: a loop took {ITERATIONS:,} iterations")
    return count + 1


# --- from a kernel to Python --------------------------------------------------------------------


class _Varying:
    """Which variables may differ between threads of a block: found by repetition."""

    def __init__(self, kernel: ir.Kernel, together: bool) -> None:
        self.vars: set[Expr] = {kernel.thread} if kernel.thread is not None else set()
        self.together = together
        if together:
            self.vars.add(kernel.task)
        self.memo: dict[Expr, bool] = {}
        self.home: dict[Var, int] = {}
        while True:
            before = len(self.vars)
            self.memo, self.regions = {}, 0
            self.block(kernel.body, 0)
            if len(self.vars) == before:
                break

    def __call__(self, e: Expr) -> bool:
        for x in walk((e,)):
            if x not in self.memo:
                if isinstance(x, Var):
                    self.memo[x] = x in self.vars
                elif isinstance(x, ir.Load):
                    own = x.buffer.role == "local" or (x.buffer.role == "shared" and self.together)
                    self.memo[x] = own or self.memo[x.index]
                else:
                    self.memo[x] = isinstance(x, Foreign) or any(self.memo[a] for a in x.args)
        return self.memo[e]

    def add(self, v: Var) -> None:
        self.vars.add(v)
        self.memo = {}

    def inside(self, differs: bool, region: int) -> int:
        if differs:
            self.regions += 1
            return self.regions
        return region

    def block(self, body: ir.Body, region: int) -> None:
        for s in body:
            self.statement(s, region)

    def statement(self, s: ir.Statement, region: int) -> None:
        match s:
            case ir.Let() | ir.Declare():
                self.home[s.var] = region
                if s.var not in self.vars and self(s.value):
                    self.add(s.var)
            case ir.Assign():
                if s.var not in self.vars and (self(s.value) or self.home[s.var] != region):
                    self.add(s.var)
            case ir.Special():  # of the block
                if self.together and s.var not in self.vars:
                    self.add(s.var)
            case (
                ir.LoadVector() | ir.Fetch() | ir.FetchUpdate() | ir.Collective() | ir.WarpProduct()
            ):
                for v in ir.defined(s):
                    if v not in self.vars:
                        self.add(v)
            case ir.If():
                region = self.inside(self(s.condition), region)
                self.block(s.then, region)
                self.block(s.other, self.inside(self(s.condition), region))
            case ir.For() | ir.Reduce():
                differs = self(s.start) or self(s.stop)
                if differs and s.var not in self.vars:
                    self.add(s.var)
                inner = self.inside(differs, region)
                self.block(s.body, inner)
                if isinstance(s, ir.Reduce):
                    for acc in s.accumulators:
                        if acc not in self.vars:  # a reduction is rarely worth knowing better
                            self.add(acc)
            case ir.While():
                # Lanes leave one by one unless the condition is the same for all.
                inner = self.inside(self(s.condition), region)
                self.block(s.before, inner)
                self.block(s.body, inner)


class Source:
    """Python source of one kernel.  `together`: several blocks side by side."""

    def __init__(self, kernel: ir.Kernel, together: bool, turns: bool) -> None:
        self.kernel, self.turns = kernel, turns
        self.varying = _Varying(kernel, together)
        self.lines: list[str] = []
        self.space: dict[str, Any] = {
            "np": np, "general": _general, "divide": _divide, "convert": _convert,
            "choose": _choose, "assign": _assign, "foreign": _foreign, "report": _report,
            "load_vector": _load_vector, "store_vector": _store_vector, "publish": _publish,
            "fence": _fence, "update": _update, "atomic": _atomic, "turn": _turn,
        }  # fmt: skip
        self.names: dict[Any, str] = {}
        self.constants: dict[Any, str] = {}
        self.counter = 0
        self.written = {b for s in ir.statements(kernel.body) for b in ir.written(s)}

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def name(self, thing: Any, prefix: str = "v") -> str:
        if thing not in self.names:
            self.names[thing] = self.fresh(prefix)
        return self.names[thing]

    def constant(self, value: Any, key: Any = None) -> str:
        key = id(value) if key is None else key
        if key not in self.constants:
            self.constants[key] = self.fresh("c")
            self.space[self.constants[key]] = value
        return self.constants[key]

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # --- expressions ---

    def values(self, d: int, mask: str, *roots: Expr) -> list[str]:
        """The texts of expressions, evaluated here; what is used more than once gets a name."""
        uses: Counter[Expr] = Counter(roots)
        order = list(walk(roots))
        for e in order:
            uses.update(e.args)
        texts: dict[Expr, str] = {}
        for e in order:
            text = self.text(e, texts, mask)
            if uses[e] > 1 and e.args:
                held = self.fresh("t")
                self.line(d, f"{held} = {text}")
                text = held
            texts[e] = text
        return [texts[r] for r in roots]

    def value(self, d: int, mask: str, root: Expr) -> str:
        return self.values(d, mask, root)[0]

    def text(self, e: Expr, texts: dict[Expr, str], mask: str) -> str:
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, Const):
            return self.constant(e.value, e)
        args = [texts[a] for a in e.args]
        if isinstance(e, ir.Load):
            how = "load" if self.varying(e) else "load_uniform"
            return f"{self.name(e.buffer, 'b')}.{how}(step, {args[0]}, {mask})"
        type_ = self.constant(e.type, e.type.name)
        if isinstance(e, Foreign):
            call = self.constant(e.function)
            return f"foreign(step, {mask}, {call}, {type_}, {', '.join(args)})"
        assert isinstance(e, Apply), e
        op, simple = e.op.name, all(a.type.name in _SIMPLE_TYPES for a in e.args)
        if op in _PLAIN and simple:
            return f"({args[0]} {_PLAIN[op]} {args[1]})"
        if op in ("minimum", "maximum") and simple:
            return f"np.{op}({args[0]}, {args[1]})"
        if op in ("floor_divide", "remainder") and e.type.is_integer:
            return f"divide({self.constant(e.op)}, {args[0]}, {args[1]})"
        if op == "logical_not" and simple and e.args[0].type.name == "bool":
            return f"(~{args[0]})"
        if op == "select":
            return f"choose({', '.join(args)})"
        if op == "cast":
            source = e.args[0].type
            if simple and e.type.name in _SIMPLE_TYPES and not (
                    source.is_inexact and e.type.is_integer):  # fmt: skip
                return f"{args[0]}.astype({type_}.numpy)"
            return f"convert({args[0]}, {type_})"
        return f"general({self.constant(e.op)}, {type_}, {', '.join(args)})"

    # --- statements ---

    def body(self, body: ir.Body, d: int, mask: str) -> None:
        if not any(not isinstance(s, ir.Comment) for s in body):
            self.line(d, "pass")
        for s in body:
            self.statement(s, d, mask)

    def statement(self, s: ir.Statement, d: int, mask: str) -> None:
        match s:
            case ir.Comment():
                pass
            case ir.Let() | ir.Declare():
                self.line(d, f"{self.name(s.var)} = {self.value(d, mask, s.value)}")
            case ir.Assign():
                self.assign(d, mask, s.var, self.value(d, mask, s.value))
            case ir.Store():
                index, value = self.values(d, mask, s.index, s.value)
                self.line(d, f"{self.name(s.buffer, 'b')}.store(step, {index}, {value}, {mask})")
            case ir.If():
                self.condition(s, d, mask)
            case ir.For():
                self.loop(s, d, mask)
            case ir.While():
                self.while_(s, d, mask)
            case ir.Reduce():
                self.loop(s, d, mask)
            case ir.Report():
                ok, index, extent = self.values(d, mask, s.ok, s.index, s.extent)
                self.line(d, f"report(step, {mask}, reports, {s.site}, {ok}, {index}, {extent})")
            case ir.Special():
                self.line(d, f"{self.name(s.var)} = step.place()")
            case ir.Barrier():
                self.line(d, f"step.barrier({mask})")
            case _:
                self.communication(s, d, mask)

    def communication(self, s: ir.Statement, d: int, mask: str) -> None:
        if self.turns and isinstance(s, ir.Fetch | ir.Publish | ir.FetchUpdate):
            self.line(d, "yield")
        here = f"step, {mask}"
        values = self.values(d, mask, *ir.expressions(s))
        match s:
            case ir.Fence():
                self.line(d, f"fence({here})")
            case ir.LoadVector():
                got = ", ".join(self.name(v) for v in s.vars)
                self.line(d, f"{got}, = load_vector({here}, {self.name(s.buffer, 'b')}, "
                             f"{values[0]}, {len(s.vars)})")  # fmt: skip
            case ir.StoreVector():
                self.line(d, f"store_vector({here}, {self.name(s.buffer, 'b')}, "
                             f"{', '.join(values)})")  # fmt: skip
            case ir.Fetch():
                self.line(d, f"{self.name(s.var)} = {self.name(s.buffer, 'b')}.fetch(step, "
                             f"{values[0]}, {mask})")  # fmt: skip
            case ir.Publish():
                self.line(d, f"publish({here}, {self.name(s.buffer, 'b')}, {', '.join(values)})")
            case ir.FetchUpdate():
                self.line(d, f"{self.name(s.var)} = update({here}, {self.name(s.buffer, 'b')}, "
                             f"{', '.join(values)}, {s.op!r})")  # fmt: skip
            case ir.Collective():
                self.line(d, f"{self.name(s.var)} = step.collective({s.op!r}, {mask}, "
                             f"[{', '.join(values)}])")  # fmt: skip
            case ir.WarpProduct():
                got = ", ".join(self.name(v) for v in s.vars)
                self.line(d, f"{got}, = step.warp_product({mask}, [{', '.join(values)}])")
            case ir.Atomic():
                combine = "None"
                if s.combine is not None:
                    combine = self.constant(_function(s.combine))
                    held = [self.name(v) for v in _scalars(s.combine)]
                    if held:
                        combine = f"(lambda count, *a: {combine}(count, *a, {', '.join(held)}))"
                locks = "None" if s.locks is None else self.name(s.locks, "b")
                buffers = ", ".join(self.name(b, "b") for b in s.buffers)
                self.line(d, f"atomic({here}, [{buffers}], {values[0]}, "
                             f"[{', '.join(values[1:])}], {combine}, {locks})")  # fmt: skip
            case _:
                raise AssertionError(s)

    def assign(self, d: int, mask: str, var: Var, value: str) -> None:
        name = self.name(var)
        if var in self.varying.vars:
            value = f"assign({mask}, {value}, {name})"
        self.line(d, f"{name} = {value}")

    def condition(self, s: ir.If, d: int, mask: str) -> None:
        condition = self.value(d, mask, s.condition)
        if not self.varying(s.condition):
            self.line(d, f"if {condition}:")
            self.body(s.then, d + 1, mask)
            if s.other:
                self.line(d, "else:")
                self.body(s.other, d + 1, mask)
            return
        held, inner = self.fresh("p"), self.fresh("m")
        self.line(d, f"{held} = {condition}")
        self.line(d, f"{inner} = step.enter({mask}, {held})")
        self.line(d, f"if {inner} is not False:")
        self.body(s.then, d + 1, inner)
        if s.other:
            self.line(d, f"{inner} = step.enter({mask}, ~{held})")
            self.line(d, f"if {inner} is not False:")
            self.body(s.other, d + 1, inner)

    def loop(self, s: ir.For | ir.Reduce, d: int, mask: str) -> None:
        start, stop = self.values(d, mask, s.start, s.stop)
        by = s.step if isinstance(s, ir.For) else 1
        var, type_ = self.name(s.var), s.var.type.name
        if isinstance(s, ir.For) and s.kind == "unrolled":
            assert isinstance(s.start, Const) and isinstance(s.stop, Const), "unrolled: constants"
        if not (self.varying(s.start) or self.varying(s.stop)):
            span = f"range({start}, {stop}, {by})"
            self.line(d, f"for {var} in map(np.{type_}, {span}):")
            self.stop(s, d + 1)
            self.body(s.body, d + 1, mask)
            if isinstance(s, ir.Reduce):
                self.reduce(s, d + 1, mask)
            return
        end, inner, count = self.fresh("e"), self.fresh("m"), self.fresh("k")
        self.line(d, f"{var}, {end}, {count} = {start}, {stop}, 0")
        self.line(d, "while True:")
        self.line(d + 1, f"{inner} = step.enter({mask}, {var} < {end})")
        self.line(d + 1, f"if {inner} is False: break")
        self.stop(s, d + 1)
        self.line(d + 1, f"{count} = turn({count}, step.grid.name)")
        self.body(s.body, d + 1, inner)
        if isinstance(s, ir.Reduce):
            self.reduce(s, d + 1, inner)
        self.line(d + 1, f"{var} = {var} + {self.constant(s.var.type.numpy.type(by))}")

    def stop(self, s: ir.For | ir.Reduce | ir.While, d: int) -> None:
        """A loop ends once a check has failed."""
        if self.kernel.errors and not ir.synchronises((s,)):
            self.line(d, "if reports: break")

    def reduce(self, s: ir.Reduce, d: int, mask: str) -> None:
        values = self.values(d, mask, *s.values)
        for variables, sides in (
            (s.combine.left, [self.name(a) for a in s.accumulators]),
            (s.combine.right, values),
        ):
            for v, value in zip(variables, sides, strict=True):
                self.line(d, f"{self.name(v)} = {value}")
                self.varying.vars.add(v)
        self.varying.memo = {}
        held = []
        for value in self.values(d, mask, *s.combine.results):
            held.append(self.fresh("r"))
            self.line(d, f"{held[-1]} = {value}")
        for acc, value in zip(s.accumulators, held, strict=True):
            self.assign(d, mask, acc, value)

    def while_(self, s: ir.While, d: int, mask: str) -> None:
        count, inner = self.fresh("k"), self.fresh("m")
        self.line(d, f"{count}, {inner} = 0, {mask}")
        self.line(d, "while True:")
        self.body(s.before, d + 1, inner)
        condition = self.value(d + 1, inner, s.condition)
        if self.varying(s.condition):
            self.line(d + 1, f"{inner} = step.enter({inner}, {condition})")
            self.line(d + 1, f"if {inner} is False: break")
        else:
            self.line(d + 1, f"if not {condition}: break")
        self.stop(s, d + 1)
        talks = any(isinstance(x, ir.Fetch | ir.Publish | ir.FetchUpdate)
                    for x in ir.statements((s,)))  # fmt: skip
        if not (self.turns and talks):  # those that wait for other blocks are counted there
            self.line(d + 1, f"{count} = turn({count}, step.grid.name)")
        self.body(s.body, d + 1, inner)

    def compile(self) -> Any:
        k = self.kernel
        self.body(k.body, 1, "None")
        arguments = ["step", "reports", *(self.name(b, "b") for b in k.buffers),
                     *(self.name(v) for v in (*k.scalars, k.task, k.thread))]  # fmt: skip
        text = f"def kernel({', '.join(arguments)}):\n" + "\n".join(self.lines) + "\n"
        if self.turns:
            text += "    yield\n"
        exec(compile(text, f"<{k.name}>", "exec"), self.space)
        self.space["kernel"].text = text
        return self.space["kernel"]


def _scalars(combine: ir.Combine) -> list[Expr]:
    """The scalars of the kernel that a combination uses."""
    own = {*combine.left, *combine.right}
    return [e for e in walk(combine.results) if isinstance(e, Var) and e not in own]


def _function(combine: ir.Combine) -> Callable[..., list[np.ndarray]]:
    """`combine` on arrays: new values, then old ones."""
    result = Var("result", combine.results[0].type)
    thread = Var("thread", result.type)
    source = Source(ir.Kernel("combine", (), (), (), result, result, (), threads=32,
                               thread=thread), False, False)  # fmt: skip
    variables = (*combine.left, *combine.right, *_scalars(combine))
    source.varying.vars.update(variables)
    source.varying.memo = {}
    names = [source.name(v) for v in variables]
    found = source.values(1, "None", *combine.results)
    body = "\n".join(source.lines)
    text = f"def combined(count, {', '.join(names)}):\n{body}\n    return [{', '.join(found)}]\n"
    exec(compile(text, "<combine>", "exec"), source.space)
    combined = source.space["combined"]

    def widened(count: int, *args: np.ndarray) -> list[np.ndarray]:
        return [np.broadcast_to(r, count) for r in combined(count, *args)]

    return widened
