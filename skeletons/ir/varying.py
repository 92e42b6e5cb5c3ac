"""Which variables of a vector loop differ between its lanes."""

from __future__ import annotations

from treadle.dsl.expr import Expr, Var, walk

from .kernel import Assign, Body, Declare, For, If, Let, Reduce, While


def varying_variables(body: Body, seeds: set[Var]) -> set[Var]:
    """The variables whose values may differ between lanes, given those that do (`seeds`).

    A variable assigned under a condition, or in a loop, that differs between lanes differs too.
    """
    varying = set(seeds)
    while True:
        before = len(varying)
        _spread(body, varying, False)
        if len(varying) == before:
            return varying


def is_varying(e: Expr, varying: set[Var]) -> bool:
    return any(node in varying for node in walk((e,)) if isinstance(node, Var))


def _spread(body: Body, varying: set[Var], under: bool) -> None:
    for s in body:
        match s:
            case Let():
                if is_varying(s.value, varying):
                    varying.add(s.var)
            case Declare() | Assign():
                if under or is_varying(s.value, varying):
                    varying.add(s.var)
            case If():
                inside = under or is_varying(s.condition, varying)
                _spread(s.then, varying, inside)
                _spread(s.other, varying, inside)
            case For() | Reduce():
                starts = is_varying(s.start, varying)
                if starts:
                    varying.add(s.var)
                inside = under or starts or is_varying(s.stop, varying)
                _spread(s.body, varying, inside)
                if isinstance(s, Reduce) and (
                    inside or any(is_varying(v, varying) for v in s.values)
                ):
                    varying.update(s.accumulators)
            case While():
                _spread(s.before, varying, under)
                inside = under or is_varying(s.condition, varying)
                _spread(s.before, varying, inside)
                _spread(s.body, varying, inside)
