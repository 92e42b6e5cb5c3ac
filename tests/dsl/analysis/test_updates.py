"""Which permutes give every source a target of its own."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.analysis.updates import is_one_to_one, parted
from treadle.dsl.expr import TRUE
from treadle.dsl.graph import ArrayLoop, Permute, topological
from treadle.dsl.target import CUDA, NATIVE
from treadle.skeletons.lower.lower import LoweringContext, lower

A = np.zeros((6, 7))
AT = np.array([1, 2, 2])


def permute(build, *arguments) -> Permute:
    """The permute of a program, with its guards."""
    (root,) = td.jit(build, backend="native").lower(*arguments or (A,)).roots
    assert isinstance(root.node, Permute)
    return root.node


APART = {
    "slices": lambda a: td.update(a, (slice(1, 3), slice(None, None, -2)), 1.0),
    "an integer": lambda a: td.update(a, (2, slice(3)), 1.0),
    "an element": lambda a: td.update(a, (2, 3), 1.0),
    "None": lambda a: td.update(a, (None, slice(2)), 1.0),
    "one of a slice": lambda a: td.update(a, (slice(2, 3), 0), 1.0),
    "transposed": lambda a: td.permute(
        td.overwrite, a, lambda j, i: (i, j), td.iota(42).reshape(7, 6)
    ),
    "added": lambda a: a.at[1:, ::3].add(1.0),
    "read": lambda a: td.update(a, td.the(td.argmax(a.real[0])), 1.0),
}  # fmt: skip
TOGETHER = {
    "an array": lambda a: td.update(a, AT, 1.0),
    "a diagonal": lambda a: td.permute(td.overwrite, a, lambda i, j: (i, i), td.ones((6, 6))),
    "one axis of two": lambda a: td.permute(td.overwrite, a, lambda i, j: (i, 0), td.ones((6, 6))),
    "modulo": lambda a: td.permute(td.overwrite, a, lambda i: (i % 2, 0), td.ones(6)),
    "a step that wraps": lambda a: td.permute(
        td.overwrite, a, lambda i: (i * (1 << 62), 0), td.ones(6)
    ),
    "a step of the run": lambda a: td.permute(
        td.overwrite, a, lambda i: (i * a.shape[0], 0), td.ones(6)
    ),
    "a line of two axes": lambda a: td.permute(
        td.overwrite, td.flatten(a), lambda i, j: i * 7 + j, td.ones((6, 7))
    ),
}


@pytest.mark.parametrize("name", [*APART, *TOGETHER])
def test_one_to_one(name):
    assert is_one_to_one(permute({**APART, **TOGETHER}[name])) == (name in APART)


def test_guards():
    """None for slices, whatever their bounds; one condition for a launch for integers."""
    for bounds in (slice(None, None, -3), slice(-3, 99, 2), slice(1, None, 3), slice(2, -1, -3)):
        assert permute(lambda a, s=bounds: a.at[s, s].add(1.0)).valid is TRUE
    inner = permute(lambda a, n: a.at[::-3, ::-3].add(n), A, A[:2, :3])
    assert inner.valid is TRUE  # the extents of n are those of the slice
    column = permute(lambda a, k: td.update(a, (slice(1, None), k), 1.0), A, 3)
    fixed, rest = parted(column.valid)
    assert fixed is not TRUE and rest is TRUE
    fixed, rest = parted(permute(TOGETHER["an array"]).valid)
    assert fixed is TRUE and rest is not TRUE


def test_slices_by_the_counter_of_a_loop_have_no_guards():
    """A counter is never negative; k − 1 may be."""

    def valid(start):
        step = lambda k, a: a.at[start(k) :, k + 2 :].add(td.iota(a.shape[1])[: start(k)].sum())
        loop = td.jit(lambda a: td.loop(a.shape[0], step, a), backend="native").lower(A)
        (node,) = (n for n in topological(loop.roots) if isinstance(n, ArrayLoop))
        (update,) = (n for n in topological(node.body) if isinstance(n, Permute))
        return update.valid

    assert valid(lambda k: k) is TRUE and valid(lambda k: 3 * k + 1) is TRUE


@pytest.mark.parametrize("target", [NATIVE, CUDA], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", APART)
def test_no_locks_and_no_order(name, target):
    """Nor for complex numbers and tuples, nor with `deterministic=True`."""
    kinds = {"real": lambda a: a, "complex": lambda a: a.astype(td.complex128)}
    if name not in ("added", "transposed", "read"):
        kinds["tuples"] = lambda a: td.zip(a, a)
    for label, kind in kinds.items():
        for deterministic in (False, True):
            with td.config(deterministic=deterministic):
                node = permute(lambda a, kind=kind: updated(name, kind(a)))
            lowered = lower(node, LoweringContext(target=target))
            assert {k.name.split("_line")[0].split("_")[1] for k in lowered.kernels} == {
                "stores"
            }, label
            assert not lowered.scratch


def updated(name, a):
    """The first component of a changed array."""
    if a.structure.is_leaf:
        return APART[name](a)
    index = {
        "slices": (slice(1, 3), slice(None, None, -2)),
        "an integer": (2, slice(3)),
        "an element": (2, 3),
        "None": (None, slice(2)),
        "one of a slice": (slice(2, 3), 0),
    }
    return td.unzip(td.update(a, index[name], (1.0, 2.0)))[0]


def test_what_an_inner_branch_returns_is_read() -> None:
    """An update that runs before branches, which return the state that it would overwrite."""

    def f(start, lengths, n, where):
        def step(k, state):
            t, at = state
            new = t.at[n % 2].set(7)
            new, other = td.loop(lengths[1], lambda j, s: (new, at), (new, at))
            outer, inner = t[k] == 3, t[at] != n
            changed, place = td.cond(inner, new, t), td.cond(inner, other, at)
            return td.cond(outer, changed, t), td.cond(outer, place, at)

        return td.loop(2, step, (start, where))

    for start in ([4, 5], [3, 5], [3, 3]):
        args = np.array(start), np.array([0, 2]), 1, 0
        found, want = (td.jit(f, backend=b)(*args) for b in ("native", "reference"))
        assert all(map(np.array_equal, found, want))
