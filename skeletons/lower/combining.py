"""Kernel code for combining functions: identities, application, and reductions over ranges.

All functions preserve the order of the operands: `left` comes first in the array.  Operators are
associative, so they may be regrouped; `ir.Reduce` reorders only operators known to commute
(`folds.is_commutative`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from treadle.dsl import expr as ex, simplify
from treadle.dsl.analysis.combines import identities, is_commutative
from treadle.dsl.expr import Expr
from treadle.dsl.graph import Combine

from ..ir import arithmetic as at
from ..ir.kernel import Assign, Buffer, Let, Load, Reduce, Store, StoreVector
from ..ir.linearize import Linearizer, zero
from ..ir.verify import WIDEST
from .build import Builder

Values = tuple[Expr, ...]
Elements = Callable[[Linearizer, Expr], Values]
"""The components of the element at a position, emitted into a body."""

#: Partial results are combined in groups of this many: a tree of two levels, for accuracy.
GROUP = 64
#: Maximum number of operations in an atomic update.
LARGEST = 200


def arithmetic(combine: Combine, builder: Builder) -> Combine:
    """The combination in the form an atomic update needs: host values become kernel scalars, and
    conditionals whose sides read nothing become selects, which evaluate both sides."""

    def change(e: Expr) -> Expr:
        if isinstance(e, ex.Param | ex.Extent):
            return builder.scalar(e, "number")
        if isinstance(e, ex.Proj) and isinstance(e.args[0], ex.Cond):
            cond = e.args[0]
            sides = cond.then[e.which], cond.other[e.which]
            if all(isinstance(x, ex.Const | ex.Var | ex.Apply) for x in ex.walk(sides)):
                return simplify.select(cond.args[0], *sides)
        return e

    results = ex.rewrite(combine.results, change)
    return combine if results == combine.results else replace(combine, results=results)


def is_arithmetic(combine: Combine) -> bool:
    """Whether each result is one short expression of the operands, without reads or statements."""
    parts = list(ex.walk(combine.results))
    return len(parts) <= LARGEST and all(
        isinstance(e, ex.Const | ex.Var | ex.Apply) and not _tests(e) for e in parts
    )


def _tests(e: Expr) -> bool:
    """Whether the expression exists only to check the index of a read whose value is unused."""
    return isinstance(e, ex.Apply) and e.op.name == "also"


def apply_combine(into: Linearizer, combine: Combine, left: Sequence[Expr],
                  right: Sequence[Expr], named: bool = True) -> Values:  # fmt: skip
    """`combine(left, right)`; `named`: every result is a variable or a constant."""
    left = [into.let(e, "a") for e in left]
    right = [into.let(e, "b") for e in right]
    bindings: dict[Expr, Expr] = dict(
        zip((*combine.left, *combine.right), (*left, *right), strict=True)
    )
    with into.when_always(bindings):
        return into.emit(combine.results, named=named)


def accumulate(into: Linearizer, combine: Combine, accumulators: Sequence[ex.Var],
               values: Sequence[Expr], swapped: bool = False) -> None:  # fmt: skip
    """`accumulators = combine(accumulators, values)`; `swapped`: combine(values, accumulators)."""
    left, right = (values, accumulators) if swapped else (accumulators, values)
    results = apply_combine(into, combine, left, right, named=False)
    if len(results) > 1:
        results = tuple(into.let(r, "r") for r in results)
    into.append(*(Assign(a, r) for a, r in zip(accumulators, results, strict=True)))


def declare(into: Linearizer, values: Sequence[Expr], name: str = "total") -> tuple[ex.Var, ...]:
    return tuple(into.declare(v, name) for v in values)


def zeros(combine: Combine) -> Values:
    return tuple(zero(r.type) for r in combine.results)


def reduce_range(into: Linearizer, combine: Combine, accumulators: Sequence[ex.Var], start: Expr,
                 stop: Expr, element: Elements, name: str = "k", serial: bool = False,
                 long: bool = False) -> None:  # fmt: skip
    """Accumulate elements start … stop − 1 from the left.

    Operators known to commute use interleaved accumulators (`ir.Reduce`, which is `long` or not),
    unless `serial`.
    """
    if is_commutative(combine) and not serial:
        k = ex.Var(name, start.type)
        with into.body() as inside:
            values = element(into, k)
        into.append(
            Reduce(k, start, stop, tuple(inside), values, tuple(accumulators), combine, long)
        )
        return
    with into.loop(name, start, stop) as k:
        accumulate(into, combine, accumulators, element(into, k))


def fold_range(into: Linearizer, combine: Combine, start: Expr, stop: Expr, element: Elements,
               name: str = "k", serial: bool = False, long: bool = False
               ) -> tuple[ex.Var, ...]:  # fmt: skip
    """The combination of elements start … stop − 1; an identity or zeros if there are none.

    Starts from the identity if there is one, otherwise from the first element.
    """
    neutral = identities(combine)
    total = declare(into, neutral if neutral is not None else zeros(combine))
    if neutral is not None:
        reduce_range(into, combine, total, start, stop, element, name, serial, long)
        return total
    with into.when(at.less(start, stop)):
        first = element(into, start)
        assign(into, total, first)
        reduce_range(into, combine, total, start + 1, stop, element, name, serial, long)
    return total


def assign(into: Linearizer, variables: Sequence[ex.Var], values: Sequence[Expr]) -> None:
    into.append(*(Assign(v, e) for v, e in zip(variables, values, strict=True)))


def join(into: Linearizer, combine: Combine, total: Sequence[ex.Var], values: Sequence[Expr], *,
         first: Expr | None = None, known: Expr = ex.TRUE) -> None:  # fmt: skip
    """`accumulate`, or `assign` where there is no total yet (`first` holds or `known` does not)."""
    if first is not None:
        with into.when(first):
            assign(into, total, values)
        with into.otherwise(first):
            accumulate(into, combine, total, values)
        return
    with into.when(known):
        accumulate(into, combine, total, values)
    with into.otherwise(known):
        assign(into, total, values)


def put(into: Linearizer, buffers: Sequence[Buffer], index: Expr, values: Sequence[Expr]) -> None:
    """Store a value in each of the buffers."""
    into.append(*(Store(b, index, v) for b, v in zip(buffers, values, strict=True)))


def get(into: Linearizer, buffers: Sequence[Buffer], index: Expr) -> tuple[Expr, ...]:
    return tuple(into.let(Load(b, index), b.name) for b in buffers)


def store_group(into: Linearizer, outs: Sequence[Buffer], index: Expr,
                values: Sequence[Sequence[Expr]]) -> None:  # fmt: skip
    """Store `values[k][c]` at position index + k of component c, in vectors of up to 16 bytes."""
    for c, buffer in enumerate(outs):
        width = max(WIDEST // buffer.type.bytes, 1)
        for k in range(0, len(values), width):
            group = tuple(v[c] for v in values[k : k + width])
            where = index + k
            alone = len(group) == 1
            into.append(
                Store(buffer, where, group[0]) if alone else StoreVector(buffer, where, group)
            )


def compute(into: Linearizer, buffers: Sequence[Buffer], indices: Sequence[Expr],
            extents: Sequence[Expr], roots: Sequence[Expr], position: Expr | None = None
            ) -> None:  # fmt: skip
    """Compute the element at `indices`, and store it there or at a position."""
    with into.when_always({ex.Index(k): i for k, i in enumerate(indices)}):
        values = into.emit(roots)
        put(into, buffers, at.linear(indices, extents) if position is None else position, values)


def copied(into: Linearizer, v: Expr) -> ex.Var:
    """A copy of a variable's current value, taken before the variable is assigned again."""
    var = ex.Var("before", v.type)
    into.append(Let(var, v))
    return var


