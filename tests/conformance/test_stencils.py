"""Stencils, correlate and convolve: every rank, every boundary, arrays of any size."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.ndimage

import treadle as td

from .helpers import EXTENTS, NUMBERS, assert_same, generator, neighbour, small, wide

NAMED = ("clamp", "mirror", "symmetric", "wrap")
SCIPY_MODES = {"clamp": "nearest", "mirror": "mirror", "symmetric": "reflect", "wrap": "wrap"}


def boundaries():
    """(label, treadle's boundary, the oracle's)."""
    named = [(name, getattr(td, name), name) for name in NAMED]
    return [
        *named,
        ("constant", td.constant(7), ("constant", 7)),
        ("function", td.function(by_coordinates), ("function", by_coordinates)),
    ]


def by_coordinates(*source):
    return sum((3 + 10 * k) * i for k, i in enumerate(source)) + 1000


BOUNDARIES = ("clamp", "mirror", "symmetric", "wrap", "constant", "function")


def boundary_named(label, rank):
    """The boundary of that label for arrays of that rank."""
    del rank
    return next((mine, theirs) for name, mine, theirs in boundaries() if name == label)


def weighted(offsets):
    """A kernel with one distinct weight per offset (so that no two taps can be exchanged)."""
    weights = [2 * k + 1 for k in range(len(offsets))]

    def kernel(w):
        return sum(c * w[o] for c, o in zip(weights, offsets, strict=True))

    def oracle(a, boundary):
        terms = zip(weights, offsets, strict=True)
        with np.errstate(all="ignore"):
            total = np.zeros_like(a)
            for c, o in terms:
                offset = o if isinstance(o, tuple) else (o,)
                total = total + a.dtype.type(c) * neighbour(a, offset, boundary)
        return total

    return kernel, oracle


OFFSETS_1D = (-3, -1, 0, 2)
OFFSETS_2D = ((-1, 0), (0, -2), (0, 0), (0, 1), (2, 1), (-1, -1))
OFFSETS_3D = ((0, 0, 0), (-1, 0, 0), (0, 2, 0), (0, 0, -1), (1, -1, 2))


@pytest.mark.sample(3)
@pytest.mark.parametrize("label", BOUNDARIES)
def test_one_dimension(check, label):
    kernel, oracle = weighted(OFFSETS_1D)
    far_kernel, far_oracle = weighted((-40, 0, 35))
    mine, theirs = boundary_named(label, 1)
    cases = {}
    for n in (0, 1, 2, 3, 4, 31, 33, 257):
        a = wide("int64", n)
        cases[f"{n}"] = (lambda a=a: td.stencil(kernel, a, boundary=mine), oracle(a, theirs))
        cases[f"far {n}"] = (
            lambda a=a: td.stencil(far_kernel, a, boundary=mine),
            far_oracle(a, theirs),
        )
    check(cases)


@pytest.mark.sample(2)
@pytest.mark.parametrize("label", BOUNDARIES)
def test_two_dimensions(check, label):
    kernel, oracle = weighted(OFFSETS_2D)
    mine, theirs = boundary_named(label, 2)
    cases = {}
    for shape in ((1, 1), (1, 5), (5, 1), (2, 2), (2, 3), (0, 4), (4, 0), (5, 33), (32, 31)):
        a = wide("int64", shape)
        cases[f"{shape}"] = (lambda a=a: td.stencil(kernel, a, boundary=mine), oracle(a, theirs))
    check(cases)


@pytest.mark.sample(2)
@pytest.mark.parametrize("label", BOUNDARIES)
def test_three_dimensions(check, label):
    kernel, oracle = weighted(OFFSETS_3D)
    mine, theirs = boundary_named(label, 3)
    cases = {}
    for shape in ((1, 1, 1), (3, 4, 5), (1, 2, 9), (2, 0, 3), (2, 1, 1)):
        a = wide("int64", shape)
        cases[f"{shape}"] = (lambda a=a: td.stencil(kernel, a, boundary=mine), oracle(a, theirs))
    check(cases)


def numbered(a):
    """An array whose elements know their places."""
    if isinstance(a, np.ndarray):
        return a + 3 * np.arange(a.shape[0])[:, None] + np.arange(a.shape[1])
    return td.imap(lambda i, j, x: x + 3 * i + j, a)


VIEWS = {
    "slice": lambda a: a[1:-1, 2:],
    "steps": lambda a: a[1::2, ::3],
    "turned": lambda a: a.T[:, 1:],
    "reversed": lambda a: a[::-1, ::-1],
    "of a computed array": lambda a: (a * 3 + 1)[2:, :-1],
    "with its indices": lambda a: numbered(a[1:]),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("label", BOUNDARIES)
def test_views(check, label):
    """A border of a view is where the view ends, not its array."""
    kernel, oracle = weighted(OFFSETS_2D)
    mine, theirs = boundary_named(label, 2)
    cases = {}
    for shape in ((2, 3), (4, 4), (20, 66)):
        a = wide("int64", shape)
        for name, view in VIEWS.items():
            seen = np.ascontiguousarray(view(a))
            cases[f"{name} {shape}"] = (
                lambda a=a, view=view: td.stencil(kernel, view(td.use(a)), boundary=mine),
                oracle(seen, theirs),
            )
    check(cases)


def test_run_time_extents(backend):
    """The same compiled stencil for every extent, arrays smaller than the stencil included."""
    kernel, oracle = weighted(OFFSETS_2D)

    @td.jit(backend=backend)
    def program(a):
        return [td.stencil(kernel, a, boundary=b) for b in (td.clamp, td.mirror, td.wrap)]

    for shape in ((2, 2), (3, 2), (2, 40), (40, 3), (33, 65), (5, 1), (0, 3)):
        a = wide("int64", shape, 1)
        want = [oracle(a, name) for name in ("clamp", "mirror", "wrap")]
        assert_same(program(a), want, label=f"{shape}")


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [n for n in EXTENTS if n > 100])
def test_large_arrays(check, n):
    a = wide("int32", n)
    rows = wide("int32", (3, n))
    kernel, oracle = weighted((-2, -1, 0, 1, 2))
    box, box_oracle = weighted(tuple((i, j) for i in (-1, 0, 1) for j in (-2, -1, 0, 1, 2)))
    check(
        {
            "line": (lambda: td.stencil(kernel, a), oracle(a, "clamp")),
            "rows": (lambda: td.stencil(box, rows, boundary=td.mirror), box_oracle(rows, "mirror")),
            "columns": (
                lambda: td.stencil(box, rows.T, boundary=td.wrap),
                box_oracle(rows.T, "wrap"),
            ),
        }
    )


def test_clamp_is_the_default_and_mirror_repeats_a_single_element(check):
    a = np.array([5, 6, 7])
    one = np.array([[9]])
    check(
        {
            "default": (
                lambda: td.stencil(lambda w: w[-1] * 100 + w[1], a),
                np.array([506, 507, 607]),
            ),
            "mirror": (
                lambda: td.stencil(lambda w: w[-1] * 100 + w[1], a, boundary=td.mirror),
                np.array([606, 507, 606]),
            ),
            "symmetric": (
                lambda: td.stencil(lambda w: w[-2] * 100 + w[2], a, boundary=td.symmetric),
                np.array([607, 507, 506]),
            ),
            "wrap": (
                lambda: td.stencil(lambda w: w[-1] * 100 + w[1], a, boundary=td.wrap),
                np.array([706, 507, 605]),
            ),
            "mirror of one": (
                lambda: td.stencil(lambda w: w[-3, 2] * 10 + w[0, 1], one, boundary=td.mirror),
                np.array([[99]]),
            ),
        }
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ("bool", *NUMBERS))
def test_every_element_type(check, name):
    a = small(name, (6, 9), low=-2, high=3)

    def kernel(w):
        return w[-1, 0] + w[0, -1] + w[0, 1] + w[1, 0]

    cases = {}
    for label, mine, theirs in boundaries():
        if label in ("function", "constant"):
            continue
        taps = [neighbour(a, o, theirs) for o in ((-1, 0), (0, -1), (0, 1), (1, 0))]
        cases[label] = (
            lambda b=mine: td.stencil(kernel, a, boundary=b),
            ((taps[0] + taps[1]) + taps[2]) + taps[3],
        )
    check(cases)


def test_function_boundary_is_cast_to_the_element_type(check):
    a = np.zeros((2, 3), "u1")
    f = np.zeros(3, "f4")
    i, j = np.indices((2, 3))
    check(
        {
            "wraps": (
                lambda: td.stencil(
                    lambda w: w[0, 3], a, boundary=td.function(lambda i, j: i * 1000 + j)
                ),
                (i * 1000 + j + 3).astype("u1"),
            ),
            "floats": (
                lambda: td.stencil(lambda w: w[-3], f, boundary=td.function(lambda i: i * 0.5)),
                ((np.arange(3) - 3) * 0.5).astype("f4"),
            ),
            "all coordinates, one of them inside": (
                lambda: td.stencil(
                    lambda w: w[-1, 1],
                    np.full((2, 3), 9),
                    boundary=td.function(lambda i, j: i * 100 + j),
                ),
                np.array([[-99, -98, -97], [9, 9, 3]]),
            ),
            "constant": (
                lambda: td.stencil(lambda w: w[5], f + 1, boundary=td.constant(2.5)),
                np.full(3, 2.5, "f4"),
            ),
            "captured": (lambda: captured_boundary(f), np.array([0, 0, 15], "f4")),
        }
    )


def captured_boundary(f):
    table = td.use(np.array([10.0, 15.0, 20.0], "f4"))
    return td.stencil(lambda w: w[1], f, boundary=td.function(lambda i: table[i - 2]))


def test_several_inputs(check):
    a, b = wide("int64", (5, 7), 1), small("int32", (5, 7), 2)
    c = small("float64", (5, 7), 3)

    def kernel(u, v):
        return u[-1, 0] * 3 + v[0, 2] - u[0, 0] * v[-2, 1]

    def oracle(left, right):
        with np.errstate(all="ignore"):
            return (
                neighbour(a, (-1, 0), left) * 3
                + neighbour(b, (0, 2), right)
                - a * neighbour(b, (-2, 1), right)
            )

    three = neighbour(a, (0, 1), "wrap") + neighbour(b, (1, 0), "clamp") + c
    check(
        {
            "two boundaries": (
                lambda: td.stencil(kernel, a, b, boundary=(td.wrap, td.constant(2))),
                oracle("wrap", ("constant", 2)),
            ),
            "a list of boundaries": (
                lambda: td.stencil(kernel, a, b, boundary=[td.mirror, td.symmetric]),
                oracle("mirror", "symmetric"),
            ),
            "one boundary for both": (
                lambda: td.stencil(kernel, a, b, boundary=td.mirror),
                oracle("mirror", "mirror"),
            ),
            "default": (lambda: td.stencil(kernel, a, b), oracle("clamp", "clamp")),
            "three": (
                lambda: td.stencil(
                    lambda u, v, w: u[0, 1] + v[1, 0] + w[0, 0],
                    a,
                    b,
                    c,
                    boundary=(td.wrap, td.clamp, td.clamp),
                ),
                three,
            ),
        }
    )


def test_tuple_elements(check):
    a, b = wide("int64", (4, 5), 1), small("float32", (4, 5), 2)

    def kernel(w):
        x, y = w[0, 1]
        return x - w[-1, 0][0], y + w[0, -1][1], w[1, 1][0] > 0

    for_a = {o: neighbour(a, o, "mirror") for o in ((0, 1), (-1, 0), (1, 1))}
    for_b = {o: neighbour(b, o, "mirror") for o in ((0, 1), (0, -1))}
    check(
        {
            "tuples in and out": (
                lambda: td.stencil(kernel, td.zip(a, b), boundary=td.mirror),
                (for_a[0, 1] - for_a[-1, 0], for_b[0, 1] + for_b[0, -1], for_a[1, 1] > 0),
            ),
            "constant tuple": (
                lambda: td.stencil(
                    lambda w: (w[0, -1][0], w[0, -1][1]),
                    td.zip(a, b),
                    boundary=td.constant((5, 2.5)),
                ),
                (neighbour(a, (0, -1), ("constant", 5)), neighbour(b, (0, -1), ("constant", 2.5))),
            ),
        }
    )


def test_stencils_of_computed_arrays_and_of_stencils(check):
    """Each stencil sees its input's border as its own boundary says, fused or not."""
    a = wide("int64", (9, 11))
    smooth_kernel, smooth_oracle = weighted(((-1, 0), (0, -1), (0, 0), (1, 1)))
    edge_kernel, edge_oracle = weighted(((0, -1), (0, 1), (2, 0)))

    def twice(first, second):
        smooth = td.stencil(smooth_kernel, a, boundary=first, name="smooth")
        return td.stencil(edge_kernel, smooth, boundary=second)

    i, j = np.indices((6, 7))
    grid = i * 7 - j * j
    cases = {
        "of a map": (
            lambda: td.stencil(edge_kernel, td.use(a) * 2 + 1),
            edge_oracle(a * 2 + 1, "clamp"),
        ),
        "of generate": (
            lambda: td.stencil(
                edge_kernel, td.generate((6, 7), lambda i, j: i * 7 - j * j), boundary=td.wrap
            ),
            edge_oracle(grid, "wrap"),
        ),
        "of a slice": (
            lambda: td.stencil(edge_kernel, td.use(a)[2:7, ::-2]),
            edge_oracle(a[2:7, ::-2], "clamp"),
        ),
        "then mapped": (
            lambda: td.stencil(edge_kernel, a) * 2 - td.use(a),
            edge_oracle(a, "clamp") * 2 - a,
        ),
        "shared": (lambda: gradient(a), gradient_oracle(a)),
    }
    named = [(name, mine, theirs) for name, mine, theirs in boundaries() if name != "function"]
    for name, mine, theirs in named:
        cases[f"twice {name}"] = (
            lambda b=mine: twice(td.clamp, b),
            edge_oracle(smooth_oracle(a, "clamp"), theirs),
        )
        cases[f"{name} first"] = (
            lambda b=mine: twice(b, td.mirror),
            edge_oracle(smooth_oracle(a, theirs), "mirror"),
        )
    check(cases)


