"""Scalars of the run that say what runs: random expressions at the edges of their types.

Extents, slice bounds, trip counts, predicates and results of rank 0 are computed on the host, and
mean what they mean in kernels: integers wrap, division by zero gives 0, floats saturate.
"""

from __future__ import annotations

import operator
import random
from functools import partial

import numba
import numpy as np
import pytest

import treadle as td

from .helpers import COMPLEXES, DTYPES, FLOATS, INTEGERS, assert_same, dt, td_dtype, to_host

REALS = [name for name in DTYPES if name not in COMPLEXES]
#: (name, number of operands) of what gives the operands' type.
ON_INTEGERS = (
    ("add", 2), ("subtract", 2), ("multiply", 2), ("floor_divide", 2), ("remainder", 2),
    ("quot", 2), ("rem", 2), ("minimum", 2), ("maximum", 2), ("negative", 1), ("absolute", 1),
    ("sign", 1), ("bitwise_and", 2), ("bitwise_or", 2), ("bitwise_xor", 2), ("invert", 1),
    ("left_shift", 2), ("right_shift", 2),
)  # fmt: skip
ON_FLOATS = (
    ("add", 2), ("subtract", 2), ("multiply", 2), ("true_divide", 2), ("negative", 1),
    ("absolute", 1), ("floor", 1), ("ceil", 1), ("rint", 1),
    ("trunc", 1), ("quot", 2), ("rem", 2), ("floor_divide", 2),
)  # fmt: skip
COMPARISONS = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------
# What they mean: Python's integers that wrap, NumPy's floats


def wrapped(value, name):
    """A Python int in an integer type."""
    info = np.iinfo(name)
    low = value & ((1 << info.bits) - 1)
    return low - (1 << info.bits) if low > info.max else low


def truncated(a, b):
    """The quotient of two Python ints, toward zero; 0 for b = 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shifted(a, b, bits, left):
    if not 0 <= b < bits:
        return -1 if a < 0 and not left else 0
    return a << b if left else a >> b


def on_integers(op, name, a, b=0):
    bits = np.iinfo(name).bits
    exact = {
        "add": lambda: a + b,
        "subtract": lambda: a - b,
        "multiply": lambda: a * b,
        "floor_divide": lambda: a // b if b else 0,
        "remainder": lambda: a % b if b else 0,
        "quot": lambda: truncated(a, b),
        "rem": lambda: a - truncated(a, b) * b if b else 0,
        "minimum": lambda: min(a, b),
        "maximum": lambda: max(a, b),
        "negative": lambda: -a,
        "absolute": lambda: abs(a),
        "sign": lambda: (a > 0) - (a < 0),
        "bitwise_and": lambda: a & b,
        "bitwise_or": lambda: a | b,
        "bitwise_xor": lambda: a ^ b,
        "invert": lambda: ~a,
        "left_shift": lambda: shifted(a, b, bits, True),
        "right_shift": lambda: shifted(a, b, bits, False),
    }[op]()
    return wrapped(exact, name)


def on_floats(op, name, *args):
    """Halves are computed in float32 and rounded once."""
    kind = np.float32 if dt(name).itemsize == 2 else dt(name).type
    wide = [kind(a) for a in args]
    if op == "quot":
        found = np.trunc(wide[0] / wide[1])
    elif op == "rem":
        found = np.fmod(*wide)
    else:
        found = getattr(np, op)(*wide)
    return dt(name).type(found)


def converted(value, source, target):
    if target == "bool":
        return bool(value != 0)
    if target in FLOATS:
        return np.asarray(value, None if source in FLOATS else dt(source)).astype(dt(target))[()]
    if source not in FLOATS:
        return wrapped(int(value), target)
    wide, info = float(value), np.iinfo(target)
    if wide != wide:
        return 0
    return int(min(max(wide, info.min), info.max)) if abs(wide) < 2**63 else (
        info.max if wide > 0 else info.min)  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Random expressions, as a pair: treadle's scalar and its value


def edges(name):
    """Numbers of a type where something happens."""
    if name == "bool":
        return [False, True]
    if name in FLOATS:
        found = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            135.4,
            19.34,
            3e4,
            -(2.0**63),
            2.0**64,
            np.inf,
            -np.inf,
            np.nan,
        ]
        return [dt(name).type(x) for x in found]
    info = np.iinfo(name)
    around = [
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        63,
        64,
        info.max,
        info.max - 1,
        info.max // 2 + 1,
        info.max // 3,
    ]
    return [*around, *(x for x in (info.min, info.min + 1, -1, -2, -3, -64) if x >= info.min)]


class Maker:
    """Draws expressions; `given` are treadle's scalars and their values, by type."""

    def __init__(self, rng, given):
        self.rng, self.given = rng, given

    def leaf(self, name):
        if name in self.given and self.rng.random() < 0.7:
            return self.rng.choice(self.given[name])
        value = self.rng.choice(edges(name))
        return td_dtype(name)(value), value

    def make(self, name, depth):
        if depth == 0 or self.rng.random() < 0.1:
            return self.leaf(name)
        way = self.rng.random()
        if way < 0.25:
            source = self.rng.choice(REALS)
            x, value = self.make(source, depth - 1)
            return td.cast(x, td_dtype(name)), converted(value, source, name)
        if way < 0.4:
            p, truth = self.make("bool", depth - 1)
            (x, a), (y, b) = (self.make(name, depth - 1) for _ in range(2))
            choose = self.rng.choice((td.where, td.cond))
            return choose(p, x, y), a if truth else b
        if name == "bool":
            source = self.rng.choice(REALS)
            op = self.rng.choice(list(COMPARISONS))
            (x, a), (y, b) = (self.make(source, depth - 1) for _ in range(2))
            return getattr(td, op)(x, y), COMPARISONS[op](a, b)
        op, arity = self.rng.choice(ON_FLOATS if name in FLOATS else ON_INTEGERS)
        args = [self.make(name, depth - 1) for _ in range(arity)]
        meaning = on_floats if name in FLOATS else on_integers
        value = meaning(op, name, *(a for _, a in args))
        return getattr(td, op)(*(x for x, _ in args)), value


