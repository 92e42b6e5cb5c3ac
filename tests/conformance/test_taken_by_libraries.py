"""Libraries that take NumPy's arrays take treadle's."""

from __future__ import annotations

import gc
import statistics

import numpy as np
import pytest

import treadle as td


def image():
    return td.use(np.arange(12, dtype=np.uint8).reshape(3, 4)) * 10


def floats():
    return td.iota(5) * 1.5


@pytest.mark.parametrize("kind", ["L", "RGB", "RGBA", "F", "I;16"])
def test_pillow(kind):
    pillow = pytest.importorskip("PIL.Image")
    made = {
        "L": image(),
        "RGB": td.generate((3, 4, 3), lambda i, j, k: td.uint8(i + j + k)),
        "RGBA": td.zeros((3, 4, 4), td.uint8) + td.uint8(7),
        "F": image().astype(td.float32),
        "I;16": image().astype(td.uint16),
    }[kind]
    picture = pillow.fromarray(made)
    assert picture.size == (4, 3) and picture.mode == kind
    assert np.array_equal(np.asarray(picture), np.asarray(made))
    assert int(td.sum(picture)) == np.asarray(made).sum(dtype=np.float64)


def test_the_interface_keeps_its_memory():
    for dtype in ("bool", "int8", "float16", "float64", "complex128"):
        expected = np.ones((50, 60), dtype)
        seen = np.asarray(td.ones((50, 60), dtype))
        gc.collect()
        td.run(td.zeros((50, 60), dtype))  # would take memory that was given back
        assert seen.dtype == expected.dtype and np.array_equal(seen, expected)
    assert np.asarray(td.zeros((0, 3))).shape == (0, 3) and np.asarray(td.unit(3)).shape == ()
    assert np.asarray(td.ones(3, td.bfloat16)).dtype == td.bfloat16
    assert not hasattr(td.indexed(td.iota(3)), "__array_interface__")
    with pytest.raises(td.TracingError, match="NumPy needs the value"):
        td.jit(lambda a: np.asarray(a)).lower(np.ones(3))


DRAWN = {
    "plot": lambda plt, x: plt.plot(x, x**2),
    "bar": lambda plt, x: plt.bar(td.iota(5), x),
    "bar of names": lambda plt, x: plt.bar([*"abcde"], x),
    "barh": lambda plt, x: plt.barh(x, x),
    "imshow": lambda plt, x: plt.imshow(image()),
    "scatter": lambda plt, x: plt.scatter(x, x, c=x, s=x),
    "hist": lambda plt, x: plt.hist(x),
    "errorbar": lambda plt, x: plt.errorbar(x, x, yerr=x),
    "fill_between": lambda plt, x: plt.fill_between(x, x),
    "contourf": lambda plt, x: plt.contourf(image()),
    "pcolormesh": lambda plt, x: plt.pcolormesh(image()),
    "quiver": lambda plt, x: plt.quiver(x, x, x, x),
    "stackplot": lambda plt, x: plt.stackplot(x, x, x),
    "boxplot": lambda plt, x: plt.boxplot(x),
    "limits": lambda plt, x: (plt.xlim(td.min(x), td.max(x)), plt.xticks(x), plt.axhline(x[1])),
}


def test_numpy_takes_the_value_itself() -> None:
    """By a structure of C's: no copy, which cannot be written, and lives as long as it is used."""
    a = td.iota(5) * 2.5
    taken, again = np.asarray(a), np.asarray(a)
    assert np.shares_memory(taken, again) and not taken.flags.writeable
    assert np.array(a).flags.writeable
    del a, again
    gc.collect()
    np.testing.assert_array_equal(taken, np.arange(5) * 2.5)
    for kept in td.zip(td.iota(2), td.iota(2)), td.cast(td.iota(2), td.bfloat16):
        assert not hasattr(kept, "__array_struct__")
    assert np.asarray(td.cast(td.iota(2), td.bfloat16)).dtype.name == "bfloat16"
    td.jit(lambda x: x if not hasattr(x, "__array_struct__") else 1 / 0)(np.ones(2))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", DRAWN)
