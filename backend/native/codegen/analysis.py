"""Analyses of statements that run before code is emitted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from treadle.dsl.analysis.bounds import bounds
from treadle.dsl.expr import Apply, Const, Expr, Foreign, Var, walk
from treadle.dsl.types import int64
from treadle.skeletons.ir import kernel as ir

from .lanes import BITS
from .mathlib import FUNCTIONS
from .target import Target
from .values import register_element


def modified(body: Iterable[ir.Statement]) -> set[Var | ir.Buffer]:
    """The variables assigned and the buffers written anywhere in `body`."""
    found: set[Var | ir.Buffer] = set()
    for s in ir.statements(tuple(body)):
        match s:
            case ir.Assign():
                found.add(s.var)
            case ir.Store() | ir.Publish():
                found.add(s.buffer)
            case ir.Atomic():
                found.update(s.buffers)
            case ir.Reduce():
                found.update(s.accumulators)
    return found


#: So many additions are worth computing once, outside of loops.
EXPENSIVE = 8.0


def natural_scalars(kernel: ir.Kernel) -> set[Var]:
    """Scalars that are never negative, such as extents, apart from literals."""
    given = len(kernel.scalars) - kernel.literals
    values = zip(kernel.scalars[:given], kernel.scalar_values[:given], strict=True)
    return {v for v, value in values if v.type == int64 and bounds(value)[0] >= 0}


def positive_scalars(kernel: ir.Kernel) -> set[Var]:
    """Scalars that are at least 1 while tasks run: the factors of the number of tasks, of which
    none is negative."""
    hosts = kernel.hosts
    factors = {*_factors(kernel.tasks, hosts)}
    return {
        v
        for v, value in zip(kernel.scalars, kernel.scalar_values, strict=True)
        if v.type == int64 and not factors.isdisjoint((v, value))
        if all(bounds(e)[0] >= 0 for e in _factors(value, {}) if not _is_product(e))
    }


def _factors(e: Expr, hosts: Mapping[Expr, Expr]) -> list[Expr]:
    """The factors of a product, products among them, and what the host computes for scalars; each
    once, though a scalar may be given as itself."""
    found, seen = [e], {e}
    for one in found:
        inside = (hosts[one],) if one in hosts else one.args if _is_product(one) else ()
        found += [e for e in inside if e not in seen]
        seen.update(inside)
    return found


def _is_product(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op.name == "multiply"


def once(body: ir.Body, scalars: Iterable[Var]) -> list[tuple[Var | None, Expr]]:
    """The expensive floating-point expressions of `body` that depend on a kernel's scalars alone,
    after the values that they name."""
    every = walk([e for s in ir.statements(body) for e in ir.expressions(s)])
    if not any(map(_is_expensive, every)):
        return []
    known: set[Expr] = set(scalars)
    named: dict[Var, Expr] = {}
    found: dict[Expr, None] = {}
    for s in ir.statements(body):
        for e in walk(ir.expressions(s), lambda x: x not in known):
            if isinstance(e, Const):
                known.add(e)
            elif isinstance(e, Apply) and all(a in known for a in e.args):
                known.add(e)
                if _is_expensive(e):
                    found[e] = None
        if isinstance(s, ir.Let) and s.value in known:
            if named.setdefault(s.var, s.value) is not s.value:
                return []
            known.add(s.var)
    wanted = {x for x in walk(found) if isinstance(x, Var)}
    for var, value in reversed(named.items()):
        if var in wanted:
            wanted.update(x for x in walk((value,)) if isinstance(x, Var))
    values = [(var, value) for var, value in named.items() if var in wanted]
    return [*values, *((None, e) for e in found)]


def _is_expensive(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op.cost >= EXPENSIVE and e.type.is_inexact


def worth_skipping(body: ir.Body) -> bool:
    """Whether to branch around a block that no lane needs: memory, loops, long arithmetic."""
    cost = 0.0
    for s in ir.statements(body):
        if isinstance(
            s, ir.Store | ir.Publish | ir.Atomic | ir.Report | ir.For | ir.While | ir.Reduce
        ):
            return True
        for node in walk(ir.expressions(s)):
            if isinstance(node, ir.Load | Foreign):
                return True
            if isinstance(node, Apply):
                cost += node.op.cost
    return cost > 16


def nodes(body: ir.Body) -> int:
    """The number of operations emitted for `body`: the size of its code."""
    total = 0
    for s in body:
        copies = 1
        if isinstance(s, ir.For) and s.kind == "unrolled" and isinstance(s.stop, Const):
            first = int(s.start.value) if isinstance(s.start, Const) else 0
            copies = max(1, -(-(int(s.stop.value) - first) // s.step))
        inner = sum(nodes(b) for b in ir.children(s))
        total += sum(1 for _ in _operations(s)) + copies * inner
    return total


def _operations(s: ir.Statement) -> Iterator[Expr]:
    return (n for n in walk(ir.expressions(s)) if not isinstance(n, Const | Var))


def is_light(s: ir.Reduce, target: Target, most: int) -> bool:
    """Whether the body is at most so many plain operations, which a mask costs little, and not on
    the few partial results of blocks."""
    if not all(isinstance(b, ir.Let) for b in s.body):
        return False
    found = [*walk((*(e for b in s.body for e in ir.expressions(b)), *s.values))]
    calls = any(
        isinstance(e, Foreign) or (isinstance(e, Apply) and e.op.name in FUNCTIONS) for e in found
    )
    masked = all(
        target.masks("load", BITS[register_element(e.type)]) and e.buffer.role != "scratch"
        for e in found
        if isinstance(e, ir.Load)
    )
    return masked and not calls and sum(isinstance(e, Apply | ir.Load) for e in found) <= most


def lanes_for(body: ir.Body, target: Target) -> tuple[int, int]:
    """The numbers of lanes that a vector loop runs at once, and its tail.

    The tail takes one vector of the widest type that a quarter of the values have, again and again:
    its code is as long as that of one vector.  The loop takes at least eight lanes, and two vectors
    of them, for more independent work, unless the body calls mathematical functions (each call
    saves every live register) or is long.
    """
    weight: dict[int, float] = {}
    calls = False
    for s in ir.statements(body):
        values: list[Expr] = []
        if isinstance(s, ir.Store | ir.Assign | ir.Declare | ir.Let) and not _is_index(s.value):
            values.append(s.value)
        for node in walk(ir.expressions(s)):
            if isinstance(node, ir.Load) or (isinstance(node, Apply) and not _is_index(node)):
                values.append(node)
                calls |= isinstance(node, Apply) and node.op.name in FUNCTIONS
            calls |= isinstance(node, Foreign)
        for e in values:
            bits = BITS[register_element(e.type)]
            if bits > 1:
                weight[bits] = weight.get(bits, 0.0) + 1.0
    total = sum(weight.values())
    widest = max((bits for bits, w in weight.items() if w >= total / 4), default=8)
    one = min(64, target.vector_bytes * 8 // widest)
    lanes = max(8, one)
    twice = target.vector_bytes >= 32 and lanes <= 32 and not calls and nodes(body) <= 1000
    return lanes * 2 if twice else lanes, one


def _is_index(e: Expr) -> bool:
    """Whether it is int64 arithmetic: mostly indices, which should not set the number of lanes."""
    return e.type.is_integer and e.type.bits == 64 and not isinstance(e, ir.Load)
