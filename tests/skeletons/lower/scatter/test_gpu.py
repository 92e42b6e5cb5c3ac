"""Permute on a GPU, by the SIMT interpreter: every strategy, on targets small and large."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from tests.skeletons.ir.interpret import Reported
from tests.skeletons.ir.simt import run
from treadle.dsl.errors import WRITTEN
from treadle.dsl.passes import run_passes
from treadle.dsl.process.configuration import Settings
from treadle.dsl.target import CUDA
from treadle.skeletons.ir import kernel as ir
from treadle.skeletons.lower.lower import LoweringContext, lower
from treadle.skeletons.lower.scatter import gpu as permute, gpu_sources as sources

pytestmark = pytest.mark.sample(1)

SHAPES = [(0,), (5,), (700,), (17, 9), (2, 3, 40)]
INTEGERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


@pytest.fixture(autouse=True, params=["bins", "large bins", "ranges", "no bins"])
def sizes(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Blocks of a few warps, so that small arrays have several; each way where it can be taken."""
    small = {"THREADS": 64, "LARGE_THREADS": 96, "LEAST": 100, "LEAST_PER_BIN": 0, "LOCKS": 7,
             "HOT_BINS": 64}  # fmt: skip
    room = {"bins": (64 * 128, 64 * 256), "large bins": (0, 64 * 256), "ranges": (0, 160),
            "no bins": (0, 0)}  # fmt: skip
    small["SMALL_BINS"], small["LARGE_BINS"] = room[request.param]
    for name, value in small.items():
        monkeypatch.setattr(permute, name, value)
    return str(request.param)


def run_array(array: Any, **options: Any) -> Any:
    """By the interpreter, fused."""
    settings = Settings(check=options.get("check", False))
    leaves = run_passes(array._leaves, settings, "cuda").roots
    return array.structure.build(run(*leaves, **options))


def lowered(array: Any, **options: Any) -> tuple[ir.Kernel, ...]:
    (leaf, *_) = run_passes(array._leaves, Settings(), "cuda").roots
    return lower(leaf.node, LoweringContext(target=CUDA, **options)).kernels


def names(array: Any) -> list[str]:
    """The suffixes of the kernels and of what they fall back to."""
    found = []
    for kernel in lowered(array):
        here: ir.Kernel | None = kernel
        while here is not None:
            found.append(here.name.split("_line")[0].split("_", 1)[1])
            here = here.fallback
    return found


@pytest.mark.parametrize("targets", [1, 70])
@pytest.mark.parametrize("shape", SHAPES)
def test_combinations(shape: tuple[int, ...], targets: int) -> None:
    rng = np.random.default_rng(0)
    at, values = rng.integers(-2, targets, shape), rng.integers(0, 100, shape)
    start = rng.integers(0, 100, targets)
    there, x = at >= 0, td.use(at)

    def scattered(f: Any, defaults: Any, source: Any, **options: Any) -> Any:
        return td.permute(f, defaults, lambda *ix: td.cond(x[ix] >= 0, x[ix], td.ignore), source,
                          **options)  # fmt: skip

    sums, most, modular, last = start.copy(), start.copy(), start.copy(), start.copy()
    np.add.at(sums, at[there], values[there])
    np.maximum.at(most, at[there], values[there])
    for i, v in zip(at.ravel(), values.ravel(), strict=True):
        if i >= 0:
            modular[i], last[i] = (modular[i] + v) % 1000, v
    added = scattered(lambda new, old: new + old, start, values)
    assert np.array_equal(run_array(added), sums)
    assert np.array_equal(run_array(added, check=True, seed=1), sums)
    assert np.array_equal(run_array(added, multiprocessors=2, seed=2), sums)
    greatest = scattered(lambda new, old: td.maximum(new, old), start, values)
    assert np.array_equal(run_array(greatest), most)
    own = scattered(lambda new, old: (new + old) % 1000, start, values)
    assert np.array_equal(run_array(own), modular)
    pairs = scattered(lambda new, old: (new[0] + old[0], td.maximum(new[1], old[1])),
                      td.zip(start, start * 1.0), td.zip(values, values * 1.0))  # fmt: skip
    first, second = run_array(pairs)
    assert np.array_equal(first, sums) and np.array_equal(second, most)
    mixed = scattered(lambda new, old: (new[0] + old[0], td.maximum(new[1], old[0] * 0 + old[1])),
                      td.zip(start, start * 1.0), td.zip(values, values * 1.0))  # fmt: skip
    first, second = run_array(mixed)
    assert np.array_equal(first, sums) and np.array_equal(second, most)
    kept = scattered(td.overwrite, td.zip(start, start), td.zip(values, values * 2))
    first, second = run_array(kept)
    assert np.array_equal(first, last)
    met = there.ravel() & np.isin(at.ravel(), at[there])
    touched = np.isin(np.arange(targets), at.ravel()[met])
    assert np.array_equal(second, np.where(touched, 2 * last, start))
    assert np.array_equal(run_array(scattered(td.overwrite, start, values, deterministic=True)),
                          last)  # fmt: skip
    single = run_array(scattered(td.overwrite, start, values))
    for t in range(targets):
        meeting = values[at == t]
        assert single[t] in meeting if meeting.size else single[t] == start[t]


