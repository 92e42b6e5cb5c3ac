"""The kernel IR.

Expressions are the scalar IR of the language (`dsl.expr`) restricted to `Const`, `Var`, `Apply`
and `Foreign`, plus `Load`; everything with control in it has become statements (`linearize.py`).
Statements are immutable; transformations build new ones.

A kernel runs `tasks` independent tasks; `task` is the number of one.  On a CPU a thread takes a
range of tasks; on a GPU a task is a thread block.  The loops inside say how:

    serial     one iteration after the other
    vector     iterations are independent: run W at a time (CPU: SIMD lanes with a masked tail,
               GPU: the threads of a block, consecutive iterations in consecutive lanes)
    unrolled   a constant number of independent copies, interleaved (several outputs per thread)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, _fill, _intern, walk
from treadle.dsl.graph import Combine
from treadle.dsl.types import ScalarType


@dataclass(frozen=True, eq=False)
class Buffer:
    """A flat array of one scalar type in memory.

    role: "input" (read only), "output" (written, every element that a kernel owes), "update"
    (read and written: the target of a permute), "scratch" (lives between the kernels of one
    lowering), "local" (private to a task; `size` is a constant).
    Distinct buffers never overlap.  `size`: number of elements, over the kernel's scalars.
    """

    name: str
    type: ScalarType
    role: str
    size: Expr
    leaf: Any = None

    def __repr__(self) -> str:
        return self.name


class Load(Expr):
    """`buffer[index]`; index is a linear int64 position.  (A kernel-IR expression.)"""

    __slots__ = ("buffer",)
    buffer: Buffer

    def __new__(cls, buffer: Buffer, index: Expr) -> Load:
        made, new = _intern(cls, (buffer, index))
        if new:
            _fill(made, buffer.type, (index,))
            made.buffer = buffer
        return made

    @property
    def index(self) -> Expr:
        return self.args[0]

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Load(self.buffer, args[0])


class Statement:
    """Base of the statements."""

    __slots__ = ()


Body = tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class Comment(Statement):
    """A remark for the reader of the generated code: which operation, which schedule."""

    text: str


@dataclass(frozen=True, eq=False)
class Let(Statement):
    """Name a value; `var` is never assigned again."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Declare(Statement):
    """A mutable variable with its first value."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Assign(Statement):
    """A new value for a declared variable."""

    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Store(Statement):
    """`buffer[index] = value`."""

    buffer: Buffer
    index: Expr
    value: Expr


@dataclass(frozen=True, eq=False)
class Atomic(Statement):
    """Indivisibly `old = buffers[index]; buffers[index] = combine(values, old)`, all components.

    `combine` has `left` = new, `right` = old (permute's order); None: store `values`, whole.
    `locks` is an int32 buffer of spin locks (any size ≥ 1; index modulo size) for combinations
    the hardware cannot do in one instruction; None when it can.
    """

    buffers: tuple[Buffer, ...]
    index: Expr
    values: tuple[Expr, ...]
    combine: Combine | None
    locks: Buffer | None = None


@dataclass(frozen=True, eq=False)
class If(Statement):
    condition: Expr
    then: Body
    other: Body = ()


@dataclass(frozen=True, eq=False)
class For(Statement):
    """`for var in range(start, stop, step)`; kind serial, vector or unrolled (module docstring)."""

    var: Var
    start: Expr
    stop: Expr
    body: Body
    kind: str = "serial"
    step: int = 1


@dataclass(frozen=True, eq=False)
class While(Statement):
    """`loop { before; if (!condition) break; body }`."""

    before: Body
    condition: Expr
    body: Body


@dataclass(frozen=True, eq=False)
class Reduce(Statement):
    """`for var in range(start, stop): body; accumulators = combine(accumulators, values)`.

    `combine` is commutative and associative, one known primitive per component (add, multiply,
    minimum, maximum, logical/bitwise and, or, xor).  The printer uses a fixed number of
    interleaved partial accumulators, the same whatever is fused into `body`, so that fusion never
    changes a bit, and combines them in a fixed order; `accumulators` are declared before and
    already hold a value, which is combined on the left, once.
    """

    var: Var
    start: Expr
    stop: Expr
    body: Body
    values: tuple[Expr, ...]
    accumulators: tuple[Var, ...]
    combine: Combine


@dataclass(frozen=True, eq=False)
class Report(Statement):
    """Checked mode: unless `ok`, note that check `site` failed with these two numbers."""

    ok: Expr
    site: int
    index: Expr
    extent: Expr


@dataclass(frozen=True)
class Access:
    """How a kernel reads or writes one array: its index map.

    `coefficients[axis]` maps the kernel's index variables (by name) to integer coefficients,
    `offset[axis]` is the constant; None where the index depends on data.
    """

    array: str
    write: bool
    coefficients: tuple[dict[str, int] | None, ...]
    offset: tuple[int | None, ...]
    boundary: str | None = None
    count: int = 1


@dataclass(frozen=True, eq=False)
class Kernel:
    """One parallel launch.

    `scalars` are run-time int64/float… arguments (extents, program parameters), Vars free in the
    body; `scalar_values` are the host expressions (over Extent, Param, rank-0 Reads) they take.
    `tasks` and buffer sizes are expressions over `scalars`.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[Var, ...]
    scalar_values: tuple[Expr, ...]
    tasks: Expr
    task: Var
    body: Body
    comments: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = ()
    sites: tuple[Any, ...] = ()  # for Report: (operation, array, axis, Location)
    flops: float = 0.0
    schedule: Any = None

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True, eq=False)
class Lowered:
    """What a skeleton makes of a node: kernels in order, and the buffers between them."""

    kernels: tuple[Kernel, ...]
    scratch: tuple[Buffer, ...] = ()
    notes: tuple[str, ...] = field(default=())


