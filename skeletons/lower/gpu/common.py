"""Shared parts of the GPU skeletons: the threads of a block, and vectors of consecutive elements.

    grid = Threads.of(256)                          task, thread, and values derived from them
    first = grid.position(into, 4)                  (task·256 + thread)·4
    group = Group(builder, roots, Index(1), 4)      the elements at Index(1) = j, j + 1, … j + 3
    for values in group.values(into, first): …      reads at consecutive positions as LoadVector
    builder.kernel(…, **grid.launch(group.requires, group.aligned, fallback))

A `Group` lists the conditions under which its wide accesses are valid (`requires`, `aligned`); a
kernel that uses it passes them on, with a `fallback` that needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from treadle.dsl import expr as ex
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Leaf
from treadle.dsl.records import dataclass
from treadle.dsl.types import ScalarType, int64

from ...ir import arithmetic as at
from ...ir.hosted import Stride
from ...ir.kernel import Buffer, Kernel, Load, LoadVector
from ...ir.linearize import Linearizer
from ..build import Builder

#: Threads of a warp, and of a block by default (measured: 256 are slightly slower).
WARP = 32
THREADS = 128
#: The widest access of a thread.
WIDEST = 16


@dataclass(frozen=True)
class Threads:
    """The threads of the blocks of one kernel: `count` per block (whole warps, at most 1024)."""

    count: int
    task: ex.Var
    thread: ex.Var

    @classmethod
    def of(cls, count: int = THREADS) -> Threads:
        return cls(count, ex.Var("task", int64), ex.Var("thread", int64))

    @property
    def lane(self) -> Expr:
        """0 … 31: the index of a thread in its warp."""
        return self.thread % WARP

    @property
    def warp(self) -> Expr:
        """The number of a thread's warp in its block."""
        return self.thread // WARP

    @property
    def ident(self) -> Expr:
        """The number of a thread among the threads of all blocks."""
        return self.task * self.count + self.thread

    def position(self, into: Linearizer, items: int = 1, name: str = "first") -> Expr:
        """The first of a thread's `items` consecutive elements; threads follow each other."""
        return into.let(self.ident * items, name)

    def launch(self, requires: Sequence[Expr] = (), aligned: Iterable[Buffer] = (),
               fallback: Kernel | None = None, resident: int = 0) -> dict[str, Any]:  # fmt: skip
        """The keywords of `Builder.kernel` for a GPU kernel.

        A fallback is kept only if a condition can select it.
        """
        requires = [c for c in requires if c is not ex.TRUE]
        aligned = tuple(dict.fromkeys(aligned))
        conditional = bool(requires or aligned)
        return {
            "threads": self.count,
            "thread": self.thread,
            "resident": resident,
            "requires": tuple(dict.fromkeys(requires)),
            "aligned": aligned,
            "fallback": fallback if conditional else None,
        }


def blocks(builder: Builder, elements: Expr | int, size: int, name: str = "blocks") -> Expr:
    """⌈elements / size⌉, `elements` a host expression, as a scalar of the kernel."""
    return builder.scalar(at.ceil_div(elements, size), name)


def vector_count(types: Iterable[ScalarType]) -> int:
    """The number of elements of the widest of these types per access: 1, 2, 4, 8 or 16."""
    return WIDEST // max((t.bytes for t in types), default=WIDEST)


