"""Products and folds of a few elements in loops are straight-line code of one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import ArrayLoop, Fold, Matmul, Sequential, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings


def kinds(f: Any, *args: Any, backend: str = "native", check: bool = False) -> tuple[int, ...]:
    """How many sequences, loops, products and folds remain."""
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(check=check), backend).roots
    nodes = list(topological(roots))
    kinds = Sequential, ArrayLoop, Matmul, Fold
    return tuple(sum(isinstance(n, t) for n in nodes) for t in kinds)


def covariances(f: Any, p: Any, q: Any) -> Any:
    return td.loop(20, lambda k, p: f @ p @ f.T + q, p)


def filtered(zs: Any, f: Any, h: Any, q: Any, r: Any, x: Any, p: Any) -> Any:
    """Kalman's filter."""

    def step(state: Any, z: Any) -> Any:
        x, p = state
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T @ td.linalg.inv(h @ p @ h.T + r)
        x, p = x + gain @ (z - h @ x), p - gain @ h @ p
        return (x, p), (x, p)

    return td.scan(step, (x, p), zs)


def filtered_by_numpy(zs: Any, f: Any, h: Any, q: Any, r: Any, x: Any, p: Any) -> Any:
    made = []
    for z in zs:
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
        x, p = x + gain @ (z - h @ x), p - gain @ h @ p
        made.append((x, p))
    return (x, p), tuple(map(np.array, zip(*made, strict=True)))