def gradient(a):
    smooth = td.stencil(lambda w: w[-1, 0] + w[0, 0] + w[1, 0], a, boundary=td.mirror)
    dx = td.stencil(lambda w: w[0, 1] - w[0, -1], smooth)
    dy = td.stencil(lambda w: w[1, 0] - w[-1, 0], smooth)
    return dx * dx + dy * dy


def gradient_oracle(a):
    with np.errstate(all="ignore"):
        smooth = sum(neighbour(a, (k, 0), "mirror") for k in (-1, 0, 1))
        dx = neighbour(smooth, (0, 1), "clamp") - neighbour(smooth, (0, -1), "clamp")
        dy = neighbour(smooth, (1, 0), "clamp") - neighbour(smooth, (-1, 0), "clamp")
        return dx * dx + dy * dy


def test_life(check):
    """Several generations on a torus, against NumPy."""
    board = small("int8", (16, 33), low=0, high=2)

    def step(cells):
        def rule(w):
            around = sum(w[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
            return td.where(
                (around == 3) | ((around == 2) & (w[0, 0] == 1)), td.int8(1), td.int8(0)
            )

        return td.stencil(rule, cells, boundary=td.wrap)

    want = board
    for _ in range(4):
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        around = sum(np.roll(want, s, (0, 1)) for s in shifts)
        want = ((around == 3) | ((around == 2) & (want == 1))).astype("i1")
    check({"life": (lambda: td.iterate(4, step, td.use(board)), want)})


# ---------------------------------------------------------------------------------------------
# correlate and convolve

WINDOWS = {1: ((1,), (2,), (3,), (4,), (7,)), 2: ((3, 3), (1, 5), (4, 2), (5, 4), (2, 2))}


@pytest.mark.sample(1)
@pytest.mark.parametrize("label", (*NAMED, "constant"))
@pytest.mark.parametrize("rank", (1, 2))
def test_correlate_and_convolve_against_scipy(check, rank, label):
    """Whole numbers in float64: exact; even and odd windows have SciPy's centres."""
    a = small("float64", {1: (33,), 2: (9, 14)}[rank], high=9)
    mine, theirs = boundary_named(label, rank)
    del theirs
    mode = SCIPY_MODES.get(label, "constant")
    cases = {}
    for window in WINDOWS[rank]:
        w = small("float64", window, 1, low=-3, high=7)
        for name in ("correlate", "convolve"):
            want = getattr(scipy.ndimage, name)(a, w, mode=mode, cval=7.0)
            cases[f"{name} {window}"] = (
                lambda n=name, w=w: getattr(td, n)(a, w, boundary=mine),
                want,
            )
    check(cases)


@pytest.mark.sample(3)
@pytest.mark.parametrize("boundary", [td.wrap, td.mirror], ids=["wrap", "mirror"])
@pytest.mark.parametrize("shape", [(1, 8), (16, 1), (2, 1, 6)], ids=str)
def test_run_time_windows_over_axes_of_one_element(backend, shape, boundary):
    """Every place along such an axis is 0, inside as at the border."""
    rng = np.random.default_rng(5)
    a = rng.integers(-9, 10, shape)
    w = rng.integers(-9, 10, (2,) * (len(shape) - 2) + (2, 3))

    @td.jit
    def program(a, w):
        return td.correlate(a, w, boundary), td.convolve(a, w, boundary)

    with td.config(backend="reference"):
        expected = program(a, w)
    with td.config(backend=backend):
        assert_same(program(a, w), expected)


@pytest.mark.parametrize("type", ["f4", "f8", "c16", "f2"])
@pytest.mark.parametrize("operation", [td.correlate, td.convolve])
def test_known_and_unknown_extents_of_weights_give_the_same_bits(backend, operation, type):
    """Known extents are unrolled, unknown ones looped over: both sum from zero on."""
    draw = np.random.default_rng(3)
    a = draw.standard_normal((7, 6)).astype(type)
    a[0, 0] = 0

    def program(a, w):
        return operation(a, w, td.symmetric)

    for extents in ((2, 3), (1, 1), (0, 2)):
        w = draw.standard_normal(extents).astype(type) * (0.0 if extents == (1, 1) else 1.0)
        known = td.run(program(td.use(a), td.use(w)), backend=backend)
        unknown = td.jit(program, backend=backend)(a, w)
        assert known.dtype == unknown.dtype
        assert known.tobytes() == unknown.tobytes(), extents


def test_correlate_of_run_time_windows(backend):
    """The window is an argument: one program, any size of it."""
    traces = []

    @td.jit(backend=backend)
    def program(a, w):
        traces.append(1)
        return td.correlate(a, w), td.convolve(a, w, td.mirror)

    a = small("float64", (12, 17), high=9)
    for window in ((3, 3), (5, 5), (2, 4), (7, 3), (9, 9)):
        w = small("float64", window, 2, low=-3, high=7)
        want = (
            scipy.ndimage.correlate(a, w, mode="nearest"),
            scipy.ndimage.convolve(a, w, mode="mirror"),
        )
        assert_same(program(a, w), want, label=f"{window}")
    assert len(traces) == 1


def test_recognised_windows(check):
    """Box and separable windows mean the same as any other."""
    a = small("int64", (20, 31), high=50)
    f = small("float32", (20, 31), high=50)
    box, column, row = np.ones((5, 5), "i8"), np.array([1, 2, 3, 2, 1]), np.array([1, -2, 4])
    product = np.outer(column, row)
    oracle = scipy.ndimage.correlate
    check(
        {
            "box": (lambda: td.correlate(a, box), oracle(a, box, mode="nearest")),
            "separable": (lambda: td.correlate(a, product), oracle(a, product, mode="nearest")),
            "general": (
                lambda: td.correlate(a, small("int64", (5, 3), 3)),
                oracle(a, small("int64", (5, 3), 3), mode="nearest"),
            ),
            "box float32": (
                lambda: td.correlate(f, box.astype("f4")),
                oracle(f, box.astype("f4"), mode="nearest"),
            ),
            "box by stencil": (
                lambda: td.stencil(
                    lambda w: sum(w[i, j] for i in range(-2, 3) for j in range(-2, 3)),
                    a,
                    boundary=td.mirror,
                ),
                oracle(a, box, mode="mirror"),
            ),
            "separable by stencil": (
                lambda: td.stencil(
                    lambda w: sum(
                        int(product[i + 2, j + 1]) * w[i, j]
                        for i in range(-2, 3)
                        for j in range(-1, 2)
                    ),
                    a,
                ),
                oracle(a, product, mode="nearest"),
            ),
            "rank 3": (
                lambda: td.correlate(small("int64", (4, 5, 6)), np.ones((3, 2, 3), "i8")),
                oracle(small("int64", (4, 5, 6)), np.ones((3, 2, 3), "i8"), mode="nearest"),
            ),
            "smaller than the window": (
                lambda: td.correlate(a[:2, :3], box),
                sum(
                    neighbour(a[:2, :3], (i, j), "clamp")
                    for i in range(-2, 3)
                    for j in range(-2, 3)
                ),
            ),
        }
    )


def test_checked_mode_sees_what_a_boundary_function_reads(backend):
    """Also where it reads the stencil's own array at the very place that is outside."""
    a = np.arange(5)
    used = td.use(a)
    beyond = td.stencil(lambda w: w[1], a, boundary=td.function(lambda i: used[i]))
    within = td.stencil(lambda w: w[1], a, boundary=td.function(lambda i: used[i - 1]))
    with pytest.raises(IndexError, match="index 5"):
        td.run(beyond, backend=backend, check=True)
    assert_same(td.run(within, backend=backend, check=True), np.array([1, 2, 3, 4, 4]))


@pytest.mark.parametrize("boundary", (td.clamp, td.mirror, td.symmetric, td.wrap, td.constant(3)))
def test_the_middle_of_a_computed_array_is_read_without_its_boundary(backend, boundary):
    """As in edge detection: gradients are fused into what looks at their neighbours."""
    a = small("float32", (13, 17))

    def program(a):
        gx = td.stencil(lambda w: w[0, 1] - w[1, -1], a)
        gy = td.stencil(lambda w: w[1, 0] - w[-1, 1], a)
        follow = lambda w, x, y: w[-1, 0] * x[0, 0] + y[0, 1] * w[0, 0]
        return td.stencil(follow, a, gx, gy, boundary=[td.clamp, boundary, boundary])

    got = td.jit(program, backend=backend)(a)
    assert_same(got, td.jit(program, backend="reference")(a))
    text = td.jit(lambda a: td.stencil(lambda w, x: w[1, 0] + x[0, 0], a,
                                       td.stencil(lambda w: w[0, 1] - w[0, -1], a)),
                  backend="native").lower(a).explain()  # fmt: skip
    assert "[computed" not in text and "1 kernel launched" in text


def test_single_elements_of_a_stencil(run):
    """One element has no interior and no border, and its boundary all the same."""
    a = np.arange(12).reshape(3, 4)
    near = td.stencil(lambda w: w[-1, 0] + 100 * w[0, 1], a, boundary=td.mirror)
    want = run(near)
    for i, j in ((0, 0), (0, -1), (2, 3), (1, 1)):
        assert_same(run(near[i, j]), np.array(want[i, j]))
    line = td.stencil(lambda w: w[-1] + 100 * w[1], a[0])
    assert_same(run(line[0]), np.array(100))
    assert_same(run(td.reshape(line[-1:], ())), np.array(302))


@pytest.mark.sample(1)
@pytest.mark.parametrize("boundary", (*NAMED, "constant", "function"))
def test_planes_of_a_stencil(check, boundary):
    """One plane of a stencil reads beyond it, on an axis that the result does not have."""
    mine, theirs = boundary_named(boundary, 3)
    cases = {}
    for n in (1, 2, 5):
        a = small("int8", (n, 9, 70))
        for offset in ((-1, 3, 2), (3, 3, -1), (0, 3, 2), (-1, 0, 0)):
            want = neighbour(a, offset, theirs)
            for plane in (0, n - 1):
                for label, form in (("plane", lambda v: v), ("transposed", lambda v: v.T)):
                    cases[f"{label} {plane} of {n} at {offset}"] = (
                        lambda a=a, o=offset, p=plane, form=form: form(
                            td.stencil(lambda w: w[o], a, boundary=mine)[p]
                        ),
                        form(want[plane]),
                    )
    check(cases)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (2, 2)], ids=str)