def arguments(rng):
    """Scalar arguments of every type, NumPy's and Python's: their types and values."""
    found = [(name, dt(name).type(rng.choice(edges(name)))) for name in REALS for _ in range(2)]
    python = {"int64": int, "float64": float, "bool": bool}
    return [(n, python[n](v) if n in python and k % 2 else v) for k, (n, v) in enumerate(found)]


def drawn(seed):
    """A function of an array and scalars, the scalars, and its results by what the expressions
    in it are worth."""
    rng = random.Random(seed)
    values = arguments(rng)
    narrow_type, real_type = rng.choice(INTEGERS), rng.choice(FLOATS)
    asked = [*["int64"] * 3, narrow_type, real_type, "bool"]
    worth = []

    def f(a, *scalars):
        given = {}
        for scalar, (name, value) in zip(scalars, values, strict=True):
            plain = value if name in FLOATS else bool(value) if name == "bool" else int(value)
            given.setdefault(name, []).append((scalar, plain))
        maker = Maker(random.Random(seed), given)
        pairs = [maker.make(name, 4) for name in asked]
        worth[:] = [value for _, value in pairs]
        i, j, k, narrow, x, p = (e for e, _ in pairs)
        return (
            td.unit(i), td.unit(narrow), td.unit(x), td.unit(p),
            a[i:j], a[j::2], a[:k:-1], a[narrow:],
            td.fill((i & 3, td.cast(narrow, td.int64) & 7), 1.0),
            td.iterate(td.minimum(j, 6), lambda b: b + 1, a),
            td.cond(p, a, -a),
            td.while_loop(lambda s: s[0] < (k & 3), lambda s: (s[0] + 1, s[1] * 2), (0, a))[1],
            td.iota(3) * i + j,
        )  # fmt: skip

    def want(a):
        i, j, k, narrow, x, p = worth
        line = [wrapped(n * i + j, "int64") for n in range(3)]
        return (
            np.asarray(i), np.asarray(narrow, narrow_type), np.asarray(x, dt(real_type)),
            np.asarray(p),
            a[i:j], a[j::2], a[:k:-1], a[narrow:],
            np.ones((i & 3, narrow & 7)),
            a + max(min(j, 6), 0),
            a if p else -a,
            a << (k & 3),
            np.array(line),
        )  # fmt: skip

    return f, [value for _, value in values], want


