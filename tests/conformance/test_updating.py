"""td.update and a.at[…]: NumPy's assignment to a part of an array, as a new array."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import treadle as td
from treadle.driver.expressions import _programs

from .helpers import DTYPES, assert_same, generator, small, td_dtype, to_host

UFUNCS = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def changed(a, index, new, method="set"):
    """NumPy's answer: every selected place in row-major order."""
    places = np.arange(a.size).reshape(a.shape)[index]
    extra = max(np.ndim(new) - places.ndim, 0)
    new = np.broadcast_to(np.asarray(new).reshape(np.shape(new)[extra:]), places.shape)
    out = a.copy().reshape(-1)
    for place, value in zip(places.reshape(-1), new.astype(a.dtype).reshape(-1), strict=True):
        out[place] = value if method == "set" else UFUNCS[method](out[place], value)
    return out.reshape(a.shape)


def drawn_slice(rng, n):
    start, stop = (
        None if rng.random() < 0.3 else int(rng.integers(-n - 3, n + 4)) for _ in range(2)
    )
    return slice(start, stop, [None, 1, 2, 3, -1, -2, -7][rng.integers(7)])


def drawn_index(rng, shape, arrays):
    """A valid index: integers, slices, `...`, None, and integer arrays."""
    block = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 3)))
    parts = []
    for n in shape[: rng.integers(len(shape) + 1)]:
        if arrays and n and rng.random() < 0.5:
            own = block[rng.integers(len(block) + 1) :]
            own = tuple(1 if rng.random() < 0.3 else e for e in own)
            parts.append(rng.integers(-n, n, own))
        elif n and rng.random() < 0.4:
            parts.append(int(rng.integers(-n, n)))
        else:
            parts.append(drawn_slice(rng, n))
    if len(parts) < len(shape) and rng.random() < 0.5:
        later = []
        for n in shape[len(parts) + rng.integers(len(shape) - len(parts)) :]:
            later.append(int(rng.integers(n)) if n and rng.random() < 0.5 else drawn_slice(rng, n))
        parts += [..., *later]
    if rng.random() < 0.2:
        parts.insert(rng.integers(len(parts) + 1), None)
    return tuple(parts)


def drawn_new(rng, a, shape):
    """Elements for a part of this shape, with axes that stretch."""
    own = tuple(1 if rng.random() < 0.2 else n for n in shape[rng.integers(len(shape) + 1) :])
    own = (1,) * int(rng.random() < 0.1) + own if len(own) == len(shape) else own
    return rng.integers(-9, 10, own).astype(a.dtype)


def drawn(seed, arrays, count):
    """(array, index, new) of small random extents."""
    rng = generator("updates", seed, arrays)
    for _ in range(count):
        shape = tuple(int(n) for n in rng.integers(0, 7, rng.integers(0, 5)))
        a = rng.integers(-9, 10, shape)
        index = drawn_index(rng, shape, arrays)
        try:
            part = a[index].shape
        except IndexError:  # the shapes of the integer arrays do not broadcast
            continue
        yield a, index, drawn_new(rng, a, part)


@pytest.mark.sample(1)
@pytest.mark.parametrize("arrays", [False, True], ids=["slices", "arrays"])
@pytest.mark.parametrize("seed", range(4))
def test_as_in_numpy(check, seed, arrays):
    cases = {}
    for k, (a, index, new) in enumerate(drawn(seed, arrays, 24)):
        label = f"{k}: {a.shape}[{index}] = {new.shape}"
        want = changed(a, index, new)
        if not arrays:
            out = a.copy()
            out[index] = new
            np.testing.assert_array_equal(out, want)
        cases[f"{label}, update"] = (lambda a=a, i=index, n=new: td.update(a, i, n), want)
        method = ["set", *UFUNCS][k % 5]
        cases[f"{label}, {method}"] = (
            lambda a=a, i=index, n=new, m=method: getattr(td.use(a).at[i], m)(n),
            changed(a, index, new, method),
        )
    check(cases)


@pytest.mark.parametrize("seed", range(3))
def test_indices_of_the_run(backend, seed):
    """Integers and slice bounds that are arguments: as in NumPy, clipped and from either end."""
    for a, index, new in drawn(("run", seed), True, 6):
        numbers = []

        def argument(value, numbers=numbers):
            if value is None or not isinstance(value, int | np.ndarray):
                return value
            numbers.append(value)
            return len(numbers) - 1

        plan = [
            (argument(p.start), argument(p.stop), p.step) if isinstance(p, slice) else argument(p)
            for p in index
        ]

        def program(a, new, *given, plan=plan):
            def of(k):
                return given[k] if isinstance(k, int) else k

            index = tuple(slice(of(p[0]), of(p[1]), p[2]) if isinstance(p, tuple) else of(p)
                          for p in plan)  # fmt: skip
            return td.update(a, index, new)

        got = td.jit(program, backend=backend)(a, new, *numbers)
        assert_same(to_host(got), changed(a, index, new), label=f"{a.shape}[{index}]")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", DTYPES)