@pytest.mark.parametrize("dtype", [*INTEGERS, "?", "f2", "f4", "f8", ml_dtypes.bfloat16])
def test_types(dtype: Any, sizes: str) -> None:
    if sizes in ("large bins", "ranges") and dtype not in ("i8", "u1", "f4"):
        return
    rng = np.random.default_rng(1)
    at = rng.integers(0, 9, 900).astype("i4")
    used = td.use(at)
    wide = np.dtype(dtype).kind in "iu"
    values = rng.integers(0, 2**63, 900).astype(dtype) if wide else rng.integers(0, 3, 900).astype(
        dtype)  # fmt: skip
    start = rng.integers(0, 2, 9).astype(dtype)
    for combine, ufunc in (
        (lambda new, old: new + old, np.add),
        (lambda new, old: td.minimum(new, old), np.minimum),
        (lambda new, old: td.maximum(new, old), np.maximum),
        (lambda new, old: new * old, np.multiply),
        (lambda new, old: new & old, np.bitwise_and),
        (lambda new, old: new ^ old, np.bitwise_xor),
    ):
        if ufunc in (np.bitwise_and, np.bitwise_xor) and not (wide or dtype == "?"):
            continue
        if ufunc is np.multiply and not wide:
            continue
        want = start.copy()
        for i, v in zip(at, values, strict=True):
            want[i] = ufunc(v, want[i])
        made = td.permute(combine, start, lambda i: used[i], values)
        assert np.array_equal(run_array(made), want), ufunc


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["i8", "i4", "u2", "f4", "f8"])
def test_meetings(dtype: str, sizes: str) -> None:
    """Some lanes of a warp with one target, some with another, some with none: all counted once."""
    if sizes != "no bins":
        return
    rng = np.random.default_rng(4)
    for spread in (1, 5, 40):
        at = rng.integers(-1, spread, 1500).astype("i4")
        values = rng.integers(0, 9, 1500).astype(dtype)
        used, there = td.use(at), at >= 0
        for combine, ufunc in (
            (lambda new, old: new + old, np.add),
            (lambda new, old: td.maximum(new, old), np.maximum),
        ):
            want = np.ones(40, dtype)
            ufunc.at(want, at[there], values[there])
            made = td.permute(combine, np.ones(40, dtype), lambda i: used[i], values)
            assert np.array_equal(run_array(made), want)


def test_halves_carry() -> None:
    at = td.use(np.arange(600) % 3)
    for value in (-1, 2**40, 2**31 - 1):
        values = np.full(600, value)
        made = td.permute(lambda n, o: n + o, np.zeros(3, "i8"), lambda i: at[i], values)
        assert np.array_equal(run_array(made), np.full(3, 200 * value))


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["i4", "i8", "u1", "f4", "f8", "f2"])
def test_counting(dtype: str) -> None:
    at = np.random.default_rng(2).integers(0, 11, 2000).astype("u1")
    used = td.use(at)
    zeros, ones = td.zeros(11, np.dtype(dtype)), td.ones(2000, np.dtype(dtype))
    made = td.permute(lambda n, o: n + o, zeros, lambda i: used[i].astype(td.int64), ones)
    assert np.array_equal(run_array(made), np.bincount(at).astype(dtype))


def test_histograms_and_bincount() -> None:
    image = np.random.default_rng(0).random((20, 30))
    uniform, _ = td.histogram(image, bins=7, range=(0.0, 1.0))
    assert np.array_equal(run_array(uniform), np.histogram(image, 7, (0, 1))[0])
    edges = np.array([0, 0.2, 0.5, 0.9])
    searched, _ = td.histogram(image, bins=edges)
    assert np.array_equal(run_array(searched), np.histogram(image, edges)[0])
    x = np.random.default_rng(0).integers(0, 9, 1000).astype("i4")
    counted = td.bincount(x, length=12)
    assert np.array_equal(run_array(counted), np.bincount(x, minlength=12))


