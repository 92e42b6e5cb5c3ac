"""Rows of a few elements on a CPU: many side by side in vectors, loaded and stored by shuffles."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

pytestmark = pytest.mark.skipif("native" not in td.backends(), reason="needs the backend native")
COUNTS = (1, 15, 33, 128, 131)


def rows(n, d, type_="f4", seed=0):
    return (20 * np.random.default_rng(seed).standard_normal((n, d))).astype(type_)


@pytest.mark.sample(1)
@pytest.mark.parametrize("type_", ["f4", "f8", "i2", "c8"])
def test_elements_of_narrow_rows(type_):
    scaled = td.jit(lambda a, s: td.where(td.use(s)[:, None] > 0, a, td.reverse(a, 1)),
                    backend="native")  # fmt: skip
    for d in (1, 2, 3, 7, 8, 9):
        for n in COUNTS:
            a, s = rows(n, d, type_), rows(n, 1, "f8", 1)[:, 0]
            expected = np.where(s[:, None] > 0, a, a[:, ::-1])
            assert np.array_equal(scaled(a, s), expected), (d, n)
            assert np.array_equal(scaled(np.asfortranarray(a), s[::-1]),
                                  np.where(s[::-1, None] > 0, a, a[:, ::-1]))  # fmt: skip


def test_llvm_does_not_look_for_other_shuffles():
    """It sees one size of a transposition at a time; otherwise it takes twice as long."""
    from treadle.backend.native.codegen.target import Target

    host = Target.host()
    if not host.is_x86:
        pytest.skip("the constraint is one of x86")
    f = td.jit(lambda a: td.sum(a, axis=1), backend="native").lower(rows(40, 10))
    f(rows(40, 10))
    text = f.source("native")
    size = min(host.vector_bytes // 4, 16)
    blocks = text.count("shufflevector") // size
    hidden = text.count('asm "", "=v,0"')
    assert hidden
    assert hidden % size == 0
    assert hidden // size < blocks  # the last size is not hidden


@pytest.mark.parametrize("d", [2, 3, 6])
def test_several_results_and_more_axes(d):
    f = td.jit(lambda a, s: td.unzip(td.map(lambda x, y: (x + y, x * y), a, td.broadcast_to(
        td.use(s)[..., None], a.shape))), backend="native")  # fmt: skip
    for n in COUNTS:
        a, s = rows(4 * n, d).reshape(4, n, d), rows(4, n, seed=1)
        total, product = f(a, s)
        assert np.array_equal(total, a + s[..., None])
        assert np.array_equal(product, a * s[..., None])


@pytest.mark.sample(1)
@pytest.mark.parametrize("type_", ["f4", "i8", "u1"])
def test_sums_over_narrow_rows(type_):
    f = td.jit(lambda a: (td.sum(a, axis=1), td.max(a, axis=1), td.argmin(a, axis=1)),
               backend="native")  # fmt: skip
    inside = td.jit(lambda a: td.sum(td.use(a)[1:-1, 1:], axis=1), backend="native")
    for d in (2, 5, 11, 16, 17):
        for n in COUNTS:
            a = rows(n, d, type_)
            total = np.zeros(n, np.sum(a[:1]).dtype)
            for k in range(d):
                total = total + a[:, k]
            got = f(a)
            for found, expected in zip(got, (total, a.max(1), a.argmin(1)), strict=True):
                assert np.array_equal(found, expected), (d, n)
            if n > 2:
                total = np.zeros(n - 2, np.sum(a[:1]).dtype)
                for k in range(1, d):
                    total = total + a[1:-1, k]
                assert np.array_equal(inside(a), total), (d, n)


def test_a_part_of_every_row_is_read_inside_the_array():
    """Columns 4 to 6 of 7, of the last rows of the array: nothing beyond its end is touched."""
    f = td.jit(lambda a: td.use(a)[:, 6] - td.use(a)[:, 4], backend="native")
    for n in (16, 32, 48):
        a = rows(n, 7)
        assert np.array_equal(f(a), a[:, 6] - a[:, 4])


MODES = {"clamp": "edge", "mirror": "reflect", "wrap": "wrap", "constant": "constant"}
TAPS = {
    "one axis": [(0, -2, 0), (0, 0, 0), (0, 1, 0)],
    "the other": [(-1, 0, 0), (2, 0, 0)],
    "both": [(-1, -1, 0), (0, 0, 0), (1, 2, 0), (0, 1, 0)],
    "along the rows, too": [(0, 1, 0), (1, 0, 0), (0, 0, 1)],
}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("taps", "mode"), [("both", m) for m in MODES] + [(t, "clamp") for t in TAPS if t != "both"]
)
def test_stencils_beside_narrow_rows(taps, mode):
    offsets = TAPS[taps]
    boundary = td.constant(0) if mode == "constant" else getattr(td, mode)
    f = td.jit(lambda a: td.stencil(lambda v: sum((k + 1) * v[o] for k, o in enumerate(offsets)), a,
                                    boundary=boundary), backend="native")  # fmt: skip
    for d in (3, 9):
        for height, width in ((5, 7), (9, 40)):
            a = np.random.default_rng(d).integers(0, 99, (height, width, d)).astype(np.int32)
            p = np.pad(a, ((2, 2), (2, 2), (1, 1)), mode=MODES[mode])
            expected = np.zeros_like(a)
            for k, (y, x, c) in enumerate(offsets):
                y, x, c = y + 2, x + 2, c + 1
                expected += (k + 1) * p[y : y + height, x : x + width, c : c + d]
            assert np.array_equal(f(a), expected), (d, height, width)


def test_stencils_along_the_columns_of_narrow_rows():
    def both(v, w):
        return v[1, 0] - w[-1, 0], v[-1, 0] * w[0, 0]

    f = td.jit(lambda a, b: td.unzip(td.stencil(both, a, b)), backend="native")
    for n in COUNTS:
        a, b = rows(n, 3), rows(n, 3, seed=1)
        p, q = (np.pad(x, ((1, 1), (0, 0)), mode="edge") for x in (a, b))
        first, second = f(a, b)
        assert np.array_equal(first, p[2:] - q[:-2])
        assert np.array_equal(second, p[:-2] * b)


@pytest.mark.sample(1)
@pytest.mark.parametrize("type_", ["u1", "f4", "c8"])
def test_flips_planes_and_parts_of_colours(type_):
    f = td.jit(lambda a: (td.use(a)[:, ::-1], td.use(a)[:, :, ::-1], td.transpose(a, (2, 0, 1)),
                          td.use(a)[:, :, 0] + td.use(a)[:, :, 2], td.use(a)[:, :, :3]),
               backend="native")  # fmt: skip
    for d in (3, 7, 12):
        for width in (1, 16, 47, 130):
            a = rows(6 * width, d, type_).reshape(6, width, d)
            wanted = (a[:, ::-1], a[:, :, ::-1], a.transpose(2, 0, 1), a[:, :, 0] + a[:, :, 2],
                      a[:, :, :3])  # fmt: skip
            for found, expected in zip(f(a), wanted, strict=True):
                assert np.array_equal(found, expected), (d, width)
            assert np.array_equal(f(np.asfortranarray(a))[2], wanted[2])


def test_pixels_become_bytes():
    f = td.jit(lambda a, r: td.clip(td.rint(a * td.use(r)[:, None]), 0, 255).astype(td.uint8),
               backend="native")  # fmt: skip
    for n in COUNTS:
        a, r = rows(n, 3), rows(n, 1, seed=1)[:, 0]
        expected = np.clip(np.rint(a * r[:, None]), 0, 255).astype(np.uint8)
        assert np.array_equal(f(a, r), expected)


@pytest.mark.sample(6)
@pytest.mark.parametrize("count", [8, 9, 11, 32, 33])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "c16"])
def test_columns_become_rows(count, dtype):
    """Joined columns are written row by row, whatever their number."""
    rng = np.random.default_rng(count)
    columns = [rng.integers(0, 100, 1003).astype(dtype) for _ in range(count)]
    program = td.jit(lambda *c: td.stack(c, axis=1), backend="native")
    np.testing.assert_array_equal(program(*columns), np.stack(columns, 1))


def test_parts_of_one_element():
    """Of rows of run-time extents: written without vectors."""

    def program(a, b):
        return td.generate(
            (a.shape[0], b.shape[0]),
            lambda i, j: td.cond(j == 0, a[i], td.cond(j == 1, a[i] * 2, b[j])),
        )

    a, b = np.arange(7.0), np.arange(50.0, 63)
    for length in (0, 1, 2, 3, 13):
        got = td.jit(program, backend="native")(a, b[:length])
        want = td.jit(program, backend="reference")(a, b[:length])
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("d", [2, 9, 11, 16, 17, 40])
def test_matrices_put_together_from_columns(d):
    """Conditions tell the elements of a row apart: up to 32 are computed side by side."""

    def program(a, w):
        total = sum((k + 1) * td.sum(w * a[:, k] ** 2) for k in range(min(d, 11)))
        return total + td.sum(a[:, 0] * a[:, -1])

    gradient = td.jit(td.grad(program), backend="native")
    for n in COUNTS:
        a, w = rows(n, d, "f8"), rows(n, 1, "f8", 1)[:, 0]
        want = np.zeros((n, d))
        for k in range(min(d, 11)):
            want[:, k] = 2 * (k + 1) * w * a[:, k]
        want[:, 0] += a[:, -1]
        want[:, -1] += a[:, 0]
        np.testing.assert_allclose(gradient(a, w), want, rtol=1e-13)


def constants(f, *args):
    """The extents that are constants in the kernels for these arguments."""
    program = td.jit(f, backend="native").lower(*args)
    program(*args)
    steps = program.executable.kernel_steps
    return sorted(n for s in steps for _, form, _ in s.variants for _, n in form.sizes)


@pytest.mark.sample(2)
@pytest.mark.parametrize("type_", ["f4", "f8", "i2", "c8"])
@pytest.mark.parametrize("short", [(4, 4), (2, 2, 2), (1, 5), (8, 8), (3, 9), (4, 2, 3)])
def test_rows_of_several_short_axes(type_, short):
    """Matrices with one of their elements, or with a matrix of their own shape, each."""
    corner = (slice(None), *(slice(0, 1) for _ in short))
    plus = td.jit(lambda a, b: a * b[None] + a[corner], backend="native")
    turned = td.jit(lambda a: a + td.swapaxes(a, -1, -2), backend="native")
    for n in COUNTS:
        a, b = rows(n, int(np.prod(short)), type_).reshape(n, *short), rows(*short[-2:], type_)
        b = np.broadcast_to(b, short).copy()
        with np.errstate(over="ignore"):
            assert np.allclose(plus(a, b), a * b[None] + a[corner], rtol=1e-5)
        if short[-1] == short[-2]:
            assert np.array_equal(turned(a), a + np.swapaxes(a, -1, -2))


def test_short_axes_are_constants_together():
    def plus(a):
        return a + a[:, :1, :1]

    assert constants(plus, rows(30, 16, "f8").reshape(30, 4, 4)) == [4, 4]
    assert constants(plus, rows(10, 70 * 4, "f8").reshape(10, 70, 4)) == [4]
    assert constants(plus, rows(10, 70 * 4, "f8").reshape(10, 4, 70)) == []
    assert constants(plus, rows(10, 120, "f8").reshape(10, 10, 12)) == []


def test_extents_that_change_from_short_to_long():
    """One program, whatever is short: each call has the kernel for its extents."""
    f = td.jit(lambda a: a * 2 + a[:, :1, :1], backend="native")
    for shape in [(50, 4, 4), (50, 4, 200), (50, 200, 4), (3, 4, 4), (50, 1, 4), (0, 4, 4),
                  (50, 4, 1), (2, 2, 2), (50, 8, 8), (50, 3, 2)]:  # fmt: skip
        a = rows(shape[0], shape[1] * shape[2], "f8").reshape(shape)
        assert np.array_equal(f(a), a * 2 + a[:, :1, :1]), shape


def test_no_elements_between_short_axes():
    a = rows(3, 4, "f8")
    for made, shape in (
        (td.replicate(a, 0, axis=1), (3, 0, 4)),
        (td.replicate(a, 0, axis=0) * 2, (0, 3, 4)),
        (td.replicate(td.replicate(a, 2, axis=1), 0, axis=1), (3, 0, 2, 4)),
    ):
        assert np.asarray(td.run(made, backend="native")).shape == shape