def test_types(check, name):
    a, new = small(name, (5, 7)), small(name, (2, 7), 1)
    at = np.array([3, 0, 3, -1])
    cases = {
        "slice": (lambda: td.update(a, slice(1, 5, 2), new), changed(a, slice(1, 5, 2), new)),
        "array": (lambda: td.update(a, (at, 2), new[0, :4]), changed(a, (at, 2), new[0, :4])),
        "literal": (lambda: td.update(a, (..., 0), 1), changed(a, (..., 0), 1)),
        "mask": (lambda: td.update(a, a == 1, 0), np.where(a == 1, a.dtype.type(0), a)),
    }
    methods = [] if name == "bool" else ["add", "multiply"]
    if not name.startswith("complex"):
        methods += ["min", "max"]
    for m in methods:
        cases[m] = (
            lambda m=m: getattr(td.use(a).at[1:5:2], m)(new),
            changed(a, slice(1, 5, 2), new, m),
        )
        cases[f"{m}, repeated"] = (
            lambda m=m: getattr(td.use(a).at[at, 2], m)(new[0, :4]),
            changed(a, (at, 2), new[0, :4], m),
        )
    check(cases)


def test_new_elements_are_cast(check):
    whole, real = np.arange(4), np.linspace(0.0, 1.0, 4)
    check(
        {
            "truncated": (lambda: td.update(whole, [1, 2], [1.7, -2.7]), np.array([0, 1, -2, 3])),
            "truncated, add": (lambda: td.use(whole).at[1:3].add([1.7, -2.7]),
                               np.array([0, 2, 0, 3])),
            "a scalar of a wider type": (lambda: td.update(real.astype("f4"), 0, td.float64(0.5)),
                                         np.array([0.5, *real[1:]], "f4")),
            "an extent": (lambda: td.update(real.astype("f4"), 0, td.use(whole).shape[0]),
                          np.array([4, *real[1:]], "f4")),
        }
    )  # fmt: skip


def test_the_last_in_row_order_stays(check):
    """Also where many threads write."""
    n, bins = 70001, 50
    at = generator("repeated").integers(-bins, bins, n)
    rows = at[:600].reshape(20, 30)
    new = np.arange(n)
    want = np.full(bins, -1)
    want[at] = new
    matrix = np.zeros((bins, 8), "i4")
    values = small("int32", (20, 30, 8), low=0, high=99)
    check(
        {
            "vector": (lambda: td.update(np.full(bins, -1), at, new), want),
            "rows": (lambda: td.update(matrix, rows, values), changed(matrix, rows, values)),
            "tuples": (
                lambda: td.update(td.zip(np.full(bins, -1), np.zeros(bins)), at, (new, new / 2)),
                (want, np.where(want < 0, 0, want / 2)),
            ),
            "add": (lambda: td.zeros(bins, td.int64).at[at].add(1),
                    np.bincount(at % bins, minlength=bins)),
            "max": (lambda: td.use(np.full(bins, -1)).at[at].max(new), want),
        }
    )  # fmt: skip


class Pair(NamedTuple):
    x: object
    y: object


def test_tuples(check):
    x, y = np.arange(12.0).reshape(3, 4), np.arange(12, dtype="i4").reshape(3, 4)
    z = np.arange(3) > 0
    inside = (slice(1, None), slice(None, None, -2))

    def pairs():
        return td.map(lambda x, y: Pair(x, y), x, y)

    new_x, new_y = np.array([[50.0], [60.0]]), np.array([7, 8], "i4")
    whole = np.tile(new_x, 2), np.tile(new_y, (2, 1))
    want = Pair(changed(x, inside, new_x), changed(y, inside, new_y))
    mask = x > 6
    check(
        {
            "parts": (lambda: td.update(pairs(), inside, (new_x, new_y)), want),
            "an array": (lambda: td.update(pairs(), inside, td.zip(*whole)), want),
            "an element": (lambda: pairs().at[0, 1].set(Pair(9.0, 9)),
                           Pair(changed(x, (0, 1), 9), changed(y, (0, 1), 9))),
            "mask": (lambda: pairs().at[mask].set((-1, y.T.copy().T)),
                     Pair(np.where(mask, -1, x), y)),
            "nested": (
                lambda: td.update(td.zip(z, td.zip(np.arange(3), np.ones(3))), -1, (False, (9, 0))),
                (z & (np.arange(3) < 2), (np.array([0, 1, 9]), np.array([1.0, 1, 0]))),
            ),
        }
    )  # fmt: skip


