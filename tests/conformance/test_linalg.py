"""matmul and its relatives: every shape, every type, integers exact."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

from .helpers import (
    COMPLEXES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    assert_same,
    devices,
    dt,
    generator,
    same_bits,
    small,
    to_host,
    wide,
)

SHAPES = (
    (0, 3, 4),
    (3, 0, 4),
    (3, 4, 0),
    (0, 0, 0),
    (1, 1, 1),
    (1, 7, 1),
    (5, 1, 6),
    (2, 3, 5),
    (7, 11, 13),
    (31, 33, 32),
    (64, 64, 64),
    (65, 63, 67),
    (1, 257, 33),
    (97, 5, 1),
)


def product(a, b):
    """NumPy's product, in the type of its arguments."""
    if a.dtype == b.dtype and a.dtype.name in ("bfloat16", "float16"):
        return np.matmul(a.astype("f4"), b.astype("f4")).astype(a.dtype)
    return np.matmul(a, b)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ("int32", "int64", "float32", "float64"))
def test_every_shape(check, name):
    """Whole numbers: exact in any order of additions."""
    cases = {}
    for m, k, n in SHAPES:
        a, b = small(name, (m, k), 1), small(name, (k, n), 2)
        cases[f"{m}×{k}×{n}"] = (lambda a=a, b=b: td.matmul(a, b), product(a, b))
    check(cases)


def test_run_time_shapes(backend):
    @td.jit(backend=backend)
    def program(a, b):
        return a @ b, td.strassen(a, b)

    for m, k, n in SHAPES:
        a, b = small("float64", (m, k), 1), small("float64", (k, n), 2)
        assert_same(program(a, b), (a @ b, a @ b), label=f"{m}×{k}×{n}")


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NUMBERS)
def test_every_type(check, name):
    low, high = (-1, 2) if name in ("bfloat16", "float16") else (-4, 5)
    a, b = small(name, (17, 33), 1, low, high), small(name, (33, 9), 2, low, high)
    u, v = small(name, 33, 3, low, high), small(name, 33, 4, low, high)
    want = product(a, b)
    cases = {
        "matmul": (lambda: td.matmul(a, b), want),
        "@": (lambda: td.use(a) @ td.use(b), want),
        "transposed": (lambda: td.use(b).T @ td.use(a).T, product(b.T, a.T)),
        "strided": (lambda: td.use(a)[::2, ::-1] @ td.use(b)[::-1], product(a[::2, ::-1], b[::-1])),
        "vector @ matrix": (lambda: td.matmul(u, b), product(u[None], b)[0]),
        "matrix @ vector": (lambda: td.matmul(a, v), product(a, v[:, None])[:, 0]),
        "vector @ vector": (lambda: td.matmul(u, v), product(u[None], v[:, None])[0, 0]),
    }
    if name not in ("float16", "bfloat16"):  # refused
        cases["strassen"] = (lambda: td.strassen(a, b), want)
    if name in INTEGERS:
        a2, b2 = wide(name, (17, 33), 5), wide(name, (33, 9), 6)
        exact = np.matmul(a2, b2)
        cases |= {
            "wrapping": (lambda: td.matmul(a2, b2), exact),
            "wrapping strassen": (lambda: td.strassen(a2, b2), exact),
            "wrapping winograd": (lambda: td.strassen(a2, b2, variant="winograd"), exact),
        }
    check(cases)