def threads_for(wanted: int) -> int:
    """A number of threads rounded to complete warps, at most 1024."""
    return min(max(-(-wanted // WARP) * WARP, WARP), 1024)


def unconditional(roots: Iterable[Expr]) -> list[Expr]:
    """The expressions of `roots` that are evaluated unconditionally, each once."""
    found: dict[Expr, None] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in found:
            found[e] = None
            stack.extend(e.args)
    return list(found)


def has_loops(roots: Iterable[Expr]) -> bool:
    """Whether an element contains a loop, or foreign code that may contain one."""
    return any(isinstance(e, ex.While | ex.Loop | ex.Foreign) for e in ex.walk(roots))


def invariants(roots: Sequence[Expr]) -> list[Expr]:
    """Loop-invariant arithmetic of unconditional loops, to be hoisted.

    Excludes reads, which the loop may guard, and nearly free operations.
    """
    loops = [e for e in unconditional(roots) if isinstance(e, ex.While | ex.Loop)]
    inside = list(ex.walk([e for loop in loops for e in loop.scoped]))
    turning = {v for e in (*loops, *inside) for v in e.vars}
    fixed: set[Expr] = set()
    for e in inside:
        leaf = (
            isinstance(e, ex.Const | ex.Index | ex.Extent | ex.Param | ex.Var) and e not in turning
        )
        if leaf or (isinstance(e, ex.Apply) and fixed.issuperset(e.args)):
            fixed.add(e)
    found: dict[Expr, None] = {}
    for e in (*inside, *loops):
        parts = e.scoped if isinstance(e, ex.While | ex.Loop) else () if e in fixed else e.args
        found.update((p, None) for p in parts if p in fixed and isinstance(p, ex.Apply)
                     and p.type.is_inexact)  # fmt: skip
    return list(found)


def in_scalars(builder: Builder, host: Expr) -> Expr:
    """A host expression, or an expression over kernel scalars, rewritten over scalars only."""

    def known(e: Expr) -> Expr:
        if isinstance(e, ex.Extent):
            return builder.extent(e)
        if isinstance(e, ex.Param | Stride):
            return builder.scalar(e, "n")
        return e

    if isinstance(host, ex.Var):
        return host
    if not any(isinstance(e, ex.Var) for e in ex.walk((host,))):
        return builder.scalar(host, "n")
    return ex.rewrite((host,), known)[0]


# --- consecutive elements ------------------------------------------------------------------------


def coefficient(e: Expr, variable: Expr) -> int | None:
    """The integer c of  e = c·variable + (terms without variable); None if there is none."""
    forms: dict[Expr, int | None] = {}
    for x in ex.walk((e,)):
        parts = [forms[a] for a in (*x.args, *x.scoped)]
        name = x.op.name if isinstance(x, ex.Apply) else ""
        if x is variable:
            forms[x] = 1
        elif all(p == 0 for p in parts):
            forms[x] = 0
        elif any(p is None for p in parts) or x.type != int64:
            forms[x] = None
        elif name in ("add", "subtract"):
            a, b = parts
            assert a is not None and b is not None
            forms[x] = a + b if name == "add" else a - b
        elif name == "negative":
            assert parts[0] is not None
            forms[x] = -parts[0]
        elif name == "multiply" and isinstance(x.args[1], ex.Const):
            assert parts[0] is not None
            forms[x] = parts[0] * int(x.args[1].value)
        else:
            forms[x] = None
    return forms[e]


def contains(e: Expr, variable: Expr) -> bool:
    return any(x is variable for x in ex.walk((e,)))


def multiples(e: Expr, count: int, builder: Builder) -> list[Expr] | None:
    """Conditions over scalars under which `e` is a multiple of `count`; None if undecidable."""
    if isinstance(e, ex.Const):
        return [] if int(e.value) % count == 0 else None
    if _is_uniform(e, builder):
        return [at.equal(in_scalars(builder, e) % count, 0)]
    if isinstance(e, ex.Apply) and e.op.name in ("add", "subtract"):
        both = [multiples(a, count, builder) for a in e.args]
        return None if both[0] is None or both[1] is None else both[0] + both[1]
    if isinstance(e, ex.Apply) and e.op.name == "multiply":
        for a in e.args[::-1]:
            found = multiples(a, count, builder)
            if found is not None:
                return found
    return None


def _is_uniform(e: Expr, builder: Builder) -> bool:
    """Whether a value is known before the kernel starts."""
    return all(
        isinstance(x, ex.Const | ex.Extent | ex.Param | Stride | ex.Apply)
        or (isinstance(x, ex.Var) and builder.is_scalar(x))
        for x in ex.walk((e,))
    )


@dataclass(frozen=True)
class _Stream:
    """Reads of one array at  sign·variable + args[axis] + offset  along an axis, for several
    offsets; the other indices are equal.  `leaf` is None if the array is read by position."""

    buffer: Buffer
    leaf: Leaf | None
    args: tuple[Expr, ...]
    axis: int
    sign: int
    reads: dict[Expr, int]

    def windows(self, count: int) -> list[int]:
        """The indices of the aligned vectors that cover `count` consecutive elements."""
        last = self.sign * (count - 1)
        found: set[int] = set()
        for offset in self.reads.values():
            low, high = sorted((offset, offset + last))
            found.update(range(low // count, high // count + 1))
        return sorted(found)


class Group:
    """The elements `roots` at `count` consecutive values of `variable` (an Index or a Var).

    The first value is a multiple of `count`, and all elements are inside the domain.  Unconditional
    reads whose last index is ±variable + … (for arrays with run-time strides: any one index) become
    wide accesses, valid under `requires` and `aligned`; other reads are unchanged.
    count 1: no wide accesses.
    """

    def __init__(self, builder: Builder, roots: Sequence[Expr], variable: Expr, count: int) -> None:
        self.builder, self.roots = builder, tuple(roots)
        self.variable, self.count = variable, count
        self.streaming = False  # whether the data is read only once
        self.streams: list[_Stream] = []
        self.requires: tuple[Expr, ...] = ()
        if count > 1:
            self._find()

    @property
    def aligned(self) -> tuple[Buffer, ...]:
        """The buffers that wide accesses read."""
        return tuple(dict.fromkeys(s.buffer for s in self.streams))

    @property
    def read_bytes(self) -> int:
        """Bytes that the wide accesses of one group load."""
        return sum(len(s.windows(self.count)) * self.count * s.buffer.type.bytes
                   for s in self.streams)  # fmt: skip

    def _find(self) -> None:
        streams: dict[tuple[Any, ...], tuple[_Stream, list[Expr]]] = {}
        for e in unconditional(self.roots):
            found = self.member(e)
            if found is None:
                continue
            stream, offset, requires = found
            key = (stream.buffer, stream.args, stream.axis, stream.sign)
            streams.setdefault(key, (stream, requires))[0].reads[e] = offset
        conditions: list[Expr] = []
        for stream, requires in streams.values():
            whole: list[Expr] | None = []
            if stream.windows(self.count) != [0]:  # may exceed the elements read, but not a row
                leaf = stream.leaf
                row = leaf.shape[stream.axis] if leaf is not None else stream.buffer.size
                whole = multiples(row, self.count, self.builder)
            if whole is not None:
                conditions += requires + whole
                self.streams.append(stream)
        self.requires = tuple(dict.fromkeys(conditions))

    def member(self, e: Expr) -> tuple[_Stream, int, list[Expr]] | None:
        """A read as part of a stream, with its offset and conditions; None: no wide access."""
        builder, count = self.builder, self.count
        if not isinstance(e, Load | ex.Read):
            return None
        along = [k for k, a in enumerate(e.args) if contains(a, self.variable)]
        if len(along) != 1:
            return None
        (axis,) = along
        leaf: Leaf | None = None
        if isinstance(e, Load):
            buffer = e.buffer
            requires: list[Expr] | None = []
            if buffer.role in ("local", "shared"):
                return None
        elif e.boundary is None:
            if builder.context.check and e not in builder.safe:
                return None
            leaf = Leaf(e.node, e.component)
            buffer = builder.input(leaf)
            requires = self._rows(leaf, axis)
        else:
            return None
        sign = coefficient(e.args[axis], self.variable)
        if sign not in (1, -1) or buffer.type.bytes * count > WIDEST or requires is None:
            return None
        (rest,) = ex.substitute((e.args[axis],), {self.variable: ex.constant(0)})
        rest, offset = ex.split_constant(rest)
        more = multiples(rest, count, builder)
        if more is None:
            return None
        args = (*e.args[:axis], rest, *e.args[axis + 1 :])
        return _Stream(buffer, leaf, args, axis, sign, {}), offset, requires + more

    def _rows(self, leaf: Leaf, axis: int) -> list[Expr] | None:
        """Conditions under which elements are adjacent along `axis` and every row is aligned."""
        if leaf in self.builder.context.strided:
            found = []
            for k in range(len(leaf.shape)):
                step = self.builder.scalar(Stride(leaf, k), f"stride{k}")
                found.append(at.equal(step, 1) if k == axis
                             else at.equal(step % self.count, 0))  # fmt: skip
            return found
        if axis != len(leaf.shape) - 1:
            return None
        return multiples(leaf.shape[-1], self.count, self.builder) if axis > 0 else []

    # --- emission ---

    def shared_parts(self) -> list[Expr]:
        """The expressions that all elements of a group share, except plain leaves."""
        dependent: set[Expr] = set()
        for e in ex.walk(self.roots):
            if e is self.variable or any(c in dependent for c in (*e.args, *e.scoped)):
                dependent.add(e)
        needed = unconditional(self.roots)
        inner = {a for e in needed if e in dependent for a in e.args} | set(self.roots)
        return [e for e in needed
                if e in inner and e not in dependent and e.type is not None
                and isinstance(e, ex.Apply | ex.Read | Load | ex.Foreign | ex.Proj)]  # fmt: skip

    def share(self, into: Linearizer) -> None:
        """Compute the shared expressions of all elements here."""
        parts = self.shared_parts()
        into.bind({e: into.let(value) for e, value in zip(parts, into.emit(parts), strict=True)})

    def start(self, stream: _Stream, into: Linearizer, first: Expr) -> Expr:
        """The position in its buffer of a read of offset 0 at variable = `first`."""
        signed = first if stream.sign > 0 else 0 - first
        args = list(stream.args)
        args[stream.axis] = args[stream.axis] + signed
        indices = into.emit(args)
        if stream.leaf is None:
            return into.let(indices[0], "at")
        return into.let(self.builder.position(stream.leaf, indices), "at")

    def load(self, into: Linearizer, first: Expr) -> list[dict[Expr, Expr]]:
        """The wide accesses at variable = `first`; maps the reads of each element to values."""
        return self.reads(self.fetch(into, first))

    def fetch(self, into: Linearizer, first: Expr) -> list[list[Expr]]:
        """The wide accesses at variable = `first`: per stream, the elements in memory order."""
        found: list[list[Expr]] = []
        for stream in self.streams:
            begin = self.start(stream, into, first)
            loaded: list[Expr] = []
            for window in stream.windows(self.count):
                loaded += load_vector(into, stream.buffer, begin + window * self.count,
                                    self.count, self.streaming)  # fmt: skip
            found.append(loaded)
        return found

    def reads(self, fetched: Sequence[Sequence[Expr]]) -> list[dict[Expr, Expr]]:
        """For each element of a group, the values of its reads, given the fetched vectors."""
        found: list[dict[Expr, Expr]] = [{} for _ in range(self.count)]
        for stream, values in zip(self.streams, fetched, strict=True):
            positions = [w * self.count + k for w in stream.windows(self.count)
                      for k in range(self.count)]  # fmt: skip
            by_position = dict(zip(positions, values, strict=True))
            for read, offset in stream.reads.items():
                for k in range(self.count):
                    found[k][read] = by_position[offset + stream.sign * k]
        return found

    def values(self, into: Linearizer, first: Expr) -> list[tuple[Expr, ...]]:
        """The elements at variable = first, first + 1, …: `roots` of each, all loads first."""
        loaded = self.load(into, first)
        self.share(into)
        found = []
        for k, reads in enumerate(loaded):
            with into.when_always({self.variable: first + k, **reads}):
                found.append(into.emit(self.roots, named=True))
        return found


def load_vector(into: Linearizer, buffer: Buffer, index: Expr, count: int,
                streaming: bool = False, which: str | None = None
                ) -> tuple[ex.Var, ...]:  # fmt: skip
    """`count` consecutive elements of a buffer in one access; `which` is their name suffix."""
    parted = which is not None or buffer.name[-1].isdigit()
    name = f"{buffer.name}{'_' if parted else ''}{which or count}"
    variables = tuple(ex.Var(name, buffer.type) for _ in range(count))
    into.append(LoadVector(variables, buffer, index, streaming))
    return variables
