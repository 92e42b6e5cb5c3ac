"""Cleans up a kernel for readers, without changing values.

dead       `t = i·2` without uses                   →  removed forward    `x = carry + run; carry =
x`             →  `carry = carry + run`
           `held = before[j]; total = base + held`  →  `total = base + before[j]`
decided    `if p: … if p: s`, and p cannot change   →  `if p: … s`
           `if p and q and p: s`                    →  `if p and q: s`
merge      `if p: if q: s`                          →  `if p and q: s`

A value moves down to its only use, past statements that do not change its operands.  Loads of
global memory keep their order, so that they can overlap.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from treadle.dsl.expr import TRUE, Apply, Const, Expr, Foreign, Var, conjuncts, substitute, walk

from . import arithmetic as at, kernel as ir

#: The distance, in statements, over which a value may move to its only use.
_REACH = 160


def tidied(kernel: ir.Kernel) -> ir.Kernel:
    """The simplified kernel, with its fallback unchanged."""
    body, again = kernel.body, True
    while again:  # repeat while conditions are removed
        tidying = _Tidying(body)
        body, again = tidying.body(tidying.living(body), frozenset()), tidying.decided
    return replace(kernel, body=body)


def _uses(s: ir.Statement) -> list[Expr]:
    """The variables that a statement uses, once per use; those of combinations twice."""
    roots = ir.expressions(s)
    found: list[Expr] = [e for e in roots if isinstance(e, Var)]
    for e in walk(roots):
        found += [a for a in e.args if isinstance(a, Var)]
    if isinstance(s, ir.Atomic | ir.Reduce):
        inner = [e for e in walk(s.combine.results if s.combine else ()) if isinstance(e, Var)]
        found += 2 * [*inner, *(s.accumulators if isinstance(s, ir.Reduce) else ())]
    return found


class _Tidying:
    """One pass over the statements of a kernel; `decided` is set if it removed conditions."""

    def __init__(self, body: ir.Body) -> None:
        self.decided = False
        every = list(ir.statements(body))
        self.uses = Counter([e for s in every for e in _uses(s)])
        self.mutable = {s.var for s in every if isinstance(s, ir.Assign)}
        self.mutable.update(a for s in every if isinstance(s, ir.Reduce) for a in s.accumulators)
        self.changed = {b for s in every for b in ir.written(s)}
        self.changed |= {s.buffer for s in every if isinstance(s, ir.Fetch)}

    def living(self, body: ir.Body) -> ir.Body:
        """Remove unused values, last first, since removing one may make earlier ones unused."""
        made: list[ir.Statement] = []
        for s in reversed(body):
            if isinstance(s, ir.Let) and not self.uses[s.var]:
                self.uses.subtract(_uses(s))
                continue
            # (In reverse order: else before then, the body of a `While` before its condition.)
            inner = {b: self.living(b) for b in reversed(ir.children(s))}
            made.append(ir.mapped(s, body=inner.__getitem__))
        return ir.same(body, reversed(made))

    def body(self, body: ir.Body, known: frozenset[Expr]) -> ir.Body:
        """Simplify the statements, given that the conditions `known` hold and cannot change."""
        made: list[ir.Statement] = []
        once: set[Expr] = set()  # earlier values of this body with a single use
        for s in body:
            if once and isinstance(s, _CONSUMERS):
                s = self._forwarded(s, made, once)
            if isinstance(s, ir.Let) and self.uses[s.var] == 1:
                once.add(s.var)
            if isinstance(s, ir.If):
                made += self._if(s, known)
            else:
                made.append(ir.mapped(s, body=lambda b: self.body(b, known)))
        return ir.same(body, made)

    # --- conditions ---

    def _if(self, s: ir.If, known: frozenset[Expr]) -> ir.Body:
        parts = conjuncts(s.condition)
        condition = at.both(*(p for p in dict.fromkeys(parts) if p not in known))
        lasting = frozenset(p for p in parts if self._lasts(p))
        then = self.body(s.then, known | lasting)
        other = self.body(s.other, known)
        if condition is TRUE:
            self.decided = True
            return then
        inner = then[0] if len(then) == 1 and not other else None
        if isinstance(inner, ir.If) and not inner.other and _is_quick(inner.condition):
            self.decided = True
            return (ir.If(at.both(condition, inner.condition), inner.then),)
        if condition is s.condition and then is s.then and other is s.other:
            return (s,)
        return (ir.If(condition, then, other),)

    def _lasts(self, e: Expr) -> bool:
        """Whether `e` keeps its value as long as its variables are in scope."""
        return not any(
            x in self.mutable or (isinstance(x, ir.Load) and x.buffer in self.changed)
            for x in walk((e,))
        )

    # --- values used once ---

    def _forwarded(
        self, s: ir.Statement, before: list[ir.Statement], once: set[Expr]
    ) -> ir.Statement:
        """`s` with the values of `once` that it uses inlined; they are removed from `before`."""
        wanted = once.intersection(walk(ir.expressions(s)))
        once -= wanted
        whole = _stored(s)
        crossed = _Crossed()
        for k in range(len(before) - 1, max(len(before) - _REACH, 0) - 1, -1):
            if not wanted or crossed.everything:
                break
            let = before[k]
            if isinstance(let, ir.Let) and let.var in wanted:
                wanted.discard(let.var)
                adjacent = k == len(before) - 1
                short = _is_load(let.value) or (isinstance(s, ir.Store) and _is_step(let.value))
                alone = let.var is whole or (crossed.lets_only and short)
                near = adjacent or not _loads_memory(let.value)
                if alone and near and not crossed.disturbs(let.value):
                    s = ir.mapped(s, partial(_with, {let.var: let.value}))
                    del before[k]
                    continue
            crossed.add(let)
        return s


_CONSUMERS = (
    ir.Assign,
    ir.Collective,
    ir.Declare,
    ir.FetchUpdate,
    ir.If,
    ir.Let,
    ir.Publish,
    ir.Store,
    ir.StoreVector,
)


class _Crossed:
    """The effects of the statements that a value moves past."""

    def __init__(self) -> None:
        self.assigned: set[Expr] = set()
        self.stored: set[ir.Buffer] = set()
        self.lets_only, self.everything = True, False

    def add(self, s: ir.Statement) -> None:
        match s:
            case ir.Let() | ir.LoadVector():
                pass
            case ir.Declare():
                self.lets_only = False
            case ir.Assign():
                self.lets_only = False
                self.assigned.add(s.var)
            case ir.Store() | ir.StoreVector():
                self.lets_only = False
                self.stored.add(s.buffer)
            case _:
                self.everything = True

    def disturbs(self, value: Expr) -> bool:
        """Whether these effects may change `value`."""
        return any(
            e in self.assigned or (isinstance(e, ir.Load) and e.buffer in self.stored)
            for e in walk((value,))
        )


def _with(values: dict[Expr, Expr], e: Expr) -> Expr:
    return substitute((e,), values)[0]


def _is_quick(e: Expr) -> bool:
    """Whether an expression is cheap enough to evaluate unconditionally."""
    return not any(isinstance(x, ir.Load | Foreign) or (isinstance(x, Apply) and x.op.cost > 2)
                   for x in walk((e,)))  # fmt: skip


def _loads_memory(e: Expr) -> bool:
    """Whether an expression reads memory that is not private to a block or a thread."""
    return any(
        isinstance(x, ir.Load) and x.buffer.role not in ("local", "shared") for x in walk((e,))
    )


def _is_load(e: Expr) -> bool:
    return isinstance(e, ir.Load) and all(isinstance(x, Const | Var | Apply) for x in walk(e.args))


def _is_step(e: Expr) -> bool:
    return (isinstance(e, Apply) and e.type.name == "int64" and e.op.name == "add"
            and isinstance(e.args[0], Var) and isinstance(e.args[1], Const))  # fmt: skip


def _stored(s: ir.Statement) -> Expr | None:
    """The value that a statement stores or assigns unchanged."""
    return s.value if isinstance(s, ir.Assign | ir.Declare | ir.Store) else None