@pytest.mark.parametrize("name", ("int32", "int64", "uint32", "float64"))
def test_larger_products(check, name):
    """Full-range integers stay exact beyond one tile; floats hold small whole numbers."""
    make = small if name == "float64" else wide
    a, b = make(name, (129, 257), 1), make(name, (257, 127), 2)
    check(
        {
            "matmul": (lambda: td.matmul(a, b), np.matmul(a, b)),
            "two levels": (lambda: td.strassen(a, b, levels=2), np.matmul(a, b)),
        }
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("variant", ("strassen", "winograd"))
@pytest.mark.parametrize("levels", (1, 2))
def test_strassen(check, variant, levels):
    cases = {}
    for m, k, n in SHAPES:
        a, b = small("int64", (m, k), 1), small("int64", (k, n), 2)
        cases[f"{m}×{k}×{n}"] = (
            lambda a=a, b=b: td.strassen(a, b, levels=levels, variant=variant),
            a @ b,
        )
    check(cases)


def test_algorithms_of_matmul(check):
    a, b = small("float32", (37, 50), 1), small("float32", (50, 41), 2)
    cases = {
        f"{name} {levels}": (lambda n=name, x=levels: td.matmul(a, b, algorithm=n, levels=x), a @ b)
        for name, levels in (
            ("auto", None),
            ("standard", None),
            ("strassen", None),
            ("winograd", None),
            ("strassen", 2),
            ("winograd", 2),
        )
    }
    check(cases)


@pytest.mark.parametrize("name", ("float32", "float64", *COMPLEXES))
def test_random_floats(run, name):
    """The norm-wise error of a product is small, by any algorithm."""
    rng = generator("random", name)
    a = rng.standard_normal((65, 130)).astype(dt(name))
    b = rng.standard_normal((130, 70)).astype(dt(name))
    if name in COMPLEXES:
        a, b = a + a[::-1] * dt(name).type(1j), b - b[:, ::-1] * dt(name).type(1j)
    exact = a.astype("G") @ b.astype("G") if name in COMPLEXES else a.astype("g") @ b.astype("g")
    scale = np.abs(a).max() * np.abs(b).max() * 130
    products = run((td.matmul(a, b), td.strassen(a, b), td.strassen(a, b, levels=2)))
    for got, factor in zip(products, (1, 10, 60), strict=True):
        assert got.dtype == dt(name)
        error = np.abs(got - exact).max()
        assert error <= factor * np.finfo(dt(name)).eps * scale


def test_batched(check):
    a, b = small("float64", (4, 3, 5, 6), 1), small("float64", (4, 3, 6, 2), 2)
    i, j = small("int32", (7, 9, 4), 3), small("int32", (7, 4, 3), 4)
    v = small("float64", 6, 5)
    check(
        {
            "two leading axes": (lambda: td.matmul(a, b), a @ b),
            "broadcast left": (lambda: td.matmul(a[0, 0], b), a[0, 0] @ b),
            "broadcast right": (lambda: td.matmul(a, b[0]), a @ b[0]),
            "broadcast ones": (lambda: td.matmul(a[:, :1], b[:1]), a[:, :1] @ b[:1]),
            "integers": (lambda: td.use(i) @ td.use(j), i @ j),
            "with a vector": (lambda: td.matmul(a, v), a @ v),
            "no batches": (lambda: td.matmul(a[:0], b[:0]), a[:0] @ b[:0]),
            "no inner": (lambda: td.matmul(i[:, :, :0], j[:, :0]), i[:, :, :0] @ j[:, :0]),
            "small batches": (
                lambda: td.matmul(small("float32", (50, 2, 2), 6), small("float32", (50, 2, 2), 7)),
                small("float32", (50, 2, 2), 6) @ small("float32", (50, 2, 2), 7),
            ),
            "strassen": (lambda: td.strassen(a, b), a @ b),
        }
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("name, size", [
    ("float16", (100, 100, 100)), ("float16", (72, 30, 60)), ("float32", (36, 20, 34)),
    ("float32", (18, 64, 64)), ("int32", (64, 9, 50)),
])  # fmt: skip
def test_many_products(check, name, size):
    """Of integers that are exact in every type: the kernels for many small products."""
    m, k, n = size
    rng = generator("many", name)
    a, b = (rng.integers(-2, 3, (66, *s)).astype(name) for s in ((m, k), (k, n)))
    turned = np.ascontiguousarray(b.swapaxes(1, 2))
    exact = (a.astype("i4") @ b.astype("i4")).astype(name)
    one = (a.astype("i4") @ b[:1].astype("i4")).astype(name)
    check(
        {
            "plain": (lambda: td.matmul(a, b), exact),
            "fused": (lambda: td.maximum(td.use(a) @ b + b[0, 0], 1),
                      np.maximum(exact + b[0, 0], 1)),
            "operand": (lambda: td.matmul(td.use(a) * 2, td.use(b)), exact * 2),
            "turned": (lambda: td.matmul(a, td.transpose(turned, (0, 2, 1))), exact),
            "broadcast": (lambda: td.matmul(a, b[:1]), one),
        }
    )  # fmt: skip


def test_alpha_beta_c(check):
    a, b = small("float64", (9, 7), 1), small("float64", (7, 11), 2)
    c = small("float64", (9, 11), 3)
    i, j, k = (small("int32", s, 4) for s in ((3, 4), (4, 5), (3, 5)))
    check(
        {
            "alpha": (lambda: td.matmul(a, b, alpha=2), 2 * (a @ b)),
            "beta": (lambda: td.matmul(a, b, beta=3, c=c), a @ b + 3 * c),
            "both": (lambda: td.matmul(a, b, alpha=-2, beta=0.5, c=c), -2 * (a @ b) + 0.5 * c),
            "beta 0": (lambda: td.matmul(a, b, alpha=1, beta=0, c=c), a @ b),
            "integers": (lambda: td.matmul(i, j, alpha=3, beta=-1, c=k), np.int32(3) * (i @ j) - k),
            "strassen": (
                lambda: td.matmul(a, b, algorithm="strassen", alpha=2, beta=1, c=c),
                2 * (a @ b) + c,
            ),
        }
    )


def test_beta_zero_ignores_c(run):
    """As in BLAS, c is not read when beta is 0: a NaN in it does not spread."""
    a, b = small("float64", (3, 4), 1), small("float64", (4, 5), 2)
    assert_same(run(td.matmul(a, b, beta=0, c=np.full((3, 5), np.nan))), a @ b)


def test_fused_operands_and_epilogues(check):
    a, b = small("float32", (33, 20), 1), small("float32", (20, 17), 2)
    bias, r = small("float32", 17, 3), small("float32", (33, 17), 4)
    ua, ub = td.use(a), td.use(b)
    p = a @ b
    check(
        {
            "prologue": (lambda: td.matmul(ua * 2 + 1, td.map(lambda x: -x, ub)), (a * 2 + 1) @ -b),
            "generated": (
                lambda: td.generate((3, 20), lambda i, j: td.cast(i - j, td.float32)) @ ub,
                np.subtract.outer(np.arange(3), np.arange(20)).astype("f4") @ b,
            ),
            "bias and activation": (
                lambda: td.maximum(ua @ ub + bias, 0),
                np.maximum(p + bias, np.float32(0)),
            ),
            "zip": (lambda: (ua @ ub) * 2 - r, p * 2 - r),
            "sum of rows": (lambda: td.sum(ua @ ub, axis=1), p.sum(axis=1)),
            "twice": (lambda: (ua @ ub) + (ua @ ub), p + p),
            "chain": (lambda: ua @ ub @ td.use(r).T, p @ r.T),
        }
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ("float32", "float64", "int32", "int64", "complex128"))
def test_operands_are_any_view_of_an_array(check, name):
    """Reshaped transposes and slices, broadcasts and diagonals, on either side."""
    a, b = small(name, (6, 4), 1), small(name, (2, 4, 3), 2)
    row = small(name, 4, 3)

    def td_views():
        return {
            "reshaped transpose": td.reshape(td.transpose(b, (1, 0, 2)), (4, 6)),
            "reshaped slice": td.reshape(td.use(b)[:, :, :2], (4, 4)),
            "reshaped reversal": td.reshape(td.reverse(b, 2), (4, 6)),
            "rolled": td.roll(td.use(a).T, 1, 1),
            "broadcast": td.broadcast_to(td.use(row)[:, None], (4, 5)),
            "replicated": td.replicate(row, 5, 1),
            "diagonal": td.diagonal(td.replicate(a.T, 6, 2), 0, 1, 2),
            "concatenated": td.concatenate([a.T, a.T], axis=1),
            "strided": td.use(b)[1, :, ::-2],
        }

    views = {
        "reshaped transpose": b.transpose(1, 0, 2).reshape(4, 6),
        "reshaped slice": b[:, :, :2].reshape(4, 4),
        "reshaped reversal": b[:, :, ::-1].reshape(4, 6),
        "rolled": np.roll(a.T, 1, 1),
        "broadcast": np.broadcast_to(row[:, None], (4, 5)),
        "replicated": np.repeat(row[:, None], 5, 1),
        "diagonal": a.T,
        "concatenated": np.concatenate([a.T, a.T], axis=1),
        "strided": b[1, :, ::-2],
    }
    cases = {}
    for label, view in views.items():
        cases[f"{label}, right"] = (lambda k=label: td.use(a) @ td_views()[k], a @ view)
        cases[f"{label}, left"] = (
            lambda k=label: td_views()[k].T @ td.use(a.T),
            np.ascontiguousarray(view.T) @ a.T,
        )
    check(cases)


@pytest.mark.parametrize("name", ("float32", "float64", "complex64"))
@pytest.mark.parametrize("shape", ((1, 5, 2), (3, 64, 1), (40, 50, 30), (2, 20, 70, 9)))
def test_deterministic_products_have_the_same_bits_in_every_layout(backend, shape, name):
    """Libraries sum columns, rows and reversed rows in orders of their own."""
    *batch, m, k, n = shape
    a, b = wide(name, (*batch, m, k), 1), wide(name, (*batch, k, n), 2)

    def columns(x):
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)

    def reversed_rows(x):
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]

    for algorithm in ("auto", "strassen"):
        made = td.jit(
            lambda x, y, f=algorithm: td.matmul(x, y, algorithm=f, deterministic=True),
            backend=backend,
        )
        want = made(a, b)
        for left in (columns, reversed_rows, np.ascontiguousarray):
            for right in (columns, reversed_rows):
                label = f"{algorithm}, {left.__name__}, {right.__name__}"
                same_bits(to_host(made(left(a), right(b))), to_host(want), label)
        if devices() is not None:
            continue  # checked programs run on one GPU, where another kernel may compute a product
        with td.config(check=True):
            same_bits(to_host(made(a, columns(b))), to_host(want), f"{algorithm}, checked")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ("float16", "float32", "float64", "complex64"))
