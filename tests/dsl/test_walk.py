"""Traversals of expressions, and what these keep."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

import treadle as td
from tests.dsl.zoo import ZOO
from treadle.dsl.expr import Expr, Index, Read, Var, walk
from treadle.dsl.node import remembered_orders, topological
from treadle.dsl.simplify import add, multiply
from treadle.dsl.types import int64


def children_first(roots: Iterable[Expr], seen: dict[Expr, None]) -> list[Expr]:
    for e in roots:
        if e not in seen:
            children_first(e.args, seen)
            seen[e] = None
    return list(seen)


def test_what_expressions_keep_changes_no_order() -> None:
    numbers = random.Random(7)
    for turn in range(200):
        found: list[Expr] = [Index(0), Index(1), Var("x", int64), Var("y", int64)]
        for _ in range(numbers.randrange(2, 30)):
            a, b = numbers.choices(found, k=2)
            found.append((add, multiply)[numbers.randrange(2)](a, b))
        roots = tuple(numbers.choices(found, k=numbers.randrange(1, 6)))
        wanted = children_first(roots, {})
        for one in numbers.choices(found, k=turn % 4):
            walk((one,))
        assert walk(roots) == wanted
        assert walk(roots) == wanted


@pytest.mark.parametrize("name", ["correlated", "diamond", "filtered", "stencil_of_costly_map"])
def test_reads_and_remembered_orders_are_those_of_traversals(name: str) -> None:
    function, arguments = ZOO[name]
    roots = td.jit(function, backend="native").lower(*arguments).roots
    nodes = list(topological(roots))
    assert any(node.reads() for node in nodes)
    for node in nodes:
        every = walk(node.expressions())
        assert list(node.reads()) == [e for e in every if isinstance(e, Read)]
        assert not any(e.reads for e in every) or node.reads()
        assert any(e.scopes for e in every) == any(e.scoped for e in every)
    with remembered_orders():
        assert list(topological(roots)) == list(topological(roots)) == nodes
        assert list(topological(roots, known=nodes[:1])) == nodes[1:]
