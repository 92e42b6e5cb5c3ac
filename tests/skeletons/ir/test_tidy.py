"""Kernels without the traces of how they were made: what goes, what stays, and that it ends."""

from __future__ import annotations

import pytest

from tests.dsl import zoo
from treadle.dsl.expr import Apply, Expr, Var, constant, primitive
from treadle.dsl.target import CUDA
from treadle.dsl.types import float32, int64
from treadle.skeletons.ir import arithmetic as at, tidy
from treadle.skeletons.ir.kernel import (
    Assign,
    Barrier,
    Body,
    Buffer,
    Declare,
    If,
    Kernel,
    Let,
    Load,
    Store,
)
from treadle.skeletons.lower.lower import LoweringContext, lower

P = Var("p", int64)
HELD = Buffer("held", float32, "shared", constant(32))
GIVEN = Buffer("given", float32, "input", constant(32))
OUT = Buffer("out", float32, "output", constant(32))


def plus(a: Expr, b: Expr) -> Expr:
    return Apply(primitive("add"), (a, b), float32)


def tidied(*body: object) -> Body:
    made: Body = body  # type: ignore[assignment]
    kernel = Kernel("k", (GIVEN, OUT, HELD), (), (), constant(1), P, made, threads=32, thread=P)
    return tidy.tidied(kernel).body


def shown(body: Body) -> list[str]:
    return [type(s).__name__ for s in body]


def test_unused_values_go_with_what_only_they_read() -> None:
    a, b = Var("a", int64), Var("b", int64)
    assert tidied(Let(a, at.add(P, 1)), Let(b, at.multiply(a, 2))) == ()


def test_a_value_goes_to_the_one_place_that_stores_it() -> None:
    x, s = Var("x", float32), Var("s", float32)
    start = Declare(s, Load(GIVEN, P))
    (_, last, _) = tidied(start, Let(x, plus(s, Load(GIVEN, P))), Assign(s, x), Store(OUT, P, s))
    assert isinstance(last, Assign) and last.value == plus(s, Load(GIVEN, P))


@pytest.mark.parametrize("between", [Barrier(), Store(HELD, P, Load(GIVEN, P))],
                         ids=["barrier", "store"])  # fmt: skip
def test_a_value_does_not_pass_what_may_change_it(between: object) -> None:
    x = Var("x", float32)
    made = tidied(Let(x, Load(HELD, P)), between, Store(OUT, P, x))
    assert shown(made)[0] == "Let" and len(made) == 3


def test_states_that_read_each_other_keep_their_new_values_apart() -> None:
    a, b, x, y = (Var(n, float32) for n in "abxy")
    zero = Load(GIVEN, constant(0))
    made = tidied(Declare(a, zero), Declare(b, zero), Let(x, plus(a, b)), Let(y, plus(b, a)),
                  Assign(a, x), Assign(b, y), Store(OUT, P, plus(a, b)))  # fmt: skip
    # y reads a, which x has changed by then: one of the two stays.
    assert shown(made) == ["Declare", "Declare", "Let", "Assign", "Assign", "Store"]


def test_conditions_that_are_known_and_conditions_inside_each_other() -> None:
    p, q = at.less(P, 8), at.less(P, 4)
    store = Store(OUT, P, Load(GIVEN, P))
    (made,) = tidied(If(p, (If(p, (store,)),)))
    assert isinstance(made, If) and made.condition is p and shown(made.then) == ["Store"]
    (made,) = tidied(If(p, (If(q, (store,)),)))
    assert isinstance(made, If) and made.condition == at.both(p, q)
    (made,) = tidied(If(p, (If(q, (store,), (store,)),)))
    assert isinstance(made, If) and made.condition is p


def test_a_condition_that_may_have_changed_is_asked_again() -> None:
    s = Var("s", int64)
    asked = at.less(s, 8)
    store = Store(OUT, P, Load(GIVEN, P))
    made = tidied(Declare(s, P), If(asked, (Assign(s, at.add(s, 1)), If(asked, (store,)))))
    (outer,) = (x for x in made if isinstance(x, If))
    assert shown(outer.then) == ["Assign", "If"]


def test_a_second_time_changes_nothing() -> None:
    import treadle as td
    from treadle.backend.cuda.source import nodes

    for name in ("sums", "scans", "permuted", "stencil_of_stencil", "filtered", "statistics"):
        case = zoo.ZOO[name]
        for node in nodes(td.jit(case.function).lower(*case.arguments)._on("cuda")):
            for kernel in lower(node, LoweringContext(CUDA)).kernels:
                assert str(kernel.every(tidy.tidied)) == str(kernel), name