def differs(seed, backend):
    """What is wrong with a random program, None for nothing."""
    f, scalars, want = drawn(seed)
    a = np.arange(5)
    compiled = td.jit(f, backend=backend)
    for _ in range(3):  # what a call was is done again without looking
        found = compiled(a, *scalars)
        try:
            assert_same(found, want(a), label=f"seed {seed}")
        except AssertionError as error:
            return str(error)
    return None


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_scalars(backend, seed):
    assert differs(seed, backend) is None


@pytest.mark.long
def test_many_random_scalars(backend):
    wrong = [found for seed in range(100, 400) if (found := differs(seed, backend))]
    assert not wrong, "\n".join(wrong)


A = np.arange(5)


def results(f, *args, backend):
    """What a compiled function gives, three times alike."""
    compiled = td.jit(f, backend=backend)
    first, *others = (to_host(compiled(*args)) for _ in range(3))
    for other in others:
        assert_same(other, first)
    return first


def test_what_wraps_decides(backend):
    factor = 2654435761
    start = wrapped(12345 * factor * factor, "int64") % 3
    run = partial(results, backend=backend)
    assert_same(run(lambda a, s: a[(s * factor * factor) % 3 :], A, 12345), A[start:])
    assert_same(run(lambda a, n: td.cond(n * 2 < 0, a, -a), A, 2**62), A)
    assert_same(run(lambda n: td.fill(n * n + 5, 1), 2**32), np.ones(5, int))
    assert_same(run(lambda n: td.fill(n**64 + 3, 1), 2), np.ones(3, int))
    for count, iterations in (
        (lambda n: n * n + 3, 3), (lambda n: n * n - 3, 0), (lambda n: (n << 31) >> 62, 0),
        (lambda n: -(n << 31), 0),
    ):  # fmt: skip
        step = lambda a, n, count=count: td.iterate(count(n), lambda x: x + 1, a)
        assert_same(run(step, A, 2**32), A + iterations)


def test_a_shape_that_wrapped_below_zero(backend):
    for f, n in (
        (lambda n: td.fill(n * n - 5, 1), 2**32),
        (lambda n: td.fill((3, n + 2**62), 1), 2**62),
        (lambda n: td.iota(abs(n)), -(2**63)),
        (lambda n: td.generate(n // -1, lambda i: i), -(2**63)),
    ):
        with pytest.raises(td.ShapeError, match="extents cannot be negative"):
            td.jit(f, backend=backend)(n)


def test_loops_and_calls_say_what_runs(backend):
    """Bounds, extents, counts and predicates that only a kernel can compute."""
    twice = numba.njit(lambda n: 2 * n)
    values = {
        "while": lambda n: td.while_loop(lambda s: s < n, lambda s: s + 1, 0),
        "loop": lambda n: td.loop(n, lambda k, s: s + k, 0),
        "foreign": lambda n: td.foreign(twice, n) - 3,
        "chosen": lambda n: td.cond(n > 0, td.while_loop(lambda s: s < n, lambda s: s + 1, 0), 1),
    }
    for name, value in values.items():
        if name == "foreign" and backend == "cuda":
            continue  # compiled for a GPU that is there
        f = lambda a, n, value=value: (
            a[value(n) :],
            td.fill(value(n), 1),
            td.iterate(value(n), lambda x: x + 1, a),
            td.cond(value(n) > 2, a, -a),
            td.arange(value(n), 5),
        )
        want = (A[3:], np.ones(3, int), A + 3, A, np.arange(3, 5))
        assert_same(results(f, A, 3, backend=backend), want, label=name)
