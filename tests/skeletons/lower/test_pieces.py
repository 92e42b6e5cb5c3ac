"""Which programs can be computed in pieces along the leading axis, and what a piece needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import treadle as td
from treadle.skeletons.lower.pieces import NotDivisible, Pieces, pieces_of

A = np.arange(48, dtype="f4").reshape(8, 6)
ROW, COLUMN, LINE = A[0], A[:, :1], A[:, 0]
NUMBERS = A.astype("i4")


def program_of(function, *args, **options):
    return td.jit(function, backend="reference", **options).lower(*args)._on("cuda")


def how(function, *args):
    program = program_of(function, *args)
    return pieces_of(program.roots, program.inputs)


def blurred(a, boundary, up=-1, down=1):
    return td.stencil(lambda w: w[up, 0] + w[down, 0] + w[0, 1], a, boundary=boundary)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (lambda a, b: td.sqrt(a * b + 1), (A, A), Pieces((0, 1))),
        (lambda a, s: a * s, (LINE, 2.0), Pieces((0,))),
        (lambda a, b: td.map(lambda x: x + b[0], a), (LINE, ROW), Pieces((0,))),
        (lambda a, r, c: a * r + c, (A, ROW, COLUMN), Pieces((0, 2))),
        (lambda a, t: td.map(lambda k: t[k], a), (NUMBERS, ROW), Pieces((0,))),
        (lambda a, b: td.outer(a, b), (LINE, ROW), Pieces((0,))),
        (lambda a: a[:, ::-2], (A,), Pieces((0,))),
        (lambda a, b: td.concatenate([a, b], axis=1), (A, A), Pieces((0, 1))),
        (lambda a: td.roll(a, 1, axis=1), (A,), Pieces((0,))),
        (lambda a: td.max(a, axis=1), (A,), Pieces((0,))),
        (lambda a: td.cumsum(a, axis=1), (NUMBERS,), Pieces((0,))),
        (lambda a: td.compute(a + 1) * 2, (A,), Pieces((0,))),
        (lambda a, b: (a + b, td.argmin(b, axis=1)), (A, A), Pieces((0, 1))),
        (lambda a: blurred(a, td.clamp, -1, 2), (A,), Pieces((0,), 1, 2)),
        (lambda a: blurred(a, td.constant(1.0), -3, 0), (A,), Pieces((0,), 3, 0)),
        (lambda a, b: blurred(a, td.mirror) * b, (A, A), Pieces((0, 1), 1, 1)),
        (
            lambda a: blurred(td.compute(blurred(a, td.clamp, -2, 0)), td.clamp),
            (A,),
            Pieces((0,), 3, 1),
        ),
        (
            lambda a: td.stencil(lambda w: w[0, 1] + w[0, -1], a, boundary=td.wrap),
            (A,),
            Pieces((0,)),
        ),
        (lambda a: blurred(a, td.symmetric, -2, 0), (A,), Pieces((0,), 2, 2)),
        (lambda a: a, (A,), Pieces((0,))),
    ],
)
def test_programs_in_pieces(function, args, expected):
    assert how(function, *args) == expected


@pytest.mark.parametrize(
    ("function", "args", "why"),
    [
        (lambda a: a + td.iota(a.shape[0]), (LINE,), "computes with the leading index"),
        (lambda a: a / a.shape[0], (LINE,), "computes with the leading extent"),
        (
            lambda a: td.generate(a.shape, lambda i, j: td.cast(i, "f4") + a[i, j]),
            (A,),
            "the leading index",
        ),
        (lambda a: td.generate(a.shape, lambda i: a[i ^ 1]), (LINE,), "other rows"),
        (lambda a: td.generate(a.shape, lambda i: a[a.shape[0] - 1 - i]), (LINE,), "other rows"),
        (lambda a: a.T, (A,), "no argument's leading extent"),
        (lambda a: a[1:], (LINE,), "no argument's leading extent"),
        (lambda a: a.flatten(), (A,), "no argument's leading extent"),
        (lambda a: td.sum(a), (A,), "makes a single number"),
        (lambda a: td.sum(a, axis=0), (A,), "no argument's leading extent"),
        (lambda a: td.sum(a, axis=1), (A[:, :, None],), "rounds depends on how many rows"),
        (lambda a: td.cumsum(a, axis=1), (A,), "rounds depends on how many rows"),
        (lambda a: td.cumsum(a, axis=0), (NUMBERS,), "goes along the leading axis"),
        (lambda a: td.outer(a, a), (LINE,), "other rows than its own"),
        (lambda a: a + td.max(a, axis=0), (A,), "needs the whole of"),
        (lambda a, b: a * td.max(b), (A, A), "needs the whole of"),
        (lambda a: a @ a.T, (A,), "works on whole arrays"),
        (lambda a: td.bincount(a, minlength=8), (LINE.astype("i4"),), "no argument's"),
        (lambda a: td.iterate(3, lambda x: x * 2, a), (A,), "works on whole arrays"),
        (lambda a, s: td.cond(s > 0, a + 1, a - 1), (A, 1.0), "works on whole arrays"),
        (lambda a: blurred(a, td.wrap), (A,), "with boundary wrap"),
        (
            lambda a: blurred(a, td.function(lambda i, j: td.cast(j, "f4"))),
            (A,),
            "with boundary function",
        ),
        (
            lambda a: td.stencil(
                lambda w: w[0, 1], a, boundary=td.function(lambda i, j: td.cast(i, "f4"))
            ),
            (A,),
            "beyond the edge depends on the row",
        ),
        (lambda a: (a + 1).scheduled(td.schedule.Column(32)), (A,), "has a schedule"),
        (lambda a: td.fill((4,), 1.0), (A,), "no argument's leading extent"),
        (lambda a, b: td.concatenate([a, b]), (LINE, LINE), "no argument's leading extent"),
    ],
)
def test_programs_that_run_whole(function, args, why):
    with pytest.raises(NotDivisible, match=why):
        how(function, *args)


def test_indices_that_errors_tell_are_those_of_whole_arrays():
    program = program_of(lambda a: a + 1, A)
    with pytest.raises(NotDivisible, match="checked mode"):
        pieces_of(program.roots, program.inputs, check=True)


def test_explain_says_how_arrays_of_the_host_are_copied():
    assert "go in pieces of" in program_of(lambda a: a + 1, A).explain()
    text = program_of(lambda a: td.sum(a), A).explain()
    assert "copied whole, not in pieces: sum at test_pieces.py:" in text


# --- any program ------------------------------------------------------------------------------

NEAR = (td.clamp, td.mirror, td.symmetric, td.constant(3))
UNARY = (
    lambda a: a * 3 - 1,
    lambda a: td.roll(a, 2, axis=1),
    lambda a: a[:, ::-1],
    lambda a: td.compute(a) ^ 5,
    lambda a: td.cumsum(a, axis=1),
    lambda a: td.generate(a.shape, lambda i, j: a[i, j] + td.cast(j, "int32")),
    lambda a: a - td.max(a, axis=1)[:, None],
    # What cannot be cut, to be found out:
    lambda a: a[::-1],
    lambda a: a + td.cumsum(a, axis=0),
    lambda a: td.generate(a.shape, lambda i, j: a[i, j] + td.cast(i, "int32")),
    lambda a: td.roll(a, 1, axis=0),
    lambda a: a + td.cast(a.shape[0], "int32"),
)


#: Operations of a program: which kind, and which one of the kind.
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), min_size=1, max_size=4)


def written(steps):
    """A function of two arrays of one shape and one of the shape of their rows."""

    def function(a, b, row):
        made = [a, b]
        for kind, choice in steps:
            x, y = made[-1], made[choice % len(made)]
            if kind == 0:
                x = UNARY[choice % len(UNARY)](x)
            elif kind == 1:
                x = x * 2 + y
            elif kind == 2:
                x = x + row
            else:
                up, down = choice % 3, choice // 3 % 3
                x = td.stencil(
                    lambda w, up=up, down=down: w[-up, 0] * 3 + w[down, -1],
                    x,
                    boundary=NEAR[choice % 4],
                )
            made.append(x)
        return made[-1]

    return function


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 8))
def test_pieces_of_any_program_are_rows_of_the_whole(steps, rows):
    a = (np.arange(11 * 5, dtype="i4").reshape(11, 5) * 7919) % 101
    args = (a, a[::-1] * 3, a[4])
    program = td.jit(written(steps), backend="reference").lower(*args)
    fused = program._on("cuda")
    try:
        found = pieces_of(fused.roots, fused.inputs)
    except NotDivisible:
        return
    whole = program(*args)
    for first in range(0, len(a), rows):
        start = max(first - found.before, 0)
        stop = min(first + rows + found.after, len(a))
        given = [x[start:stop] if k in found.cut else x for k, x in enumerate(args)]
        piece = program(*given)[first - start :][:rows]
        np.testing.assert_array_equal(piece, whole[first : first + rows])