# --- traversal, printer, verifier -------------------------------------------------------------


def children(s: Statement) -> tuple[Body, ...]:
    """The nested bodies of a statement."""
    if isinstance(s, If):
        return (s.then, s.other)
    if isinstance(s, For | Reduce):
        return (s.body,)
    if isinstance(s, While):
        return (s.before, s.body)
    return ()


def expressions(s: Statement) -> tuple[Expr, ...]:
    """The expressions a statement evaluates itself."""
    match s:
        case Let() | Declare() | Assign():
            return (s.value,)
        case Store():
            return (s.index, s.value)
        case Atomic():
            return (s.index, *s.values)
        case If():
            return (s.condition,)
        case For():
            return (s.start, s.stop)
        case While():
            return (s.condition,)
        case Reduce():
            return (s.start, s.stop, *s.values)
        case Report():
            return (s.ok, s.index, s.extent)
    return ()


def statements(body: Body) -> Iterator[Statement]:
    """Every statement, outermost first."""
    for s in body:
        yield s
        for inner in children(s):
            yield from statements(inner)


def show_expr(e: Expr) -> str:
    """An expression on one line."""
    if isinstance(e, Var):
        return f"{e.name}_{e.uid}"
    if isinstance(e, Const):
        return str(e.value)
    if isinstance(e, Load):
        return f"{e.buffer.name}[{show_expr(e.index)}]"
    if isinstance(e, Apply):
        if len(e.args) == 2 and e.op.symbol:
            return f"({show_expr(e.args[0])} {e.op.symbol} {show_expr(e.args[1])})"
        name = f"{e.type}" if e.op.name == "cast" else e.op.name
        return f"{name}({', '.join(show_expr(a) for a in e.args)})"
    if isinstance(e, Foreign):
        return f"{e.function.name}({', '.join(show_expr(a) for a in e.args)})"
    return repr(e)