def test_boolean_arrays(check):
    a = small("int64", (6, 5))
    mask, rows = a > 1, np.array([True, False, True, False, False, True])
    b = small("int64", (6, 5), 1)
    check(
        {
            "a number": (lambda: td.update(a, mask, 7), np.where(mask, 7, a)),
            "an array": (lambda: td.update(a, mask, b), np.where(mask, b, a)),
            "a row": (lambda: td.update(a, mask, b[0]), np.where(mask, b[0], a)),
            "an expression": (lambda: td.update(a, td.use(a) > 1, td.use(b) * 2),
                              np.where(mask, 2 * b, a)),
            "rows": (lambda: td.update(a, rows, b[0]), np.where(rows[:, None], b[0], a)),
            "a list": (lambda: td.use(a[0]).at[[True, False, True, False, False]].set(1),
                       changed(a[0], np.array([True, False, True, False, False]), 1)),
            "rank 0": (lambda: td.update(td.unit(3), td.unit(3) > 2, 8), np.array(8)),
            "multiply": (lambda: td.use(a).at[mask].multiply(b), np.where(mask, a * b, a)),
            "min": (lambda: td.use(a).at[rows].min(0),
                    np.where(rows[:, None], np.minimum(a, 0), a)),
            "empty": (lambda: td.update(a[:0], mask[:0], 1), a[:0]),
        }
    )  # fmt: skip


def test_out_of_range_in_the_run(backend):
    """Run-time indices out of range change nothing; checked programs report them."""
    a = np.arange(12.0).reshape(3, 4)
    programs = {
        "an integer": (lambda a, k: a.at[k, 1:].set(-1.0), 3),
        "far": (lambda a, k: td.update(a, (slice(None), k), a[:, 0]), 2**40),
        "before the start": (lambda a, k: a.at[k].add(1.0), -4),
        "all in an array": (lambda a, k: a.at[k].set(5.0), np.array([3, 2**40, -4])),
        "a scalar array": (lambda a, k: a.at[k[0]].set(5.0), np.array([-(2**62)])),
    }
    for label, (program, k) in programs.items():
        assert_same(to_host(td.jit(program, backend=backend)(a, k)), a, label=label)
        with (
            td.config(check=True),
            pytest.raises(td.IndexOutOfBounds, match=r"update.*out of range for axis"),
        ):
            td.jit(program, backend=backend)(a, k)
            pytest.fail(label)
    some = td.update(a, td.use(np.array([5, 1, -1])) * 1, [[1.0], [2.0], [3.0]])
    want = np.stack([a[0], np.full(4, 2.0), np.full(4, 3.0)])
    assert_same(to_host(td.run(some, backend=backend)), want)
    with pytest.raises(td.IndexOutOfBounds, match="index 5 is out of range for axis 0"):
        td.run(some, backend=backend, check=True)
    # In range, and slices that are clipped: nothing to report.
    fine = td.use(a).at[-1, -9:99].set(1.0).at[[0, -1], [3, -4]].add(1.0).at[7:, :].set(2.0)
    assert_same(
        to_host(td.run(fine, backend=backend, check=True)),
        np.array([[0.0, 1, 2, 4], [4, 5, 6, 7], [2, 1, 1, 1]]),
    )


def test_in_programs(check):
    """The rim kept, elimination, triangles, and elements that read the array itself."""
    u = small("float64", (9, 11))
    inner = (slice(1, -1), slice(1, -1))

    def heat(u):
        mean = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return td.update(u, inner, mean * 0.25)

    stepped = u.copy()
    for _ in range(3):
        stepped[inner] = (
            stepped[:-2, 1:-1] + stepped[2:, 1:-1] + stepped[1:-1, :-2] + stepped[1:-1, 2:]
        ) * 0.25

    n = 7
    spd = small("float64", (n, n), low=0, high=3) + 9 * np.eye(n)

    def eliminate(k, m):
        column = m[k + 1 :, k] / m[k, k]
        below = m[k + 1 :, k + 1 :] - column[:, None] * m[k, None, k + 1 :]
        return m.at[k + 1 :, k].set(column).at[k + 1 :, k + 1 :].set(below)

    lu = spd.copy()
    for k in range(n - 1):
        lu[k + 1 :, k] = lu[k + 1 :, k] / lu[k, k]
        lu[k + 1 :, k + 1 :] = lu[k + 1 :, k + 1 :] - lu[k + 1 :, k][:, None] * lu[k, None, k + 1 :]

    triangle = np.zeros((n, n), int)
    for k in range(n):
        triangle[k, :k] = triangle[max(k - 1, 0), :k] + k
        triangle[k, k] += 1

    a = np.arange(10)
    reversed_half = a.copy()
    reversed_half[:5] = a[5:][::-1]
    check(
        {
            "the inside": (lambda: td.iterate(3, heat, td.use(u)), stepped, 4),
            "elimination": (lambda: td.loop(n - 1, eliminate, td.use(spd)), lu, 8),
            "triangle": (
                lambda: td.loop(
                    n,
                    lambda k, t: (
                        t.at[k, :k].set(t[td.maximum(k - 1, 0), :k] + k).at[k, k].add(1)
                    ),
                    td.zeros((n, n), td.int64),
                ),
                triangle,
            ),
            "itself": (lambda: td.update(a, slice(5), td.use(a)[:4:-1]), reversed_half),
            "shifted": (lambda: td.update(a, slice(1, None), td.use(a)[:-1]),
                        np.array([0, *a[:-1]])),
            "twice": (lambda: td.use(a).at[2:].add(1).at[::-3].multiply(2),
                      changed(changed(a, slice(2, None), 1, "add"), slice(None, None, -3), 2,
                              "multiply")),
            "fused": (lambda: td.sum(td.update(a * 2, slice(2, 4), td.use(a)[6:8] ** 2)),
                      np.array(2 * (a.sum() - 5) + 36 + 49)),
        }
    )  # fmt: skip


