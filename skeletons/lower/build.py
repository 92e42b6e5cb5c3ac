"""Building the kernels of one node: buffers, scalars, reads and checks.

A `Builder` is the context in which a skeleton emits statements.  It maps

    graph leaf            →  Buffer (input, output, update)
    Extent, Param, Stride →  a scalar of the kernel, computed on the host (`scalar_values`)
    Read                  →  Load of the row-major position (of the strided one for `strided`)
    Read, checked mode    →  report each axis out of range, load only if all are in range

All kernels of one lowering share the scalars; each kernel lists those it uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from treadle.dsl import expr as ex, simplify
from treadle.dsl.analysis.polynomial import MOST_TERMS
from treadle.dsl.analysis.updates import reads_own
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Fold, Generate, Input, Leaf, Node, Permute, Sequential
from treadle.dsl.records import dataclass
from treadle.dsl.target import NATIVE, Target
from treadle.dsl.types import ScalarType, int32, int64
from treadle.skeletons.schedules import Order, Schedule, as_schedule
from treadle.skeletons.schedules.resolved import BlockTable
from treadle.skeletons.schedules.schedule import shown
from treadle.skeletons.schedules.user_orders import built_in

from ..ir import arithmetic as at, kernel as ir
from ..ir.hosted import Stride
from ..ir.linearize import Linearizer, zero

#: Multiprocessors of a GPU (an H200) if their number is unknown.
MULTIPROCESSORS = 132


@dataclass(frozen=True)
class LoweringContext:
    """The inputs of a lowering in addition to the node.

    `target`: the kind of machine.  `threads` (CPU threads, or multiprocessors of a GPU) and
    `vector_bytes` describe the machine.  No result depends on `threads`, with one exception: it
    decides whether the updates of a permute run in order or, as atomics, in any order.  `check`
    enables checked mode.  `strided`: the leaves whose element strides are run-time values
    (`Stride`); all others are row-major and dense.  `steps`: what is known at compile time about
    strided leaves, as tuples of the leaf, its axis of smallest stride, that stride (0 if unknown),
    and the axes in the order in which the array is dense (or none).  `views`: dense leaves that
    exist only within the lowering, each mapped to the array that it aliases.  `into`: the permute
    that stores the elements of a `Generate` in rows of its defaults.  `schedule` overrides the
    schedule of the node's label.  `across` overrides whether a CPU fold vectorises across columns;
    by default the reads of its elements decide.
    `blocks`: tasks are blocks of the first axis, whose size a launch may choose (`Kernel.blocks`).
    """

    target: Target = NATIVE
    threads: int = 1
    vector_bytes: int = 32
    check: bool = False
    strided: frozenset[Leaf] = frozenset()
    steps: frozenset[tuple[Leaf, int, int, tuple[int, ...]]] = frozenset()
    views: Mapping[Leaf, Leaf] = field(default_factory=dict)
    schedule: Any = None
    across: bool | None = None
    into: Permute | None = None
    blocks: bool = False

    @property
    def gpu(self) -> bool:
        """Whether the target runs kernels with blocks of threads."""
        return self.target.gpu

    @property
    def processors(self) -> int:
        """CPU threads, or multiprocessors (default: an H200's); must not affect results."""
        if not self.gpu:
            return max(self.threads, 1)
        return self.threads if self.threads > 1 else MULTIPROCESSORS

    def schedule_of(self, node: Node) -> Schedule | None:
        given = node.label.schedule if self.schedule is None else self.schedule
        return None if given is None else as_schedule(given)


@dataclass(frozen=True)
class Site:
    """The origin of a check of checked mode: operation, array, axis, the user's line."""

    operation: str
    array: str
    axis: int
    where: Any


class Equals:
    """Equivalence classes of the host expressions that the node's checks make equal."""

    def __init__(self, node: Node) -> None:
        self.same: dict[Expr, Expr] = {}
        for check in node.checks:
            # The contents of arrays are unknown before the launch: they cannot name an extent.
            if check.relation == "==" and not check.reads:
                self._join(check.left, check.right)

    def root(self, e: Expr) -> Expr:
        """The representative of the host expressions known to equal `e`."""
        while e in self.same:
            e = self.same[e]
        return e

    def _join(self, a: Expr, b: Expr) -> None:
        a, b = self.root(a), self.root(b)
        if a is b:
            return
        if isinstance(b, ex.Const):
            a, b = b, a
        self.same[b] = a


@dataclass
class Builder:
    """The state of one lowering (module docstring)."""

    node: Node
    context: LoweringContext
    safe: set[Expr] = field(default_factory=set)
    inside: dict[Expr, set[int]] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    scratches: list[ir.Buffer] = field(default_factory=list)
    tables: dict[tuple[Order, tuple[Expr, ...]], ir.HostTable] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fits: dict[tuple[Order, tuple[Expr, ...]], None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._scalars: dict[Expr, ex.Var] = {}
        self._variables: list[tuple[ex.Var, Expr]] = []
        self.buffers: dict[Leaf, ir.Buffer] = {}
        self._names: set[str] = set()
        equals = Equals(self.node)
        self._same, self.root = equals.same, equals.root
        self._extents = 0
        self._below: dict[ex.Var, Expr] = {}
        self._sites: dict[tuple[Node | str, int], int] = {}
        self._terms: dict[Expr, int] = {}
        #: Arrays that an update reads only at the elements it writes.  They are read from the
        #: update's target, which may alias the defaults (an in-place update).
        self._own: frozenset[Leaf] = frozenset()
        if isinstance(self.node, Permute):
            self._own = frozenset(d for d in self.node.defaults if reads_own(self.node, d))
        elif isinstance(self.node, Sequential):
            self._own = frozenset(self.node.defaults)
        if self._own:
            if self._own & self.context.strided:  # the target is dense
                self.context = replace(
                    self.context, strided=self.context.strided - self._own,
                    steps=frozenset(s for s in self.context.steps if s[0] not in self._own),
                )  # fmt: skip

    # --- extents and other host values ---

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two extents are equal: identical, or equal by a check of the node."""
        return self.root(a) is self.root(b)

    def is_one(self, e: Expr) -> bool:
        root = self.root(e)
        return isinstance(root, ex.Const) and int(root.value) == 1

    def scalar(self, host: Expr, name: str) -> Expr:
        """A host expression as a scalar of the kernel (a constant stays one)."""
        host = self.root(host)
        if isinstance(host, ex.Const):
            return ex.Const(host.value, host.type) if host.weak else host
        found = self._scalars.get(host)
        if found is None:
            found = self._scalars[host] = ex.Var(self._unique(name), host.type)
        return found

    def variable(self, host: Expr, name: str) -> ex.Var:
        """The same, also for a constant: another number may be passed."""
        found = ex.Var(self._unique(name), host.type)
        self._variables.append((found, host))
        return found

    def is_scalar(self, variable: Expr) -> bool:
        every = (*self._scalars.values(), *(v for v, _ in self._variables))
        return any(v is variable for v in every)

    def extent(self, host: Expr, name: str = "size") -> Expr:
        """An extent as a scalar: `n0`, `n1` … for those of arrays, `name` for a computed one."""
        found = self.host_scalar(host)
        if found is None:
            if isinstance(host, ex.Extent):
                name = f"n{self._extents}"
                self._extents += 1
            found = self.scalar(host, name)
        return found

    def shape(self, host: Iterable[Expr], names: Sequence[str] = ()) -> tuple[Expr, ...]:
        """Extents as scalars; `names` for those that are computed."""
        return tuple(self.extent(e, *names[k : k + 1]) for k, e in enumerate(host))

    def node_shape(self, read: ex.Read) -> tuple[Expr, ...]:
        """The extents of the array read, registered as scalars for expressions that use them."""
        shape = read.node.outputs[read.component].shape
        self.shape(shape)
        return shape

    def _unique(self, name: str) -> str:
        made, count = name, 0
        while made in self._names:
            count += 1
            made = f"{name}_{count}"
        self._names.add(made)
        return made

    # --- buffers ---

    def input(self, leaf: Leaf) -> ir.Buffer:
        """The buffer an array is read from."""
        found = self.buffers.get(leaf)
        if found is None and leaf in self._own:
            assert isinstance(self.node, Permute | Sequential)
            found = self.buffers[leaf] = self.outputs("update")[self.node.defaults.index(leaf)]
        if found is None:
            size = at.product(self.shape(leaf.shape))
            dense, of = leaf not in self.context.strided, self.context.views.get(leaf, leaf)
            name = self._unique(_identifier(array_name(of)))
            made = ir.Buffer(name, leaf.type, "input", size, of, dense=dense)
            found = self.buffers[leaf] = made
        return found

    def updated(self, leaf: Leaf) -> ir.Buffer:
        """The buffer of an array of which the kernel reads and writes parts."""
        if leaf not in self.buffers:
            self.buffers[leaf] = replace(self.input(leaf), role="update")
        return self.buffers[leaf]

    def outputs(self, role: str = "output") -> tuple[ir.Buffer, ...]:
        """The buffers of the node's own components."""
        made = []
        into = self.context.into
        node, role = (self.node, role) if into is None else (into, "update")
        for k, leaf in enumerate(node.leaves):
            if leaf not in self.buffers:
                name = self._unique("out" if len(node.outputs) == 1 else f"out{k}")
                size = at.product(self.shape(leaf.shape))
                self.buffers[leaf] = ir.Buffer(name, leaf.type, role, size, leaf)
            made.append(self.buffers[leaf])
        return tuple(made)

    def scratch(self, name: str, types: Sequence[ScalarType], size: Expr) -> tuple[ir.Buffer, ...]:
        """Buffers that live between the kernels of this lowering."""
        made = tuple(ir.Buffer(self._unique(name), t, "scratch", size) for t in types)
        self.scratches += made
        return made

    def local(self, name: str, types: Sequence[ScalarType], size: int) -> tuple[ir.Buffer, ...]:
        """Buffers private to a task (CPU) or to a thread (GPU)."""
        return tuple(ir.Buffer(self._unique(name), t, "local", ex.constant(size)) for t in types)

    def shared(self, name: str, types: Sequence[ScalarType], size: int) -> tuple[ir.Buffer, ...]:
        return tuple(ir.Buffer(self._unique(name), t, "shared", ex.constant(size)) for t in types)

    def position(self, leaf: Leaf, indices: Sequence[Expr]) -> Expr:
        if leaf in self.context.strided:
            known = {axis: n for of, axis, n, _ in self.context.steps if of == leaf}
            total: Expr = ex.constant(0)
            for axis, index in enumerate(indices):
                step = known.get(axis) or self.scalar(Stride(leaf, axis), f"stride{axis}")
                total = total + index * step
            return total
        return at.linear(indices, self.shape(leaf.shape))

    def row_axis(self, leaf: Leaf) -> int | None:
        """The axis of an array with the smallest stride; None if unknown."""
        if leaf not in self.context.strided:
            return len(leaf.shape) - 1
        return next((axis for of, axis, *_ in self.context.steps if of == leaf), None)

    # --- the context of a Linearizer (protocol Leaves) ---

    def leaf(self, e: Expr) -> Expr:
        if isinstance(e, ex.Extent):
            return self.extent(e)
        if isinstance(e, ex.Param):
            return self.scalar(e, _identifier(e.name))
        if isinstance(e, Stride):
            return self.scalar(e, f"stride{e.axis}")
        if isinstance(e, ex.Index):
            raise AssertionError(f"Index({e.axis}) means nothing in {self.node!r} here")
        return e

    def host_scalar(self, e: Expr) -> Expr | None:
        if self._same and e in self._same:
            e = self.root(e)
            if isinstance(e, ex.Const):
                return e
        found: Expr | None = self._scalars.get(e)
        if found is None and ex.is_common_sum(e) and self._terms_of(e) > MOST_TERMS:
            # computed on the host
            found = self.scalar(e, "total")
        return found

    def _terms_of(self, e: Expr) -> int:
        """The number of element-invariant integer terms in the sum `e`; 1 if it is no sum."""
        stack = [e] if ex.is_common_sum(e) else []
        while stack:
            sum_ = stack[-1]
            parts = [a for a in sum_.args if ex.is_common_sum(a) and a not in self._terms]
            stack += parts
            if not parts:
                self._terms[stack.pop()] = sum(self._terms.get(a, 1) for a in sum_.args)
        return self._terms.get(e, 1)

    def read(self, read: ex.Read, indices: tuple[Expr, ...], into: Linearizer) -> Expr:
        if read.boundary is not None:
            raise AssertionError(
                f"{read!r} was not resolved (transform.resolve): it may be outside"
            )
        leaf = Leaf(read.node, read.component)
        buffer = self.input(leaf)
        if self.context.check and read not in self.safe:
            indices = tuple(into.let(i, "at") if isinstance(i, ex.Apply) else i for i in indices)
            ok = self.check_index(leaf.node, indices, leaf.shape, into)
            if ok is not ex.TRUE:
                value = into.declare(zero(buffer.type), buffer.name)
                load = ir.Load(buffer, self.position(leaf, indices))
                into.append(ir.If(ok, (ir.Assign(value, load),)))
                return value
        return ir.Load(buffer, self.position(leaf, indices))

    def exists(self, read: ex.Read) -> bool:
        """Whether a read is in range at every index of the domain, even where the condition that
        guards it is false.  Always false on a GPU, whose threads may run outside the domain."""
        if self.context.gpu or self.context.check or not isinstance(self.node, Generate | Fold):
            return False
        over = self.node.iteration_space()
        return read.boundary is None and all(
            (isinstance(i, ex.Const) and isinstance(n, ex.Const) and 0 <= i.value < n.value)
            or (isinstance(i, ex.Index) and self.root(over[i.axis]) is self.root(n))
            for i, n in zip(read.args, Leaf(read.node, read.component).shape, strict=True)
        )

    def iterations(
        self, loop: ex.Loop, index: ex.Var, into: Linearizer
    ) -> Sequence[Mapping[Expr, Expr]]:
        """A serial loop with no known properties."""
        return ({},)

    def stays_below(self, variable: Expr, extent: Expr) -> None:
        """A loop variable runs over 0 … extent − 1: reads at it along such an axis are in range."""
        if isinstance(variable, ex.Var):
            self._below[variable] = self.root(extent)

    def check_index(self, array: Node | str, indices: Sequence[Expr], shape: Sequence[Expr],
                    into: Linearizer) -> Expr:  # fmt: skip
        """Report every axis on which an index is out of range; return the condition that none is.

        `array` is the array, or the name that error messages give it.
        """
        ok: Expr = ex.TRUE
        for axis, (index, host) in enumerate(zip(indices, shape, strict=True)):
            if isinstance(index, ex.Var) and self._below.get(index) is self.root(host):
                continue
            extent = self.extent(host)
            inside = at.in_range(index, extent)
            if inside is ex.TRUE:
                continue
            inside = into.let(inside, "ok")
            into.append(ir.Report(inside, self._site(array, axis), index, extent))
            ok = at.both(ok, inside)
        return ok

    def _site(self, array: Node | str, axis: int) -> int:
        """The number of a check.  Arrays are compared by identity, since their names may vary."""
        key = (array, axis)
        if key not in self._sites:
            self._sites[key] = len(self.sites)
            called = array if isinstance(array, str) else array.called()
            self.sites.append(Site(str(self.node.label), called, axis, self.node.where))
        return self._sites[key]

    def emitter(self) -> Linearizer:
        return Linearizer(self)

    def must_fit(self, order: Order, grid: Sequence[Expr]) -> None:
        """Check before each run that an order fits `grid` (host), if it may not fit all extents."""
        if type(order).require is not Order.require or not built_in(order):
            self.fits[order, tuple(grid)] = None

    def block_number(self, order: Order, grid: Sequence[Expr], ident: Expr) -> Expr:
        """The row-major number of the block of `grid` that an order visits, from a host table."""
        key = order, tuple(grid)
        blocks = self.scalar(at.product(grid), "blocks")
        if key not in self.tables:
            table = ir.Buffer("block_order", int32, "scratch", at.maximum(blocks, 1), below=blocks)
            self.scratches.append(table)
            self.tables[key] = ir.HostTable(table, tuple(grid), (), BlockTable(order))
            self.notes.append(f"{shown(order)}: which block is next is looked up, in a table that "
                              "the host makes once for any extents, 4 bytes a block")  # fmt: skip
        return simplify.cast(ir.Load(self.tables[key].buffer, ident), int64)

    # --- finished kernels ---

    def kernel(self, suffix: str, tasks: Expr, task: ex.Var, body: ir.Body, *,
               comments: Iterable[str] = (), **gpu: Any) -> ir.Kernel:  # fmt: skip
        """A kernel with the buffers and scalars that `body` uses.

        `gpu`: threads, thread, resident, requires, aligned, fallback (see `Kernel`).
        """
        if self.context.into is not None:
            body, conditions = self._in_rows(body, self.context.into)
            if conditions:
                gpu["requires"] = (*gpu["requires"], *conditions)
        buffers: dict[ir.Buffer, None] = {}
        roots: list[Expr] = [tasks, *gpu.get("requires", ())]
        for s in ir.statements(body):
            roots += ir.expressions(s)
            buffers.update(dict.fromkeys(ir.written(s)))
            if isinstance(s, ir.LoadVector | ir.Fetch | ir.FetchUpdate):
                buffers[s.buffer] = None
        inside = ex.walk(roots)
        buffers.update((e.buffer, None) for e in inside if isinstance(e, ir.Load))
        order = {b: k for k, b in enumerate(self._all_buffers())}
        used = sorted(buffers, key=lambda b: order.get(b, len(order)))
        inside += ex.walk([b.size for b in used])
        free = {e for e in inside if isinstance(e, ex.Var)}
        scalars = [(v, h) for h, v in self._scalars.items() if v in free]
        scalars += [(v, h) for v, h in self._variables if v in free]
        return ir.Kernel(
            name=kernel_name(self.node, suffix),
            buffers=tuple(used),
            scalars=tuple(v for v, _ in scalars),
            scalar_values=tuple(h for _, h in scalars),
            tasks=tasks,
            task=task,
            body=body,
            comments=(*describe(self.node), *comments),
            sites=tuple(self.sites),
            **gpu,
        )

    def _in_rows(self, body: ir.Body, into: Permute) -> tuple[ir.Body, list[Expr]]:
        """Offset the stores of a row's elements by the start of the row, guarded by the condition
        that the row is stored.  Also returns the conditions under which vector stores are valid."""
        lead = len(into.target) - len(into.domain)
        first, offsets = self.emitter(), dict[ir.Buffer, Expr]()
        valid = first.value(into.valid)
        row = self.shape(into.domain)
        for buffer, leaf in zip(self.outputs(), into.defaults, strict=True):
            number = at.linear(first.emit(into.target[:lead]), self.shape(leaf.shape[:lead]))
            offsets[buffer] = first.let(number * at.product(row), "row")
        widths = {len(s.values) for s in ir.statements(body)
                  if isinstance(s, ir.StoreVector) and s.buffer in offsets}  # fmt: skip
        conditions = [at.equal(at.product(row) % n, 0) for n in sorted(widths)]
        body = _displaced(body, offsets)
        body = body if valid is ex.TRUE else (ir.If(valid, body),)
        return (*first.out, *body), conditions

    def _all_buffers(self) -> list[ir.Buffer]:
        kinds = {"input": 0, "update": 1, "output": 2}
        return sorted(self.buffers.values(), key=lambda b: kinds[b.role])

    def lowered(self, *kernels: ir.Kernel) -> ir.Lowered:
        kernels = tuple(k for k in kernels if not at.is_constant(k.tasks, 0))
        used = {b for k in kernels for b in k.buffers}
        scratch = tuple(b for b in self.scratches if b in used)
        tables = tuple(t for t in self.tables.values() if t.buffer in used)
        return ir.Lowered(kernels, scratch, tuple(self.notes), tables, tuple(self.fits))


def array_name(leaf: Leaf) -> str:
    """The name of an array, as programs and error messages show it."""
    if isinstance(leaf.node, Input):
        return leaf.node.name
    label = leaf.node.label
    name = label.called
    return name if len(leaf.node.outputs) == 1 else f"{name}{leaf.component}"


def _identifier(name: str) -> str:
    made = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return made if made and not made[0].isdigit() else f"a{made}"


def kernel_name(node: Node, suffix: str = "") -> str:
    """The operation (or the user's name for it), the phase and the user's line."""
    parts = [_identifier(node.label.called)]
    if suffix:
        parts.append(suffix)
    if node.where is not None:
        parts.append(f"line{node.where.line}")
    return "_".join(parts)


def describe(node: Node) -> tuple[str, ...]:
    """A description of what a kernel computes, as a comment."""
    location = f", {node.where.short()}" if node.where is not None else ""
    lines = [f"{node.label}{location}"]
    fused: dict[str, Counter[str]] = {}
    for label, where in node.fused:
        there = "" if where is None else f", {where.short()}"
        fused.setdefault(there, Counter())[str(label)] += 1
    for there, labels in fused.items():
        names = ", ".join(f"{name} × {n}" if n > 1 else name for name, n in labels.items())
        lines.append(f"  with {names}{there}")
    return tuple(lines)


def element_cost(roots: Iterable[Expr]) -> float:
    """The cost of an element in additions; a loop body counts as 16 iterations.  Loop-invariant
    subexpressions, which are hoisted out of the loop over elements, count nothing."""
    total = 0.0
    nodes = list(ex.walk(roots))
    looped: set[Expr] = set()
    for e in nodes:
        if isinstance(e, ex.While | ex.Loop):
            looped.update(ex.walk(e.scoped))
    for e in nodes:
        cost = 1.0 if isinstance(e, ex.Read) else 0.0
        if isinstance(e, ex.Apply) and e.varies:
            cost = e.op.cost
        elif isinstance(e, ex.Foreign):
            cost = 50.0
        total += cost * (16.0 if e in looped else 1.0)
    return total


#: The cost of an exponential, in additions.  A vector of them takes hardly longer than one.
FUNCTION = 15.0


def takes_vectors(roots: Iterable[Expr]) -> bool:
    """Whether elements are costly enough (loops, or functions as costly as an exponential) that
    computing several in vectors and buffering them beats computing them one by one or repeatedly.
    """
    return any(isinstance(e, ex.While | ex.Loop | ex.Foreign)
               or (isinstance(e, ex.Apply) and e.varies and e.op.cost >= FUNCTION)
               for e in ex.walk(roots))  # fmt: skip


def element_bytes(roots: Sequence[Expr], outputs: Sequence[ScalarType]) -> int:
    """Bytes moved per element, counting each array read once."""
    read = {Leaf(e.node, e.component) for e in ex.walk(roots) if isinstance(e, ex.Read) and e.args}
    return sum(leaf.type.bytes for leaf in read) + sum(t.bytes for t in outputs)


def _displaced(body: ir.Body, offsets: Mapping[ir.Buffer, Expr]) -> ir.Body:
    """The statements with each store to one of these buffers moved by the buffer's offset."""

    def moved(s: ir.Statement) -> ir.Statement:
        if isinstance(s, ir.Store | ir.StoreVector) and s.buffer in offsets:
            return replace(s, index=s.index + offsets[s.buffer])
        assert offsets.keys().isdisjoint(ir.written(s)), f"{s} stores in another way"
        return ir.mapped(s, body=lambda inner: _displaced(inner, offsets))

    return tuple(moved(s) for s in body)