def show(kernel: Kernel) -> str:
    """The kernel as text: what golden tests compare."""
    names: dict[Var, str] = {}

    def rename(text: str) -> str:
        return text

    def line(s: Statement, depth: int, out: list[str]) -> None:
        pad = "  " * depth
        match s:
            case Comment():
                out.append(f"{pad}// {s.text}")
            case Let():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = {text(s.value)}")
            case Declare():
                out.append(f"{pad}var {name(s.var)}: {s.var.type} = {text(s.value)}")
            case Assign():
                out.append(f"{pad}{name(s.var)} = {text(s.value)}")
            case Store():
                out.append(f"{pad}{s.buffer.name}[{text(s.index)}] = {text(s.value)}")
            case Atomic():
                how = "overwrite" if s.combine is None else ", ".join(
                    text(r) for r in s.combine.results)  # fmt: skip
                where = ", ".join(b.name for b in s.buffers)
                values = ", ".join(text(v) for v in s.values)
                lock = f" under {s.locks.name}" if s.locks else ""
                out.append(f"{pad}atomic {where}[{text(s.index)}] <- {values} by {how}{lock}")
            case If():
                out.append(f"{pad}if {text(s.condition)}:")
                block(s.then, depth + 1, out)
                if s.other:
                    out.append(f"{pad}else:")
                    block(s.other, depth + 1, out)
            case For():
                step = f" step {s.step}" if s.step != 1 else ""
                out.append(f"{pad}for {name(s.var)} in {text(s.start)} .. {text(s.stop)}{step} "
                           f"{s.kind}:")  # fmt: skip
                block(s.body, depth + 1, out)
            case While():
                out.append(f"{pad}while:")
                block(s.before, depth + 1, out)
                out.append(f"{pad}  break unless {text(s.condition)}")
                block(s.body, depth + 1, out)
            case Reduce():
                out.append(f"{pad}reduce {name(s.var)} in {text(s.start)} .. {text(s.stop)}:")
                block(s.body, depth + 1, out)
                for acc, value, result in zip(s.accumulators, s.values, s.combine.results,
                                           strict=True):  # fmt: skip
                    out.append(f"{pad}  {name(acc)} <- {text(value)} by {text(result)}")
            case Report():
                out.append(f"{pad}report {s.site} unless {text(s.ok)}: {text(s.index)} of "
                           f"{text(s.extent)}")  # fmt: skip
            case _:
                out.append(f"{pad}{s!r}")

    def name(v: Var) -> str:
        if v not in names:
            taken = sum(1 for other in names if other.name == v.name)
            names[v] = v.name if not taken else f"{v.name}_{taken}"
        return names[v]

    def text(e: Expr) -> str:
        if isinstance(e, Var):
            return name(e)
        if isinstance(e, Const):
            return str(e.value)
        if isinstance(e, Load):
            return f"{e.buffer.name}[{text(e.index)}]"
        if isinstance(e, Apply):
            if len(e.args) == 2 and e.op.symbol:
                return f"({text(e.args[0])} {e.op.symbol} {text(e.args[1])})"
            head = f"{e.type}" if e.op.name == "cast" else e.op.name
            return f"{head}({', '.join(text(a) for a in e.args)})"
        if isinstance(e, Foreign):
            return f"{e.function.name}({', '.join(text(a) for a in e.args)})"
        return repr(e)

    def block(body: Body, depth: int, out: list[str]) -> None:
        if not body:
            out.append("  " * depth + "pass")
        for s in body:
            line(s, depth, out)

    out: list[str] = [f"// {c}" for c in kernel.comments]
    scalars = ", ".join(f"{name(v)}: {v.type}" for v in kernel.scalars)
    buffers = ", ".join(f"{b.role} {b.name}: {b.type}[{text(b.size)}]" for b in kernel.buffers)
    out.append(f"kernel {kernel.name}({buffers}; {scalars})")
    out.append(f"  for {name(kernel.task)} in 0 .. {text(kernel.tasks)} tasks:")
    block(kernel.body, 2, out)
    return rename("\n".join(out)) + "\n"


class InvalidKernel(AssertionError):
    """The kernel breaks a rule of the IR: a mistake of treadle's own."""


def verify(kernel: Kernel) -> None:
    """Every variable defined before use, types agree, loads and stores name known buffers."""
    known_buffers = set(kernel.buffers)

    def check(e: Expr, defined: set[Var]) -> None:
        for node in walk((e,)):
            if isinstance(node, Var):
                if node not in defined:
                    raise InvalidKernel(f"{kernel.name}: {node.name} is used before it is defined")
            elif isinstance(node, Load):
                if node.buffer not in known_buffers:
                    raise InvalidKernel(f"{kernel.name}: unknown buffer {node.buffer.name}")
            elif not isinstance(node, Const | Apply | Foreign):
                raise InvalidKernel(f"{kernel.name}: {type(node).__name__} in kernel IR")

    def block(body: Body, defined: set[Var]) -> None:
        here = set(defined)
        for s in body:
            if isinstance(s, While):
                inner = set(here)
                for b in s.before:
                    block((b,), inner)
                    if isinstance(b, Let | Declare):
                        inner.add(b.var)
                check(s.condition, inner)
                block(s.body, inner)
                continue
            if isinstance(s, Reduce):
                inner = here | {s.var}
                check(s.start, here)
                check(s.stop, here)
                for b in s.body:
                    block((b,), inner)
                    if isinstance(b, Let | Declare):
                        inner.add(b.var)
                for v in s.values:
                    check(v, inner)
                if not set(s.accumulators) <= here:
                    raise InvalidKernel(f"{kernel.name}: an accumulator is not declared")
                continue
            for e in expressions(s):
                check(e, here)
            if isinstance(s, Assign):
                if s.var not in here:
                    raise InvalidKernel(f"{kernel.name}: {s.var.name} assigned, not declared")
                if s.var.type != s.value.type:
                    raise InvalidKernel(f"{kernel.name}: {s.var.name} gets {s.value.type}")
            if isinstance(s, Let | Declare):
                if s.var.type != s.value.type:
                    raise InvalidKernel(f"{kernel.name}: {s.var.name} gets {s.value.type}")
                here.add(s.var)
            if isinstance(s, Store):
                if s.buffer not in known_buffers or s.buffer.role == "input":
                    raise InvalidKernel(f"{kernel.name}: store to {s.buffer.name}")
                if s.buffer.type != s.value.type:
                    raise InvalidKernel(f"{kernel.name}: {s.buffer.name} gets {s.value.type}")
            if isinstance(s, For):
                block(s.body, here | {s.var})
            elif isinstance(s, If):
                block(s.then, here)
                block(s.other, here)

    block(kernel.body, {*kernel.scalars, kernel.task})