def fold_tree(into: Linearizer, combine: Combine, count: Expr, partial: Elements
              ) -> tuple[ex.Var, ...]:  # fmt: skip
    """Combine partial results 0 … count − 1 (at least one), in order, in groups of GROUP."""
    total = declare(into, zeros(combine))
    with into.loop("group", 0, count, step=GROUP) as group:
        stop = into.let(at.minimum(group + GROUP, count), "group_stop")
        part = declare(into, partial(into, group))
        with into.loop("b", group + 1, stop) as b:
            accumulate(into, combine, part, partial(into, b))
        join(into, combine, total, part, first=at.equal(group, 0))
    return total


def fold_partials(into: Linearizer, combine: Combine, count: Expr, partial: Elements,
                  exact: bool) -> tuple[ex.Var, ...]:  # fmt: skip
    """`fold_tree`; `Reduce` for operators that commute, a plain loop if they are `exact`."""
    if identities(combine) is not None:
        return fold_range(into, combine, at.integer(0), count, partial, "b", exact, True)
    return fold_tree(into, combine, count, partial)


def fold_runs(into: Linearizer, combine: Combine, start: Expr, stop: Expr, run: Elements
              ) -> tuple[ex.Var, ...]:  # fmt: skip
    """Combine the results of runs start … stop − 1 in order; an identity or zeros if none."""
    neutral = identities(combine)
    total = declare(into, neutral if neutral is not None else zeros(combine))
    with into.loop("lead", start, stop) as lead:
        values = run(into, lead)
        if neutral is not None:
            accumulate(into, combine, total, values)
        else:
            join(into, combine, total, values, first=at.equal(lead, start))
    return total
