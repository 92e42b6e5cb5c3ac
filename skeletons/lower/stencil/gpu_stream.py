"""Element expressions evaluated while a thread walks along one axis.

A step reads one more row of the inputs; the values that the element at row i needs arrive in row
order.  At the newest row, an expression splits into the part that needs this row and the part known
before, which is carried from step to step in registers:

    w[-1]·a + w[0]·b + w[1]·c    the newest row is Y:   out(Y − 1) = (s₁) + c·x(Y)
                                                        s₁         = (s₀) + b·x(Y)
                                                        s₀         = a·x(Y)

Nothing is recognised and nothing is reordered: s₁ is the part of the written expression that needs
no later row.  Partial sums of the rows in flight, rolling windows of a median, the row sums of a
separable filter (one, whichever rows use it) all come out of the same cut.

Expressions here are over variables: the newest row, and the first column (row, plane) of a thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from treadle.dsl import expr as ex
from treadle.dsl.analysis.polynomial import Polynomial, affine
from treadle.dsl.expr import Expr
from treadle.dsl.records import dataclass
from treadle.dsl.types import int64


@dataclass(frozen=True)
class Carried:
    """A value that lives from one step to the next.

    `value` is what it is at the end of a step whose newest row is Y, `before` the same at the end
    of the step before.  It needs rows back to Y − `needs`; an output needs it `depth` steps later.
    """

    value: Expr
    before: Expr
    needs: int
    depth: int


@dataclass(frozen=True)
class Stream:
    """`roots` as steps along Y, each of which brings `rows` more rows, the newest of them Y."""

    newest: ex.Var
    rows: int
    roots: tuple[Expr, ...]
    carried: tuple[Carried, ...]

    @property
    def work(self) -> float:
        """Arithmetic on numbers that are no indices, in a step."""
        stack = [*self.roots, *(c.value for c in self.carried)]
        seen = {c.before for c in self.carried}
        total = 0.0
        while stack:
            e = stack.pop()
            if e not in seen:
                seen.add(e)
                stack += e.args
                total += e.op.cost if isinstance(e, ex.Apply) and e.type != int64 else 0.0
        return total


class NotAStream(Exception):
    """The expression cannot be evaluated row by row."""


def row_of(read: ex.Read, newest: Expr) -> int | None:
    """The row that a read needs, relative to the newest; None if it does not move with it."""
    found: int | None = None
    for index in read.args:
        if not any(x is newest for x in ex.walk((index,))):
            continue
        form = affine(index)
        if found is not None or form is None or form.nonconstant != Polynomial.atom(newest):
            raise NotAStream
        found = form.constant
    return found


def moves(read: ex.Read) -> bool:
    """Whether a read is of another position for another element."""
    return any(isinstance(x, ex.Index | ex.Var) for x in ex.walk(read.args))


class _Rows:
    """The range of rows that each part of an expression needs."""

    def __init__(self, newest: ex.Var) -> None:
        self.newest = newest
        self.known: dict[Expr, tuple[int, int] | None] = {}

    def __call__(self, e: Expr) -> tuple[int, int] | None:
        if e not in self.known:
            for x in ex.walk((e,)):
                if x not in self.known:
                    self.known[x] = self._of(x)
        return self.known[e]

    def _of(self, e: Expr) -> tuple[int, int] | None:
        if isinstance(e, ex.While | ex.Loop | ex.Foreign):
            raise NotAStream  # never run on values that are not there yet
        if isinstance(e, ex.Read):
            if any(isinstance(x, ex.Read) and x.args for x in ex.walk((*e.args, *e.scoped))):
                raise NotAStream
            row = row_of(e, self.newest)
            return None if row is None else (row, row)
        parts = [p for c in (*e.args, *e.scoped) if (p := self.known[c]) is not None]
        return (min(p[0] for p in parts), max(p[1] for p in parts)) if parts else None


def stream(roots: Sequence[Expr], newest: ex.Var, rows: int, whole_taps: bool = False) -> Stream:
    """The steps of `roots`, whose newest read is at `newest`; `NotAStream` if there are none.

    `whole_taps` carries what was read instead of what was made of it.
    """
    needs = _Rows(newest)
    ahead: dict[Expr, Expr] = {newest: newest + rows}
    back: dict[Expr, Expr] = {newest: newest - rows}
    depths: dict[Expr, int] = {}
    waiting = deque((r, 0) for r in dict.fromkeys(roots))
    while waiting:
        e, depth = waiting.popleft()
        for child in _known_before(e, needs, rows, whole_taps):
            (value,) = ex.rewrite((child,), _same, ahead)
            if value not in depths:
                depths[value] = depth + 1
                waiting.append((value, depth + 1))
    carried = []
    for value, depth in depths.items():
        span = needs(value)
        assert span is not None
        (before,) = ex.rewrite((value,), _same, back)
        carried.append(Carried(value, before, -span[0], depth))
    return Stream(newest, rows, tuple(roots), tuple(carried))


def _same(e: Expr) -> Expr:
    return e


def _known_before(e: Expr, needs: _Rows, rows: int, whole_taps: bool) -> list[Expr]:
    """The largest parts of `e` outside of guards that need none of the newest `rows` rows."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        span = needs(x)
        if span is None or isinstance(x, ex.Cond):
            if span is not None:
                stack.extend(x.args)
            continue
        unit = isinstance(x, ex.Read | ex.Proj) or not whole_taps
        if span[1] <= -rows and unit:
            found[x] = None
        else:
            stack.extend(x.args[::-1])
    return list(found)


def in_order(carried: Iterable[tuple[ex.Var, Expr]]) -> list[tuple[ex.Var, Expr]]:
    """Assignments meant at once, ordered so that none overwrites what a later one reads."""
    left = dict(carried)
    reads = {v: {x for x in ex.walk((e,)) if isinstance(x, ex.Var) and x is not v and x in left}
             for v, e in left.items()}  # fmt: skip
    done: list[tuple[ex.Var, Expr]] = []
    placed: set[ex.Var] = set()
    for first in left:
        stack = [(first, False)]
        while stack:
            v, ready = stack.pop()
            if v in placed:
                continue
            if ready:
                placed.add(v)
                done.append((v, left[v]))
            else:  # whoever reads v comes before it
                stack.append((v, True))
                stack += [(u, False) for u, used in reads.items() if v in used]
    return done
