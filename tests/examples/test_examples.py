"""Every example, small, on every backend of this machine, against NumPy or SciPy written here."""

from __future__ import annotations

import ast
import runpy
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import treadle as td

pytest.importorskip("PIL")
pytest.importorskip("matplotlib")
ndimage = pytest.importorskip("scipy.ndimage")
sparse = pytest.importorskip("scipy.sparse")
norm = pytest.importorskip("scipy.stats").norm

from PIL import Image  # noqa: E402

from treadle.examples import (  # noqa: E402
    _show,
    black_scholes,
    canny,
    diffusion,
    digits,
    equalise,
    heat,
    kmeans,
    knights,
    life,
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

ALL = [
    black_scholes,
    canny,
    diffusion,
    digits,
    equalise,
    heat,
    kmeans,
    knights,
    life,
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
]


@pytest.fixture(params=["reference", "native"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test on each backend."""
    with td.config(backend=request.param):
        yield request.param


#: Of a program on worker processes, which is compared with another on "native" in any case.
processes = pytest.mark.parametrize(
    "backend", [pytest.param("reference", marks=pytest.mark.long), "native"], indirect=True
)


@pytest.fixture
def portrait(tmp_path: Path) -> Path:
    """A small colour picture in a file: discs and bars over a gradient, and a little noise."""
    i, j = np.mgrid[:45, :53]
    rgb = np.stack([4 * i, 4 * j, 2 * (i + j)], axis=-1).astype(np.float64)
    rgb[np.hypot(i - 20, j - 18) < 11] = (230, 90, 40)
    rgb[(j > 35) & (j < 44) & (i > 8)] = (30, 60, 200)
    rgb += np.random.default_rng(0).normal(0, 3, rgb.shape)
    path = tmp_path / "portrait.png"
    Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8)).save(path)
    return path


def read(path: Path | None) -> np.ndarray:
    assert path is not None
    return np.asarray(Image.open(path))


# Edges of a photograph


def numpy_smooth(rgb: np.ndarray) -> np.ndarray:
    gauss = np.exp(-0.5 * (np.arange(-2, 3) / 1.4) ** 2)
    square = np.outer(gauss, gauss) / gauss.sum() ** 2
    padded = np.pad(rgb @ np.array([0.299, 0.587, 0.114]) / 255, 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))
    return np.einsum("ijkl,kl->ij", windows, square)


def numpy_slope(smooth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(smooth, 1, mode="edge"), (3, 3))
    sobel = np.outer([1, 2, 1], [-1, 0, 1]) / 4
    dx, dy = (np.einsum("ijkl,kl->ij", windows, s) for s in (sobel, sobel.T))
    return np.hypot(dx, dy), dx, dy


def numpy_thin(m: np.ndarray, dx: np.ndarray, dy: np.ndarray, strong: float) -> np.ndarray:
    """Pixel by pixel: which of the four directions the gradient has, and who is higher there."""
    out = np.zeros(m.shape, np.uint8)
    padded = np.pad(m, 1)
    for i, j in np.ndindex(m.shape):
        eighth = np.floor(np.degrees(np.arctan2(dy[i, j], dx[i, j])) / 45 + 0.5) % 4
        di, dj = {0: (0, 1), 1: (1, 1), 2: (1, 0), 3: (1, -1)}[int(eighth)]
        before, after = padded[1 + i - di, 1 + j - dj], padded[1 + i + di, 1 + j + dj]
        if before < m[i, j] >= after:
            out[i, j] = int(m[i, j] >= np.float32(0.4 * strong)) + int(m[i, j] >= strong)
    return out


def numpy_join(ridges: np.ndarray) -> np.ndarray:
    labels, _ = ndimage.label(ridges > 0, np.ones((3, 3)))
    kept = np.setdiff1d(labels[ridges == 2], [0])
    return np.isin(labels, kept)


def test_canny_stage_by_stage(portrait: Path) -> None:
    rgb = _show.photograph(portrait)
    smooth = numpy_smooth(rgb).astype(np.float32)
    assert_allclose(td.jit(canny.smooth)(rgb), smooth, atol=2e-6)
    slope = tuple(x.astype(np.float32) for x in numpy_slope(smooth))
    for found, expected in zip(td.jit(canny.slope)(smooth), slope, strict=True):
        assert_allclose(found, expected, atol=2e-6)
    ridges = numpy_thin(*slope, 0.08)
    assert set(np.unique(ridges)) == {0, 1, 2}
    found = td.jit(canny.thin)(slope, 0.08)
    assert found.dtype == np.uint8
    assert_array_equal(found, ridges)
    assert_array_equal(td.jit(canny.join)(ridges), numpy_join(ridges))


def test_canny_joins_along_a_long_winding_ridge() -> None:
    ridges = np.zeros((31, 40), np.uint8)
    for row in range(0, 31, 2):
        ridges[row, :] = 1
        if row:
            ridges[row - 1, -1 if row % 4 else 0] = 1
    expected = ridges > 0
    ridges[0, 0] = 2
    assert_array_equal(td.jit(canny.join)(ridges), expected)
    ridges[0, 0] = 1
    assert not td.jit(canny.join)(ridges).any()


def test_canny_makes_a_picture_and_a_race(portrait: Path, tmp_path: Path) -> None:
    made = canny.main(tmp_path / "edges.png", image=portrait, size=48)
    rgb = _show.photograph(portrait, 48)
    expected = numpy_join(numpy_thin(*numpy_slope(numpy_smooth(rgb)), 0.08))
    edges = made.values["edges"]
    assert edges.shape == expected.shape == rgb.shape[:2]
    assert edges.any()
    assert np.mean(edges != expected) < 0.005, "more than a tie or two differs"
    assert made.values["agreement"] > 0.995
    assert made.picture == tmp_path / "edges.png"
    assert_array_equal(np.all(read(made.picture) == _show.INK, axis=-1), edges)
    assert [row[0] for row in made.tables[0].rows][-1] == "all as one"
    assert all(name in made.notes[0] for name in ("sobel", "thin", "grow"))
    assert len(made.notes[0].splitlines()) < 40 and "--explain" in made.notes[0]
    assert str(made).splitlines()[-1] == f"picture: {made.picture}"
    whole = _show.kernels(canny.program(), explain=True)
    assert "Inputs" in whole and "intensity" in whole


# Game of Life


def test_life(tmp_path: Path) -> None:
    made = life.main(tmp_path, size=32, generations=25, seed=3, zoom=2)
    alive = life.soup(32, seed=3)
    glow = alive.astype(np.float32)
    for _ in range(25):
        around = sum(
            np.roll(alive, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
        )
        alive = ((around == 3) | (alive.astype(bool) & (around == 2))).astype(np.uint8)
        glow = np.where(alive == 1, np.float32(1), np.float32(0.96) * glow)
    assert alive.any()
    assert_array_equal(made.values["alive"], alive)
    assert_allclose(made.values["glow"], glow, rtol=1e-5)
    assert read(made.picture).shape == (64, 64, 3)


def test_life_keeps_the_symmetries_of_its_soup() -> None:
    alive = life.soup(40, seed=7)
    alive, _ = life.play(alive, alive.astype(np.float32), 17)
    assert_array_equal(alive, alive.T)
    assert_array_equal(alive, alive[::-1])


def test_a_glider_crosses_the_edge_of_the_board() -> None:
    board = np.zeros((9, 9), np.uint8)
    board[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
    alive, _ = life.play(board, board.astype(np.float32), 4 * 9)
    assert_array_equal(alive, board)


# Heat


def test_heat(tmp_path: Path) -> None:
    made = heat.main(tmp_path, size=24, steps=24, seed=8)
    u = heat.embers(24, seed=8)
    assert_array_equal(made.values["frames"][0], u)
    i, j = np.mgrid[-1:25, -1:25]
    padded = np.sin(0.045 * (i - j)) ** 2
    for step in range(1, 25):
        padded[1:-1, 1:-1] = u
        neighbours = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        u = u + 0.2 * (neighbours - 4 * u)
        if step in (2, 8, 24):
            frame = made.values["frames"][{2: 1, 8: 2, 24: 3}[step]]
            assert frame.dtype == np.float32
            assert_allclose(frame, u, atol=1e-5)
    assert read(made.picture).shape == (24, 4 * 24 + 3 * 8, 3)


@processes
def test_plate(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    pytest.importorskip("zarr")
    made = plate.main(tmp_path, size=300, steps=20, memory="1 GB")
    before, after = made.values["frames"]
    assert_array_equal(before, plate.rings(0, 300, 300))
    assert_array_equal(after, td.jit(plate.cool._function, backend="native")(before, 20))
    assert read(made.picture).shape[0] == 300
    assert "dashboard: http://" in made.notes[0]
    with pytest.raises(_show.ExampleError, match="would wait for ever"):
        plate.main(tmp_path, memory="60 MB")
    with pytest.raises(_show.ExampleError, match="'much': a worker needs 400 MB"):
        plate.main(tmp_path, memory="much")


@processes
def test_stack(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    made = stack.main(tmp_path, images=6, size=40)
    images = stack.exposures(0, 6, 40)
    assert_array_equal(made.values["one"], images[0])
    assert_array_equal(made.values["counts"], np.bincount(images.ravel(), minlength=256))
    expected = np.percentile(images, [5, 50, 95], axis=0)
    assert_allclose(made.values["levels"], expected, rtol=1e-6)
    counts, levels = td.jit(stack.summary._function, backend="native")(images)
    assert_array_equal(made.values["counts"], counts)
    assert_array_equal(made.values["levels"], levels)
    assert made.picture == tmp_path / "stack.png"


def test_heat_is_never_beyond_what_there_was() -> None:
    plate = heat.diffuse(heat.embers(20, seed=2), 40)
    assert plate.min() >= 0 and plate.max() <= 1


# Mandelbrot


def test_mandelbrot(tmp_path: Path) -> None:
    made = mandelbrot.main(tmp_path, size=24, x=-0.6, y=0.0, span=2.6, limit=60)
    counts = made.values["counts"]
    assert counts.shape == (32, 48)
    i, j = np.mgrid[:32, :48]
    c = (-0.6 + 2.6 / 48 * (j - 24)) - 1j * (2.6 / 48 * (i - 16))
    z, expected = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(60):
        inside = np.abs(z) <= 16
        expected += inside
        z = np.where(inside, z * z + c, z)
    assert np.mean(counts != expected) < 0.005, "rounding may move a point or two"
    assert (expected == 60).mean() > 0.1
    escaped = (expected < 60) & (counts == expected)
    smooth = expected + 1 - np.log2(np.log2(np.maximum(np.abs(z), 2)))
    assert_allclose(made.values["smooth"][escaped], smooth[escaped], rtol=1e-4)
    assert read(made.picture).shape == (16, 24, 3)


# N-body


def numpy_acceleration(x: np.ndarray, y: np.ndarray, mass: np.ndarray) -> np.ndarray:
    d = np.stack([x[None] - x[:, None], y[None] - y[:, None]])
    return np.sum(mass * d / (np.sum(d * d, axis=0) + nbody.SOFT**2) ** 1.5, axis=2)


def numpy_energy(bodies: np.ndarray, mass: np.ndarray) -> float:
    x, y, vx, vy = bodies
    distance = np.sqrt((x[None] - x[:, None]) ** 2 + (y[None] - y[:, None]) ** 2 + nbody.SOFT**2)
    bonds = np.triu(mass[None] * mass[:, None] / distance, 1).sum()
    return float(0.5 * np.sum(mass * (vx**2 + vy**2)) - bonds)


def test_nbody(tmp_path: Path) -> None:
    made = nbody.main(tmp_path, bodies=48, steps=9, seed=5)
    start, mass = nbody.galaxies(48, seed=5)
    bodies, mass64 = np.array(start, np.float64), mass.astype(np.float64)

    found = td.jit(nbody.acceleration)(start[0], start[1], mass)
    assert_allclose(np.array(found), numpy_acceleration(*bodies[:2], mass64), rtol=2e-3, atol=1e-4)
    before = numpy_energy(bodies, mass64)
    assert_allclose(nbody.energy(start, mass), before, rtol=1e-4)

    place, speed = bodies[:2], bodies[2:]
    for _ in range(9):
        place = place + 0.005 * speed
        speed = speed + 0.01 * numpy_acceleration(*place, mass64)
        place = place + 0.005 * speed
    assert_allclose(np.array(made.values["bodies"]), np.concatenate([place, speed]), atol=2e-3)
    after = numpy_energy(np.array(made.values["bodies"], np.float64), mass64)
    assert abs(after / before - 1) < 5e-3
    assert read(made.picture).shape == (400 + 2 * (1216 // 64), 3 * 400 + 2 * 8, 3)  # and captions


# Histogram equalisation


def test_equalise(portrait: Path, tmp_path: Path) -> None:
    made = equalise.main(tmp_path, image=portrait)
    before, after = made.values["before"], made.values["after"]
    counts = np.histogram(before, 256, (0, 256))[0]
    assert_array_equal(td.jit(equalise.histogram)(before), counts)
    below = np.cumsum(counts)
    least = below[np.flatnonzero(counts)[0]]
    table = np.rint((below - least) * 255 / (before.size - least)).astype(np.uint8)
    assert after.dtype == np.uint8
    assert_array_equal(after, table[before])
    assert (after.min(), after.max()) == (0, 255)
    assert_array_equal(made.values["histogram"], np.bincount(after.ravel(), minlength=256))
    assert read(made.picture).shape == (45 + 96, 2 * 53 + 8, 3)


def test_equalise_leaves_one_level_alone() -> None:
    assert_array_equal(equalise.equalise(np.full((3, 5), 77, np.uint8)), np.zeros((3, 5)))


# Black-Scholes


def test_black_scholes() -> None:
    made = black_scholes.main(options=1000, seed=1, shown=3)
    spot, strike, years = made.values["given"]
    r, v = black_scholes.RATE, black_scholes.VOLATILITY
    d1 = (np.log(spot / strike) + (r + v * v / 2) * years) / (v * np.sqrt(years))
    d2 = d1 - v * np.sqrt(years)
    discount = np.exp(-r * years)
    call = spot * norm.cdf(d1) - strike * discount * norm.cdf(d2)
    put = strike * discount * norm.cdf(-d2) - spot * norm.cdf(-d1)
    assert_allclose(made.values["call"], call, rtol=1e-9, atol=1e-9)
    assert_allclose(made.values["put"], put, rtol=1e-9, atol=1e-9)
    assert len(made.tables[0].rows) == 3


# Monte Carlo


def test_monte_carlo(tmp_path: Path) -> None:
    made = monte_carlo.main(tmp_path, paths=5000, height=30, seed=3)
    d = np.log(100 / 105) + 0.02
    exact = 100 * norm.cdf(d / 0.3 + 0.15) - 105 * np.exp(-0.02) * norm.cdf(d / 0.3 - 0.15)
    assert f"{exact:.4f}" in made.notes[0]
    for _, call, off, _ in made.values["rows"]:
        value, error = map(float, call.split(" ± "))
        assert abs(value - exact) < 5 * error + 1e-3
        assert abs((value - exact) / error - float(off)) < 0.2
    counts = made.values["counts"]  # of 125 paths at each time, some above the picture
    assert counts.shape == (30, 64) and (counts.sum(axis=0) <= 125).all()
    assert counts[:, 0].sum() == 125 and counts[13:17, 0].sum() > 100
    assert read(made.picture).shape == (30 + 2 * 13, 640, 3)  # and the caption


# Sparse matrix times vector


def test_spmv() -> None:
    made = spmv.main(rows=300, seed=4)
    for kind, (matrix, x, found) in made.values.items():
        assert_allclose(found, matrix.toarray() @ x, rtol=1e-10, atol=1e-12, err_msg=kind)
    lengths = np.diff(made.values["web"][0].indptr)
    assert lengths.min() == 0 and lengths.max() > 4 * lengths.mean(), "rows should be uneven"


def test_spmv_of_a_matrix_without_entries() -> None:
    empty = sparse.csr_array((5, 7))
    found = spmv.spmv(empty.data, empty.indices, empty.indptr, np.ones(7))
    assert_array_equal(found, np.zeros(5))


# PageRank


def test_pagerank() -> None:
    made = pagerank.main(batches=8, sites=2, links=4, iterations=3)
    sources = made.values.pop("sources")
    count = len(sources)
    share = 1 / np.maximum(np.bincount(sources.ravel(), minlength=count), 1)
    ranks = np.full(count, 1 / count)
    for _ in range(3):
        given = (ranks * share)[sources].sum(axis=1)
        ranks = (1 - pagerank.DAMPING) / count + pagerank.DAMPING * given
    assert len(made.values) == 5
    for schedule, found in made.values.items():
        assert_allclose(found, ranks, rtol=1e-12, err_msg=schedule)
    lines = {row[0]: row[1] for row in made.tables[0].rows}
    assert min(lines.values()) > 0


def test_pagerank_without_metis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    made = runpy.run_path(pagerank.__file__)["main"](batches=4, sites=2, links=2, iterations=1)
    assert len(made.tables[0].rows) == 3 and "treadle[schedules]" in str(made)


# One word


def test_one_word() -> None:
    made = one_word.main(rows=5, inner=6, columns=70, seed=2)
    a, b = made.values["factors"]
    for found in made.values["results"]:
        assert_allclose(found, a @ b, rtol=1e-5)
    (table,) = made.tables
    assert [row[0] for row in table.rows] == [repr(order) for order in one_word.ORDERS]
    assert "bit for bit" in made.notes[0]
    row, column = table.rows[0][-1], table.rows[1][-1]
    assert row > 10 * column, "what a small cache misses"


# Fast products


def test_lookalikes(portrait: Path, tmp_path: Path) -> None:
    made = lookalikes.main(tmp_path / "alike.png", image=portrait, size=64, side=4)
    patches = made.values["patches"].astype(np.float64)
    exact = ((patches[:, None] - patches[None]) ** 2).sum(2)
    for found in made.values["distances"].values():
        assert_allclose(found, exact, atol=1e-4)
    for *_, largest, bound, same in made.tables[0].rows:
        assert largest <= bound and same.endswith("%")
    assert made.picture == tmp_path / "alike.png"


def test_knights(tmp_path: Path) -> None:
    made = knights.main(tmp_path, side=5, doublings=3, zoom=2)
    reach = made.values["board"].astype(object)  # Python's integers
    assert reach.sum() == 96 and (reach == reach.T).all()
    walks = np.linalg.matrix_power(reach, 8) % 2**64
    assert all((found == walks).all() for found in made.values["walks"])
    assert f"{walks[0, -1]:,}" in made.notes[0]
    assert [row[-1] for row in made.tables[0].rows] == ["yes"] * 3
    many = knights.squarings("winograd", 1, 6)(knights.board(5))  # far beyond 64 bits
    assert (many == np.linalg.matrix_power(reach, 64) % 2**64).all()


# k-means


def test_diffusion(tmp_path: Path, backend: str) -> None:
    if backend == "reference":
        pytest.skip("its loops are long")
    made = diffusion.main(tmp_path, size=32, steps=60, rounds=60)
    assert_allclose(made.values["found"], diffusion.TRUTH, rtol=0.05)
    assert read(made.picture).shape == (32, 5 * 32 + 4 * 8, 3)

    def observed(p):
        return diffusion.loss(p, plate, plate.T, 7)

    plate = np.random.default_rng(0).random((6, 8))[:, :6]
    td.check_grad(observed, np.array([0.1, -0.4, 0.3, -2.0]))


def test_digits(tmp_path: Path, backend: str) -> None:
    pytest.importorskip("sklearn")
    made = digits.main(tmp_path, hidden=32, rounds=300 if backend == "native" else 40)
    assert made.values["loss"] < (0.1 if backend == "native" else 1.5)
    assert made.values["accuracy"] > (0.85 if backend == "native" else 0.5)
    assert read(made.picture).shape == (288, 960, 3)


def test_logistic(tmp_path: Path) -> None:
    made = logistic.main(tmp_path, n=300, size=40)
    points, above = logistic.moons(300, 2)
    x, y = points.T
    matrix = np.stack([x ** (k // 6) * y ** (k % 6) for k in range(36)], 1)
    w = made.values["w"]
    chance = 1 / (1 + np.exp(-matrix @ w))
    assert_allclose(matrix.T @ (chance - above) / 300 + 2e-4 * w, 0, atol=2e-4)
    assert made.values["right"] > 0.95


def test_kmeans(portrait: Path, tmp_path: Path) -> None:
    made = kmeans.main(tmp_path, image=portrait, colours=4, most=6)
    rgb = _show.photograph(portrait).reshape(-1, 3)
    centres = kmeans.seeds(rgb, 4).astype(np.float64)
    for _ in range(made.values["iterations"]):
        labels = np.argmin(((rgb[:, None] - centres) ** 2).sum(axis=2), axis=1)
        centres = np.array([rgb[labels == k].mean(axis=0) for k in range(4)])
    assert 1 < made.values["iterations"] <= 6
    assert_allclose(made.values["centres"], centres, rtol=1e-5)
    labels = np.argmin(((rgb[:, None] - centres) ** 2).sum(axis=2), axis=1)
    assert np.mean(made.values["labels"] != labels) < 0.005
    assert read(made.picture).shape == (45, 2 * 53 + 8, 3)


def test_kmeans_converges_and_keeps_a_centre_without_points() -> None:
    rgb = np.repeat(np.array([[0, 0, 0], [90, 0, 0]], np.uint8), 4, axis=0)
    start = np.array([[5, 5, 5], [80, 0, 0], [255, 255, 255]], np.float32)
    centres, labels, steps = kmeans.cluster(rgb, start, 50)
    expected = [[0, 0, 0], [90, 0, 0], [255, 255, 255]]
    assert_array_equal(np.stack(centres, axis=1), expected)
    assert_array_equal(labels, [0] * 4 + [1] * 4)
    assert steps == 2


# All of them


@pytest.mark.sample(4)
@pytest.mark.parametrize("module", ALL, ids=lambda m: m.__name__.rpartition(".")[2])
def test_explains_its_program(module: object) -> None:
    assert isinstance(module.program().explain(), str)  # type: ignore[attr-defined]


def test_every_example_is_a_short_lesson() -> None:
    folder = Path(canny.__file__).parent
    lessons = sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))
    assert [p.stem for p in lessons] == [m.__name__.rpartition(".")[2] for m in ALL]
    for path in lessons:
        source = path.read_text(encoding="utf-8")
        assert source.count("\n") < 80, f"{path.name} has {source.count(chr(10))} lines"
        first = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
        assert 20 < len(first) <= 62, f"{path.name}: one line of the listing is {first!r}"
        assert hasattr(import_module(f"treadle.examples.{path.stem}"), "main")


def test_an_unreadable_image_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a picture", encoding="utf-8")
    with pytest.raises(_show.ExampleError, match=r"cannot read .*notes\.txt as an image"):
        _show.photograph(text)
    with pytest.raises(_show.ExampleError, match="no such image"):
        _show.photograph(tmp_path / "absent.png")


# Captions


def test_a_picture_has_its_captions_below_it_where_they_fit() -> None:
    grey = np.zeros((40, 400), np.uint8)
    one, two = _show.captioned(grey, ["left"]), _show.captioned(grey, ["left", "right"])
    assert one.shape == two.shape == (40 + 2 * 13, 400, 3) and not one[:40].any()
    ink = [np.flatnonzero((picture[40:] != _show.PAPER).any(axis=(0, 2))) for picture in (one, two)]
    assert 180 < ink[0].mean() < 220  # in the middle
    assert ink[1].min() < 120 and 280 < ink[1].max() < 320  # below each half
    assert _show.captioned(grey, []) is grey
    assert _show.captioned(grey, ["a sentence that is far too long for it"] * 3) is grey