@pytest.mark.parametrize("extent", [0, 1, 3, 64, 1000, 70001])
def test_extents_of_the_run(backend, extent):
    """One compiled program for parts of any length; others that read the array see it as it was."""
    a, new = small("int32", extent), small("int32", extent, 1)

    def program(a, new, m):
        return a.at[m:].set(new[m:]), a.at[: -m - 1 : -1].add(2), a + 1

    compiled = td.jit(program, backend=backend)
    before = a.copy()
    for m in {0, 1, extent // 2, extent, extent + 1}:
        down = slice(None, -m - 1, -1)
        want = changed(a, slice(m, None), new[m:]), changed(a, down, 2, "add"), a + 1
        assert_same(tuple(to_host(x) for x in compiled(a, new, m)), want, label=f"m = {m}")
    assert_same(a, before)


@pytest.mark.parametrize("name", ["float32", "complex64", "int8"])
def test_what_an_update_reads_of_its_own_elements_in_every_layout(backend, name):
    """The new elements are computed from those that they replace; the result is dense."""
    a = np.arange(6 * 4 * 2).reshape(6, 4, 2).astype(name)
    wide = np.full((9, 7, 5), 99, name)
    wide[1:7, 2:6, 1:3] = a
    layouts = (a, wide[1:7, 2:6, 1:3], np.asfortranarray(a), a[::-1].copy()[::-1],
               a.transpose(2, 0, 1).copy().transpose(1, 2, 0))  # fmt: skip

    def doubled(x):
        part = x[:, : x.shape[1] - 0, -2]
        return x.at[:, : x.shape[1] - 0, -2].set(part + part)

    want = a.copy()
    want[:, :, -2] *= 2
    compiled = td.jit(doubled, backend=backend)
    for x in layouts:
        assert_same(compiled(x), want)


def test_a_truth_value_chooses_a_number(check):
    def chosen(value):
        x = td.unit(td.int64(value))
        return td.update(x, td.the(x) > 2, 9)

    check({f"{v}": (lambda v=v: chosen(v), np.array(9 if v > 2 else v)) for v in (1, 5)})


def test_schedules_and_names(check):
    a = small("int64", (20, 30))
    new = small("int64", (18, 28), 1)
    inner = (slice(1, -1), slice(1, -1))
    at = generator("columns").integers(0, 20, 50)
    check(
        {
            "tile": (lambda: td.update(a, inner, new, schedule=td.schedule.Tile(4, 4), name="in"),
                     changed(a, inner, new)),
            "column": (lambda: td.use(a).at[inner].add(new, schedule=td.schedule.Column(2)),
                       changed(a, inner, new, "add")),
            "in order": (
                lambda: td.use(a.astype("f4")).at[at].add(0.1, deterministic=True, name="sums"),
                changed(a.astype("f4"), at, np.float32(0.1), "add"), 64,
            ),
        }
    )  # fmt: skip


# --- loop(start, stop, …) and stencil(index=True) ----------------------------------------------


def test_loops_between(check):
    n = np.arange(6)
    counted = td.jit(lambda a, b: td.loop(a, b, lambda k, s: s * 10 + k, td.unit(0)))
    assert int(counted(2, 5)) == 234
    assert int(counted(5, 2)) == 0
    check(
        {
            "arrays": (lambda: td.loop(2, 5, lambda k, s: s.at[k].set(k), td.zeros(6, td.int64)),
                       np.array([0, 0, 2, 3, 4, 0])),
            "by name": (lambda: td.loop(start=-2, stop=2, f=lambda k, s: s + k, init=td.use(n)),
                        n - 2),
            "counted, by name": (lambda: td.loop(n=3, f=lambda k, s: s + k, init=td.use(n)), n + 3),
            "none": (lambda: td.loop(5, 2, lambda k, s: s + 1, td.use(n)), n),
            "in kernels": (
                lambda: td.generate(6, lambda i: td.loop(i, 2 * i, lambda k, s: s + k, 0)),
                np.array([sum(range(i, 2 * i)) for i in range(6)]),
            ),
            "reading": (
                lambda: td.generate(6, lambda i: td.loop(1, i, lambda k, s: s + td.use(n)[k], 0)),
                np.array([sum(range(1, i)) for i in range(6)]),
            ),
            "dict": (lambda: td.loop(1, 4, lambda k, s: {"x": s["x"] + k}, {"x": td.use(n)})["x"],
                     n + 6),
        }
    )  # fmt: skip


def test_stencils_with_their_index(check):
    u, v = small("float64", (9, 13)), small("float64", (9, 13), 1)
    i, j = np.indices(u.shape)
    padded = np.pad(u, 1, mode="edge")
    left, up = padded[1:-1, :-2], padded[:-2, 1:-1]
    rim = (i == 0) | (j == 0) | (i == 8) | (j == 12)
    mean = (left + up + padded[1:-1, 2:] + padded[2:, 1:-1]) * 0.25

    def inside(i, j, w):
        edge = (i == 0) | (j == 0) | (i == 8) | (j == 12)
        return td.where(edge, w[0, 0], (w[0, -1] + w[-1, 0] + w[0, 1] + w[1, 0]) * 0.25)

    twice = np.where(rim, u, mean)
    for _ in range(3):
        p = np.pad(twice, 1, mode="edge")
        mean2 = (p[1:-1, :-2] + p[:-2, 1:-1] + p[1:-1, 2:] + p[2:, 1:-1]) * 0.25
        twice = np.where(rim, twice, mean2)
    check(
        {
            "vector": (
                lambda: td.stencil(lambda i, w: w[1] * i, u[0], index=True),
                np.append(u[0, 1:], u[0, -1]) * np.arange(13),
            ),
            "two inputs": (
                lambda: td.stencil(lambda i, j, w, x: w[0, -1] + i - x[0, 0] * j, u, v, index=True,
                                   boundary=(td.clamp, td.constant(0))),
                left + i - v * j, 2,
            ),
            "the rim kept": (lambda: td.stencil(inside, u, index=True), np.where(rim, u, mean), 2),
            "repeated": (lambda: td.iterate(4, lambda s: td.stencil(inside, s, index=True),
                                            td.use(u)), twice, 16),
            "the index alone": (lambda: td.stencil(lambda i, j, w: i * 100 + j, u, index=True),
                                i * 100 + j),
        }
    )  # fmt: skip


# --- mistakes ----------------------------------------------------------------------------------

A = np.arange(12.0).reshape(3, 4)
PAIRS = td.zip(A, A)

MISTAKES = {
    "index 3 is out of range for axis 0 with extent 3": lambda: td.update(A, 3, 0.0),
    "index -5 is out of range for axis 1 with extent 4": lambda: td.use(A).at[0, -5].set(0.0),
    "index 7 is out of range for axis 0 with extent 3": lambda: td.update(A, [0, 7], 0.0),
    "index -4 is out of range for axis 0": lambda: td.update(A, [[-4], [0]], 0.0),
    "3 indices for an array of rank 2": lambda: td.update(A, (0, 0, 0), 0.0),
    "only one ellipsis": lambda: td.update(A, (..., 0, ...), 0.0),
    "an index of type float is not supported": lambda: td.update(A, 1.0, 0.0),
    "an index of type str": lambda: td.update(A, "x", 0.0),
    "update needs integer indices, got float64": lambda: td.update(A, np.array([1.0]), 0.0),
    "got bool": lambda: td.update(A, True, 0.0),
    "update needs arrays of equal shape, got (4,) and (3,)": lambda: td.update(
        A, (slice(None), A[:, 0] > 0), 0.0
    ),
    "a boolean array of rank 3 for an array of rank 2": lambda: td.update(
        A, np.ones((3, 4, 1), bool), 0.0
    ),
    "update needs arrays of equal shape": lambda: td.update(A, np.ones((3, 5), bool), 0.0),
    "update: (3,) does not broadcast to the part (4,): axis 0 has 3 against 4": lambda: td.update(
        A, 0, np.ones(3)
    ),
    "(2, 4) does not broadcast to the part (4,): it has 2 axes": lambda: td.update(
        A, 0, np.ones((2, 4))
    ),
    "(4,) does not broadcast to the part (3, 1): axis 1 has 4 against 1": lambda: td.update(
        A, (slice(None), slice(0, 1)), np.ones(4)
    ),
    "update cannot broadcast the shapes (2,) and (3,)": lambda: td.update(
        A, ([0, 1], [1, 2, 3]), 0.0
    ),
    "the step of a slice must be a nonzero integer": lambda: td.update(A, slice(0, 3, 0), 0.0),
    "the literal 1.5 does not fit in int64": lambda: td.update(np.arange(3), 0, 1.5),
    "the literal 300 does not fit in uint8": lambda: td.use(np.zeros(3, "u1")).at[0].add(300),
    "the new element of update is one value, the elements are (a, b)": lambda: td.update(
        PAIRS, 0, 1.0
    ),
    "the new element of update is a list": lambda: td.update(PAIRS, 0, [1.0, 2.0]),
    "the array has elements (float64, float64), the new ones are float64": lambda: td.update(
        PAIRS, 0, A[0]
    ),
    "a.at[…].add works on scalars, but the elements are tuples": lambda: (
        PAIRS.at[0].add((1.0, 2.0))
    ),
    "minimum is not defined for complex": lambda: td.use(A * 1j).at[0].min(1.0),
    "a.at is not called": lambda: td.use(A).at(0),
    "update: missing a required argument: 'new'": lambda: td.update(A, 0),
    "loop: missing a required argument: 'f'": lambda: td.loop(2),
    "loop: too many positional arguments": lambda: td.loop(1, 2, lambda k, s: s, A, A),
    "loop: multiple values for argument 'f'": lambda: td.loop(2, lambda k, s: s, td.use(A),
                                                             f=lambda k, s: s),
    "the body of loop is called with k and state, but takes (s)": lambda: td.loop(
        1, 2, lambda s: s, td.use(A)
    ),
    "loop needs functions, got Array": lambda: td.loop(1, 2, td.use(A), td.use(A)),
    "loop needs the number of its iterations, got None": lambda: td.loop(
        0, None, lambda k, s: s, td.use(A)
    ),
    "stencil: index is True or False, got 1": lambda: td.stencil(
        lambda w: w[0, 0], A, index=1
    ),
    "cannot take 3 argument(s)": lambda: td.stencil(lambda w: w[0, 0], A, index=True),
}  # fmt: skip


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text):
    with pytest.raises((td.TreadleError, TypeError)) as raised:
        MISTAKES[text]()
    assert text in str(raised.value)
    assert isinstance(raised.value, td.TreadleError)
    assert "test_updating.py" in str(raised.value)