def test_matplotlib(name):
    pytest.importorskip("matplotlib").use("agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    DRAWN[name](plt, floats())
    plt.gcf().canvas.draw()
    plt.close("all")


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": floats(), "k": td.iota(5) % 2})
    assert frame["x"].tolist() == [0, 1.5, 3, 4.5, 6] and frame.dtypes["k"] == np.int64
    frame["y"] = floats() ** 2
    assert frame.groupby("k")["y"].sum().tolist() == [45, 22.5]
    assert pandas.DataFrame(image()).shape == (3, 4)
    assert (frame["x"] + floats()).tolist() == [0, 3, 6, 9, 12]
    assert np.array_equal(floats() + frame["x"], [0, 3, 6, 9, 12])
    assert float(td.sum(frame["x"])) == 15 and td.use(frame).shape == (5, 3)
    assert td.jit(lambda v: v * 2)(frame["x"]).tolist() == [0, 3, 6, 9, 12]


def test_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model")
    metrics = pytest.importorskip("sklearn.metrics")
    x = td.random.normal(td.random.key(0), (60, 3))
    y = td.sum(x * np.array([1.0, -2.0, 0.5]), axis=1) + 3
    model = linear.LinearRegression().fit(x, y)
    assert np.allclose(model.coef_, [1, -2, 0.5]) and np.isclose(model.intercept_, 3)
    assert metrics.mean_squared_error(y, model.predict(x)) < 1e-20
    assert metrics.accuracy_score(y > 3, y > 3) == 1


def test_pytorch():
    torch = pytest.importorskip("torch")
    x = floats()
    assert torch.from_numpy(np.array(x)).tolist() == x.tolist()
    assert torch.from_dlpack(x).tolist() == x.tolist()
    assert torch.as_tensor(np.asarray(x)).sum().item() == 15
    assert td.run(td.use(torch.arange(3)) * 2).tolist() == [0, 2, 4]


def test_scipy():
    pytest.importorskip("scipy")
    from scipy import integrate, ndimage, optimize, sparse, stats

    x = floats()
    assert stats.describe(x).mean == 3
    assert ndimage.gaussian_filter(image(), 1).shape == (3, 4)
    assert (sparse.eye(5) @ x).tolist() == x.tolist()
    found = optimize.minimize(lambda v: td.sum((td.use(v) - 1) ** 2), np.zeros(3))
    assert np.allclose(found.x, 1, atol=1e-4)
    area, _ = integrate.quad(lambda v: td.exp(-v * v), -8, 8)
    assert np.isclose(area, np.sqrt(np.pi))


def test_solvers_of_scipy_take_matrices() -> None:
    """They ask what is no array of NumPy's for its products."""
    linalg = pytest.importorskip("scipy.sparse.linalg")
    rng = np.random.default_rng(3)
    m = rng.normal(size=(20, 20))
    a, b = m @ m.T + 20 * np.eye(20), rng.normal(size=20)
    for solve in (linalg.cg, linalg.gmres, linalg.minres, linalg.bicg):
        x, failed = solve(td.use(a), td.use(b), rtol=1e-10)
        assert not failed
        np.testing.assert_allclose(a @ x, b, atol=1e-7)
    c = m[:, :8] + 1j * m[:, 8:16]
    x = linalg.lsqr(td.use(c), b, atol=1e-13, btol=1e-13)[0]
    np.testing.assert_allclose(x, np.linalg.lstsq(c, b)[0], atol=1e-8)
    with pytest.raises(AttributeError, match=r"td\.matvec\(a, …\)"):
        _ = td.use(b).matvec
    refused = r"(?s)none while a program is traced.*td\.matvec|invalid shape"  # by SciPy, if newer
    with pytest.raises((td.TracingError, ValueError), match=refused):
        td.jit(lambda a: linalg.cg(a, b)[0])(a)


def test_exact_arithmetic_of_python() -> None:
    x = td.iota(4) * 1.5
    assert statistics.mean(x.tolist()) == td.mean(x) and statistics.median(x) == 2.25
    for compute in (statistics.mean, statistics.stdev):
        with pytest.raises(td.TracingError, match=r"(?s)take numbers of Python's.*a\.tolist"):
            compute(x)


def test_functions_of_numpy_with_parameters_that_are_numpys():
    x = floats()
    assert np.cumsum(x, dtype=np.float32).dtype == np.float32
    out = np.zeros(())
    np.sum(x, out=out)
    assert out == 15 and np.sum(x, where=np.asarray(x) > 2) == 13.5
    assert [a.shape for a in np.broadcast_arrays(x, [x], 1.0)] == [(1, 5)] * 3
    assert isinstance(np.sum(x), td.Array)  # what td has stays td's
    with pytest.raises(td.TracingError, match="sum has no argument 'out'"):
        td.jit(lambda v: np.sum(v, out=out)).lower(np.ones(3))


def test_matplotlib_takes_all_elements_at_once(monkeypatch):
    """`hist` looks for `to_numpy`, and would go through other arrays element by element."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    a = td.use(np.arange(30.0)) ** 2
    value = a.to_numpy()
    assert type(value) is np.ndarray and not value.flags.writeable
    np.testing.assert_array_equal(value, np.arange(30.0) ** 2)
    monkeypatch.setattr(td.Array, "__iter__", lambda self: pytest.fail("element by element"))
    counts, edges, _ = plt.hist(a, bins=5)
    want = np.histogram(value, 5)
    np.testing.assert_array_equal(counts, want[0])
    np.testing.assert_allclose(edges, want[1])
    plt.boxplot(a)
    plt.close("all")
    with pytest.raises(td.TracingError, match="to_numpy"):
        td.jit(lambda x: x.to_numpy())(value)