def test_deterministic_sums_are_in_the_order_of_the_source() -> None:
    rng = np.random.default_rng(3)
    at, values = rng.integers(0, 40, 900), (rng.random(900) * 10.0 ** rng.integers(-6, 6, 900))
    used, x = td.use(at), values.astype("f4")
    want = np.zeros(40, "f4")
    for i, v in zip(at, x, strict=True):
        want[i] = v + want[i]
    made = td.permute(lambda n, o: n + o, np.zeros(40, "f4"), lambda i: used[i], x,
                      deterministic=True)  # fmt: skip
    for processors in (2, 132):
        assert run_array(made, multiprocessors=processors).tobytes() == want.tobytes()
    assert names(made) == ["owned"]
    exact = td.permute(lambda n, o: n + o, np.zeros(40, "i4"), lambda i: used[i], at,
                       deterministic=True)  # fmt: skip
    assert "owned" not in names(exact)


@pytest.mark.sample(3)
def test_one_to_one() -> None:
    x = np.random.default_rng(0).integers(0, 99, (13, 7))
    start = np.random.default_rng(1).integers(0, 99, (7, 13))
    made = td.permute(lambda n, o: n - o, start, lambda i, j: (6 - j, i), x)
    assert np.array_equal(run_array(made), x[:, ::-1].T - start)
    assert set(names(made)) == {"stores"}
    diagonal = td.permute(lambda n, o: n + o, start, lambda i, j: (j, j), x)
    assert "stores" not in names(diagonal)


def test_targets_are_checked() -> None:
    at = td.use(np.array([0, 3, -1, 2]))
    made = td.permute(lambda new, old: new + old, np.zeros(3), lambda i: at[i], np.ones(4))
    with pytest.raises(Reported) as caught:
        run_array(made, check=True)
    found = sorted((site.array, index, extent) for site, index, extent in caught.value.args[0])
    assert found == [(WRITTEN, -1, 3), (WRITTEN, 3, 3)]


def test_rank_two_targets_and_rank_zero_sources() -> None:
    image = np.random.default_rng(0).integers(0, 9, (20, 30))
    made = td.permute(lambda new, old: new + old, np.zeros((4, 5), "i8"),
                      lambda i, j: (i % 4, j % 5), image)  # fmt: skip
    want = np.zeros((4, 5), "i8")
    for i, j in np.ndindex(20, 30):
        want[i % 4, j % 5] += image[i, j]
    assert np.array_equal(run_array(made, check=True), want)
    assert np.array_equal(run_array(made), want)
    single = td.permute(lambda new, old: new + old, np.zeros(3, "i8"), lambda: 1,
                        np.array(5))  # fmt: skip
    assert np.array_equal(run_array(single), [0, 5, 0])


@pytest.mark.sample(2)
def test_sources_without_elements() -> None:
    x, at = np.ones((5, 7, 2), "i2"), np.array([1, 3, 3, 2, 3])
    for defaults, none in (((4, 0, 2), lambda a: a[:, :0]), ((4, 7, 0), lambda a: a[..., :0])):
        made = td.scatter(td.fill(defaults, td.int16(2)), at, none(td.use(x)),
                          lambda new, old: new + old)  # fmt: skip
        assert run_array(made).shape == defaults


def test_sources_that_read_elsewhere() -> None:
    x = np.random.default_rng(0).integers(0, 30, 500)
    used = td.use(x)
    made = td.permute(lambda n, o: n + o, np.zeros(30, "i8"),
                      lambda i: td.cond(i > 0, used[i - 1], td.ignore),
                      td.map(lambda v: v * v, x))  # fmt: skip
    want = np.zeros(30, "i8")
    np.add.at(want, x[:-1], x[1:] ** 2)
    assert np.array_equal(run_array(made), want)
    assert np.array_equal(run_array(made, check=True), want)


def test_complex_sums() -> None:
    at = td.use(np.arange(300) % 7)
    for dtype in ("c8", "c16"):
        values = (np.arange(300) * (1 + 2j)).astype(dtype)
        want = np.zeros(7, dtype)
        np.add.at(want, np.arange(300) % 7, values)
        made = td.permute(lambda n, o: n + o, np.zeros(7, dtype), lambda i: at[i], values)
        assert np.array_equal(run_array(made), want)
        kept = run_array(td.permute(td.overwrite, np.zeros(7, dtype), lambda i: at[i], values))
        assert np.isin(kept, values).all()


def test_wide_loads_fall_back() -> None:
    """Sixteen bytes at a time where the data is aligned."""
    at = td.use(np.zeros(100, "i4"))
    made = td.scatter(td.zeros(4, td.int32), at, np.ones(100, "i4"), lambda n, o: n + o)
    kernel = lowered(made)[0]
    wide = [s for s in ir.statements(kernel.body) if isinstance(s, ir.LoadVector)]
    assert wide and all(len(s.vars) == 4 for s in wide) and kernel.aligned
    assert kernel.fallback is not None
    assert not any(isinstance(s, ir.LoadVector) for s in ir.statements(kernel.fallback.body))
    assert sources.IN_FLIGHT >= 4
