"""Which producers a matrix product may compute while it loads an operand.

A tile engine reads an operand's elements once for every tile that needs them: a light function of
one or two arrays costs less there than a pass over memory, a heavy one more.  What is decided here
holds for all extents; a backend weighs the rest when it knows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Cond, Expr, Foreign, Index, Loop, Read, While, walk
from . import cost

#: Types that a GPU has such engines for.
ENGINES = frozenset(("float32", "int32", "uint32"))
#: Arrays of the operand's extents that an element may be made from.
SOURCES = 2
#: Operations of an element, at most: beyond that a pass over memory is cheaper at any size.
LIGHT = 16.0


def sources(e: Expr) -> tuple[Read, ...] | None:
    """The arrays that the element `e` at (Index(0), Index(1)) is read from in step: at places
    affine in both.  It may read others along one index, as scales and offsets are.

    None where an engine cannot load what it needs: more arrays, places that depend on data,
    boundaries, loops.
    """
    found: dict[Read, None] = {}
    for x in walk((e,)):
        if isinstance(x, Cond | Foreign | Loop | While):
            return None
        if not isinstance(x, Read):
            continue
        inside = list(walk(x.args))
        if x.boundary is not None or any(isinstance(a, Read) for a in inside):
            return None
        if len({a.axis for a in inside if isinstance(a, Index)}) < 2:
            continue
        if x.type != e.type or not cost.is_affine_view((x,)):
            return None
        found[x] = None
    return tuple(found) if len(found) <= SOURCES else None


def why_not(body: Sequence[Expr], rank: int) -> str | None:
    """Why a matrix product does not compute these elements while it loads them."""
    made = sources(body[0]) if len(body) == 1 and rank == 2 else None
    if made is None:
        return "a matrix product reads every element many times"
    work = cost.operations(body)
    if work > LIGHT:
        return (
            f"a matrix product would compute its {work:.0f} operations an element again for every "
            "tile; a pass over memory costs less"
        )
    return None