def test_few_rows_and_columns_over_a_long_axis(backend, name):
    """Numbers of rows around those of a block; whole numbers are exact."""

    @td.jit(backend=backend)
    def program(a, b, w):
        return {
            "gram": b.T @ b,
            "two": a.T @ b,
            "rows": a[::-1].T @ (b * w[:, None]),
            "weighted": (a.T * w) @ b,
            "fused": 2 * (a.T @ b) + 1,
            "inner": a[:, :2].T @ b[:, 1:4],
        }

    for k, m, n in ((0, 3, 2), (1, 3, 7), (300, 7, 7), (2049, 4, 20), (5000, 13, 5), (70, 32, 33)):
        a, b, w = (small(name, shape, seed, -1, 2) for seed, shape in
                   enumerate(((k, m), (k, n + 3), (k,)), 1))  # fmt: skip
        for right in (b, np.asfortranarray(b), b[::-1, ::2]):
            found = program(a, right, w)
            want = {
                "gram": product(right.T, right),
                "two": product(a.T, right),
                "rows": product(a[::-1].T, right * w[:, None]),
                "weighted": product(a.T * w, right),
                "inner": product(a[:, :2].T, right[:, 1:4]),
            }
            want["fused"] = want["two"] * 2 + 1
            for label, value in want.items():
                assert_same(found[label], value, label=f"{label}, {m} by {k} by {n}")


