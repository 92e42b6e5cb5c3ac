"""The kernel IR.

Expressions are the scalar IR of the language (`dsl.expr`) restricted to `Const`, `Var`, `Apply` and
`Foreign`, plus `Load`; expressions with control flow have become statements (`linearize.py`).
Statements are immutable; transformations build new ones.

A kernel runs `tasks` independent tasks; `task` is the index of one.  On a CPU a thread runs a range
of tasks.  On a GPU a task is a block of `threads` threads, and the body is the program of one
thread, whose index is `thread`.  Loops have a kind:

    serial     one iteration after the other
    vector     iterations are independent: run W at a time, SIMD lanes with a masked tail (CPU only)
    unrolled   a constant number of independent copies, interleaved (several outputs per thread)
    rolled     serial, never unrolled by the compiler (GPU only): for rare or costly bodies, whose
               copies would only cost compile time

GPU-only statements are in the second half: barriers, wide accesses, communication between the
threads of a warp and between blocks.  `show` prints kernels, `verify.py` checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, fields, replace
from typing import Any, TypeVar

import numpy as np

from treadle.dsl.errors import TreadleError, out_of_range
from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, constant, new, walk
from treadle.dsl.graph import Combine, Leaf
from treadle.dsl.graphs.interning import find, publish
from treadle.dsl.process.locks import cached
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType
from treadle.skeletons.schedules import Order

ONE = constant(1)


@dataclass(frozen=True, eq=False)
class Buffer:
    """A flat array of one scalar type in memory.

    role: "input" (read only), "output" (written: all elements that the kernel must compute),
    "update" (read and written: the target of a permute), "scratch" (shared by the kernels of one
    lowering), "local" (private to a CPU task or to a GPU thread; `size` is a constant), "shared"
    (of a GPU block; `size` is a constant).  Scratch whose name begins with `zero_` is initialised
    with zeros.  Distinct buffers never overlap.  `size`: the number of elements, an expression over
    the kernel's scalars.  `below`: all elements are from 0 to `below` − 1; 0 if they are not read.
    `dense`: positions are within `size`; positions in a strided array are not bounded by it.
    """

    name: str
    type: ScalarType
    role: str
    size: Expr
    leaf: Any = None
    below: Expr | None = None
    dense: bool = True

    def __repr__(self) -> str:
        return self.name


class Load(Expr):
    """`buffer[index]`; index is a linear position, int64 or (`narrow.py`) int32.

    A kernel-IR expression, so equal loads are shared: the memory must have no concurrent writer.
    """

    __slots__ = ("buffer",)
    buffer: Buffer

    def __new__(cls, buffer: Buffer, index: Expr) -> Load:
        key = (cls, buffer, index)
        made: Load | None = find(key)
        if made is None:
            made = new(cls, buffer.type, (index,))
            made.buffer = buffer
            made = publish(key, made)
        return made

    @property
    def index(self) -> Expr:
        return self.args[0]

    def rebuild(self, args: tuple[Expr, ...], scoped: tuple[Expr, ...]) -> Expr:
        return Load(self.buffer, args[0])


class Statement:
    """Base of the statements."""

    __slots__ = ()

    def __repr__(self) -> str:
        values = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(values)})"


Body = tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class Comment(Statement):
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
    var: Var
    value: Expr


@dataclass(frozen=True, eq=False)
class Store(Statement):
    buffer: Buffer
    index: Expr
    value: Expr


@dataclass(frozen=True, eq=False)
class Atomic(Statement):
    """Atomically `old = buffers[index]; buffers[index] = combine(values, old)`, all components.

    `combine` has `left` = new, `right` = old (permute's order); None: store all of `values`.
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
    """`for var in range(start, stop, step)`; the module docstring describes the kinds.

    `rare`: few of a program's iterations are here, so a vector loop is compiled to less code.
    """

    var: Var
    start: Expr
    stop: Expr
    body: Body
    kind: str = "serial"
    step: int = 1
    rare: bool = False


@dataclass(frozen=True, eq=False)
class While(Statement):
    """`loop { before; if (!condition) break; body }`."""

    before: Body
    condition: Expr
    body: Body


@dataclass(frozen=True, eq=False)
class Reduce(Statement):
    """`for var in range(start, stop): body; accumulators = combine(accumulators, values)`.

    `combine` is commutative and associative, one of these primitives per component (add, multiply,
    minimum, maximum, logical/bitwise and, or, xor).  The printer uses a fixed number of interleaved
    partial accumulators, independent of what is fused into `body`, so that fusion never changes a
    bit, and combines them in a fixed order.  `accumulators` are declared before and have an initial
    value, which is combined once, as the left operand.  `long`: the trip count is large, so the
    remainder after whole groups of partial accumulators takes little time and is compiled to little
    code.
    """

    var: Var
    start: Expr
    stop: Expr
    body: Body
    values: tuple[Expr, ...]
    accumulators: tuple[Var, ...]
    combine: Combine
    long: bool = False


@dataclass(frozen=True, eq=False)
class Report(Statement):
    """Checked mode: unless `ok`, report that check `site` failed with these two numbers.

    Later statements compute with invalid elements, with which a loop may never terminate.  After
    any thread's report, loops of the launch without barriers (`synchronises`) therefore run no
    further iteration.  The same holds once a foreign function has raised an exception.
    """

    ok: Expr
    site: int
    index: Expr
    extent: Expr


# --- only on a GPU ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Barrier(Statement):
    """A barrier for all threads of the block; afterwards their earlier writes are visible to all.

    Never under a condition that differs between the threads of a block.
    """


@dataclass(frozen=True, eq=False)
class Fence(Statement):
    """A fence: every block sees this thread's earlier writes before its later writes."""


@dataclass(frozen=True, eq=False)
class LoadVector(Statement):
    """`vars = buffer[index], buffer[index + 1], …` in one access.

    `index` is a multiple of the number of variables (1, 2, 4, 8 or 16; at most 16 bytes in all)
    and the buffer is aligned (`Kernel.aligned`) to the access.  `streaming`: the elements are not
    read again, so caches need not keep them.
    """

    vars: tuple[Var, ...]
    buffer: Buffer
    index: Expr
    streaming: bool = False


@dataclass(frozen=True, eq=False)
class StoreVector(Statement):
    """`buffer[index], buffer[index + 1], … = values` in one access; see `LoadVector`."""

    buffer: Buffer
    index: Expr
    values: tuple[Expr, ...]
    streaming: bool = False


@dataclass(frozen=True, eq=False)
class Fetch(Statement):
    """`var = buffer[index]`, read from memory at this point, with acquire ordering.

    For elements that other blocks write concurrently (a `Load` may be served from any cache).  If
    not `ordered`, the writer's other writes may not be visible yet.
    """

    var: Var
    buffer: Buffer
    index: Expr
    ordered: bool = True


@dataclass(frozen=True, eq=False)
class Publish(Statement):
    """`buffer[index] = value` with release ordering: the counterpart of `Fetch`."""

    buffer: Buffer
    index: Expr
    value: Expr
    ordered: bool = True


@dataclass(frozen=True, eq=False)
class FetchUpdate(Statement):
    """Atomically `var = buffer[index]; buffer[index] = op(var, value)`.

    op: "add", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor", "exchange".
    Integers of 32 or 64 bits, in device memory or shared memory.
    """

    var: Var
    buffer: Buffer
    index: Expr
    value: Expr
    op: str = "add"


@dataclass(frozen=True, eq=False)
class Collective(Statement):
    """A collective operation of the 32 threads of a warp; all of them must execute it.

        shuffle       var = value of thread `args[1]` (0 … 31) of the warp
        shuffle_up    … of the thread `args[1]` below (its own below the first)
        shuffle_down  … of the thread `args[1]` above (its own beyond the last)
        shuffle_xor   … of the thread whose number differs by `args[1]` (exclusive or)
        ballot        uint32: bit t is the condition `args[0]` of thread t
        all           bool: whether `args[0]` is true for every thread
        match         uint32: bit t is whether thread t has the same `args[0]` (an integer)

    Shuffles take any scalar type.
    """

    var: Var
    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class WarpProduct(Statement):
    """The product of a 16 × 16 and a 16 × 8 matrix of 16-bit floats, added to float32 sums, or of a
    16 × 8 and an 8 × 8 matrix of float64, computed by the 32 threads of a warp together (tensor
    cores); all of them must execute it.

    Thread 4·g + q (q < 4) passes, with j = 2·q and j + 1 for each pair:

        left   row g: k = j, j + 1;  row g + 8: j, j + 1;  row g: j + 8, j + 9;  row g + 8: the same
        right  column g: k = j, j + 1, j + 8, j + 9
        sums   row g: columns j, j + 1;  row g + 8: columns j, j + 1

    or, for float64,

        left   rows g, g + 8: k = q;  rows g, g + 8: k = q + 4
        right  column g: k = q, q + 4

    and gets the new sums in `vars`, in the order of `sums`.  Products are exact; the rounding of
    their sums depends on the hardware.
    """

    vars: tuple[Var, ...]
    sums: tuple[Expr, ...]
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Special(Statement):
    """`var` (uint32) is the value of a hardware register, read once.

        smid   the number of the multiprocessor that runs this block now: equal for its threads

    The numbers of multiprocessors may have gaps, and a multiprocessor may get no block.
    """

    var: Var
    register: str


# --- kernels -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Blocks:
    """The tasks of a CPU kernel as blocks of `size` indices of the first axis, each of equally many
    consecutive tasks.

    `size` is a scalar of the kernel, of which nothing else depends: a launch may pass another one,
    best a multiple of `multiple`, with tasks for ⌈`extent` / size⌉ blocks, for the same result.
    `extent` (host) is that of the axis times `unit`, in which `size` counts, too: the planes in an
    index of the axis.
    """

    size: Expr
    extent: Expr
    unit: Expr = ONE
    multiple: int = 1


@dataclass(frozen=True, eq=False)
class Kernel:
    """One parallel launch.

    `scalars` are run-time arguments (extents, program parameters), variables free in the body;
    `scalar_values` are the host expressions (over Extent, Param, rank-0 Reads) that define them.
    `tasks` and buffer sizes are expressions over `scalars`.  The last `literals` scalars are
    numbers in the text of the program (`literals.py`).

    CPU: `light` tasks are memory-bound; if they are few, more cores hardly make them faster.
    `in_order` tasks are run by one thread, one after another.

    GPU: `threads` per block (0 on a CPU), `thread` the index of one, `resident` blocks wanted on a
    multiprocessor at once (0: as many as fit).  A specialised variant is correct if all conditions
    of `requires` (over `scalars`) hold and the buffers of `aligned` begin at multiples of 16 bytes;
    otherwise `fallback` runs, with the same buffers.

    `policies` sets how the caches treat loads from inputs and stores to outputs (a schedule's
    `Hints`: "streaming", "evict_first", "evict_last", "no_l1"); it never changes a result.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scalars: tuple[Var, ...]
    scalar_values: tuple[Expr, ...]
    tasks: Expr
    task: Var
    body: Body
    comments: tuple[str, ...] = ()
    sites: tuple[Any, ...] = ()  # for Report: (operation, array, axis, Location)
    light: bool = False
    in_order: bool = False
    threads: int = 0
    thread: Var | None = None
    resident: int = 0
    requires: tuple[Expr, ...] = ()
    aligned: tuple[Buffer, ...] = ()
    fallback: Kernel | None = None
    policies: tuple[tuple[Buffer, str], ...] = ()
    literals: int = 0
    blocks: Blocks | None = None

    @cached
    def hosts(self) -> dict[Expr, Expr]:
        return dict(zip(self.scalars, self.scalar_values, strict=True))

    @property
    def variants(self) -> tuple[Kernel, ...]:
        """The kernel and its fallbacks, in the order in which they are tried."""
        return (self,) if self.fallback is None else (self, *self.fallback.variants)

    def every(self, change: Callable[[Kernel], Kernel]) -> Kernel:
        """Apply `change` to the kernel and all its fallbacks."""
        fallback = self.fallback and self.fallback.every(change)
        return replace(change(self), fallback=fallback)

    @cached
    def raising(self) -> tuple[Any, ...]:
        """The foreign functions called by the kernel that may raise an exception."""
        roots = [e for s in statements(self.body) for e in evaluated(s)]
        found = dict.fromkeys(e.function for e in walk(roots) if isinstance(e, Foreign))
        return tuple(f for f in found if f.raises)

    @cached
    def errors(self) -> int:
        """The length in int64 of the error report of a launch, which is initially zero; 0 if
        nothing can fail.

        For a failed check, the report is 1 + the site, the index and the extent.  For a function of
        `raising`, it is 1 + the number of sites + its index, then its arguments (`error_words`).
        """
        sizes = [1 + sum(map(error_words, f.arguments)) for f in self.raising]
        checked = any(isinstance(s, Report) for s in statements(self.body))
        return max([3] * checked + sizes, default=0)

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True, eq=False)
class HostTable:
    """A scratch buffer that the kernels only read: the host computes its contents before a launch.

    `make(values, contents)` returns the flat array, from the `values` of host expressions (over
    Extent, Param) and the contents of `arrays`; equal arguments yield equal tables.
    """

    buffer: Buffer
    values: tuple[Expr, ...]
    arrays: tuple[Leaf, ...]
    make: Callable[[Sequence[Any], Sequence[Any]], Any]


@dataclass(frozen=True, eq=False)
class Lowered:
    """The result of lowering a node: kernels in order, the buffers between them (`scratch`), and
    the scratch buffers that the host fills (`tables`).

    `fits`: orders that may be valid for some extents only (tables and user-defined orders), each
    with the grid (host expressions) that it visits; `schedules.user_orders.require_fits` tests
    them before a run.
    """

    kernels: tuple[Kernel, ...]
    scratch: tuple[Buffer, ...] = ()
    notes: tuple[str, ...] = field(default=())
    tables: tuple[HostTable, ...] = ()
    fits: tuple[tuple[Order, tuple[Expr, ...]], ...] = ()


# --- traversal -------------------------------------------------------------


T = TypeVar("T")
_EXPR, _EXPRS, _BODY = "Expr", "tuple[Expr, ...]", "Body"
_Fields = tuple[tuple[str, str], ...]
#: For each class of statements: the names and declared types of all its fields with expressions or
#: bodies, and those of its bodies alone.
_FIELDS: dict[type[Statement], tuple[_Fields, _Fields]] = {}


def _fields(s: Statement) -> tuple[_Fields, _Fields]:
    found = _FIELDS.get(type(s))
    if found is None:
        every = [(f.name, str(f.type)) for f in fields(s)]  # type: ignore[arg-type]
        parts = tuple(f for f in every if f[1] in (_EXPR, _EXPRS, _BODY))
        found = _FIELDS[type(s)] = parts, tuple(f for f in parts if f[1] == _BODY)
    return found


def children(s: Statement) -> tuple[Body, ...]:
    bodies = _fields(s)[1]
    return tuple([getattr(s, name) for name, _ in bodies]) if bodies else ()


def expressions(s: Statement) -> tuple[Expr, ...]:
    """The expressions a statement evaluates itself."""
    found: list[Expr] = []
    for name, t in _fields(s)[0]:
        if t == _EXPR:
            found.append(getattr(s, name))
        elif t == _EXPRS:
            found += getattr(s, name)
    return tuple(found)


def same(old: tuple[T, ...], made: Iterable[T]) -> tuple[T, ...]:
    """`made` as a tuple, or `old` itself if their elements are identical."""
    new = tuple(made)
    alike = len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
    return old if alike else new


def mapped(s: Statement, value: Callable[[Expr], Expr] = lambda e: e,
           body: Callable[[Body], Body] = lambda b: b,
           index: Callable[[Buffer, Expr], Expr] | None = None) -> Statement:  # fmt: skip
    """A copy of a statement with expressions and bodies mapped, in the order of its fields; the
    statement itself if nothing changes.  `index` maps positions in the statement's buffer.
    Combinations are left alone."""
    changes: dict[str, object] = {}
    for name, t in _fields(s)[0]:
        old = getattr(s, name)
        new: object
        if t == _BODY:
            new = body(old)
        elif t == _EXPRS:
            new = same(old, tuple(map(value, old)))
        elif name == "index" and index is not None:
            new = index(s.buffer, old)  # type: ignore[attr-defined]
        else:
            new = value(old)
        if new is not old:
            changes[name] = new
    return replace(s, **changes) if changes else s  # type: ignore[type-var]


def evaluated(s: Statement) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates, and the results of its combination."""
    combine = s.combine if isinstance(s, Atomic | Reduce) else None
    return expressions(s) + (() if combine is None else combine.results)


def defined(s: Statement) -> tuple[Var, ...]:
    """The variables that a statement defines in its scope."""
    match s:
        case Let() | Declare() | Fetch() | FetchUpdate() | Collective() | Special():
            return (s.var,)
        case LoadVector() | WarpProduct():
            return s.vars
    return ()


def written(s: Statement) -> tuple[Buffer, ...]:
    match s:
        case Store() | StoreVector() | Publish() | FetchUpdate():
            return (s.buffer,)
        case Atomic():
            return s.buffers if s.locks is None else (*s.buffers, s.locks)
    return ()


def as_loop(s: Reduce) -> For:
    """A reduction as a serial loop over its elements in order."""
    results = s.combine.of(s.accumulators, s.values)
    independent = all(
        not (set(walk((r,))) & (set(s.accumulators) - {a}))
        for r, a in zip(results, s.accumulators, strict=True)
    )
    if independent:
        steps: Body = tuple(Assign(a, r) for a, r in zip(s.accumulators, results, strict=True))
    else:
        new_values = [Var(a.name, a.type) for a in s.accumulators]
        steps = (
            *(Let(h, r) for h, r in zip(new_values, results, strict=True)),
            *(Assign(a, h) for a, h in zip(s.accumulators, new_values, strict=True)),
        )
    return For(s.var, s.start, s.stop, (*s.body, *steps))


def statements(body: Body) -> list[Statement]:
    """Every statement, outermost first."""
    found: list[Statement] = []
    waiting = [*reversed(body)]
    while waiting:
        s = waiting.pop()
        found.append(s)
        for inner in reversed(children(s)):
            waiting += reversed(inner)
    return found


def synchronises(body: Body) -> bool:
    """Whether a body synchronises threads or blocks, so that all of them must reach it."""
    waiting = Barrier | Collective | Fetch | Publish | FetchUpdate | WarpProduct
    return any(isinstance(s, waiting) for s in statements(body))


# -----------------------------------------------------------------------------------------------
# Kernels as text, for golden tests and readers.

#: Conditions of more operations are counted, not shown.
_LONG_CONDITION = 9


def show(kernel: Kernel) -> str:
    """The kernel as text, as golden tests compare it."""
    names: dict[Var, str] = {}

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
                           f"{'rare ' if s.rare else ''}{s.kind}:")  # fmt: skip
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
            case Barrier() | Fence():
                out.append(f"{pad}{type(s).__name__.lower()}")
            case LoadVector():
                got = ", ".join(name(v) for v in s.vars)
                out.append(f"{pad}let {got}: {s.buffer.type} = {s.buffer.name}"
                           f"[{text(s.index)} ..+{len(s.vars)}]")  # fmt: skip
            case StoreVector():
                values = ", ".join(text(v) for v in s.values)
                out.append(f"{pad}{s.buffer.name}[{text(s.index)} ..+{len(s.values)}] = {values}")
            case Fetch():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = fetch "
                           f"{s.buffer.name}[{text(s.index)}]")  # fmt: skip
            case Publish():
                out.append(f"{pad}publish {s.buffer.name}[{text(s.index)}] = {text(s.value)}")
            case FetchUpdate():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = fetch and {s.op} "
                           f"{s.buffer.name}[{text(s.index)}], {text(s.value)}")  # fmt: skip
            case Collective():
                args = ", ".join(text(a) for a in s.args)
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = warp {s.op}({args})")
            case WarpProduct():
                got = ", ".join(name(v) for v in s.vars)
                parts = ", ".join(f"({', '.join(text(e) for e in part)})"
                                  for part in (s.sums, s.left, s.right))  # fmt: skip
                out.append(f"{pad}let {got}: float32 = warp product{parts}")
            case Special():
                out.append(f"{pad}let {name(s.var)}: {s.var.type} = register {s.register}")
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
    wide = kernel.fallback  # of a narrow kernel: buffer sizes use its scalars
    for mine, other in zip(kernel.scalars, wide.scalars if wide else (), strict=False):
        if mine.name == other.name:
            names.setdefault(other, name(mine))
    buffers = ", ".join(f"{b.role} {b.name}: {b.type}[{text(b.size)}]" for b in kernel.buffers)
    out.append(f"kernel {kernel.name}({buffers}; {scalars})")
    short = [c for c in kernel.requires if len(list(walk((c,)))) <= _LONG_CONDITION]
    conditions = [text(c) for c in short]
    if len(short) < len(kernel.requires):
        conditions.append(f"{len(kernel.requires) - len(short)} bounds of its numbers")
    conditions += [f"{b.name} aligned" for b in kernel.aligned]
    if conditions:
        out.append(f"  requires {', '.join(conditions)}")
    if kernel.policies:
        policies = ", ".join(f"{b.name} {policy}" for b, policy in kernel.policies)
        out.append(f"  caches: {policies}")
    out.append(f"  for {name(kernel.task)} in 0 .. {text(kernel.tasks)} tasks:")
    if kernel.thread is not None:
        out.append(f"  for {name(kernel.thread)} in 0 .. {kernel.threads} threads:")
    block(kernel.body, 2, out)
    if kernel.fallback is not None:
        out.append("otherwise")
        return "\n".join(out) + "\n" + show(kernel.fallback)
    return "\n".join(out) + "\n"


def error_words(t: ScalarType) -> int:
    """The number of int64 words of a value in an error report."""
    return -(-t.bytes // 8)


def raise_failure(kernel: Kernel, errors: np.ndarray[Any, Any]) -> None:
    """Raise the error in the report of a launch, unless it is all zeros (see `Kernel.errors`)."""
    number = int(errors[0]) - 1
    if number < 0:
        return
    if number < len(kernel.sites):
        site, (index, extent) = kernel.sites[number], (int(n) for n in errors[1:3])
        raise out_of_range(site.operation, site.array, site.axis, index, extent, site.where)
    function = kernel.raising[number - len(kernel.sites)]
    values, at = [], 1
    for t in function.arguments:
        values.append(_number(errors[at:], t))
        at += error_words(t)
    function(*values)
    raise TreadleError(
        f"the foreign function '{function.name}' raised an exception for "
        f"({', '.join(map(str, values))}), but not when it was called again.",
        hint="A foreign function must depend on its arguments alone.",
    )


def _number(words: np.ndarray[Any, Any], t: ScalarType) -> Any:
    return np.frombuffer(words.tobytes(), t.numpy, 1)[0]
