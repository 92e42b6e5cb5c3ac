"""However an argument lies in memory, every operation gives what it gives for a dense copy.

The operations are those of docs/reference.md, which has an example of each public name, and the
programs of tests/dsl/zoo.py.
"""

from __future__ import annotations

import types

import numpy as np
import pytest

import treadle as td
from tests.docs import reference_page
from tests.dsl.zoo import ZOO

from .helpers import assert_same, devices


def broadcast(a):
    """All rows are the first one: no stride along axis 0."""
    return np.broadcast_to(a[:1], a.shape) if a.ndim else a


def strided(a):
    """Every second element along all axes of a larger array."""
    wide = np.zeros([2 * n for n in a.shape], a.dtype)
    wide[...] = 1
    view = wide[(slice(None, None, 2),) * a.ndim]
    view[...] = a
    return view


def reversed_(a):
    """Negative strides along all axes."""
    backwards = (slice(None, None, -1),) * a.ndim
    return np.array(a[backwards])[backwards]


def unaligned(a):
    made = np.zeros(a.nbytes + 1, "u1")[1:].view(a.dtype).reshape(a.shape)
    made[...] = a
    return made


def read_only(a):
    made = np.array(a, order="F")
    made.flags.writeable = False
    return made


#: By name, a function that gives an array of the same values (of its first row's) lain otherwise.
LAYOUTS = {
    "columns": lambda a: np.array(a, order="F"),
    "every second": strided,
    "backwards": reversed_,
    "turned": lambda a: np.array(a.T[::-1], order="C")[::-1].T,
    "broadcast": broadcast,
    "unaligned": unaligned,
    "read-only columns": read_only,
    "swapped bytes": lambda a: a.astype(a.dtype.newbyteorder(), order="F"),
    "empty": lambda a: np.array(a[:0], order="F") if a.ndim else a,
}

#: What makes the arrays that examples write down.
MAKERS = ("array", "zeros", "ones", "arange")
ROWS = [row for row in reference_page.rows() if row.example.startswith("td.")]
OPERATIONS = {
    row.names[0]: row.example
    for row in ROWS
    if callable(getattr(td, row.names[0], None)) and not isinstance(getattr(td, row.names[0]), type)
}


def numpy_with(layout):
    """`np`, whose new arrays lie so."""
    made = types.SimpleNamespace(**{n: getattr(np, n) for n in dir(np) if not n.startswith("_")})
    for name in MAKERS:
        maker = getattr(np, name)
        setattr(made, name, lambda *a, _m=maker, **k: layout(_m(*a, **k)))
    return made


def example_in(example, layout, backend):
    """What an example gives when all its arrays are laid out so, or the class of its error."""
    page = reference_page.preamble()
    names = {k: layout(v) if isinstance(v, np.ndarray) else v for k, v in page.items()}
    names["np"] = numpy_with(layout)
    names["least"] = td.min(names["v"]) if names["v"].size else td.unit(0)
    try:
        with td.config(backend=backend, check=not names["v"].size):
            return _computed(eval(example, names))
    except (td.TreadleError, ValueError, TypeError) as error:
        return type(error)


def _computed(value):
    """The arrays of an expression; None for what is none."""
    if isinstance(value, td.Array | td.Scalar):
        return td.run(value)
    if isinstance(value, tuple) and all(isinstance(v, td.Array | td.Scalar) for v in value):
        return td.run(value)
    return value if isinstance(value, np.ndarray) else None


def add(x, y):
    return x + y


RNG = np.random.default_rng(11)
A, B = RNG.integers(-50, 50, (2, 53, 67))
AT = RNG.integers(0, 53, 31)
CUBE = RNG.integers(-9, 9, (3, 5, 70))

#: Operations on whole arrays of several axes, some of them large enough for tiles.
LARGER = {
    "scatter of rows": (lambda a, at, b: td.scatter(a, at, b[:31]), (A, np.unique(AT), B)),
    "scatter with sums": (lambda a, at, b: td.scatter(a, at, b[:31], add), (A, AT, B)),
    "permute": (lambda a, b: td.permute(add, a, lambda i, j: (i, (3 * j) % 67), b), (A, B)),
    "overwriting pairs": (
        lambda a, b: td.permute(
            td.overwrite, td.zip(a, b), lambda i, j: (52 - i, 66 - j), td.zip(b, a)
        ),
        (A, B),
    ),
    "permute of planes": (
        lambda a: td.permute(add, a, lambda i, j, k: (i, 4 - j, k), a * 2),
        (CUBE,),
    ),
    "defaults from a scan": (
        lambda a: td.permute(
            add, td.scanl_total(add, 0, a, axis=0)[1], lambda i, j: (i, 69 - j), a[0]
        ),
        (CUBE,),
    ),
    "rolled and joined": (
        lambda a, b: td.concatenate([td.roll(a, 1, 1), b, td.roll(a.T, 2, 0).T], axis=1),
        (A, B),
    ),
    "stencil, turned": (
        lambda a: td.stencil(lambda w: w[-1, 0] + 2 * w[0, 1], a.T, boundary=td.mirror) + a.T,
        (A,),
    ),
    "products": (lambda a, b: (a @ b.T, td.tensordot(a, b, 2)), (A, B)),
    "a loop": (lambda a, b: td.loop(3, lambda k, s: td.roll(s, 1, 0) + b * k, a), (A, B)),
    "a branch": (lambda a, b: td.cond(td.the(td.sum(a)) > 0, a.T, b.T), (A, B)),
    "as they are": (lambda a, b: (a, td.compute(b), td.use(a)), (A, B)),
    "sorted": (lambda a: (td.sort(a, axis=0), td.argsort(a, axis=1)), (A,)),
    "rows of planes": (lambda a: (td.transpose(a, (2, 0, 1)) + 1, td.sum(a, axis=1)), (CUBE,)),
}
PROGRAMS = {**ZOO, **LARGER}