def test_mistakes_in_kernels():
    with pytest.raises(td.NestedParallelismError, match="update"):
        td.generate(3, lambda i: td.update(td.use(A), i, 0.0))
    with pytest.raises(AttributeError, match=r"a\.at\[…\] has no 'maximum'"):
        td.use(A).at[0].maximum(1.0)
    with pytest.raises(td.TracingError, match=r"a = a\.at\[index\]\.set\(new\)"):
        td.use(A).at[0] = 1.0


def test_misfits_of_the_run(backend):
    """Extents that do not fit, known only when the program runs."""
    f = td.jit(lambda a, new, m: td.update(a, (slice(m), 0), new), backend=backend)
    assert_same(to_host(f(A, np.ones(2), 2)), changed(A, (slice(2), 0), 1.0))
    with pytest.raises(td.ShapeError, match=r"does not broadcast to the part .* 2 against 3"):
        f(A, np.ones(2), 3)
    with pytest.raises(td.IndexOutOfBounds, match="index 3 is out of range for axis 0"):
        td.jit(lambda a: td.update(a, 3, 0.0), backend=backend)(A)
    with pytest.raises(td.IndexOutOfBounds, match="index 9 is out of range for axis 0"):
        td.jit(lambda a: td.update(a, [0, 9], 0.0), backend=backend)(A)


