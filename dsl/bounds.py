"""Between which numbers integer scalars lie, and so where their arithmetic cannot wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .expr import Apply, Const, Expr, Extent, walk
from .types import ScalarType

#: The least and the greatest number.
Range = tuple[int, int]

#: More elements than any memory holds.  (An empty array or a view that repeats its elements may
#: have an extent beyond: what must be right for these, too, takes extents for any int64.)
MEMORY = 1 << 57


def whole(t: ScalarType) -> Range:
    """All numbers of an integer type; 0 and 1 for booleans."""
    return int(t.lowest), int(t.highest)


def exact(op: str, t: ScalarType, args: Sequence[Range]) -> Range:
    """Between which numbers the result of an operation lies before it wraps to its type `t`."""
    rule = _RULES.get(op)
    return whole(t) if rule is None else rule(*args)


def wraps(found: Range, t: ScalarType) -> bool:
    """Whether some of these numbers are outside of a type."""
    low, high = whole(t)
    return found[0] < low or found[1] > high


def bounds(e: Expr) -> Range:
    """Between which numbers an integer expression over extents of arrays in memory lies."""
    found: dict[Expr, Range] = {}
    for x in walk((e,)):
        if isinstance(x, Const) and x.type.is_integer:
            found[x] = int(x.value), int(x.value)
        elif isinstance(x, Extent):
            found[x] = 0, MEMORY
        elif x.type is None or x.type.is_inexact:  # several results, or a float
            found[x] = 0, 0
        elif isinstance(x, Apply) and not any(a.type.is_inexact for a in x.args):
            inside = exact(x.op.name, x.type, [found[a] for a in x.args])
            found[x] = whole(x.type) if wraps(inside, x.type) else inside
        else:
            found[x] = whole(x.type)
    return found[e]


def along(e: Expr) -> tuple[Extent, int] | None:
    """An extent of an array, and a factor times which `e` is at most it (or it as 1, where it is
    0): of slices and of what is a little longer; None: `e` is made of something else."""
    if isinstance(e, Extent):
        return e, 1
    if not isinstance(e, Apply):
        return None
    first, *rest = e.args
    match e.op.name:
        case "minimum":
            return along(first) or along(rest[0])
        case "subtract" | "floor_divide" if bounds(rest[0])[0] >= 0:
            return along(first)
        case "add" | "maximum" if isinstance(rest[0], Const):
            more, found = max(int(rest[0].value), 0), along(first)
            if found is not None:
                return found[0], found[1] + more if e.op.name == "add" else max(found[1], more)
    return None


def _hull(*ends: int) -> Range:
    return min(ends), max(ends)


def _floor_divide(a: Range, b: Range) -> Range:
    if b[0] > 0:
        return _hull(*(x // y for x in a for y in b))
    most = max(map(abs, a))
    return -most, most


def _remainder(a: Range, b: Range) -> Range:
    if b[0] > 0 and a[0] >= 0 and a[1] < b[0]:
        return a
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def _absolute(a: Range) -> Range:
    return max(a[0], -a[1], 0), max(map(abs, a))


_RULES: dict[str, Callable[..., Range]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": lambda a, b: _hull(*(x * y for x in a for y in b)),
    "negative": lambda a: (-a[1], -a[0]),
    "invert": lambda a: (~a[1], ~a[0]),
    "absolute": _absolute,
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "select": lambda p, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "also": lambda a, tested: a,
    "cast": lambda a: a,
}
