"""Patterns of real programs: the reads and the write of one kernel, index by index.

The index expressions of a kernel's reads are evaluated by NumPy for every output; a read inside
`td.loop` once per turn, a reduction once per element it folds.  Indices that depend on data need
the data; boundaries are resolved (a read beyond the border with a constant boundary makes no
access).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.dsl.errors import ScheduleError
from treadle.dsl.expr import Apply, Const, Expr, Extent, Index, Loop, Param, Read, Var, walk
from treadle.dsl.graph import Fold, Generate, Input, Node, topological
from treadle.dsl.operations.stencils import resolve_index
from treadle.dsl.primitives import convert

from .patterns import Pattern

#: Outputs whose addresses are computed at a time.
_BATCH = 1 << 16


def pattern_of(program: Any, kernel: str | None = None, arrays: Sequence[Any] | None = None
               ) -> Pattern:  # fmt: skip
    """The pattern of one kernel of a program (`td.jit(f).lower(*args)`).

    kernel: the operation's name where there are several; arrays: the arguments, for indices that
    depend on data.  Arrays lie one after the other in order of first read, the result last.
    Errors: `ScheduleError` for kernels that are no map, stencil or fold, or that are ambiguous.
    """
    if not hasattr(program, "roots"):
        raise ScheduleError(
            f"simulate needs a pattern or a program, got {type(program).__name__}.",
            hint="Write td.simulate(td.jit(f).lower(*args), …).",
        )
    node = _chosen(program, kernel)
    shapes = _shapes(program, node)
    given = () if arrays is None else tuple(map(np.asarray, arrays))
    data = dict(zip(program.inputs, given, strict=False))
    host = _Host(shapes, data)
    rank = len(node.leaf().shape)
    inner = node.inner if isinstance(node, Fold) else ()
    domain = tuple(int(host.value(e)) for e in node.leaf().shape)
    inside = tuple(int(host.value(e)) for e in inner)
    reads = [e for e in walk(node.elements) if isinstance(e, Read)]
    bases: dict[tuple[Node, int], int] = {}
    end = 0
    for r in reads:
        key = (r.node, r.component)
        if key not in bases:
            bases[key] = end
            end += math.prod(host.shape(r.node))
    places = _Places(node, reads, bases, host, rank, inside, end, domain)
    name = node.label.name or node.label.operation
    return Pattern(name, domain, places, end + math.prod(domain))


def _chosen(program: Any, kernel: str | None) -> Any:
    kernels = [n for n in topological(program.roots) if isinstance(n, Generate | Fold)]
    made = [n for n in kernels if kernel in (None, n.label.name, n.label.operation)]
    if len(made) != 1:
        names = ", ".join(n.label.name or n.label.operation for n in kernels) or "none"
        asked = "" if kernel is None else f" called {kernel!r} (it may be fused into another)"
        raise ScheduleError(
            f"the program has {len(made)} kernels{asked}; there are: {names}.",
            hint="Say which by kernel=…; give operations a name= where several are alike.",
        )
    return made[0]


def _shapes(program: Any, node: Any) -> dict[Node, tuple[int, ...]]:
    found: dict[Node, tuple[int, ...]] = {}
    examples = program.example_shapes or ()
    for held, shape in zip(program.arguments, examples, strict=False):
        found[held] = tuple(shape)
    for held in program.inputs[len(program.arguments) :]:
        found[held] = tuple(held.source.shape)
    return found


class _Host:
    """Values of host expressions, and shapes of nodes, for the example's extents."""

    def __init__(self, shapes: dict[Node, tuple[int, ...]], data: dict[Node, Any]) -> None:
        self.shapes, self.data = shapes, data

    def shape(self, node: Node) -> tuple[int, ...]:
        if node not in self.shapes:
            if isinstance(node, Input):
                raise ScheduleError("the program does not know the extents of its arguments.",
                                    hint="Make it with td.jit(f).lower(*args).")  # fmt: skip
            self.shapes[node] = tuple(int(self.value(e)) for e in node.outputs[0].shape)
        return self.shapes[node]

    def value(self, e: Expr) -> Any:
        return self.evaluate(e, {})

    def evaluate(self, root: Expr, known: dict[Expr, Any]) -> Any:
        """`root` by NumPy, vectorised over what `known` holds."""
        found: dict[Expr, Any] = dict(known)
        for e in walk((root,)):
            if e in found:
                continue
            if isinstance(e, Const):
                found[e] = e.value
            elif isinstance(e, Extent):
                found[e] = np.int64(self.shape(e.node)[e.axis])
            elif isinstance(e, Apply):
                values = [np.asarray(found[a]) for a in e.args]
                found[e] = convert(np.asarray(e.op.numpy(*values)), e.type)
            elif isinstance(e, Read) and e.node in self.data and e.boundary is None:
                index = tuple(np.asarray(found[a]) for a in e.args)
                found[e] = self.data[e.node][index]
            else:
                what = "data" if isinstance(e, Read) else type(e).__name__.lower()
                hint = "Give the arguments: arrays=…." if isinstance(e, Read) else None
                if isinstance(e, Param):
                    hint = "Write the number into the program."
                raise ScheduleError(f"an index depends on {what}, which the simulator has not.",
                                    hint=hint)  # fmt: skip
        return found[root]


