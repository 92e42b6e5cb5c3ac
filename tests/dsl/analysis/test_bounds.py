"""Indices that are inside whatever the extents: what slices, reversals and joins read, and what
they do not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import treadle as td
from treadle.dsl.analysis.bounds import RULES, exact
from treadle.dsl.expr import Apply, Index, Read, Var, walk
from treadle.dsl.graph import Generate, topological
from treadle.dsl.passes.tested import may_be_outside
from treadle.dsl.primitives import TABLE
from treadle.dsl.types import as_type, int64

INSIDE = {
    "slice": lambda a, n: a[1:-1],
    "from": lambda a, n: a[3:],
    "to": lambda a, n: a[:4],
    "last": lambda a, n: a[-3:],
    "every second": lambda a, n: a[::2],
    "every third from": lambda a, n: a[1::3],
    "backwards": lambda a, n: a[::-1],
    "run-time start": lambda a, n: a[n:],
    "run-time stop": lambda a, n: a[:n],
    "slices of slices": lambda a, n: a[1:][:-1],
    "turned": lambda a, n: a[:, None].T,
    "rows": lambda a, n: td.replicate(a, 3, 0)[:, 1:],
}
OUTSIDE = {
    "one more": lambda a, n: td.generate(a.shape[0], lambda i: a[i + 1]),
    "one less": lambda a, n: td.generate(a.shape[0], lambda i: a[i - 1]),
    "twice": lambda a, n: td.generate(a.shape[0], lambda i: a[2 * i]),
    "a number": lambda a, n: td.generate(3, lambda i: a[i]),
    "a number of the run": lambda a, n: td.generate(a.shape[0], lambda i: a[n]),
    "shifted": lambda a, n: td.generate(a.shape[0], lambda i: a[i + n]),
    "data": lambda a, n: td.generate(a.shape[0], lambda i: a[td.cast(a[i], td.int64)]),
    "longer": lambda a, n: td.generate(a.shape[0] + 1, lambda i: a[i]),
    "backwards": lambda a, n: td.generate(a.shape[0], lambda i: a[a.shape[0] - i]),
    "a number in a domain of unknown extent": lambda a, n: td.generate(
        td.cast(td.the(td.sum(a)), td.int64), lambda i: a[n // 3]
    ),
    "minimum": lambda a, n: td.generate(
        td.maximum(a.shape[0], n), lambda i: a[td.minimum(i, n)]
    ),
}  # fmt: skip


def reads(f):
    """The reads of `a` in what a function makes, with their domains."""
    program = td.jit(f, backend="reference").lower(np.arange(9.0), 2)
    for node in topological(program.source_roots):
        if isinstance(node, Generate):
            for e in walk(node.elements):
                if isinstance(e, Read):
                    yield e, node.iteration_space()


@pytest.mark.parametrize("name", INSIDE)
def test_inside(name):
    found = list(reads(INSIDE[name]))
    assert found and not any(may_be_outside(e, over) for e, over in found)


@pytest.mark.parametrize("name", OUTSIDE)
def test_perhaps_outside(name):
    assert any(may_be_outside(e, over) for e, over in reads(OUTSIDE[name]))


def test_what_is_proved_holds():
    """Of all slices of small arrays, evaluated."""
    steps = [slice(*b) for b in itertools.product((None, 0, 2, -2), (None, 1, -1, 3), (1, 2, -1))]
    for cut in steps:
        for e, over in reads(lambda a, n, cut=cut: a[cut]):
            if may_be_outside(e, over):
                continue
            for size in range(5):
                assert _places(e.args[0], over[0], size) <= set(range(size)), (cut, size)


def _places(index, extent, size):
    """Where an index of one axis is for an array of this extent."""
    from treadle.dsl.expr import Const, Extent, constant, rewrite, substitute

    def at(root, i):
        (root,) = substitute((root,), {Index(0): constant(i)})
        (made,) = rewrite((root,), lambda x: constant(size) if isinstance(x, Extent) else x)
        assert isinstance(made, Const), made
        return int(made.value)

    return {at(index, i) for i in range(max(at(extent, 0), 0))}


@pytest.mark.parametrize("op", sorted(RULES))
def test_ranges_hold_every_result(op):
    """Each rule against the primitive itself, for all operands in all small ranges."""
    if op in ("also", "cast"):
        return
    rule, primitive = RULES[op], TABLE[op]
    arity = rule.__code__.co_argcount
    ends = [(low, high) for low in (-5, -1, 0, 2) for high in (-3, 0, 1, 4, 7) if low <= high]
    predicates = [(0, 1)] if op == "select" else ends
    choices = (
        [predicates, *([ends] * (arity - 1))] if arity < 3 else [predicates, ends[::3], ends[::4]]
    )
    for ranges in itertools.product(*choices[:arity]):
        kinds = ["bool" if op == "select" and k == 0 else "int64" for k in range(arity)]
        axes = [
            np.arange(low, high + 1).astype(kind)
            for (low, high), kind in zip(ranges, kinds, strict=True)
        ]
        variables = [Var(f"v{k}", as_type(kind)) for k, kind in enumerate(kinds)]
        e = Apply(primitive, tuple(variables), int64)
        found = e.value(np.meshgrid(*axes, indexing="ij"))
        low, high = exact(op, int64, ranges)
        assert low <= found.min() and found.max() <= high, (ranges, low, high)