def test_a_long_inner_axis_in_a_loop(backend):
    """As in iteratively reweighted least squares."""
    a, w = small("float64", (2100, 5), 1), small("float64", (2100,), 2, 1, 4)

    def step(k, state):
        w, total = state
        return w + 1, total + (a.T * w) @ a

    found = td.jit(lambda w: td.loop(3, step, (w, td.zeros((5, 5)))), backend=backend)(w)
    assert_same(found[1], sum((a.T * (w + k)) @ a for k in range(3)))


def plus(x, y):
    return x + y


def test_the_idiom_is_a_product(backend):
    """fold(+) of map(*) of replicated rows and columns, recognised or not."""
    a, b = wide("int32", (9, 7), 1), wide("int32", (7, 5), 2)

    def program(x, y):
        rows = td.replicate(x, y.shape[1], 1)
        columns = td.replicate(td.transpose(y), x.shape[0], 0)
        return td.fold(plus, 0, td.map(lambda p, q: p * q, rows, columns))

    for recognise in (True, False):
        compiled = td.jit(program, backend=backend, recognise=recognise)
        assert_same(compiled(a, b), a @ b, label=f"recognise={recognise}")
        shape = compiled(a[:0], b).shape
        assert shape == (0, 5)


def test_dot_outer_tensordot(check):
    u, v = small("int64", 97, 1), small("int64", 97, 2)
    a, b = small("int64", (5, 7), 3), small("int64", (7, 4), 4)
    t, s = small("int64", (3, 4, 5), 5), small("int64", (4, 5, 6), 6)
    check(
        {
            "dot 1·1": (lambda: td.dot(u, v), np.array(u @ v)),
            "dot 2·2": (lambda: td.dot(a, b), a @ b),
            "dot 2·1": (lambda: td.dot(a, v[:7]), a @ v[:7]),
            "dot N·2": (lambda: td.dot(t, s[0]), np.dot(t, s[0])),
            "dot N·N": (
                lambda: td.dot(t, small("int64", (2, 5, 3), 7)),
                np.dot(t, small("int64", (2, 5, 3), 7)),
            ),
            "empty dot": (lambda: td.dot(u[:0], v[:0]), np.array(0)),
            "outer": (lambda: td.outer(u[:9], v[:5]), np.outer(u[:9], v[:5])),
            "outer flattens": (lambda: td.outer(a, b), np.outer(a, b)),
            "outer of nothing": (lambda: td.outer(u[:0], v[:3]), np.outer(u[:0], v[:3])),
            "tensordot": (lambda: td.tensordot(t, s), np.tensordot(t, s)),
            "tensordot 1": (lambda: td.tensordot(a, b, axes=1), np.tensordot(a, b, 1)),
            "tensordot 0": (lambda: td.tensordot(a, b, axes=0), np.tensordot(a, b, 0)),
            "tensordot of axes": (
                lambda: td.tensordot(t, s, axes=([1, 2], [0, 1])),
                np.tensordot(t, s, ([1, 2], [0, 1])),
            ),
            "tensordot of crossed axes": (
                lambda: td.tensordot(t, s[:, :, :3], axes=([0, 1], [2, 0])),
                np.tensordot(t, s[:, :, :3], ([0, 1], [2, 0])),
            ),
        }
    )