def model(n: int, m: int, steps: int = 30) -> tuple[Any, ...]:
    rng = np.random.default_rng(n)
    f = np.eye(n) + 0.1 * rng.standard_normal((n, n))
    return (rng.standard_normal((steps, m)), f, rng.standard_normal((m, n)), 0.01 * np.eye(n),
            0.1 * np.eye(m), np.zeros(n), np.eye(n))  # fmt: skip


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (4, 2), (6, 3)])
def test_a_filter_is_one_loop_without_calls(sizes: tuple[int, int]) -> None:
    args = model(*sizes)
    want = filtered_by_numpy(*args)
    for backend in ("native", "reference"):
        found = td.jit(filtered, backend=backend)(*args)
        for side, other in zip(found, want, strict=True):
            for a, b in zip(side, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert kinds(filtered, *args) == (1, 0, 0, 0)


@pytest.mark.parametrize("shape", [(5, 30), (1, 0), (0, 30)])
def test_a_filter_of_each_row_is_one_loop_without_calls(shape: tuple[int, int]) -> None:
    """Beside what an iteration changes, the row that it walks along has any number of elements."""
    _, *others = model(3, 2)
    zs = np.random.default_rng(3).standard_normal((*shape, 2))

    def rows(zs: Any, *others: Any) -> Any:
        return td.scan(lambda none, row: (none, filtered(row, *others)[1]), 0, zs)[1]

    assert kinds(rows, zs, *others) == (1, 2, 0, 0)
    found = td.jit(rows, backend="native")(zs, *others)
    one = td.jit(filtered, backend="native")
    assert [a.shape for a in found] == [(*shape, 3), (*shape, 3, 3)]
    for *made, row in zip(*found, zs, strict=True):
        for a, b in zip(made, one(row, *others)[1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_table_that_data_choose_is_read_before_the_loop() -> None:
    """Not at all where there is no iteration, whatever the index."""

    def powers(table: Any, which: Any, n: Any, p: Any) -> Any:
        chosen = td.use(table)[which[0]]
        return td.loop(n, lambda k, p: chosen[k, 0] * (chosen[:2] @ p), p)

    table, p = np.random.default_rng(4).random((3, 50, 2)), np.eye(2)
    assert kinds(powers, table, np.array([1]), 9, p) == (1, 1, 0, 0)
    want = p
    for k in range(9):
        want = table[1][k, 0] * (table[1][:2] @ want)
    powered = td.jit(powers, backend="native")
    np.testing.assert_allclose(powered(table, np.array([1]), 9, p), want, rtol=1e-12)
    np.testing.assert_array_equal(powered(table, np.array([1 << 40]), 0, p), p)


@pytest.mark.parametrize("t", [np.float32, np.float64, np.complex128, np.int64, np.int16, bool])
def test_types(t: Any) -> None:
    rng = np.random.default_rng(2)
    f, p, q = (rng.integers(0, 2, (3, 3)).astype(t) for _ in range(3))

    def steps(f: Any, p: Any, q: Any) -> Any:
        return td.loop(6, lambda k, p: f @ p ^ q if t is bool else f @ p - q, p)

    found, want = (td.jit(steps, backend=b)(f, p, q) for b in ("native", "reference"))
    assert found.dtype == t
    np.testing.assert_allclose(found, want, rtol=1e-5)
    assert kinds(steps, f, p, q)[2] == (t in (np.int16, bool))


def test_one_function_serves_all_sizes() -> None:
    """Sizes beyond the small ones are extents of one program."""
    made = td.jit(covariances, backend="native")
    for n in (4, 2, 9, 30, 4, 1, 7):
        _, f, _, q, _, _, want = model(n, 1)
        p = want
        for _ in range(20):
            want = f @ want @ f.T + q
        np.testing.assert_allclose(made(f, p, q), want, rtol=1e-9)
        large = kinds(covariances, f, p, q) if n > 1 else (1, 0, 0, 0)
        assert large == ((1, 0, 0, 0) if n <= 6 else (0, 1, 2, 0)), n


def test_a_lowered_program_refuses_other_sizes() -> None:
    program = td.jit(covariances, backend="native").lower(*(np.eye(3),) * 3)
    with pytest.raises(td.ShapeError, match="matrices with an extent of 3, not 4"):
        program(*(np.eye(4),) * 3)


def test_where_products_stay_calls() -> None:
    """With inner axes of more than four elements, outside of loops and beside what has many
    elements; with another way to compute them; checked programs; and on a GPU, whose threads have
    no loop of their own."""
    three = (np.eye(4),) * 3
    assert kinds(lambda f, p, q: f @ p @ f.T + q, *(np.eye(5),) * 3)[2] == 2
    assert kinds(covariances, *three, check=True)[:3] == (0, 1, 2)
    assert kinds(covariances, *three, backend="cuda")[:3] == (0, 1, 2)

    def beside(f: Any, p: Any, a: Any) -> Any:
        return td.loop(9, lambda k, s: (f @ s[0], s[1] * td.sum(s[0]) + td.sum(s[1])), (p, a))

    assert kinds(beside, np.eye(5), np.eye(5), np.ones(1000))[:3] == (0, 1, 1)

    def otherwise(f: Any, p: Any) -> Any:
        return td.loop(9, lambda k, p: td.matmul(f, p, name="wanted"), p)

    assert kinds(otherwise, np.eye(4), np.eye(4))[:3] == (0, 1, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_few_products_are_summed_where_they_are_read(k: int, dtype: str) -> None:
    """One kernel, in which nothing is stored, with the bits of the library's product."""
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((2, 400, k)).astype(dtype)

    def furthest(a: Any, b: Any) -> Any:
        return td.max(td.abs(a @ b.T - 1), axis=1)

    program = td.jit(furthest, backend="native").lower(a, b)
    assert "1 kernel launched" in program.explain()
    library = td.jit(lambda a, b: td.matmul(a, b.T, name="wanted"), backend="native")(a, b)
    assert np.array_equal(td.jit(lambda a, b: a @ b.T, backend="native")(a, b), library)
    assert np.array_equal(program(a, b), np.abs(library - 1).max(axis=1))
    assert np.allclose(library, a @ b.T)


def test_which_products_are_not_sums() -> None:
    """Those of long inner axes, of which the same function makes other programs; of integers, of
    complex numbers, of matrices for each index; with a schedule or a name."""
    product = td.jit(lambda a, b: a @ b.T, backend="native")
    rng = np.random.default_rng(0)
    for k in (3, 5, 0, 4, 9):
        a, b = rng.random((2, 70, k))
        assert np.allclose(product(a, b), a @ b.T)
        assert kinds(lambda a, b: a @ b.T, a, b)[2] == (k not in (3, 4))
    a = rng.random((70, 3))
    for other in (a.astype(int), a.astype("complex64"), np.float16(a)):
        assert kinds(lambda a: a @ a.T, other)[2] == 1
    assert kinds(lambda a: a @ td.swapaxes(a, 1, 2), rng.random((5, 70, 3)))[2] == 1
    assert kinds(lambda a: td.matmul(a, a.T, name="wanted"), a)[2] == 1
    assert kinds(lambda a: a @ a.T, a, backend="cuda")[2] == 1
    with pytest.raises(td.ShapeError, match="matrices with an extent of 3, not 4"):
        product.lower(a, a)(*(rng.random((2, 70, 4))))


def test_folds_and_vectors() -> None:
    """A power iteration: a product with a vector, and sums of what it gives, have the bits of
    loops over arrays."""
    a = np.random.default_rng(5).random((5, 5))

    def power(a: Any, x: Any) -> Any:
        def step(k: Any, x: Any) -> Any:
            y = a @ x
            return y / td.sqrt(td.sum(y * y)) + td.max(y) - td.max(y)

        return td.loop(50, step, x)

    x = want = np.ones(5)
    for _ in range(50):
        y = a @ want
        want = y / np.linalg.norm(y)
    np.testing.assert_allclose(td.jit(power, backend="native")(a, x), want, rtol=1e-12)
    assert kinds(power, a, x) == (1, 0, 0, 0)


def test_derivatives() -> None:
    f, p, q = (0.3 * np.random.default_rng(6).random((3, 3)) for _ in range(3))

    def loss(f: Any) -> Any:
        return td.sum(td.loop(4, lambda k, p: f @ p @ f.T + q, p) ** 2)

    found = td.jit(td.grad(loss), backend="native")(f)
    for i, j in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[i, j] = 1e-6
        ahead, behind = (float(td.jit(loss, backend="reference")(x)) for x in (f + step, f - step))
        np.testing.assert_allclose(found[i, j], (ahead - behind) / 2e-6, rtol=1e-5)


def test_empty_and_no_iteration() -> None:
    def power(n: Any, f: Any, p: Any) -> Any:
        return td.loop(n, lambda k, p: f @ p, p)

    made = td.jit(power, backend="native")
    assert made(3, np.ones((0, 0)), np.ones((0, 2))).shape == (0, 2)
    assert made(3, np.ones((2, 2)), np.ones((2, 0))).shape == (2, 0)
    np.testing.assert_array_equal(made(0, np.full((2, 2), np.nan), np.eye(2)), np.eye(2))
    np.testing.assert_array_equal(made(3, np.ones((2, 2)), np.eye(2)), np.full((2, 2), 4.0))


def test_until_a_condition_holds() -> None:
    def settled(f: Any, q: Any, p: Any) -> Any:
        def change(p: Any) -> Any:
            return f @ p @ f.T + q

        return td.while_loop(
            lambda s: td.max(td.abs(s[0] - s[1])) > 1e-9, lambda s: (change(s[0]), s[0]),
            (change(p), p),
        )[0]  # fmt: skip

    _, f, _, q, _, _, p = model(4, 1)
    f = 0.5 * f
    found, want = (td.jit(settled, backend=b)(f, q, p) for b in ("native", "reference"))
    np.testing.assert_allclose(found, want, rtol=1e-9)
    assert kinds(settled, f, q, p)[0] == 1


def test_iterations_of_too_much_work_stay_loops() -> None:
    """Straight-line code has a limit: 25 products of matrices of 6 × 6."""

    def powers(f: Any, p: Any) -> Any:
        def step(k: Any, p: Any) -> Any:
            for _ in range(25):
                p = f @ p
            return p

        return td.loop(3, step, p)

    f = np.eye(6) / 2
    assert kinds(powers, f, f)[:3] == (0, 1, 25)
    np.testing.assert_array_equal(td.jit(powers, backend="native")(f, f), f / 2.0**75)
