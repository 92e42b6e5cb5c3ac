"""Errors say what is nested too deeply, and can be shown wherever they come from."""

from __future__ import annotations

import functools
import pickle
import sys
import types

import numpy as np
import pytest

import treadle as td
from treadle.dsl.text import PLAIN, Text, printable

A = np.arange(5)


def factorial(n):
    return td.where(n <= 1, 1, n * factorial(n - 1))


def by_cond(n):
    return td.cond(n <= 1, 1, n * by_cond(n - 1))


def endless(x):
    return endless(x)


def of_arrays(x):
    return td.map(lambda v: v, of_arrays(x))


def wrapped(value, levels=600):
    return functools.reduce(lambda inner, _: (inner,), range(levels), value)


def choices(x):
    found = x
    for k in range(400):
        found = td.cond(x > k, found, x + k)
    return found


ITSELF: list[object] = []
ITSELF.append(ITSELF)

DEEP = {
    "a recursive function of scalars": lambda: td.map(factorial, A),
    "by cond": lambda: td.fold(lambda x, y: by_cond(x), 0, A),
    "without treadle": lambda: td.map(endless, A),
    "in a loop": lambda: td.generate(3, lambda i: td.while_loop(lambda s: s < 3, factorial, i)),
    "of arrays": lambda: td.jit(of_arrays)(A),
    "compiled": lambda: td.jit(endless)(A),
    "lowered": lambda: td.jit(endless).lower(A),
    "a list in itself": lambda: td.run(ITSELF),
    "as an argument": lambda: td.jit(lambda x: x)(ITSELF),
    "as a result": lambda: td.jit(lambda x: ITSELF)(A),
    "tuples of elements": lambda: td.map(wrapped, A),
    "tuples of results": lambda: td.run(wrapped(td.use(A))),
    "a state of tuples": lambda: td.iterate(2, lambda s: s, wrapped(td.use(A))),
    "conditions": lambda: td.run(td.map(choices, A), backend="native"),
    "conditions explained": lambda: td.jit(lambda a: td.map(choices, a)).lower(A).explain(),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("label", DEEP)
def test_nested_too_deeply(label):
    with pytest.raises(td.TracingError, match="nested too deeply") as raised:
        DEEP[label]()
    assert raised.value.__cause__ is None and "while_loop" in str(raised.value)


def test_long_is_not_deep():
    """Hundreds of operations one after the other, in what is printed and kept."""

    def long(x):
        for k in range(150):
            x = (x * 3 + k) % 1000
        return x

    def sliced(a):
        for _ in range(300):
            a = a[0:]
        return a

    f = td.jit(lambda a: td.permute(lambda x, y: long(x + y), np.zeros(2, "i8"), lambda i: i, a))
    program = f.lower(A[:2])
    want = [(int(long(x))) for x in A[:2]]
    assert f(A[:2]).tolist() == want and program.explain() and program.source("cuda")
    assert pickle.loads(pickle.dumps(program))(A[:2]).tolist() == want
    assert td.jit(sliced).lower(A).source("cuda")


def stripped(code):
    consts = (stripped(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=tuple(consts))


def outside():
    return td.run(td.map(lambda i: td.use(A)[i + 9], td.iota(3)), check=True, backend="native")


def unequal():
    return td.map(lambda x, y: x + y, np.ones(3), np.ones(4))


@pytest.mark.parametrize("wrong", [outside, unequal])
def test_code_without_lines(wrong):
    """Tables of lines may be stripped, as tools that pack programs do."""
    with pytest.raises(td.TreadleError) as raised:
        types.FunctionType(stripped(wrong.__code__), globals())()
    text = str(raised.value)
    assert f'test_depth.py", in {wrong.__name__}' in text and "None" not in text
    where = raised.value.where
    assert where is not None and where.line == 0
    assert repr(pickle.loads(pickle.dumps(where))) == repr(where) == "Location(test_depth.py)"


class Ascii:
    encoding = "ascii"


def test_signs_that_the_output_does_not_have(monkeypatch):
    text = "2 × 3 → 6 … ≥ µ²; ä"
    assert printable(text) == text == str(Text(text))
    monkeypatch.setattr(sys, "stdout", Ascii())
    assert printable(text) == "2 x 3 -> 6 ... >= u^2; \\xe4" == str(Text(text)) == repr(Text(text))
    assert str(td.TreadleError("a × b")).splitlines()[0] == "a x b"
    assert "\udcff".encode("utf-8", PLAIN) == b"\\udcff"
