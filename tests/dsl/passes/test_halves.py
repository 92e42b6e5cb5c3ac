"""What `widen_halves` makes of folds, scans and permutes, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, Leaf, Permute, Scan, topological
from treadle.dsl.graphs.printer import show_graph
from treadle.dsl.passes.base import Context
from treadle.dsl.passes.halves import widen_halves
from treadle.dsl.process.configuration import Settings

H, B = np.ones(9, np.float16), np.ones(9, ml_dtypes.bfloat16)
I, F = np.zeros(9, int), np.ones(9, np.float32)


def roots(f: Any, *args: Any) -> tuple[list[Leaf], list[Leaf]]:
    """Those of a program, as written and widened."""
    program = td.jit(f, backend="reference").lower(*args)
    written = list(program.source_roots)
    return written, widen_halves(written, Context(Settings(), "reference"))


def shown(f: Any, *args: Any) -> str:
    """The last node that combines, and what is made of it, without the numbers of nodes."""
    lines = show_graph(roots(f, *args)[1]).splitlines()
    return "\n".join(line.partition(": ")[2] for line in lines if " argument " not in line)


def plus(x: Any, y: Any) -> Any:
    return x + y


def test_a_fold() -> None:
    made = shown(lambda a: td.fold(plus, 1, a), B)
    assert "fold over" in made and "of float32(" in made and "from 1.0" in made
    assert made.splitlines()[-1].startswith("bfloat16() = cast bfloat16(")


def test_a_permute() -> None:
    first, update, last = shown(lambda a, i: a.at[i].add(a), H, I).splitlines()
    assert "cast float32(" in first and update.startswith("float32(")
    assert "cast float16(" in last


WIDENED: dict[str, Any] = {
    "a sum": (lambda a: td.fold(plus, 0, a), ["float32"]),
    "prefixes and their total": (lambda a: td.scanl_total(plus, 0, a)[1], ["float32"]),
    "a sum beside an extreme": (
        lambda a: td.fold(lambda x, y: (x[0] + y[0], td.maximum(x[1], y[1])), (0, 0), td.zip(a, a)),
        ["float32", "half"],
    ),
    "sums scaled by extremes": (
        lambda a: td.fold(lambda x, y: _scaled(x, y), (-np.inf, 0), td.zip(a, a)),
        ["half", "float32"],
    ),
    "sums behind a flag": (
        lambda a: td.scanl1(
            lambda x, y: (x[0] | y[0], td.where(y[0], y[1], x[1] + y[1])), td.zip(a > 0, a)
        ),
        ["bool", "float32"],
    ),
    "an extreme": (lambda a: td.fold(td.maximum, 0, a), ["half"]),
    "a sum that is compared": (
        lambda a: td.fold(lambda x, y: td.where(x + y > 9, 9, x + y), 0, a),
        ["half"],
    ),
    "a sum that is converted": (lambda a: td.fold(lambda x, y: td.floor(x + y), 0, a), ["half"]),
    "a sum that something else is computed from": (
        lambda a: td.fold(
            lambda x, y: (x[0] + y[0], td.where(x[0] < y[0], x[1], y[1])), (0, 0), td.zip(a, a)
        ),
        ["half", "half"],
    ),
    "an update of a part": (lambda a: a.at[2:5].add(1), ["half"]),
    "an update of an element": (lambda a: a.at[2].add(1), ["half"]),
    "a random update": (lambda a: a.at[td.cast(a, td.int64)].add(1), ["float32"]),
    "a product": (lambda a: td.prod(a), ["float32"]),
}


def _scaled(x: Any, y: Any) -> Any:
    most = td.maximum(x[0], y[0])
    return most, x[1] * td.exp(x[0] - most) + y[1] * td.exp(y[0] - most)


@pytest.mark.parametrize("a", [H, B], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", WIDENED)
def test_components(name: str, a: Any) -> None:
    f, types = WIDENED[name]
    written, made = roots(f, a)
    nodes = [n for n in topological(made) if isinstance(n, Fold | Permute | Scan)]
    assert nodes[-1].combine is not None
    found = [v.type.name for v in nodes[-1].combine.left]
    assert found == [str(a.dtype) if t == "half" else t for t in types]
    assert [leaf.type for leaf in made] == [leaf.type for leaf in written]


def test_other_types_are_left_as_they_are() -> None:
    for a in (F, I, F.astype(float)):
        written, made = roots(lambda a: (td.sum(a), td.cumsum(a), a.at[[0, 0]].add(a[:2])), a)
        assert made == written