class _Places:
    """Addresses of a batch of outputs: reads in the order of the expression, then the store."""

    def __init__(self, node: Any, reads: list[Read], bases: dict[tuple[Node, int], int],
                 host: _Host, rank: int, inside: tuple[int, ...], end: int,
                 domain: tuple[int, ...]) -> None:  # fmt: skip
        self.reads, self.bases, self.host = reads, bases, host
        self.rank, self.inside, self.end, self.domain = rank, inside, end, domain
        self.loops = {v: e for e in walk(node.elements) if isinstance(e, Loop)
                      for v in (e.vars[0],)}  # fmt: skip
        self.loop_of = {r: self._loops_around(r) for r in reads}

    def _loops_around(self, read: Read) -> tuple[Var, ...]:
        used = {e for e in walk(read.args) if isinstance(e, Var)}
        return tuple(v for v in self.loops if v in used)

    def __call__(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        parts = [self._some(points[k : k + _BATCH]) for k in range(0, len(points), _BATCH)]
        width = 1 + sum(self._turns(r) for r in self.reads)
        return np.concatenate(parts) if parts else np.empty((0, width), np.int64)

    def _turns(self, read: Read) -> int:
        turns = math.prod(self.inside)
        for v in self.loop_of[read]:
            turns *= int(self.host.value(self.loops[v].count))
        return turns

    def _some(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        outputs = [points[:, k] for k in range(len(self.domain))]
        groups: dict[tuple[Var, ...], list[Read]] = {}
        for r in self.reads:
            groups.setdefault(self.loop_of[r], []).append(r)
        columns: list[Any] = []
        for loops, reads in groups.items():
            counts = [int(self.host.value(self.loops[v].count)) for v in loops]
            for turn in np.ndindex(*self.inside, *counts):
                known: dict[Expr, Any] = {Index(k): o for k, o in enumerate(outputs)}
                for k, at in enumerate(turn[: len(self.inside)]):
                    known[Index(self.rank + k)] = np.int64(at)
                for v, at in zip(loops, turn[len(self.inside) :], strict=True):
                    known[v] = np.int64(at)
                columns += [self._address(r, known, len(points)) for r in reads]
        own = np.zeros(len(points), np.int64)
        for k, extent in enumerate(self.domain):
            own = own * extent + outputs[k]
        return np.stack([*columns, own + self.end], 1)

    def _address(self, read: Read, known: dict[Expr, Any], count: int) -> NDArray[np.int64]:
        shape = self.host.shape(read.node)
        where = np.zeros(count, np.int64)
        exists = np.ones(count, np.bool_)
        for k, e in enumerate(read.args):
            if read.boundary not in (None, "constant", "function"):
                e = resolve_index(str(read.boundary), e, read.node.outputs[read.component].shape[k])
            index = np.broadcast_to(self.host.evaluate(e, known), (count,))
            exists &= (index >= 0) & (index < shape[k])
            where = where * shape[k] + index
        return np.where(exists, where + self.bases[read.node, read.component], -1)