def program_in(name, layout, backend):
    function, arguments = PROGRAMS[name]
    arguments = [layout(a) if isinstance(a, np.ndarray) else a for a in arguments]
    given = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        # (Some of them read at places that an empty array has not.)
        with td.config(check=any(not np.size(a) for a in arguments)):
            found = td.jit(function, backend=backend)(*arguments)
    except td.TreadleError as error:
        return type(error)
    for argument, copy in zip(arguments, given, strict=True):
        assert np.array_equal(argument, copy, equal_nan=True), "an argument has changed"
    return found


def dense(layout):
    """The same values, C-contiguous, aligned and in native byte order."""
    return lambda a: np.array(layout(a), a.dtype.newbyteorder("="), order="C")


def agree(what, make, names, backend):
    """`make(name, layout, backend)` for every pair gives what dense copies give the reference."""
    wrong, refused = [], []
    for name, layout in names:
        view = LAYOUTS[layout]
        want = make(name, dense(view), "reference")
        got = make(name, view, backend)
        if got is td.DistributionError and devices():
            refused.append(name)
            continue
        try:
            if isinstance(want, type) or isinstance(got, type):
                assert got is want, f"{got}, not {want}"
            elif want is not None:
                assert_same(got, want, ulps=1 << 30, label=name)
                _close(got, want)
        except AssertionError as error:
            wrong.append(f"{what} {name}, {layout}: {error}")
    assert not wrong, "\n".join(wrong)
    if refused:
        raise td.DistributionError(f"{what} {', '.join(refused)}")


def _close(got, want):
    """Sums may round otherwise in other layouts."""
    if isinstance(want, np.ndarray):
        if want.dtype.kind in "fc":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-9)
    elif isinstance(want, dict):
        _close(list(got.values()), list(want.values()))
    elif isinstance(want, tuple | list):
        for mine, theirs in zip(got, want, strict=True):
            _close(mine, theirs)


def rotated(names, rotation):
    """Each name with one layout, another one in each rotation."""
    layouts = list(LAYOUTS)
    return [(name, layouts[(k + rotation) % len(layouts)]) for k, name in enumerate(names)]


ROTATIONS = [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, len(LAYOUTS)))]


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_every_public_operation(backend, rotation):
    names = rotated(OPERATIONS, rotation)
    agree("td.", lambda n, lay, on: example_in(OPERATIONS[n], lay, on), names, backend)


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_programs(backend, rotation):
    agree("the program", program_in, rotated(PROGRAMS, rotation), backend)


@pytest.mark.sample(4)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_defaults_are_written(backend, layout):
    """What is written is written into a copy of the defaults, however they lie."""
    names = [(name, layout) for name in LARGER if "permute" in name or "scatter" in name]
    agree("the program", program_in, names, backend)


def test_tables_that_kernels_of_a_call_bring(check):
    """Kernels made during a call may be the first to need the array of a schedule."""
    a = np.arange(6).reshape(2, 3)
    table = td.schedule.Table([5, 1, 3, 0, 2, 4], (2, 3))
    piece = td.schedule.Table([1, 0], (2, 1)) | td.schedule.Block(1, 3)
    views = (a, a.T.copy().T, np.arange(60).reshape(10, 6)[::5, ::2])
    cases = {}
    for number, x in enumerate(views):
        for name, s in (("elements", table), ("blocks", piece)):
            cases[f"permute {name} {number}"] = (
                lambda x=x, s=s: td.permute(td.overwrite, x, lambda i, j: (i, j), x, schedule=s),
                x,
            )
            cases[f"sums {name} {number}"] = (
                lambda x=x, s=s: td.permute(
                    lambda p, q: p + q, td.zeros((3,), int), lambda i, j: j, x, schedule=s
                ),
                x.sum(0),
            )
    check(cases)