def test_matmul_of_mixed_types(check):
    i, f = small("int32", (3, 4), 1), small("float32", (4, 5), 2)
    h = small("float16", (4, 5), 3)
    check(
        {
            "int32 @ float32": (lambda: td.matmul(i, f), i @ f),
            "int8 @ int32": (
                lambda: td.matmul(i.astype("i1"), f.astype("i4")),
                i.astype("i1") @ f.astype("i4"),
            ),
            "float32 @ float16": (lambda: td.matmul(f.T, h), f.T @ h),
        }
    )
    assert {"float32", "float64"} < set(FLOATS)


def test_too_many_levels_are_refused_and_many_end_at_small_leaves():
    a = np.arange(40.0 * 40).reshape(40, 40) % 7
    with pytest.raises(td.TracingError, match="9 levels"):
        td.matmul(a, a, algorithm="strassen", levels=9)
    with pytest.raises(td.TracingError, match=r"^strassen: 9 levels exceed"):
        td.strassen(a, a, levels=9)
    with pytest.raises(td.ShapeError, match=r"^strassen: inner extents differ"):
        td.strassen(a[:, 1:], a)
    assert_same(td.run(td.matmul(a, a, algorithm="strassen", levels=8)), a @ a)


def test_options_that_mean_nothing_are_refused():
    a = np.arange(16).reshape(4, 4)
    with pytest.raises(td.DTypeError, match="whose products are exact"):
        td.matmul(a, a, algorithm="strassen", scaling="outer")
    with pytest.raises(td.TracingError, match="True or False, got 'yes'"):
        td.matmul(a, a, deterministic="yes")
    one = np.ones((1, 1), int)
    assert td.BilinearAlgorithm("one", np.int64(1), 1, 1, one, one, one).m == 1


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_floats_of_16_bits_have_the_standard_product_only(run, backend, name):
    """Sums of blocks would be rounded to 16 bits: refused by name, not chosen by themselves."""
    t, n = getattr(td, name), 70
    a, b = small(name, (n, n), 1, -1, 2), small(name, (n, n), 2, -1, 2)
    own = td.BilinearAlgorithm("own", 1, 1, 1, *3 * [np.ones((1, 1), int)])
    for refused in (
        lambda: td.strassen(a, b),
        lambda: td.strassen(a, b, levels=2, variant="winograd", execution="batched"),
        lambda: td.matmul(a, b, algorithm="strassen"),
        lambda: td.matmul(a[:, 0], b, algorithm="strassen"),
        lambda: td.matmul(np.stack([a, a]), b, algorithm=own),
        lambda: td.matmul(td.cast(a, t), td.cast(np.ones((n, n), bool), t), algorithm="winograd"),
    ):
        with pytest.raises(td.DTypeError, match=f"sums of {name} would be rounded") as said:
            refused()
        assert "td.cast(a, td.float32)" in said.value.hint and "a @ b" in said.value.hint
        assert said.value.where is not None and said.value.where.file == __file__
    want = product(a, b)
    programs = {
        "auto": lambda a, b: td.matmul(a, b, levels=2),
        "standard": lambda a, b: td.matmul(a, b, algorithm="standard", levels=1),
        "no levels": lambda a, b: td.matmul(a, b, algorithm="strassen", levels=0),
    }
    with td.precision(fast=True):
        for label, function in programs.items():
            program = td.jit(function, backend=backend)
            assert_same(program(a, b), want, label=label)
            text = " ".join(program.lower(a, b).explain(backend).split())
            assert "standard" in text or backend == "reference"
            assert "strassen" not in text.lower().replace("td.strassen", "")
    # sums in float32, by the program's own conversions
    wide = td.strassen(td.cast(a, td.float32), td.cast(b, td.float32))
    assert_same(run(td.cast(wide, t)), want)
    # of a wider type together with a narrow one, products are in the wider one
    assert_same(run(td.strassen(a, b.astype("f4"))), want.astype("f4"))