def test_the_result_has_the_arrays_type():
    for name in DTYPES:
        made = td.update(small(name, 3), 0, td_dtype(name)(1))
        assert made.dtype == td_dtype(name) and made.shape == (3,)


def test_functions_of_numpy_that_change_their_argument_are_refused():
    """Neither the user's data nor what was written earlier changes; values may be treadle's."""
    source = np.zeros(3)
    a = td.use(source)
    earlier = a + 1
    for change in (
        lambda x: np.add.at(x, [0], 5.0),
        lambda x: np.put(x, [0], 5.0),
        lambda x: np.place(x, np.array([True, False, False]), [5.0]),
        lambda x: np.copyto(x, 5.0),
        lambda x: np.putmask(x, np.array([True, False, False]), 5.0),
        lambda x: np.fill_diagonal(x, 5.0),
        lambda x: np.put_along_axis(x, np.array([0]), 5.0, 0),
        lambda x: np.nan_to_num(x, copy=False),
    ):
        for x in (a, a * 1):
            with pytest.raises(td.TracingError, match="changes its argument"):
                change(x)
    assert not source.any() and np.array_equal(earlier, np.ones(3))
    target = np.zeros(3)
    np.add.at(target, [0, 0], td.use(np.array([1.0, 2.0])))
    np.put(target, [1], td.use(np.array([4.0])))
    assert target.tolist() == [3.0, 4.0, 0.0]


