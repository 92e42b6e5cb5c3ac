"""Costs for fusion decisions: operations of an expression, memory traffic of a materialised array.

The unit is one addition in one vector lane.  Writing an array and reading it back costs about
`ROUND_TRIP` additions per element, both on a CPU core (12 bytes at 10 GB/s against 16 lanes at 4
GHz) and on a GPU (12 bytes at 4 TB/s against 60 TFLOP/s).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import expr as ex
from ..analysis.bounds import is_counter
from ..expr import Expr

ROUND_TRIP = 32.0
UNKNOWN_TRIP_COUNT = 32.0
#: An element loaded by itself, not as a part of a vector.
GATHER = 16.0


def operations(roots: Iterable[Expr]) -> float:
    """Additions per element.  Index arithmetic of reads and arithmetic on call-invariant numbers
    are not counted; a loop counts its iterations if constant, otherwise `UNKNOWN_TRIP_COUNT`."""
    return _counted(
        roots, lambda e: e.op.cost, lambda e: e.value if isinstance(e, ex.Const) else None
    )


def arithmetic(roots: Iterable[Expr], value: Callable[[Expr], int | None]) -> float:
    """`operations` for display: a multiply-add counts as two; `value` evaluates trip counts."""
    return _counted(roots, lambda e: 2.0 if e.op.name == "fma" else e.op.cost, value)


def guesses_trip_count(roots: Iterable[Expr], value: Callable[[Expr], int | None]) -> bool:
    """Whether `arithmetic` assumes `UNKNOWN_TRIP_COUNT` for a loop."""
    return any(isinstance(e, ex.While) or (isinstance(e, ex.Loop) and value(e.count) is None)
               for e in ex.walk(roots))  # fmt: skip


def _counted(
    roots: Iterable[Expr], cost: Callable[[ex.Apply], float], value: Callable[[Expr], Any]
) -> float:
    total = 0.0
    seen: set[Expr] = set()
    stack: list[tuple[Expr, float]] = [(r, 1.0) for r in roots]
    while stack:
        e, iterations = stack.pop()
        if e in seen or _is_of_numbers(e):
            continue
        seen.add(e)
        if isinstance(e, ex.Apply):
            total += cost(e) * iterations
        elif isinstance(e, ex.Foreign):
            total += 50.0 * iterations
        if isinstance(e, ex.Read):
            stack += [(s, iterations) for s in e.scoped]
            continue  # addresses are cheap
        inner = iterations
        if isinstance(e, ex.While):
            inner = iterations * UNKNOWN_TRIP_COUNT
        elif isinstance(e, ex.Loop):
            count = value(e.count)
            inner = iterations * (UNKNOWN_TRIP_COUNT if count is None else max(float(count), 0.0))
        stack += [(a, iterations) for a in e.args]
        stack += [(s, inner) for s in e.scoped]
    return total


def _is_of_numbers(e: Expr) -> bool:
    """Whether an expression is one over literals and numbers of the call (arguments, extents)."""
    if e.varies or e.reads or e.scopes:
        return False
    return not any(isinstance(x, ex.Foreign) for x in ex.walk((e,)))


def loads(roots: Iterable[Expr]) -> float:
    """The number of distinct reads; one that all elements share counts half."""
    reads = ex.reading(roots)
    shared = [e for e in reads if not any(a.varies for a in e.args)]
    return len(reads) - len(shared) / 2


def arrays(roots: Iterable[Expr]) -> int:
    """The number of arrays that are read at indices depending on the element."""
    moving = (e for e in ex.reading(roots) if any(a.varies for a in e.args))
    return len({(e.node, e.component) for e in moving})


def has_loop(roots: Iterable[Expr]) -> bool:
    found = ex.walk([e for e in roots if e.scopes])
    return any(isinstance(e, ex.While | ex.Loop) for e in found)


def is_view(elements: Iterable[Expr]) -> bool:
    """Whether all elements are plain reads at computed indices: such a view is free to inline."""
    for e in elements:
        if not isinstance(e, ex.Read) or e.boundary is not None:
            return False
        if any(a.reads or a.scopes for a in e.args):
            return False
    return True


def is_selection(elements: Iterable[Expr]) -> bool:
    """Whether each element is a plain read or a constant, selected by conditions on indices alone
    (the adjoint of a strided slice): elements share tests and indices, but no values."""
    conditions: list[Expr] = []
    seen: set[Expr] = set()
    stack = list(elements)
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, ex.Proj) and isinstance(e.args[0], ex.Cond):
            choice = e.args[0]
            conditions.append(choice.args[0])
            stack += choice.then[e.which], choice.other[e.which]
        elif not (isinstance(e, ex.Const) or is_view((e,))):
            return False
    return not any(c.reads or c.scopes for c in conditions)


def crosses_rows(elements: Iterable[Expr], rank: int) -> bool:
    """Whether the rows of a view cross the rows of its array, as in a transposition."""
    last = ex.Index(rank - 1)
    for e in elements:
        found = [{x for x in ex.walk((a,)) if isinstance(x, ex.Index)} for a in e.args]
        if found and last not in found[-1] and found[-1] and any(last in f for f in found[:-1]):
            return True
    return False


def resolving(elements: Iterable[Expr], rank: int) -> float:
    """The cost per element, on a CPU, of reading a view whose index along the last axis is not a
    sum or multiple of the axes (a mirrored or clamped border, a rotation): its arithmetic, and
    scalar loads. 0 for other views."""
    last, found = ex.Index(rank - 1), 0.0
    for e in elements:
        moving = [a for a in e.args if last in set(ex.walk((a,)))]
        if all(map(_affine, moving)):
            continue
        operations = {x for a in moving for x in ex.walk((a,)) if isinstance(x, ex.Apply)}
        found += GATHER + sum(x.op.cost for x in operations if last in set(ex.walk((x,))))
    return found


def is_affine_view(elements: Iterable[Expr]) -> bool:
    """Whether the indices of a view are affine: strides, which BLAS accepts."""
    return all(_affine(a) for e in elements for a in e.args)


def _affine(e: Expr) -> bool:
    varies: dict[Expr, bool] = {}
    for x in ex.walk((e,)):
        moving = [varies[a] for a in x.args]
        varies[x] = isinstance(x, ex.Index) or any(moving)
        if not any(moving):
            continue
        name = x.op.name if isinstance(x, ex.Apply) else ""
        product = name == "multiply" and sum(moving) == 1
        if not (name in ("add", "subtract", "negative") or product):
            return False
    return True


def is_formula(elements: Iterable[Expr]) -> bool:
    """Whether recomputing is cheaper than reading: few operations, reads of counters only."""
    found = tuple(elements)
    read = any(isinstance(e, ex.Read) and not is_counter(e) for e in ex.walk(found))
    return not read and operations(found) <= 10 and not has_loop(found)