@pytest.mark.parametrize("where", ["native", "cuda"])
def test_products_with_vectors_take_in_what_surrounds_them(where):
    def layer(a, x, b):
        return td.maximum((2 * a) @ x + b, 0)

    a, x, b = np.ones((5, 4), "f4"), np.ones(4, "f4"), np.ones(5, "f4")
    shown = td.jit(layer).lower(a, x, b).explain(where)
    assert "1 kernel launched" in str(shown)
    asked = td.jit(lambda a, x: td.matmul(a, x, algorithm="strassen")).lower(a, x)
    assert "sums of n2 products" in str(asked.explain(where))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ("float16", "float32", "float64", "int32", "complex64"))
def test_a_matrix_for_each_vector(check, name):
    """Matrices that are read once, and others; whole numbers are exact."""
    cases = {}
    for batch, m, k in (((5,), 4, 4), ((0,), 3, 2), ((2, 3), 1, 7), ((3,), 70, 65), ((4,), 6, 0)):
        a, x = small(name, (*batch, m, k), 1, -2, 3), small(name, (*batch, k), 2, -2, 3)
        right, left = product(a, x[..., None]), product(x[..., None, :], a.swapaxes(-1, -2))
        one = small(name, (k, 1), 3, -2, 3)
        for label, f, want in (
            ("columns", lambda a=a, x=x: td.matmul(a, x[..., None]), right),
            ("dropped", lambda a=a, x=x: (td.use(a) @ td.use(x)[..., None])[..., 0],
             right[..., 0]),
            ("matvec", lambda a=a, x=x: td.matvec(a, x), right[..., 0]),
            ("rows", lambda a=a, x=x: td.matmul(x[..., None, :], td.use(a).mT), left),
            ("vecmat", lambda a=a, x=x: td.vecmat(x.conj(), td.use(a).mT), left[..., 0, :]),
            ("both", lambda x=x: td.matmul(x[..., None, :], x[..., None]),
             product(x[..., None, :], x[..., None])),
            ("a vector for all", lambda a=a, one=one: td.matmul(a, one), product(a, one)),
            ("a matrix for all", lambda a=a, x=x: td.matmul(a[:1], x[..., None]),
             product(a[:1], x[..., None])),
            ("fused", lambda a=a, x=x: td.use(a) @ (td.use(x) * 2)[..., None] + 1,
             right * right.dtype.type(2) + right.dtype.type(1)),
        ):  # fmt: skip
            cases[f"{label}, {batch} of {m} by {k}"] = f, want
    check(cases)


def test_a_matrix_for_each_vector_has_the_gradient_of_a_product(backend):
    a, x = small("float64", (3, 4, 5), 1), small("float64", (3, 5), 2)
    loss = td.grad(lambda a, x: td.sum((a @ x[..., None]) ** 2), argnums=(0, 1))
    to_a, to_x = td.jit(loss, backend=backend)(a, x)
    y = 2 * np.einsum("nij,nj->ni", a, x)
    assert_same(to_a, y[:, :, None] * x[:, None, :])
    assert_same(to_x, np.einsum("nij,ni->nj", a, y))