def test_a_reshaped_stencil_keeps_its_boundary(run, shape):
    """Axes that are computed as one line have an interior still."""
    a = np.arange(1, 5)
    near = td.stencil(lambda w: w[-1] + 100 * w[0] + 10000 * w[1], a)
    want = np.array([20101, 30201, 40302, 40403]).reshape(shape)
    assert_same(run(td.reshape(near, shape)), want)
    at = td.reshape(td.use(np.arange(4)), shape)
    sent = td.permute(lambda x, y: x + y, np.zeros(4, int), lambda *i: at[i],
                      td.reshape(near, shape))  # fmt: skip
    assert_same(run(sent), want.reshape(-1))
    assert_same(run(td.sum(td.reshape(near, shape))), np.array(want.sum()))


@pytest.mark.parametrize("shape", [(9, 13), (1, 5), (0, 4)], ids=str)
def test_separate_arrays_of_one_shape(backend, shape):
    """What goes in side by side is computed side by side: a zip of arguments, two states."""
    rng = np.random.default_rng(2)
    h, u = rng.random(shape), rng.random(shape)

    def iteration(state):
        h, u = state
        lap = td.stencil(
            lambda w: w[0, 1][0] + 2 * w[-1, 0][1], td.zip(h, u), boundary=td.symmetric
        )
        u = u + lap / h.shape[1]
        return h + u, u

    step = td.jit(lambda h, u: td.iterate(2, iteration, (h, u)), backend=backend)
    want = h, u
    for _ in range(2):
        right = np.concatenate([want[0][:, 1:], want[0][:, -1:]], axis=1)
        above = np.concatenate([want[1][:1], want[1][:-1]], axis=0)
        moved = want[1] + (right + 2 * above) / shape[1]
        want = want[0] + moved, moved
    for got, wanted in zip(step(h, u), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)
    for other in ((9, 12), (8, 13)):
        with pytest.raises(td.ShapeError, match="zip needs arrays of equal shape"):
            step(np.ones((9, 13)), np.ones(other))