def test_convolutions_of_numpy_keep_its_edges():
    x, w = np.random.default_rng(0).random((2, 9))
    w = w[:4]
    for function in (np.convolve, np.correlate):
        for mode in ((), ("full",), ("same",), ("valid",)):
            want = function(x, w, *mode)
            np.testing.assert_array_equal(function(td.use(x), w, *mode), want)


def test_convolutions_of_numpy_in_a_program_keep_its_edges(backend):
    """Extents of one kind, odd and even; weights known while the program is traced or not."""
    rng = np.random.default_rng(1)
    for function in (np.convolve, np.correlate):
        for mode in ("full", "same", "valid"):
            both = td.jit(lambda a, v, f=function, m=mode: f(a, v, mode=m), backend=backend)
            for n, m in ((9, 4), (9, 5), (6, 6), (3, 8)):
                a, v = rng.random(n), rng.random(m)
                if m > n and mode != "full":
                    with pytest.raises(td.ShapeError, match="8 weights do not fit into an extent"):
                        both(a, v)
                    continue
                want = function(a, v, mode)
                np.testing.assert_allclose(to_host(both(a, v)), want, rtol=1e-12)
                if n == 9:
                    fixed = td.jit(lambda a, f=function, v=v, m=mode: f(a, v, m), backend=backend)
                    np.testing.assert_allclose(to_host(fixed(a)), want, rtol=1e-12)
            for a, v in ((rng.integers(0, 9, 6, "i2"), rng.integers(-9, 9, 4, "i4")),
                         (rng.random(6) > 0.5, rng.random(3) > 0.5),
                         (rng.random(6) + 1j, rng.random(4) - 1j),
                         (rng.random(6, "f4"), np.arange(3))):  # fmt: skip
                got, want = to_host(both(a, v)), function(a, v, mode)
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-6)
            with pytest.raises(td.ShapeError, match="of extent 0"):
                both(np.ones(3), np.ones(0))
        default = td.jit(function, backend=backend)
        np.testing.assert_allclose(to_host(default(x := rng.random(6), x[:4])), function(x, x[:4]))
        weights = td.use(x[:4])
        swapped = td.jit(lambda a, f=function, w=weights: f(w, a), backend=backend)
        np.testing.assert_allclose(to_host(swapped(x[:3])), function(x[:4], x[:3]))
        with pytest.raises(td.ShapeError, match="needs arrays of rank 1"):
            default(np.ones((3, 3)), np.ones((2, 2)))


def test_a_mask_takes_the_elements_of_what_is_chosen(backend):
    """As NumPy's a[mask] = new; new elements that broadcast to the array are those at the mask."""
    rng = np.random.default_rng(1)
    for shape in ((4,), (3, 3), (2, 3), (3, 2, 2)):
        for rank in range(1, len(shape) + 1):
            mask = rng.random(shape[:rank]) < 0.5
            a, rest = rng.normal(size=shape), shape[rank:]
            count = int(mask.sum())
            for of in {(), (1,), (count, *rest), rest, (1, *rest), shape}:
                new, wanted = rng.normal(size=of), a.copy()
                try:
                    where = mask.reshape(mask.shape + (1,) * len(rest))
                    wanted = np.where(where, np.broadcast_to(new, shape), a)
                except ValueError:
                    wanted[mask] = new
                assert_same(td.run(td.use(a).at[mask].set(new), backend=backend), wanted)
                found = td.jit(lambda a, m=mask, v=new: a.at[m].set(v), backend=backend)(a)
                assert_same(found, wanted)
    square, mask = rng.normal(size=(3, 3)), rng.random((3, 3)) < 0.5
    found = td.jit(lambda a, m: a.at[m].add(-a[m]), backend=backend)(square, mask)
    assert_same(found, np.where(mask, 0.0, square))


