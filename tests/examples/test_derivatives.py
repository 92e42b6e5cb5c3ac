"""The gradient of every example that has one, without changing it, against differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle as td

pytest.importorskip("PIL")
sparse = pytest.importorskip("scipy.sparse")

from treadle import examples  # noqa: E402
from treadle.examples import (  # noqa: E402
    black_scholes,
    canny,
    diffusion,
    digits,
    heat,
    kmeans,
    logistic,
    lookalikes,
    mandelbrot,
    monte_carlo,
    nbody,
    one_word,
    pagerank,
    plate,
    spmv,
    stack,
)

rng = np.random.default_rng(4)
W = rng.random((12, 12))


#: What they compute consists of integers.
INTEGERS = {"equalise", "knights", "life"}


def test_no_example_is_forgotten():
    folder = Path(examples.__file__).parent
    names = {p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")}
    assert names - globals().keys() == INTEGERS


def test_options():
    def loss(*market):
        call, put = td.unzip(black_scholes.prices(*market))
        return td.sum(call * call) + td.sum(put)

    td.check_grad(loss, *black_scholes.market(9, 1))


def test_option_greeks_are_those_of_the_formula():
    spot, strike, years = black_scholes.market(9, 1)

    def calls(s):
        return td.sum(td.unzip(black_scholes.prices(s, strike, years))[0])

    delta = td.run(td.grad(calls)(spot))
    h = 1e-5
    up, down = (black_scholes.by_numpy(spot + s, strike, years)[0] for s in (h, -h))
    np.testing.assert_allclose(delta, (up - down) / (2 * h), rtol=1e-6, atol=1e-8)


def test_heat():
    """In float32, where the gradient of a linear function is compared with the function itself."""
    weights, start, other = (rng.random((12, 12)).astype(np.float32) for _ in range(3))

    def loss(u):
        return td.sum(heat.diffuse(u, 20) * weights)

    gradient = np.asarray(td.run(td.grad(loss)(start)), np.float64)
    change = float(td.run(loss(other))) - float(td.run(loss(start)))
    np.testing.assert_allclose((gradient * (other.astype(float) - start)).sum(), change, rtol=1e-3)


@pytest.mark.parametrize("memory", [None, 4 * W.nbytes])
def test_a_plate(memory):
    def loss(u):
        return td.sum(plate.cool(u, 20) ** 2 * W)

    td.check_grad(loss, rng.random((12, 12)))
    few = td.run(td.grad(loss, memory=memory)(W))
    np.testing.assert_array_equal(few, td.run(td.grad(loss)(W)))


def test_bodies():
    state, mass = nbody.galaxies(7, 3)
    state = tuple(s.astype(np.float64) for s in state)

    def loss(bodies, mass):
        x, y, _, _ = moved = nbody.leapfrog(bodies, mass, 0.01, 4)
        return nbody.energy(moved, mass) + td.sum(x * y)

    td.check_grad(loss, state, mass.astype(np.float64))


def test_sparse_products():
    matrix = sparse.random_array((8, 8), density=0.4, rng=rng, format="csr")

    def loss(data, x):
        y = spmv.spmv(data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64), x)
        return td.sum(y * y)

    td.check_grad(loss, matrix.data, rng.random(8))


def test_edges():
    """Of the smooth part of the detector."""

    def loss(rgb):
        strength = canny.slope(canny.smooth(rgb))[0]
        return td.sum(strength * strength)

    picture = (rng.random((10, 10, 3)) * 255).astype(np.float32)
    gradient = np.asarray(td.run(td.grad(loss)(picture)), np.float64)
    d = rng.standard_normal(picture.shape)
    at = lambda t: float(td.run(loss((picture + t * d).astype(np.float32))))
    np.testing.assert_allclose((gradient * d).sum(), (at(1) - at(-1)) / 2, rtol=1e-2)


def test_a_diffusion_coefficient():
    plate = rng.random((6, 7))
    seen = td.jit(diffusion.diffuse)(np.full(4, 0.1), plate, 5)
    td.check_grad(lambda p, u: diffusion.loss(p, u, seen, 5), rng.normal(size=4), plate)


def test_a_network():
    shapes = {"w0": (6, 5), "b0": (5,), "w1": (5, 10), "b1": (10,)}
    p = {k: rng.normal(size=n) for k, n in shapes.items()}
    x, read = rng.random((7, 6)), td.use(rng.integers(0, 10, 7))
    td.check_grad(lambda p, x: digits.loss(p, x, read), p, x)


def test_logistic_regression():
    points, above = logistic.moons(9, 1)
    td.check_grad(lambda w, points: logistic.loss(w, points, above), rng.normal(size=36), points)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("algorithm", "levels"), lookalikes.ALGORITHMS)
def test_distances_of_pairs(algorithm, levels):
    distances = lookalikes.distances(algorithm, levels)
    td.check_grad(lambda x: td.sum(distances(x) * W[:8, :8]), rng.random((8, 6)))


def test_a_fractal():
    """By the place of the window: through loops of different lengths, of elements in float32."""

    def loss(x, y):
        return td.sum(td.unzip(mandelbrot.escape(3, 4, x, y, 0.2, 50))[1])

    for k, g in enumerate(td.run(td.grad(loss, argnums=(0, 1))(1.4, 1.2))):
        moved = [[1.4, 1.2], [1.4, 1.2]]
        moved[0][k] += 1e-3
        moved[1][k] -= 1e-3
        up, down = (float(td.jit(loss)(*m)) for m in moved)
        np.testing.assert_allclose(g, (up - down) / 2e-3, rtol=1e-2)


def test_ranks_of_pages():
    ranked = pagerank.ranking(pagerank.web(2, 1, 3, 1))
    weights = rng.random(2 * pagerank.BATCH)
    td.check_grad(lambda ranks: td.sum(ranked(ranks) ** 2 * weights), rng.random(len(weights)))


def test_a_naive_product():
    a, b = one_word.matrices(4, 6, 5, 0)
    weights = rng.random((4, 5)).astype(np.float32)
    f = td.grad(lambda a, b: td.sum(one_word.product(a, b) * weights), argnums=(0, 1))
    for found, expected in zip(td.run(f(a, b)), (weights @ b.T, a.T @ weights), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_percentiles_of_images():
    """Every pixel has one or two images between which a percentile is."""
    images = rng.uniform(0, 250, (5, 3, 4)).astype(np.float32)
    gradient = td.run(td.grad(lambda x: td.sum(stack.summary(x)[1]))(images))
    np.testing.assert_allclose(gradient.sum(axis=0), 3, rtol=1e-5)


def test_a_step_of_a_random_walk():
    """Its other arguments are integers; the walk itself has no float among its arguments."""
    key = (td.uint32(1), td.uint32(2))
    price = lambda x: td.exp(monte_carlo.step(x, key))
    at = np.array([4.5, 4.7])
    np.testing.assert_allclose(td.run(td.map(td.grad(price), at)), td.run(td.map(price, at)))


def test_colours_of_a_photograph():
    """A mean of integers is constant; a centre that is near no pixel stays where it was."""
    rgb = rng.integers(0, 200, (50, 3)).astype(np.uint8)
    centres = np.append(kmeans.seeds(rgb, 3), [[900, 800, 700]], axis=0).astype(np.float32)

    def loss(centres):
        final, _, _ = kmeans.cluster(rgb, centres, 9)
        return sum(td.sum(c * c) for c in td.unzip(final))

    gradient = td.run(td.grad(loss)(centres))
    np.testing.assert_array_equal(gradient, [[0, 0, 0]] * 3 + [[1800, 1600, 1400]])
