"""A kernel whose integer scalars, extents above all, are known: loops of few iterations become
straight-line code, and tails have known lanes.  Positions and operations on elements remain as they
are, and so do bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.dsl import simplify
from treadle.dsl.expr import FALSE, TRUE, Apply, Const, Expr, rewrite
from treadle.dsl.types import int64
from treadle.skeletons.ir import kernel as ir


def with_known(kernel: ir.Kernel, values: Sequence[int | None], tasks: int | None) -> ir.Kernel:
    """The kernel for these values of its scalars and this number of tasks, None where unknown.  Its
    arguments remain."""
    known: dict[Expr, Expr] = {}
    for var, value in zip(kernel.scalars, values, strict=True):
        if value is not None:
            known[var] = Const(var.type.numpy.type(value), var.type)
    if tasks == 1:
        known[kernel.task] = Const(int64.numpy.type(0), int64)
    return replace(kernel, body=_body(kernel.body, known))


def _body(body: ir.Body, known: dict[Expr, Expr]) -> ir.Body:
    """Statements with known bounds of loops, and without branches that are never taken."""

    def value(e: Expr) -> Expr:
        (found,) = rewrite((e,), _folded, known)
        return found if isinstance(found, Const) else e

    made: list[ir.Statement] = []
    for s in body:
        if isinstance(s, ir.Let) and s.var.type.is_integer:
            if isinstance(found := value(s.value), Const):
                known[s.var] = found
        elif isinstance(s, ir.If) and (test := value(s.condition)) in (TRUE, FALSE):
            made += _body(s.then if test is TRUE else s.other, known)
            continue
        elif isinstance(s, ir.For | ir.Reduce):
            s = replace(s, start=value(s.start), stop=value(s.stop))
        made.append(ir.mapped(s, body=lambda inner: _body(inner, known)))
    return tuple(made)


def _folded(e: Expr) -> Expr:
    exact = isinstance(e, Apply) and not any(x.type.is_inexact for x in (e, *e.args))
    return simplify.apply(e.op, e.args, e.type) if exact and isinstance(e, Apply) else e