# convolutions by Fourier transforms

OF_BOTH = [((50,), (3,)), ((50,), (8,)), ((20, 30), (5, 4)), ((4, 5), (9, 9)),
           ((7, 8, 9), (3, 4, 2)), ((1,), (1,)), ((1, 17), (3, 1)), ((9, 12, 3), (4, 5, 1)),
           ((5, 6), (1, 1))]  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape, extents", OF_BOTH)
@pytest.mark.parametrize("boundary", ["nearest", "mirror", "reflect", "wrap", "constant"])
def test_convolve_by_fft(run, shape, extents, boundary):
    how = {"nearest": td.clamp, "mirror": td.mirror, "reflect": td.symmetric, "wrap": td.wrap,
           "constant": td.constant(2.0)}[boundary]  # fmt: skip
    rng = generator("convolve", shape)
    for dtype in ("float32", "float64", "complex128"):
        a, w = rng.standard_normal(shape).astype(dtype), rng.standard_normal(extents).astype(dtype)
        want = run(td.convolve(a, w, how, method="direct"))
        found = run(td.convolve(a, w, how, method="fft"))
        assert found.dtype == want.dtype and found.shape == want.shape
        scale = abs(a).max() * abs(w).sum()
        np.testing.assert_allclose(
            found, want, rtol=0, atol=scale * (1e-6 if dtype == "float32" else 1e-14)
        )


