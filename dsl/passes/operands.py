"""Decides which producers a matrix product may compute while loading an operand.

A tile engine reads each element of an operand once per tile that needs it.  A cheap function of one
or two arrays costs less there than a pass over memory, an expensive one more.  Decisions here hold
for all extents; a backend decides the rest when extents are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Cond, Expr, Foreign, Index, Loop, Read, While, walk
from . import cost

#: Element types with tile engines on a GPU.
ENGINES = frozenset(("float32", "int32", "uint32"))
#: Types for which kernels compute many small products, and the library all others.
BATCHED = frozenset(("float16", "bfloat16", "float32"))
#: Types for which kernels also compute larger products of broadcast operands, recomputing elements.
BROADCAST = frozenset(("float64",))
#: The most arrays with the operand's extents that an element may be computed from.
SOURCES = 2
#: The most operations per element, for one product and for products along leading axes: beyond
#: this, a pass over memory is always cheaper.
LIGHT, LIGHT_BATCHED = 16.0, 12.0


def sources(e: Expr, casts: bool = False) -> tuple[Read, ...] | None:
    """The arrays with the operand's extents that the element `e` at (Index(0), Index(1)) reads, at
    indices affine in both, of its type or (`casts`) any.  It may also read arrays along one index,
    such as scales and offsets.

    None if an engine cannot load it: too many arrays, data-dependent indices, boundaries, loops.
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
        if (x.type != e.type and not casts) or not cost.is_affine_view((x,)):
            return None
        found[x] = None
    return tuple(found) if len(found) <= SOURCES else None


def is_broadcast(body: Sequence[Expr], rank: int) -> bool:
    """Whether elements are computed only from smaller arrays, none of which varies along all axes:
    products then load less data than if the elements were stored."""
    found = [e for e in walk(body) if isinstance(e, Read) and e.varies]
    axes = ({a.axis for a in walk(e.args) if isinstance(a, Index)} for e in found)
    return bool(found) and all(len(own) < rank for own in axes)


def why_not(body: Sequence[Expr], rank: int) -> str | None:
    """Why a matrix product cannot compute these elements while loading them."""
    # (A kernel for many small products loads elements of any type.)
    made = sources(body[0], casts=rank > 2) if len(body) == 1 and rank >= 2 else None
    if made is None:
        return "a matrix product reads every element many times"
    work = cost.operations(body)
    if work > (LIGHT if rank == 2 else LIGHT_BATCHED):
        return (
            f"a matrix product would compute its {work:.0f} operations an element again for every "
            "tile; a pass over memory costs less"
        )
    return None