def test_positions_and_numbers_that_vary_are_data(backend):
    """Updates of a Python loop, outside of compiled functions, differ in their numbers only: they
    are those of NumPy, and run a few programs."""
    rng = np.random.default_rng(3)
    before = len(_programs)
    for dtype, last in (("float32", ()), ("int16", ()), ("float64", (slice(1, None, 2),))):
        start = np.zeros((6, 5), dtype)
        found, expected = td.use(start), start.copy()
        for step in range(24):
            row, column = (int(k) for k in rng.integers(-5, 5, 2))
            index = (row, *last) if last else (row, column)
            new = int(rng.integers(-9, 9)) if dtype == "int16" else float(rng.standard_normal())
            change = ("set", "add", "max")[step % 3]
            with td.config(backend=backend):
                found = td.use(td.run(getattr(found.at[index], change)(new)))
            if change == "set":
                expected[index] = new
            elif change == "add":
                expected[index] += np.asarray(new).astype(dtype)
            else:
                expected[index] = np.maximum(expected[index], np.asarray(new).astype(dtype))
            np.testing.assert_array_equal(np.asarray(found), expected)
    assert len(_programs) - before <= 3 * 3 * 4 + 4
    a = td.use(np.zeros(4, np.uint8))
    for k in range(8):
        with pytest.raises(td.IndexOutOfBounds):
            td.run(a.at[k + 4].set(1), backend=backend)
        with pytest.raises(td.DTypeError):
            td.run(a.at[k % 4].set(k + 256), backend=backend)


def test_a_loop_that_reads_and_updates_elements(backend):
    expected = np.zeros(24)
    with td.config(backend=backend):
        a = td.zeros(24).at[0].set(1.0)
        expected[0] = 1
        before = len(_programs)
        for k in range(1, 24):
            a = a.at[k].set(a[k - 1] * 1.5 + 2.0)
            expected[k] = expected[k - 1] * 1.5 + 2
            assert float(a[k]) == expected[k]
        np.testing.assert_array_equal(np.asarray(a), expected)
    assert len(_programs) - before < 18


INTEGERS = [np.int8, np.int64, np.uint16, np.uint64]


@pytest.mark.parametrize("kind", INTEGERS)
def test_indices_of_data_out_of_range_are_errors(kind):
    """NumPy knows no write out of range; what is computed is not known before."""
    a, wrong = td.use(np.zeros((3, 2))), np.array([0, 3], kind)
    for change in (
        lambda: a.at[wrong].add(1.0),
        lambda: a.at[wrong].set(1.0),
        lambda: a.at[:, wrong].max(1.0),
        lambda: a.at[np.array([0, 1]), wrong].min(1.0),
        lambda: a.at[td.use(wrong)].multiply(1.0),
        lambda: td.update(np.zeros((3, 2)), wrong, 1.0),
        lambda: td.scatter(np.zeros(3), wrong, np.ones(2)),
    ):
        with pytest.raises(td.IndexOutOfBounds, match="index 3 is out of range for axis"):
            change()
    with pytest.raises(td.IndexOutOfBounds, match="no bin for 3: length=3 is too little"):
        td.bincount(wrong, length=3)
    assert td.bincount(wrong, length=3, minlength=4).tolist() == [1, 0, 0, 1]
    assert a.at[wrong[:0]].add(1.0).tolist() == a.tolist()
    assert a.at[wrong.astype(">i4")[:1]].add(1.0).tolist() == [[1, 1], [0, 0], [0, 0]]
    with pytest.raises(td.IndexOutOfBounds, match="index 3"):
        a.at[wrong.astype(">i4")].add(1.0)
    with pytest.raises(td.IndexOutOfBounds, match="with extent 0"):
        td.use(np.zeros((0, 2))).at[wrong].add(1.0)


def test_captured_indices_are_tested_in_every_call(backend):
    wrong = np.array([0, 5])
    for function in (
        lambda a: a.at[wrong].add(1.0),
        lambda a: a[1:].at[wrong].add(1.0),
        lambda a: a[wrong],
        lambda a: td.scatter(a, wrong, np.ones(2)),
        lambda a: td.bincount(wrong, length=a.shape[0]),
    ):
        with pytest.raises(td.IndexOutOfBounds, match="5"):
            td.jit(function, backend=backend)(np.zeros(5))
    add = td.jit(lambda a: a.at[wrong].add(1.0), backend=backend)
    assert add(np.zeros(6)).tolist() == [1, 0, 0, 0, 0, 1]
    with pytest.raises(td.IndexOutOfBounds, match="with extent 5"):
        add(np.zeros(5))
    given = td.jit(lambda a, i: a.at[i].add(1.0), backend=backend)
    assert given(np.zeros(5), wrong).tolist() == [1, 0, 0, 0, 0]
    assert td.use(np.zeros(5)).at[td.use(wrong) * 1].add(1.0).tolist() == [1, 0, 0, 0, 0]