def test_convolve_by_fft_of_any_extents(backend):
    f = td.jit(lambda a, w: td.convolve(a, w, method="fft"), backend=backend)
    for n, m in ((10, 3), (31, 31), (5, 40)):
        a, w = np.arange(n) / 2, np.linspace(-1, 1, m)
        want = td.run(td.convolve(a, w, method="direct"), backend="reference")
        np.testing.assert_allclose(f(a, w), want, atol=1e-12 * m * n)


def test_how_convolutions_are_computed():
    """Large weights by transforms, small ones, integers and scheduled ones directly."""

    def transforms(a, w, **how):
        text = td.jit(lambda a: td.convolve(a, w, **how), backend="native").lower(a).explain()
        return "transform" in text or "library" in text

    a, large = np.ones((40, 40)), np.ones((25, 25))
    assert transforms(a, large) and transforms(a, np.ones((2, 2)), method="fft")
    assert not transforms(a, np.ones((5, 5))) and not transforms(a, large, method="direct")
    assert not transforms(a.astype(int), large.astype(int))
    assert not transforms(a, large, schedule=td.schedule.Row())
    assert not transforms(np.ones(2000), np.ones(500)) and transforms(np.ones(2000), np.ones(800))


def test_extents_of_weights_that_are_arguments_choose_the_method():
    f = td.jit(lambda a, w: td.convolve(a, w), backend="native")
    rng = generator("convolve arguments")
    for a, few, many in (
        (rng.random((40, 40)), (19, 20), (20, 20)),
        (rng.random(900), (699,), (700,)),
        (rng.random((30, 40, 3)), (5, 5, 1), (20, 21, 1)),
    ):
        for _ in range(2):
            for extents, by_fft in ((few, False), (many, True), (few, False)):
                w = rng.random(extents)
                assert ("fft.rfftn" in f.lower(a, w).explain()) == by_fft
                want = td.run(td.convolve(a, w, method="direct"))
                np.testing.assert_allclose(f(a, w), want, rtol=1e-10)
    inside = td.jit(lambda a, w, n: td.iterate(n, lambda s: td.convolve(s, w * 2), a))
    assert "fft.rfftn" in inside.lower(np.ones((40, 40)), np.ones((25, 25)), 2).explain()


def test_the_channels_of_images_are_not_transformed():
    image, w = np.ones((40, 50, 3)), np.ones((21, 21, 1))
    text = td.jit(lambda a, w: td.convolve(a, w), backend="native").lower(image, w).explain()
    assert re.search(r"fft.rfftn.*\n.*\n.*\n  writes     complex128\[.*, n3\]", text), text


def test_mistakes_about_methods():
    with pytest.raises(td.TracingError, match="direct"):
        td.convolve(np.ones(3), np.ones(3), method="quick")
    with pytest.raises(td.DTypeError, match="rounds"):
        td.convolve(np.arange(3), np.arange(3), method="fft")


@pytest.mark.parametrize(
    "offset", [np.array([True]), np.array([1, 2]), True, 1.0, None, "1", td.iota(1)]
)
def test_offsets_are_whole_numbers(offset):
    with pytest.raises(td.TracingError, match="offsets of a stencil must be Python ints"):
        td.stencil(lambda w: w[offset], np.arange(3.0))
    kept = td.stencil(lambda w: w[np.array(1)] - w[np.int8(1)], np.arange(3.0))
    assert not td.run(kept, backend="reference").any()
