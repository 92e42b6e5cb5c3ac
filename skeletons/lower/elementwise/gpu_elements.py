"""The elements of a Generate inside a GPU kernel: one at a time, or several neighbours at once.

Inside the box where boundary reads are in range, reads are plain and accesses wide.  Elsewhere
elements are computed one at a time with resolved boundaries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from treadle.dsl.expr import FALSE, Expr, Index, constant, walk
from treadle.dsl.graph import Generate, Shape

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel, Load, Store, StoreVector
from ...ir.linearize import Linearizer
from .. import tiling, transform
from ..build import Builder
from ..combining import put, store_group
from ..gpu.common import Group, Threads, invariants, load_vector, unconditional, vector_count
from ..gpu.jam import WideReads, jam, jams
from ..gpu.unroll import Unrolled

#: The most expressions of an element whose copies are unrolled.
WRITTEN_OUT = 24
#: Elements per thread whose loops are jammed.
MOST_JAMMED = 64


class Elements:
    """The expressions to compute at every index of a domain, and the outputs that store them.

    `axes[k]` represents the index along axis k in `roots` (an Index, or the variable of several
    collapsed axes); `domain` contains the extents as host expressions.  `unrolled`: loops read the
    data of several iterations at once if possible.
    """

    def __init__(self, builder: Builder, outs: Sequence[Buffer], roots: Sequence[Expr],
                 axes: Sequence[Expr], domain: Shape, unrolled: bool = False) -> None:  # fmt: skip
        self.builder, self.outs = builder, tuple(outs)
        self.axes, self.domain, self.roots = tuple(axes), domain, tuple(roots)
        plain = all(axis == Index(k) for k, axis in enumerate(axes))
        self.box = transform.interior(roots, domain, builder) if plain else None
        self.anywhere = transform.resolve(roots, builder, domain)
        self.inside = self.anywhere
        if self.box is not None:
            safe = self.box.safe(range(len(domain)))
            self.inside = transform.resolve(roots, builder, domain, safe)
        self.extents = builder.shape(domain)
        self.loops = Unrolled(builder, (*self.inside, *self.anywhere)) if unrolled else None
        self._groups: dict[int, Group] = {}
        self._wide: dict[int, WideReads] = {}

    def unrolled(self) -> Elements | None:
        """The same with loops that read several iterations at once; None if no loop can."""
        made = Elements(self.builder, self.outs, self.roots, self.axes, self.domain, unrolled=True)
        return made if made.loops is not None and made.loops.aligned else None

    def emitter(self) -> Linearizer:
        """The linearizer for the statements of a kernel that computes these elements."""
        return self.builder.emitter() if self.loops is None else Linearizer(self.loops)

    def group(self, count: int) -> Group:
        """`count` neighbours along the last axis, inside the box."""
        if count not in self._groups:
            self._groups[count] = Group(self.builder, self.inside, self.axes[-1], count)
        return self._groups[count]

    def widest(self) -> int:
        """The number of neighbours that fit one access of their results and of their row reads."""
        group = Group(self.builder, (), self.axes[-1], 1)
        found = (group.member(e) for e in unconditional(self.inside))
        read = [m[0].buffer.type for m in found if m is not None]
        return vector_count([*read, *(b.type for b in self.outs)])

    def wide_reads(self, count: int) -> WideReads:
        """The reads of neighbours in loops, for elements that are computed together."""
        if count not in self._wide:
            self._wide[count] = WideReads(self.builder, self.inside, self.axes[-1], count)
        return self._wide[count]

    def conditions(self, count: int) -> tuple[tuple[Expr, ...], tuple[Buffer, ...]]:
        """`requires` and `aligned` for `count` neighbours at once, wide reads in loops included."""
        loops = self.loops
        requires, aligned = (loops.requires, loops.aligned) if loops is not None else ((), ())
        if count == 1:
            return requires, aligned
        group, wide = self.group(count), self.wide_reads(count)
        requires = (*group.requires, *wide.requires, *requires)
        if len(self.domain) > 1:  # rows must consist of complete vectors
            requires = (*requires, at.equal(self.extents[-1] % count, 0))
        return requires, (*group.aligned, *wide.aligned, *aligned, *self.outs)

    def resident(self, unit: Sequence[int], threads: int) -> int:
        """Blocks to request per multiprocessor, with `unit` elements per thread; 0: any number.

        Call this after the statements were emitted.
        """
        return 0 if self.loops is None or max(unit) == 1 else self.loops.resident(threads)

    def position(self, indices: Sequence[Expr]) -> Expr:
        """The position of an element in the outputs."""
        return at.linear(indices, self.extents)

    def one(self, into: Linearizer, indices: Sequence[Expr], position: Expr | None = None) -> None:
        """Compute the element at `indices`."""
        self.several(into, indices, 1, position)

    def several(self, into: Linearizer, indices: Sequence[Expr], count: int,
                position: Expr | None = None) -> None:  # fmt: skip
        """`count` elements of a row from `indices` on, all inside the domain, at `position`.

        For count > 1 the last index is a multiple of it.
        """
        position = self.position(indices) if position is None else position
        inside = self._in_box(indices, (*(1 for _ in indices[1:]), count))
        if inside is None:
            self._plain(into, indices, count, position)
            return
        inside = into.let(inside, "inside")
        with into.when(inside):
            self._plain(into, indices, count, position)
        with into.otherwise(inside):
            if count == 1:
                self._store(into, indices, position, self.anywhere)
            else:
                with into.loop("k", 0, count) as k:
                    here = (*indices[:-1], indices[-1] + k)
                    self._store(into, here, position + k, self.anywhere)

    def unit(self, into: Linearizer, first: Sequence[Expr], unit: Sequence[int], count: int
             ) -> None:  # fmt: skip
        """unit[k] elements along axis k from `first` on, all inside the domain, `count` at once.

        Their counted loops are jammed (`../gpu/jam.py`).
        """
        if math.prod(unit) > MOST_JAMMED or not jams(self.anywhere):
            _nest(into, first, unit, [], count, lambda indices: self.several(into, indices, count))
            return
        inside = self._in_box(first, unit)
        if inside is None:
            self._jammed(into, first, unit, count)
            return
        inside = into.let(inside, "inside")
        with into.when(inside):
            self._jammed(into, first, unit, count)
        with into.otherwise(inside):
            _nest(into, first, unit, [], 1, lambda indices: self.one(into, indices), "serial")

    def _jammed(self, into: Linearizer, first: Sequence[Expr], unit: Sequence[int], count: int
                ) -> None:  # fmt: skip
        offsets = itertools.product(*(range(n) for n in unit))
        members = [[i + d for i, d in zip(first, offset, strict=True)] for offset in offsets]
        bindings = [self._bindings(indices) for indices in members]
        roots = [e for element in jam(self.inside, bindings) for e in element]
        self._before(into, roots)
        values = self.wide_reads(count).emit(into, roots, bindings)
        width = len(self.outs)
        elements = [values[n : n + width] for n in range(0, len(values), width)]
        for n in range(0, len(members), unit[-1]):
            begin = self.position(members[n])
            if unit[-1] > count:
                begin = into.let(begin, "position")
            for k in range(0, unit[-1], count):
                neighbours = elements[n + k : n + k + count]
                store_group(into, self.outs, begin + k, neighbours)

    def guarded_unit(self, into: Linearizer, first: Sequence[Expr], unit: Sequence[int]) -> None:
        """`unit` for those elements that are inside the domain."""

        def one(indices: Sequence[Expr]) -> None:
            inside = at.both(*(
                at.less(i, n)
                for i, own, n in zip(indices, unit, self.extents, strict=True) if own > 1
            ))  # fmt: skip
            with into.when(inside):
                self.one(into, indices)

        _nest(into, first, unit, [], 1, one, "serial")

    def _in_box(self, indices: Sequence[Expr], unit: Sequence[int]) -> Expr | None:
        """Whether boundary reads of unit[k] elements along axis k are in range; None: no reads."""
        if self.box is None or not indices:
            return None
        low, high = self.box.low, self.box.high
        return at.both(*(
            at.both(at.less_equal(low[k], i), at.less(i + (own - 1), high[k]))
            for k, (i, own) in enumerate(zip(indices, unit, strict=True))
        ))  # fmt: skip

    def _bindings(self, indices: Sequence[Expr]) -> dict[Expr, Expr]:
        return dict(zip(self.axes, indices, strict=True))

    def _store(self, into: Linearizer, indices: Sequence[Expr], position: Expr,
               roots: Sequence[Expr]) -> None:  # fmt: skip
        for k, index in enumerate(indices):
            self.builder.stays_below(index, self.domain[k])
        with into.when_always(self._bindings(indices)):
            self._before(into, roots)
            values = into.emit(roots)
            put(into, self.outs, position, values)

    def _before(self, into: Linearizer, roots: Sequence[Expr]) -> None:
        """The values that the loops in `roots` need in every iteration."""
        parts = invariants(roots)
        into.bind(dict(zip(parts, into.emit(parts, named=True), strict=True)))

    def _plain(self, into: Linearizer, indices: Sequence[Expr], count: int, position: Expr) -> None:
        if count == 1:
            self._store(into, indices, position, self.inside)
            return
        group, first = self.group(count), indices[-1]
        with into.when_always(dict(zip(self.axes[:-1], indices[:-1], strict=True))):
            if sum(1 for _ in walk(self.inside)) <= WRITTEN_OUT:
                store_group(into, self.outs, position, group.values(into, first))
            else:
                self._in_loop(into, group, first, position)

    def _in_loop(self, into: Linearizer, group: Group, first: Expr, position: Expr) -> None:
        """`several` with one copy of the code, in a loop over thread-private arrays."""
        builder, count = self.builder, group.count
        read: list[tuple[Expr, Buffer, int, int]] = []
        for stream in group.streams:
            windows = stream.windows(count)
            (local,) = builder.local(f"{stream.buffer.name}_group", (stream.buffer.type,),
                                    len(windows) * count)  # fmt: skip
            begin = group.start(stream, into, first)
            for n, window in enumerate(windows):
                got = load_vector(into, stream.buffer, begin + window * count, count)
                into.append(*(Store(local, constant(n * count + k), v) for k, v in enumerate(got)))
            for e, offset in stream.reads.items():
                least = min(offset, offset + stream.sign * (count - 1)) // count
                shift = offset - (least - windows.index(least)) * count
                read.append((e, local, shift, stream.sign))
        group.share(into)
        results = [builder.local(f"{b.name}_group", (b.type,), count)[0] for b in self.outs]
        with into.loop("k", 0, count, "unrolled") as k:
            bindings: dict[Expr, Expr] = {self.axes[-1]: first + k}
            for e, local, shift, sign in read:
                here = Load(local, (k if sign > 0 else 0 - k) + shift)
                bindings[e] = into.let(here, local.name.replace("_group", "_k"))
            with into.when_always(bindings):
                values = into.emit(self.inside)
                put(into, results, k, values)
        for out, local in zip(self.outs, results, strict=True):
            parts = tuple(Load(local, constant(k)) for k in range(count))
            into.append(StoreVector(out, position, parts))


def _nest(into: Linearizer, first: Sequence[Expr], unit: Sequence[int], done: list[Expr], step: int,
          inner: Callable[[Sequence[Expr]], None], kind: str = "unrolled") -> None:  # fmt: skip
    """Loops over the elements of a thread, in steps of `step` along a row."""
    k = len(done)
    if k == len(unit):
        inner(done)
        return
    stride = step if k == len(unit) - 1 else 1
    if unit[k] == stride:
        _nest(into, first, unit, [*done, first[k]], step, inner, kind)
        return
    with into.loop(f"u{k}", 0, unit[k], kind, stride) as u:
        index = into.let(first[k] + u, f"i{k}")
        _nest(into, first, unit, [*done, index], step, inner, kind)


def make_kernel(builder: Builder, node: Generate, tasks: Expr, grid: Threads, into: Linearizer,
                comments: Sequence[str] = (), **launch: Any) -> Kernel:  # fmt: skip
    """The kernel of a Generate, with comments; its fallback if one of its conditions is false."""
    if FALSE in launch["requires"] and launch["fallback"] is not None:
        return launch["fallback"]  # type: ignore[no-any-return]
    remarks = [f"schedule: {tiling.shown_schedule(builder)}", *comments]
    return builder.kernel("", tasks, grid.task, tuple(into.out), comments=remarks, **launch)
