"""How often a reader uses each element that it reads, as far as its index expressions show.

Fusing a producer recomputes an element for each use, so this determines which arrays are stored
(vertical.py).  An index map is a tuple of expressions over the axes of the reader's domain and the
counters of its loops, the *variables*; it repeats where it is not injective.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..expr import Apply, Const, Expr, Index, Loop, Read, Var, varies, walk
from ..simplify import is_const
from .cost import UNKNOWN_TRIP_COUNT

#: The count for an element used by all elements of a larger domain of unknown size.
FAR = 1000.0
#: The count for data-dependent uses: each element may be used once, never, or by all.
GATHERED = 2.0
#: On a GPU, recomputation hides behind memory access. An H200 gains from storing at 32 uses (3.8 ×
#: in a convolution of exp(sin x)) and at 256 (2.8 ×), loses at 8 (0.8 ×) and for gathers (0.67 × if
#: a quarter of the elements is used, 0.9 × for a permutation, 0.95 × for a table lookup of an
#: image).
MANY_ON_GPU = 16.0


def counters(roots: Iterable[Expr]) -> dict[Expr, Expr]:
    """The counters of the loops in `roots`, with their trip counts."""
    found = walk([e for e in roots if e.scopes], varies)
    return {e.vars[0]: e.count for e in found if isinstance(e, Loop)}


def times_read(args: Sequence[Expr], domain: Sequence[Expr | None],
               loops: Mapping[Expr, Expr], gpu: bool = False) -> float:  # fmt: skip
    """How often a reader over `domain` (extents; None if unknown) with these loops uses an element
    at `args`: 1, a small number, `GATHERED`, or `FAR`.  On a GPU, low counts become 1."""
    if all(isinstance(a, Index | Const) for a in args):  # most reads
        axes = {a.axis for a in args if isinstance(a, Index)}
        every = all(k in axes or (n is not None and is_const(n, 1)) for k, n in enumerate(domain))
        return 1.0 if every else FAR
    variables_of = _plain(args)
    everything = {e for e in variables_of if isinstance(e, Index | Var)}
    several = [axis for axis, n in enumerate(domain) if n is None or not is_const(n, 1)]
    if not {Index(axis) for axis in several} <= everything:
        return FAR
    plain = [variables_of[a] for a in args]
    seen = {v for variables in plain for v in variables}
    if everything - seen:  # the index depends on some variables only through data
        if any(_is_segment(a, loops) for a in args):
            return 1.0  # starts[i] + k
        if gpu:
            return 1.0
        return FAR if len(everything) > len(args) else GATHERED
    counts: dict[Expr, Expr | None] = {Index(k): n for k, n in enumerate(domain)}
    counts |= loops
    alone = {v for variables in plain for v in variables if len(variables) == 1}
    times, unknown = 1.0, False
    for a, variables in zip(args, plain, strict=True):
        known, more = _overlap(a, counts, alone if len(variables) > 1 else set())
        times, unknown = times * known, unknown or more
    if unknown:  # one guess for all loops: windows of unknown size have about 32 elements
        times *= UNKNOWN_TRIP_COUNT
    times *= _folded(variables_of, counts)
    return 1.0 if gpu and times < MANY_ON_GPU else min(times, FAR)


def _plain(args: Sequence[Expr]) -> dict[Expr, frozenset[Expr]]:
    """All subexpressions of indices, with the variables that they contain outside reads."""
    found: dict[Expr, frozenset[Expr]] = {}
    nothing = frozenset[Expr]()
    for e in walk(args, varies):
        if isinstance(e, Index | Var):
            found[e] = frozenset((e,))
        elif not e.varies:
            found[e] = nothing
        else:
            inside = () if isinstance(e, Read) else (*e.args, *e.scoped)
            found[e] = nothing.union(*(found[x] for x in inside))
    return found


def _is_segment(e: Expr, loops: Mapping[Expr, Expr]) -> bool:
    """Whether this is `starts[i] + k`: the consecutive elements of a segment."""
    if not (isinstance(e, Apply) and e.op.name == "add"):
        return False
    return any(x in loops for x in e.args) and any(isinstance(x, Read) for x in e.args)


def _steps(e: Expr) -> dict[Expr, int] | None:
    """Each variable of an affine index with its constant step; None if it is not affine."""
    found: dict[Expr, dict[Expr, int] | None] = {}
    for x in walk((e,), varies):
        found[x] = _steps_of(x, [found[a] for a in x.args]) if x.varies else {}
    return found[e]


def _steps_of(e: Expr, parts: Sequence[dict[Expr, int] | None]) -> dict[Expr, int] | None:
    if isinstance(e, Index | Var):
        return {e: 1}
    if isinstance(e, Read) or not any(part or part is None for part in parts):
        return {}
    if not isinstance(e, Apply) or any(part is None for part in parts):
        return None
    moving = [part for part in parts if part]
    if e.op.name == "multiply":
        factor = next((a for a in e.args if isinstance(a, Const)), None)
        return (
            None
            if factor is None
            else {v: s * abs(int(factor.value)) for v, s in moving[0].items()}
        )
    joined: dict[Expr, int] = {}
    for part in moving:
        if e.op.name not in ("add", "subtract", "negative") or part.keys() & joined.keys():
            return None
        joined |= part
    return joined


def _number(e: Expr | None) -> float:
    return max(abs(float(e.value)), 1.0) if isinstance(e, Const) else FAR


def _overlap(e: Expr, counts: Mapping[Expr, Expr | None], fixed: set[Expr]) -> tuple[float, bool]:
    """The number of combinations of variables with the same sum, as in windows `y[i + k]`; and
    whether a loop with an unknown trip count contributes."""
    steps = {v: s for v, s in (_steps(e) or {}).items() if v not in fixed}
    times, reach, unknown = 1.0, 1.0, False
    for v, step in sorted(steps.items(), key=lambda p: (p[1], _number(counts.get(p[0])))):
        count = counts.get(v)
        if len(steps) > 1 and isinstance(v, Var) and not isinstance(count, Const):
            unknown = True
            continue
        times *= max(reach / max(step, 1), 1.0)
        reach = max(reach, step * _number(count))
    return times, unknown


def _folded(
    variables_of: Mapping[Expr, frozenset[Expr]], counts: Mapping[Expr, Expr | None]
) -> float:
    """The number of indices that a quotient or remainder maps to one: `y[i // 4]`, `y[i % 256]`.
    Both together decompose an index, as a reshape does, and are injective."""
    moving = [e for e in variables_of if isinstance(e, Apply) and variables_of[e]]
    quotients = [e for e in moving if e.op.name in ("floor_divide", "quot")]
    remainders = [e for e in moving if e.op.name in ("remainder", "rem")]
    if bool(quotients) == bool(remainders):
        return 1.0
    times = 1.0
    for e in quotients:
        times *= _number(e.args[1])
    for e in remainders:
        variables, period = variables_of[e], e.args[1]
        count = counts.get(*variables) if len(variables) == 1 else None
        if isinstance(count, Const) and isinstance(period, Const):
            times *= max(_number(count) / _number(period), 1.0)
        elif count is None or period not in walk((count,)):  # else it is like td.roll or padding
            times *= FAR
    return times
