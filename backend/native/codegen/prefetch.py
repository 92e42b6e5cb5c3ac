"""Software prefetching for vector loops over rows that the hardware prefetcher does not follow.

A stencil in three dimensions reads three planes at once, each at its own address, by vectors that
end in the middle of cache lines.  The hardware prefetcher follows one such stream well, but not
several: a seven-point stencil on 256³ took twice the time of a copy.  With each plane prefetched
4 kB ahead (and the result, unless its stores bypass the caches) it took less than a third more
time than a copy.  Rows of one plane (3 × 3) are one stream, which prefetching does not improve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from treadle.dsl.analysis.polynomial import Polynomial
from treadle.dsl.expr import Const, Expr, Var, walk
from treadle.dsl.types import int64
from treadle.skeletons.ir.kernel import Body, Buffer, Comment, For, Let, Load, Store, expressions

from . import memory
from .lanes import BITS
from .values import Poly, Value, memory_element, parts

if TYPE_CHECKING:
    from .emitter import Copy, Emitter

#: The prefetch distance in bytes; it covers the latency of a line from memory many times.
_AHEAD = 4096
_LINE = 64
#: More concurrent streams are not prefetched: this was not measured.
_MOST_STREAMS = 16
#: Only arrays of which at least this many rows are read together are prefetched.
_ROWS = 3

Position = tuple[Buffer, Poly]


def emit(em: Emitter, body: Body, copies: Sequence[Copy]) -> None:
    """At the start of an iteration of a vector loop, prefetch lines of later iterations."""
    if em.row is None:
        return
    inside = [line for c in copies for line in straight(em, body, c) or ()]
    streams = _streams(em, inside)
    if not em.row[1] < len(streams) <= _MOST_STREAMS:
        return
    name = "llvm.prefetch.p0"
    em.module.declarations.setdefault(name, f"declare void @{name}(ptr, i32, i32, i32)")
    results = [] if em.streaming else _results(em, inside)
    for write, positions in enumerate((streams, results)):
        for buffer, position in positions:
            at = memory.pointer(em, buffer, position)
            size = BITS[memory_element(buffer.type)] // 8 * parts(buffer.type)
            for line in range(0, em.lanes * size, _LINE):
                far = em.code.emit(f"getelementptr i8, ptr {at}, i64 {_AHEAD + line}")
                em.code.do(f"call void @{name}(ptr {far}, i32 {write}, i32 3, i32 1)")


def _streams(em: Emitter, inside: Sequence[tuple[Store | Let, Copy]]) -> list[Position]:
    """The rows that no earlier iteration of the enclosing loop has read, of inputs of which
    several rows are read."""
    assert em.row is not None
    variable, step = em.row
    rows: dict[Buffer, dict[Poly, None]] = {}
    for s, copy in inside:
        for e in walk(expressions(s)):
            if isinstance(e, Load) and e.buffer.role == "input":
                for position in _first_of_vector(em, e.index, copy):
                    rows.setdefault(e.buffer, {})[position.nonconstant] = None
    found: list[Position] = []
    for buffer, read in rows.items():
        fronts: list[Position] = []
        for row in read:
            moved = {tuple(a for a in m if a != variable): step * c
                    for m, c in row.terms.items() if variable in m}  # fmt: skip
            if not moved:
                break  # the row does not change with each iteration
            if row + Polynomial(moved) not in read:
                fronts.append((buffer, row))
        else:
            found += fronts if len(read) >= _ROWS else []
    return found


def _results(em: Emitter, inside: Sequence[tuple[Store | Let, Copy]]) -> list[Position]:
    """Where vectors of results are stored."""
    return [
        (s.buffer, position)
        for s, copy in inside
        if isinstance(s, Store)
        for position in _first_of_vector(em, s.index, copy)
    ]


def _first_of_vector(em: Emitter, index: Expr, copy: Copy) -> Iterator[Poly]:
    """The first index of a vector of consecutive elements, if the index is of this form."""
    value = known(em, index, copy)
    if value is not None and value.lanes:
        base, step = memory.lane_step(em, value)
        if step == 1:
            yield base


def known(em: Emitter, e: Expr, copy: Copy) -> Value | None:
    """The value of an index before the loop's body is emitted: None if the body computes a part of
    it or loads a part from memory."""
    for node in walk((e,)):
        if isinstance(node, Load):
            return None
        if isinstance(node, Var) and node not in copy.values and node not in copy.slots:
            return None
    return em.value(e, copy)


def straight(em: Emitter, body: Body, copy: Copy) -> list[tuple[Store | Let, Copy]] | None:
    """The statements of straight-line code, unrolled, each with the known values of its variables;
    None if there are other statements.  `copy` has a value for the loop's variable."""
    found: list[tuple[Store | Let, Copy]] = []
    here = type(copy)(copy)
    for s in body:
        if isinstance(s, Store | Let):
            found.append((s, here))
            if isinstance(s, Let):
                here.values.pop(s.var, None)  # the value from another loop over the same body
                index = known(em, s.value, here) if s.var.type == int64 else None
                if index is not None:
                    here.values[s.var] = index
        elif isinstance(s, For) and s.kind == "unrolled":
            if not (isinstance(s.start, Const) and isinstance(s.stop, Const)):
                return None
            for k in range(int(s.start.value), int(s.stop.value), s.step):
                unrolled = type(here)(here)
                unrolled.values[s.var] = em.constant(int64, k)
                more = straight(em, s.body, unrolled)
                if more is None:
                    return None
                found += more
        elif not isinstance(s, Comment):
            return None
    return found
