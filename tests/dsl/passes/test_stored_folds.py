"""Arrays and their sums in one kernel."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.dsl.graph import Fold, StoringFold, topological
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings

from ...backend.cuda.emulated import emulation

rng = np.random.default_rng(6)


#: Those of vectors, which a CPU merges, too.
WHOLE = ("squares", "in single precision", "itself", "complex", "several", "wider")


def kinds(f, *args, check=False, in_parts=False, backend="cuda"):
    """The classes of the kernels of a program."""
    program = td.jit(f, backend="native").lower(*args)
    roots = run_passes(program.source_roots, Settings(check=check), backend, in_parts).roots
    return [type(n) for n in topological(roots) if n.per_element()]


def squares(x):
    return td.sum(x * x), 2 * x


def itself(x):
    g = td.exp(x)
    return g, td.sum(g * g) + 1


def columns(p, w):
    """The array's axes are in another order than those of the sum."""
    g = td.transpose(p, (1, 0, 2)) * w[:, :, None]
    return g, td.sum(g, axis=0)


def of_rows(x):
    g = td.sin(x)
    return td.sum(g, axis=0), g, td.max(g, axis=1)


def several(x, y):
    return td.sum(x * y), x * y + 1, td.sum(td.sin(x)), x - y


def wider(x):
    """More bytes than those of the sum, which determines how many elements a thread takes."""
    return td.sum(x), td.cast(x, td.float64) / 3, x * 1j


MERGED = {
    "squares": (squares, lambda n: (rng.random(n),)),
    "squares of rows": (squares, lambda n: (rng.random((n, 6)),)),
    "in single precision": (squares, lambda n: (rng.random(n, np.float32),)),
    "itself": (itself, lambda n: (rng.random(n),)),
    "complex": (itself, lambda n: (rng.random(n) + 1j * rng.random(n),)),
    "columns": (columns, lambda n: (rng.random((3, n, 6)), rng.random((n, 3)))),
    "odd columns": (columns, lambda n: (rng.random((3, n, 5)), rng.random((n, 3)))),
    "columns of a matrix": (of_rows, lambda n: (rng.random((n, 33)),)),
    "several": (several, lambda n: (rng.random(n), rng.random(n))),
    "wider": (wider, lambda n: (rng.random(n, np.float32),)),
    "wider rows": (wider, lambda n: (rng.random((n, 8), np.float32),)),
}


@pytest.mark.parametrize("name", MERGED)
def test_one_kernel_computes_both(name):
    f, make = MERGED[name]
    args = make(80)
    assert StoringFold in kinds(f, *args)
    for other in ({"check": True}, {"in_parts": True}, {"backend": "dask"}):
        assert StoringFold not in kinds(f, *args, **other)
    assert (StoringFold in kinds(f, *args, backend="native")) == (name in WHOLE)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", MERGED)
def test_results_are_those_of_two_kernels(name, monkeypatch):
    f, make = MERGED[name]
    for n in (0, 1, 2, 330):
        args = make(n)
        if name == "columns of a matrix" and n == 0:
            continue
        with emulation():
            found = td.jit(f, backend="cuda")(*args)
            with monkeypatch.context() as m:
                m.setattr("treadle.dsl.passes.stored_folds._pair", lambda roots, gpu: None)
                m.setattr("treadle.driver.optimised.LEAST", 1000)  # not the graph from disk
                wanted = td.jit(lambda *args: f(*args), backend="cuda")(*args)
        for a, b, c in zip(found, wanted, td.jit(f, backend="reference")(*args), strict=True):
            assert np.array_equal(a, b)
            np.testing.assert_allclose(a, c, rtol=1e-5 if a.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("name", WHOLE)
def test_results_on_a_cpu_are_those_of_two_kernels(name, monkeypatch):
    f, make = MERGED[name]
    for n in (0, 1, 2, 70, 20000):
        args = make(n)
        found = td.jit(f, backend="native")(*args)
        with monkeypatch.context() as m:
            m.setattr("treadle.dsl.passes.stored_folds._pair", lambda roots, gpu: None)
            m.setattr("treadle.driver.optimised.LEAST", 1000)  # not the graph from disk
            wanted = td.jit(lambda *args: f(*args), backend="native")(*args)
        for a, b, c in zip(found, wanted, td.jit(f, backend="reference")(*args), strict=True):
            assert np.array_equal(a, b)
            np.testing.assert_allclose(a, c, rtol=1e-4 if a.dtype == np.float32 else 1e-12)


def test_of_strided_arrays():
    x = rng.random(4000)
    for a in (x[::2], x[::-1], x[5:700:7], x.reshape(50, 80)[:, 3]):
        total, twice = td.jit(squares, backend="native")(a)
        np.testing.assert_allclose(total, (a * a).sum(), rtol=1e-13)
        assert np.array_equal(twice, 2 * a)


def _needs_the_sum(x):
    return td.sum(x), x / td.sum(x)


def _needs_the_array(x):
    g = td.exp(x)
    return g, td.sum(g * td.reverse(td.cumsum(g)))


def _moved(x):
    g = td.exp(x)
    return g, td.sum(g[1:] * g[:-1])


def _rows(x):
    g = td.exp(x.reshape(-1, 8))
    return g, td.sum(g, axis=1)


def _other_elements(x):
    return td.sum(x), td.arange(x.shape[0]) * 0.5


def _whole_numbers(x):
    k = td.cast(x * 9, td.int64)
    return td.sum(k), k + 1


def _in_order(x):
    return td.sum(x * x, deterministic=True), 2 * x


@pytest.mark.parametrize("f", [_needs_the_sum, _needs_the_array, _moved, _rows, _other_elements,
                               _whole_numbers, _in_order])  # fmt: skip
def test_others_stay_two(f):
    assert StoringFold not in kinds(f, rng.random(80))


def test_what_depends_on_both_comes_after():
    def f(x):
        g = td.exp(x)
        s = td.sum(g)
        return g / s, td.cumsum(g) - s

    x = rng.random(500)
    found = kinds(f, x)
    assert found[0] is StoringFold and Fold not in found
    with emulation():
        a, b = td.jit(f, backend="cuda")(x)
    g = np.exp(x)
    np.testing.assert_allclose(a, g / g.sum(), rtol=1e-13)
    np.testing.assert_allclose(b, np.cumsum(g) - g.sum(), rtol=1e-11, atol=1e-11)


def test_in_a_loop_they_stay_two():
    def f(x):
        return td.iterate(3, lambda u: td.exp(u) / td.sum(td.exp(u)), x)

    assert StoringFold not in kinds(f, rng.random(50))


def test_gradients():
    def loss(x):
        return td.sum(td.square(td.sin(x) - 0.5))

    x = rng.random(300)
    gradient = td.value_and_grad(loss)
    assert kinds(gradient, x) == [StoringFold]
    with emulation():
        value, bar = td.jit(gradient, backend="cuda")(x)
    np.testing.assert_allclose(value, ((np.sin(x) - 0.5) ** 2).sum(), rtol=1e-13)
    np.testing.assert_allclose(bar, 2 * (np.sin(x) - 0.5) * np.cos(x), rtol=1e-13)


def test_extents_that_do_not_fit_are_refused():
    with emulation(), pytest.raises(td.ShapeError):
        td.jit(columns, backend="cuda")(rng.random((3, 8, 6)), rng.random((8, 4)))