@pytest.mark.parametrize("where", ["native", "cuda"])
def test_a_matrix_for_each_vector_takes_in_what_surrounds_it(where):
    def layer(a, x, b):
        return td.maximum(((2 * a) @ x[..., None])[..., 0] + b, 0)

    a, x, b = np.ones((9, 5, 4), "f4"), np.ones((9, 4), "f4"), np.ones(5, "f4")
    assert "1 kernel launched" in str(td.jit(layer).lower(a, x, b).explain(where))


def test_halves_times_a_vector_are_added_in_float32(run):
    """4 096 ones and more are not counted one by one in float16."""
    a, x = np.ones((2, 5000), "f2"), np.ones(5000, "f2")
    assert_same(run(td.matmul(a, x)), np.full(2, 5000, "f2"))


SMALL = ((1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (3, 5, 2), (8, 8, 8), (10, 10, 10),
         (16, 8, 12), (7, 16, 5), (32, 32, 32), (24, 48, 64), (65, 4, 4))  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ("float16", "bfloat16", "float32", "int8", "complex64"))
def test_many_small_products(check, name):
    """Numbers of products around those of a block and of a warp; whole numbers are exact."""
    cases = {}
    for m, k, n in SMALL:
        for count in (1, 65) if max(m, k, n) > 8 else (0, 1, 31, 300):
            a = small(name, (count, m, k), 1, -2, 3)
            b = small(name, (count, k, n), 2, -2, 3)
            cases[f"{count} of {m}×{k}×{n}"] = (lambda a=a, b=b: td.matmul(a, b), product(a, b))
    check(cases)


def test_small_products_of_views_with_fused_neighbours(backend):
    """Transposed, broadcast, strided and interleaved operands; producers and consumers."""
    a, b = small("float32", (70, 8, 8), 1), small("float32", (70, 8, 8), 2)
    bias, one = small("float32", (8,), 3), small("float32", (8, 8), 4)

    @td.jit(backend=backend)
    def program(a, b, bias, one, turned):
        return {
            "layer": td.maximum(a @ b + bias, 0),
            "transposed": td.transpose(a, (0, 2, 1)) @ td.transpose(b, (0, 2, 1)),
            "broadcast": a @ one,
            "reversed": a[::-1, :, ::-1] @ b[:, ::-1],
            "computed": (a * 2 + 1) @ td.cast(b > 0, td.float32),
            "interleaved": td.transpose(turned, (2, 0, 1)) @ b,
            "scaled": td.sum((a @ b) * 0.5, axis=(1, 2)),
        }

    found = program(a, b, bias, one, a.transpose(1, 2, 0).copy())
    want = {
        "layer": np.maximum(a @ b + bias, 0),
        "transposed": a.swapaxes(1, 2) @ b.swapaxes(1, 2),
        "broadcast": a @ one,
        "reversed": a[::-1, :, ::-1] @ b[:, ::-1],
        "computed": (a * 2 + 1) @ (b > 0).astype("f4"),
        "interleaved": a @ b,
        "scaled": (a @ b * np.float32(0.5)).sum((1, 2)),
    }
    for name, value in want.items():
        assert_same(found[name], value, label=name)


def test_small_products_whose_extents_change(backend):
    program = td.jit(lambda a, b: a @ b, backend=backend)
    for n in (2, 3, 2, 70, 4, 5, 6, 7, 8, 9, 10, 11, 12, 3):
        a, b = small("float32", (65, n, n), 1), small("float32", (65, n, n), 2)
        assert_same(program(a, b), a @ b, label=str(n))


def test_tensordot_sums_over_equal_axes(backend):
    a, b = np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(4, 3, 2)
    f = td.jit(lambda a, b: td.tensordot(a, b, axes=2), backend=backend)
    with pytest.raises(td.ShapeError, match=r"axis 0 .* has 3, axis 0 .* has 4"):
        f(a, b)  # as many elements, but not these
    assert np.allclose(f(a, b.transpose(1, 0, 2)), np.tensordot(a, b.transpose(1, 0, 2), 2))
