"""Windows in shared memory (`Stage`): the data that a block reads of an array, loaded once.

    load       all threads: the block and its halo, boundaries resolved
    barrier
    compute    reads of shared memory

Only unconditional reads at constant offsets from the element's index are staged, of arrays that are
read at several offsets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from treadle.dsl.analysis.polynomial import affine_forms, variables
from treadle.dsl.expr import Expr, Index, Read, rewrite
from treadle.dsl.graph import Generate
from treadle.dsl.records import dataclass
from treadle.skeletons.schedules import Resolved, ScheduleError

from ...ir import arithmetic as at
from ...ir.kernel import Barrier, Buffer, Load, Store
from ...ir.linearize import Linearizer
from .. import transform
from ..build import Builder
from ..elementwise.gpu_elements import Elements
from .common import Threads, unconditional

#: Bytes of shared memory that a kernel may declare.
MOST_BYTES = 48 << 10


@dataclass(frozen=True)
class _Window:
    """Reads of one array, by their offset from the element, and the bounding box of the offsets."""

    reads: dict[Read, tuple[int, ...]]
    low: tuple[int, ...]
    high: tuple[int, ...]

    def sides(self, block: Sequence[int]) -> tuple[int, ...]:
        """The extents of the data that a block reads."""
        return tuple(n + h - w for n, w, h in zip(block, self.low, self.high, strict=True))


class Staging:
    """The reads of a Generate that a block stages; empty if nothing is read twice."""

    def __init__(self, builder: Builder, node: Generate, plan: Resolved) -> None:
        self.builder, self.node, self.plan = builder, node, plan
        self.windows = [] if builder.context.check else _windows(node)
        size = self._bytes(plan.unit)
        if size > MOST_BYTES:
            raise ScheduleError(
                f"what a block of {plan.unit} elements reads takes {size:,} bytes of shared "
                f"memory, and there are {MOST_BYTES:,}.",
                hint=self._smaller(plan),
            )
        self.buffers: list[Buffer] = []
        for w in self.windows:
            one = next(iter(w.reads))
            (buffer,) = builder.shared("staged", [one.type], math.prod(w.sides(plan.unit)))
            self.buffers.append(buffer)

    def _bytes(self, block: Sequence[int]) -> int:
        """The shared memory for the data that a block of these extents reads."""
        return sum(math.prod(w.sides(block)) * next(iter(w.reads)).type.bytes for w in self.windows)

    def _smaller(self, plan: Resolved) -> str:
        """A hint with a Block that fits, if there is one."""
        block = list(plan.unit)
        while self._bytes(block) > MOST_BYTES and max(block[-2:]) > 1:
            longest = max(range(max(plan.ndim - 2, 0), plan.ndim), key=lambda k: block[k])
            block[longest] //= 2
        if self._bytes(block) > MOST_BYTES:
            return "Leave out Stage(): no block is small enough."
        return f"Write a smaller Block, for example Block({', '.join(map(str, block))})."

    def load(self, into: Linearizer, grid: Threads, corner: Sequence[Expr], elements: Elements
             ) -> Elements:  # fmt: skip
        """Emit the loads of the block at `corner`; returns the elements, reading the loaded
        data."""
        memo: dict[Expr, Expr] = {}
        for window, buffer in zip(self.windows, self.buffers, strict=True):
            sides = tuple(map(at.integer, window.sides(self.plan.unit)))
            self._fill(into, grid, corner, window, buffer, sides)
            for read, offsets in window.reads.items():
                indices = [
                    Index(k) - corner[k] + (offset - low)
                    for k, (offset, low) in enumerate(zip(offsets, window.low, strict=True))
                ]
                memo[read] = Load(buffer, at.linear(indices, sides))
        into.append(Barrier())
        roots = rewrite(self.node.elements, lambda e: e, memo)
        return Elements(self.builder, elements.outs, roots, elements.axes, elements.domain)

    def _fill(self, into: Linearizer, grid: Threads, corner: Sequence[Expr], window: _Window,
              buffer: Buffer, sides: tuple[Expr, ...]) -> None:  # fmt: skip
        domain = self.node.shape
        first = next(iter(window.reads))
        args = tuple(Index(k) + low for k, low in enumerate(window.low))
        read = Read(first.node, first.component, args, first.boundary, first.scoped, first.vars)
        # Data beyond the domain is loaded too, except along axes without offsets.
        shape = self.builder.node_shape(read)
        own = {
            k for k, (least, most) in enumerate(zip(window.low, window.high, strict=True))
            if least == most == 0 and self.builder.same(domain[k], shape[k])
        }  # fmt: skip
        (value,) = transform.resolve((read,), self.builder, (), transform.Safe({read: own}))
        size = math.prod(window.sides(self.plan.unit))
        with into.loop("t", grid.thread, size, step=grid.count) as t:
            bindings: dict[Expr, Expr] = {}
            for k, (c, n) in enumerate(
                zip(at.row_major(t, sides), self.builder.shape(domain), strict=True)
            ):
                # No element beyond the domain needs more data than the last element does.
                last = n + (window.high[k] - window.low[k] - 1)
                bindings[Index(k)] = into.let(at.minimum(corner[k] + c, last), f"from{k}")
            with into.when_always(bindings):
                into.append(Store(buffer, t, into.value(value)))

    def named(self) -> str:
        """The staged arrays, for a comment."""
        names = [f"{b.name} ({' × '.join(map(str, w.sides(self.plan.unit)))})"
                 for w, b in zip(self.windows, self.buffers, strict=True)]  # fmt: skip
        return f"in shared memory: {', '.join(names)}"


def _windows(node: Generate) -> list[_Window]:
    rank = len(node.shape)
    found: dict[tuple[Any, ...], dict[Read, tuple[int, ...]]] = {}
    forms = affine_forms(node.elements)
    for e in unconditional(node.elements):
        if not isinstance(e, Read) or len(e.args) != rank:
            continue
        each = [forms.get(a) for a in e.args]
        own = all(f is not None and variables(f) == {Index(k): 1} for k, f in enumerate(each))
        if own:
            offsets = tuple(f.constant for f in each if f is not None)
            key = (e.node, e.component, e.boundary, e.scoped)
            found.setdefault(key, {})[e] = offsets
    return [
        _Window(reads, tuple(map(min, *corners)), tuple(map(max, *corners)))
        for reads in found.values() if len(corners := set(reads.values())) > 1
    ]  # fmt: skip
