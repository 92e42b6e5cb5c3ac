"""Choices that a loop would wait for: selects by conditions that take long to compute from what the
iteration before has computed.

    s = select(f(s) < x, s + 1, s)

A processor guesses which way a branch goes and carries on, but waits for the condition of a select.
A wrong guess costs about as much as a division, so a branch is better from such a latency on, where
the next iteration's condition depends on what is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from treadle.dsl.expr import Apply, Const, Expr, Var, walk
from treadle.skeletons.ir import kernel as ir

from .mathlib import FUNCTIONS

#: Cycles from the state to a condition from which a branch is better, and by how many it is later
#: than one of those that it chooses from.
LATE, MORE = 20, 12
#: Cycles of operations on floats, of those on integers where they are not 1, of elements of arrays
#: at positions that depend on the state, and of functions.
_FLOATS = {"true_divide": 13, "sqrt": 18, "remainder": 20, "floor_divide": 20, "select": 1}
_INTEGERS = {"multiply": 3, "floor_divide": 20, "remainder": 20}
_FLOAT, _LOAD, _FUNCTION = 4, 5, 40


def late_choices(body: ir.Body) -> set[Expr]:
    """The selects of a kernel that are better branches."""
    found = set[Expr]()
    for loop in _scalar_loops(body):
        found |= _Loop(loop).found
    return found


def _scalar_loops(body: ir.Body) -> Iterator[ir.For | ir.While]:
    """The innermost loops outside of vector loops."""
    for s in body:
        if isinstance(s, ir.For) and s.kind == "vector":
            continue
        inner = [x for part in ir.children(s) for x in _scalar_loops(part)]
        yield from inner
        if isinstance(s, ir.For | ir.While) and not inner:
            within = ir.statements((*getattr(s, "before", ()), *s.body))
            if not any(isinstance(x, ir.For | ir.While | ir.Reduce) for x in within):
                yield s


class _Loop:
    """One loop: the latencies of variables, from when its carried variables are known."""

    def __init__(self, loop: ir.For | ir.While) -> None:
        self.found = set[Expr]()
        body = (*getattr(loop, "before", ()), *loop.body)
        inside = ir.statements(body)
        made = {x.var for x in inside if isinstance(x, ir.Declare)}
        self.carried = {x.var for x in inside if isinstance(x, ir.Assign)} - made
        choices = any(isinstance(e, Apply) and e.op.name == "select"
                      for x in inside for e in walk(ir.expressions(x)))  # fmt: skip
        if not (self.carried and choices):
            return
        values: dict[Var, list[Expr]] = {}
        for x in inside:
            if isinstance(x, ir.Let | ir.Declare | ir.Assign):
                values.setdefault(x.var, []).append(x.value)
        self._values = values
        self.needed = {v: self._needed(values[v]) for v in self.carried}
        self._memo: dict[Expr, int | None] = {}
        self._run(body, dict.fromkeys(self.carried, 0))
        self.found = {e for e in self.found if self._waits_for_itself(e)}

    def _needed(self, roots: Iterable[Expr]) -> set[Expr]:
        """What values are computed from, back to the carried variables."""
        needed, waiting = set[Expr](), [*roots]
        while waiting:
            e = waiting.pop()
            if e not in needed:
                needed.add(e)
                waiting += e.args
                if isinstance(e, Var) and e not in self.carried:
                    waiting += self._values.get(e, ())
        return needed

    def _waits_for_itself(self, choice: Expr) -> bool:
        """Whether the condition depends on what the iteration before has chosen."""
        wanted = self._needed(choice.args[:1]) & self.carried
        changed = {v for v in self.carried if choice in self.needed[v]}
        reached = set[Var]()
        while changed:
            reached |= changed
            changed = {v for v in self.carried - reached if not changed.isdisjoint(self.needed[v])}
        return not wanted.isdisjoint(reached)

    def _run(self, body: ir.Body, known: dict[Var, int]) -> None:
        """Statements in order; `known`: the latencies of what depends on carried variables."""
        for s in body:
            if isinstance(s, ir.If):
                sides = [dict(known), dict(known)]
                for part, side in zip((s.then, s.other), sides, strict=True):
                    self._run(part, side)
                for v in {*sides[0], *sides[1]}:
                    known[v] = max(side.get(v, 0) for side in sides)
                self._memo.clear()
            elif isinstance(s, ir.Let | ir.Declare | ir.Assign):
                latency = self._latency(s.value, known)
                before = known.get(s.var)
                if latency is None:
                    known.pop(s.var, None)
                else:
                    known[s.var] = latency
                if known.get(s.var) != before and isinstance(s, ir.Assign):
                    self._memo.clear()

    def _latency(self, root: Expr, known: Mapping[Var, int]) -> int | None:
        """The cycles until a value is known; None if it does not depend on the state."""
        memo = self._memo
        for e in walk((root,), lambda x: x not in memo):
            if e in memo or isinstance(e, Const):
                continue
            if isinstance(e, Var):
                memo[e] = known.get(e)
                continue
            waits = [memo.get(a) for a in e.args]
            if all(w is None for w in waits):
                memo[e] = None
            elif isinstance(e, Apply) and e.op.name == "select":
                test, sides = waits[0] or 0, [w or 0 for w in waits[1:]]
                late = test >= LATE and test - min(sides) >= MORE
                if late:
                    self.found.add(e)
                memo[e] = max(sides) if late else max(test, *sides) + 1
            else:
                memo[e] = max(w or 0 for w in waits) + _cycles(e)
        return memo.get(root)


def _cycles(e: Expr) -> int:
    if not isinstance(e, Apply):
        return _LOAD
    if e.op.name in FUNCTIONS:
        return _FUNCTION
    if any(a.type.is_inexact for a in e.args):
        return _FLOATS.get(e.op.name, _FLOAT)
    if isinstance(e.args[-1], Const):  # a quotient by a literal is a product, or a shift
        return 3 if e.op.name in _INTEGERS else 1
    return _INTEGERS.get(e.op.name, 1)
