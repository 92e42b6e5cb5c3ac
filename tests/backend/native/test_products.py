"""Fast products on the host: every algorithm, execution, type, shape and layout; what they cost."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import crossover, forms, product_kit, products
from treadle.backend.runtime import memory
from treadle.backend.runtime.memory import POOL, no_memory
from treadle.dsl.operations.algebra.products import ALGORITHMS as NAMES, EXECUTIONS, MatmulOptions
from treadle.dsl.types import float32, float64, int32
from treadle.skeletons.products import LADERMAN, STRASSEN, WINOGRAD, executions
from treadle.skeletons.products.executions import plan
from treadle.skeletons.products.kit import Kit
from treadle.skeletons.products.model import Choice, Rates, choose_recursive, predict_recursive

S = td.schedule

#: 1, primes, powers of two and their neighbours, tall, wide, empty, an empty inner axis.
SHAPES = ((1, 1, 1), (2, 2, 2), (7, 11, 13), (31, 33, 32), (65, 64, 63), (127, 3, 5), (3, 5, 129),
          (2, 61, 2), (0, 3, 4), (3, 4, 0), (3, 0, 4), (0, 0, 0))  # fmt: skip
ALGORITHMS = ("strassen", "winograd", LADERMAN)
LAYOUTS = {
    "rows": lambda x: x,
    "transposed": lambda x: x.T.copy().T,
    "every other": lambda x: np.repeat(x, 2, -1)[:, ::2],
    "backwards": lambda x: np.ascontiguousarray(x[::-1])[::-1],
}


def whole_numbers(name: str, shape: tuple[int, ...], seed: int) -> Any:
    """Small enough that sums are exact in every type."""
    low = 0 if name.startswith("u") else -2
    dtype = getattr(td, name).numpy
    return np.random.default_rng(seed).integers(low, 3, shape).astype(dtype)


def asked(algorithm: Any, execution: str | None, levels: int = 1, **more: Any) -> MatmulOptions:
    return MatmulOptions(algorithm, levels, execution=execution, **more)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles and bands also of small matrices, and two workers."""
    monkeypatch.setattr(executions, "TILE", 24)
    monkeypatch.setattr(executions, "FRINGE_ROWS", 10)
    for module in (product_kit, products):
        monkeypatch.setattr(module, "thread_count", lambda: 2)


@pytest.mark.sample(1)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=["strassen", "winograd", "laderman"])
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_every_shape_and_layout(algorithm: Any, execution: str | None) -> None:
    for m, k, n in SHAPES:
        a, b = (whole_numbers("float64", s, 1) for s in ((m, k), (k, n)))
        for levels in (1, 2):
            options = asked(algorithm, execution, levels)
            for name, layout in LAYOUTS.items():
                found = products.product(layout(a), layout(b), float64, options)
                assert np.array_equal(found, a @ b), (m, k, n, levels, name)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["int8", "uint16", "int32", "uint64", "int64", "float32",
                                  "complex64", "complex128"])  # fmt: skip
def test_every_type(name: str) -> None:
    t = getattr(td, name)
    a, b = whole_numbers(name, (37, 21), 1), whole_numbers(name, (21, 18), 2)
    wide = "c16" if t.is_complex else "f8" if t.is_float else "i8"
    want = (a.astype(wide) @ b.astype(wide)).astype(t.numpy)
    for algorithm in ALGORITHMS:
        for execution in EXECUTIONS:
            found = products.product(a, b, t, asked(algorithm, execution))
            assert found.dtype == a.dtype and np.array_equal(found, want), (algorithm, execution)


def test_repeated_products_are_one_call_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing between the call and the library: the steps of the program run once."""
    ran: list[Any] = []
    run = products.ProductStep.__call__
    monkeypatch.setattr(
        products.ProductStep, "__call__", lambda self, given: (ran.append(self), run(self, given))
    )
    one = np.random.default_rng(0).standard_normal((40, 40))
    programs: dict[str, Any] = {
        "plain": (lambda a, b: a @ b, True),
        "transposed": (lambda a, b: td.use(b).T @ td.use(a).T, True),
        "captured": (lambda a, b: a @ one, True),
        "twice the same": (lambda a, b: b @ b, True),
        "half of the rows": (lambda a, b: a[:20] @ b, False),
        "two products": (lambda a, b: (a @ b, b @ a), False),
        "deterministic": (lambda a, b: td.matmul(a, b, deterministic=True), False),
        "a level": (lambda a, b: td.strassen(a, b), False),
    }
    for name, (function, direct) in programs.items():
        program = td.jit(function, backend="native")
        ran.clear()
        for seed in range(3):
            a, b = (whole_numbers("float64", (40, 40), seed + k) for k in (0, 5))
            wants = td.run(function(td.use(a), td.use(b)), backend="reference")
            found = program(a, b.T.copy().T)  # other strides are another layout of the same call
            for mine, want in zip(np.atleast_3d(found), np.atleast_3d(wants), strict=True):
                assert np.allclose(mine, want, atol=1e-12), name
        assert (len(ran) == 1) == direct, name
    both = td.jit(lambda a, b: (a @ b, a), backend="native")
    named = td.jit(lambda a, b: {"c": a @ b}, backend="native")
    for _ in range(3):
        product, first = both(one, one)
        assert np.allclose(product, one @ one) and np.array_equal(first, one) and first is not one
        assert np.array_equal(named(one, one)["c"], product)
    program = td.jit(lambda a, b: a @ b, backend="native")
    program(one, one)

    def full(*_: Any) -> Any:
        raise no_memory((40, 40), one.dtype)

    with monkeypatch.context() as patched:
        patched.setattr(products, "matmul", full)
        assert np.allclose(program(one, one), one @ one)  # by the steps, which have memory
        patched.setattr(product_kit, "matmul", full)
        with pytest.raises(td.DeviceOutOfMemory, match="no memory for an array"):
            program(one, one)
    ran.clear()
    for n in (40, 36, 40, 36, 36, 40):
        assert np.array_equal(program(np.eye(n), one[:n, :n]), one[:n, :n])
    assert len(ran) == 1  # the first call of 36


def test_only_the_same_calls_are_repeated() -> None:
    multiply = td.jit(lambda a, b: a @ b, backend="native")
    a, b = whole_numbers("float64", (6, 7), 1), whole_numbers("float64", (7, 5), 2)
    for _ in range(2):
        assert np.array_equal(multiply(a, b), a @ b)
        assert np.array_equal(multiply(a[:3], b), a[:3] @ b)
        single = multiply(a.astype("f4"), b.astype("f4"))
        assert single.dtype == "f4" and np.array_equal(single, a @ b)
        assert np.array_equal(multiply(a.astype(">f8"), b), a @ b)
        with pytest.raises(td.ShapeError, match="inner extents differ"):
            multiply(a, b[:6])
        with pytest.raises(TypeError):
            multiply(a)
    first, second = multiply(a, b), multiply(2 * a, b)
    assert np.array_equal(first, a @ b) and np.array_equal(second, 2 * (a @ b))
    bad = np.full((6, 7), np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert not np.isfinite(multiply(bad, b)).all()
    wide, deep = np.ones((1, 40, 40)), np.ones((3, 40, 40))
    for _ in range(3):
        assert np.array_equal(multiply(wide, deep), wide @ deep)


@pytest.mark.sample(1)
@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_many_products_of_complex_matrices(dtype, threads, monkeypatch):
    """A library computes one after the other: the kernel, if there are threads to share them."""
    monkeypatch.setattr(forms, "thread_count", lambda: threads)
    rng = np.random.default_rng(0)
    product = td.jit(lambda a, b: td.matmul(a, b) + 1, backend="native")
    for n in (3, 8, 12, 33, 65):
        a, b = (rng.integers(-9, 9, (2, 70, n, n)) * (1 + 2j)).astype(dtype)
        np.testing.assert_array_equal(product(a, b), a @ b + 1)
        text = product.lower(a, b).explain()
        assert ("by BLAS" in text) == (n > 64 or (n > 4 and threads == 1)), n
        few = product(a[:2], b[:2]), product.lower(a[:2], b[:2]).explain()
        np.testing.assert_array_equal(few[0], a[:2] @ b[:2] + 1)
        assert ("by BLAS" in few[1]) == (n > 4), n


@pytest.mark.parametrize("name", ["float32", "bfloat16", "complex64"])
def test_epilogues_of_many_products(name: str) -> None:
    """In the kernel for small products, or a kernel after the library's, whatever a program was
    compiled for."""
    t = getattr(td, name)

    def layer(a: Any, b: Any, bias: Any) -> Any:
        c = a @ b
        return td.cast(c * 2 + bias, td.complex64 if t.is_complex else td.float32), c

    program = td.jit(layer, backend="native")
    for shape in ((9, 8, 8), (2, 70, 40), (3, 8, 8), (0, 8, 8), (4, 32, 32), (4, 33, 33), (9, 5, 0),
                  (2, 3, 4, 4)):  # fmt: skip
        *batch, m, k = shape
        a, b = whole_numbers(name, shape, 1), whole_numbers(name, (*batch, k, m), 2)
        bias = whole_numbers(name, (m,), 3)
        wide = np.complex64 if t.is_complex else np.float32
        product = a.astype(wide) @ b.astype(wide)
        for _ in range(3):
            found, plain = program(a, b, bias)
            assert np.array_equal(plain.astype(wide), product), shape
            assert np.array_equal(found, 2 * product + bias.astype(wide)), shape
    one = td.jit(lambda a, b, c: td.abs(a @ b + c), backend="native")
    small, large = np.ones((50, 8, 8), t.numpy), np.ones((2, 80, 80), t.numpy)
    for a, said in ((small, "1 kernel launched"), (large, "1 step of several kernels")):
        text = one.lower(a, a, a[0, 0]).explain()
        if not t.is_complex or a is large:
            assert said in text, text
            assert ("by BLAS" in text) == (a is large)


def test_integers_wrap() -> None:
    rng = np.random.default_rng(0)
    for name in ("int32", "uint64"):
        about = np.iinfo(name)
        a, b = rng.integers(about.min, about.max, (2, 33, 33), name, endpoint=True)
        for algorithm in ALGORITHMS:
            options = asked(algorithm, None, 2)
            assert np.array_equal(products.product(a, b, getattr(td, name), options), a @ b)


def test_four_levels_and_leading_axes() -> None:
    a, b = whole_numbers("float64", (3, 1, 50, 49), 1), whole_numbers("float64", (2, 49, 48), 2)
    for algorithm in ("strassen", "winograd"):
        made = td.matmul(a, b, algorithm=algorithm, levels=4)
        assert np.array_equal(td.run(made, backend="native"), a @ b)


def test_an_algorithm_of_ones_own() -> None:
    """STANDARD 1 × 1 × 2 in tables that a user writes: two products, halves of the columns."""
    one = np.eye(2, dtype=int)
    halves = td.BilinearAlgorithm("halves", 1, 1, 2, np.array([[1, 1]]), one, one)
    halves.verify()
    a, b = whole_numbers("float32", (6, 7), 1), whole_numbers("float32", (7, 9), 2)
    for execution in EXECUTIONS:
        made = td.matmul(a, b, algorithm=halves, execution=execution)
        assert np.array_equal(td.run(made, backend="native"), a @ b)
    with pytest.raises(td.TracingError, match="is not an algorithm"):
        td.matmul(a, b, algorithm=3)


@pytest.mark.sample(4)
@pytest.mark.parametrize("execution", [e for e in EXECUTIONS if e])
def test_deterministic(execution: str) -> None:
    """Twenty runs, bit for bit: what owns its blocks anyway, and the others when asked."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 61, 61)).astype("f4")
    free = execution in ("atomic", "persistent")
    options = asked("strassen", execution, 2, deterministic=free)
    first = products.product(a, b, float32, options).tobytes()
    assert all(products.product(a, b, float32, options).tobytes() == first for _ in range(20))


def test_products_run_beside_each_other() -> None:
    """`streams`, `atomic`, `owner` and `persistent` use their workers."""
    seen: set[str] = set()
    both = threading.Barrier(2, timeout=20)

    class Two(products.HostKit):
        def product(self, a: Any, b: Any, out: Any) -> None:
            if len(seen) < 2:
                seen.add(threading.current_thread().name)
                both.wait()
            super().product(a, b, out)

    a = whole_numbers("float64", (96, 96), 1)
    for execution in ("streams", "atomic", "owner", "persistent"):
        seen.clear()
        kit, made = Two(float64), plan(STRASSEN, execution, 1, (96, 96, 96), 2)
        out, room = np.empty_like(a), np.empty(made.workspace)
        executions.execute(kit, made, a, a, out, room)
        assert np.array_equal(out, a @ a) and len(seen) == 2, execution


# --- workspace ---------------------------------------------------------------------------------


@pytest.mark.sample(12)
@pytest.mark.parametrize("algorithm", [STRASSEN, WINOGRAD, LADERMAN], ids=lambda a: a.name)
@pytest.mark.parametrize("execution", executions.EXECUTIONS)
def test_the_workspace_is_what_is_used(algorithm: Any, execution: str) -> None:
    """The highest element that is taken is the last one, up to what fringes may need more."""
    for size in ((54, 54, 54), (55, 57, 61)):
        for levels in (1, 2):
            made = plan(algorithm, execution, levels, size, 2)
            highest = 0

            class Watched(executions.Space):
                def take(self, *shape: int) -> Any:
                    nonlocal highest
                    found = super().take(*shape)
                    highest = max(highest, self.at)
                    return found

            a, b = whole_numbers("float64", size[:2], 1), whole_numbers("float64", size[1:], 2)
            out, room = np.empty((size[0], size[2])), np.empty(made.workspace)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(executions, "Space", Watched)
                kit = Kit()
                kit.workers = 2
                executions.execute(kit, made, a, b, out, room)
            assert np.array_equal(out, a @ b) and highest == made.workspace


def test_no_more_than_two_temporaries_a_level() -> None:
    """Douglas et al. (1994): at most 2/3 of n² elements over all levels."""
    for algorithm in (STRASSEN, WINOGRAD):
        for levels in (1, 2, 3, 4):
            made = plan(algorithm, "recursive", levels, (1024, 1024, 1024))
            assert made.workspace == sum(2 * (1024 >> x) ** 2 for x in range(1, levels + 1))
            assert made.workspace < 2 / 3 * 1024**2


def test_explain_says_the_bytes_that_the_pool_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    plain = POOL.allocate

    def allocate(shape: Any, dtype: Any) -> Any:
        found = plain(shape, dtype)
        given.append(found.nbytes)
        return found

    a = whole_numbers("float32", (300, 300), 1)
    for execution in EXECUTIONS[1:]:

        @td.jit(backend="native")
        def program(x: Any, e: Any = execution) -> Any:
            return td.matmul(x, x, algorithm="strassen", levels=2, execution=e)

        text = program.lower(a).explain()
        line = next(x for x in text.splitlines() if "workspace" in x)
        with monkeypatch.context() as patch:
            patch.setattr(POOL, "allocate", allocate)
            given.clear()
            program(a)
        result, room = given
        assert (result, f"{room:,} bytes") == (a.nbytes, line.split(maxsplit=1)[1])
        assert "times the standard product's" in text and f"execution {execution}" in text


# --- scaling, special values -------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["outer", "inner-outer"])
def test_scaling_keeps_the_digits_of_small_rows(scaling: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((96, 96)).astype("f4") for _ in range(2))
    a[:48] *= 1e-6
    b[:, :48] *= 1e5
    if scaling == "inner-outer":
        a[:, ::2] *= 1e4
        b[::2] *= 1e-4
    exact = a.astype("f8") @ b
    scale = np.abs(a).astype("f8") @ np.abs(b)

    def error(how: str | None) -> float:
        found = products.product(a, b, float32, asked("strassen", None, 2, scaling=how))
        return float((np.abs(found - exact) / scale).max())

    assert error(scaling) < 1e-5 < 1e-2 < error(None)


def test_scaling_is_exact_and_takes_zeros_and_infinities() -> None:
    a = whole_numbers("float64", (20, 20), 1)
    a[3], a[:, 5] = 0, 0
    for scaling in ("outer", "inner-outer"):
        options = asked("winograd", None, scaling=scaling)
        assert np.array_equal(products.product(a, a, float64, options), a @ a)
        b = a.copy()
        b[0, 0] = np.inf
        found = products.product(b, a, float64, options)
        assert not np.isfinite(found[:10]).all() and np.isfinite(a @ a).all()


def test_infinities_and_nans_spread_further() -> None:
    """One infinite element: a row of the standard product, whole blocks of a fast one."""
    a, b = np.ones((8, 8)), np.ones((8, 8))
    a[0, 0] = np.inf
    spread = {
        name: int((~np.isfinite(products.product(a, b, float64, asked(name, None)))).sum())
        for name in ("standard", "strassen", "winograd")
    }
    assert spread["standard"] == 8 < spread["strassen"] <= spread["winograd"]
    # Never fewer: what the standard product makes infinite or NaN is neither of them anywhere.
    assert not np.isfinite(products.product(a, b, float64, asked("strassen", None))[0]).any()


def test_subnormals_survive() -> None:
    """On the host nothing flushes them: differences of blocks are exact, however small."""
    tiny = np.float32(2.0**-140)
    a = np.full((8, 8), tiny, np.float32)
    for execution in EXECUTIONS:
        found = products.product(
            a, np.eye(8, dtype=np.float32), float32, asked("strassen", execution)
        )
        assert np.array_equal(found, a)


# --- choosing ----------------------------------------------------------------------------------


@pytest.fixture
def fast_here(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A machine on which one level always pays; what was asked for."""
    asked_for: list[Any] = []

    def chosen(t: Any, size: Any, most: int | None) -> Choice:
        asked_for.append((t.name, size, most))
        return Choice(crossover.variant(t), 1, "recursive", 1.0, 2.0)

    monkeypatch.setattr(crossover, "chosen", chosen)
    return asked_for


def test_floats_take_strassen_only_inside_fast_precision(fast_here: list[Any]) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 40)).astype("f4")
    plain = td.run(td.matmul(a, a), backend="native")
    assert not fast_here
    with td.precision(fast=True):
        fast = td.run(td.matmul(a, a), backend="native")
        standard = td.run(td.matmul(a, a, algorithm="standard"), backend="native")
    assert fast_here == [("float32", (40, 40, 40), None)]
    assert np.array_equal(plain, standard) and not np.array_equal(plain, fast)
    assert np.array_equal(fast, td.run(td.strassen(a, a), backend="native"))
    with td.precision(fast=True), td.precision(fast=False):
        assert np.array_equal(td.run(td.matmul(a, a), backend="native"), plain)


def test_integers_take_it_by_themselves(fast_here: list[Any]) -> None:
    a = whole_numbers("int32", (40, 40), 1)
    made = []
    real = executions.execute
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products.executions, "execute", lambda *x: made.append(x[1]) or real(*x))
        assert np.array_equal(td.run(td.use(a) @ a, backend="native"), a @ a)
        # With something fused into the write-back, or an operand made on the way: our kernel.
        assert np.array_equal(td.run((td.use(a) @ a) + 1, backend="native"), a @ a + 1)
    assert fast_here == [("int32", (40, 40, 40), None)] * 2
    assert [p.algorithm for p in made] == [WINOGRAD]


def test_the_choice_follows_the_rates() -> None:
    memory_bound = Rates(((256, 1e11), (1024, 1e11)), 1e8)
    quick_sums = Rates(((256, 1e11), (1024, 1e11)), 1e12)
    n = 4096
    assert choose_recursive(memory_bound, (STRASSEN,), (n, n, n), 4).algorithm is None
    best = choose_recursive(quick_sums, (STRASSEN, WINOGRAD), (n, n, n), 4)
    assert best.algorithm is WINOGRAD and best.levels == 4 and "times as fast" in best.why
    slow_leaves = Rates(((256, 1e10), (1024, 3e10), (4096, 1e11)), 1e12)
    assert choose_recursive(slow_leaves, (STRASSEN,), (n, n, n), 4).algorithm is None
    assert choose_recursive(quick_sums, (STRASSEN,), (n, 1, n), 4).algorithm is None


def test_levels_are_the_most_that_auto_may_take() -> None:
    quick = Rates(((256, 1e11), (512, 1e11), (1024, 1e11)), 1e13)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossover, "rates", lambda t: quick)
        n = (4096, 4096, 4096)
        for most, levels in ((None, 3), (8, 3), (2, 2), (1, 1), (0, 0)):
            assert crossover.chosen(int32, n, most).levels == levels
        assert crossover.chosen(int32, n).algorithm is WINOGRAD
        assert crossover.chosen(float32, n).algorithm is STRASSEN
        # Without a gain that is worth it, or a machine to measure, by the standard product.
        patch.setattr(crossover, "rates", lambda t: Rates(quick.product, 3e10))
        assert crossover.chosen(int32, (1024,) * 3).algorithm is None
        patch.setattr(crossover, "rates", lambda t: None)
        assert crossover.chosen(int32, n).algorithm is None


@pytest.mark.parametrize(
    ("options", "said"),
    [({"levels": 2}, "standard, by BLAS; levels=2 changes nothing: name an algorithm, as "
      'algorithm="strassen", or use td.precision(fast=True)'),
     ({"levels": 2, "algorithm": "standard"}, 'levels=2 changes nothing: name an algorithm, as '
      'algorithm="strassen"'),
     ({"levels": None}, "standard, by BLAS"), ({"levels": 0}, "standard, by BLAS")],
)  # fmt: skip
def test_levels_without_an_algorithm_are_not_passed_over(options: Any, said: str) -> None:
    a = np.ones((40, 40), "f4")
    program = td.jit(lambda a: td.matmul(a, a, **options), backend="native").lower(a)
    text = " ".join(program.explain().split())
    assert said in text and ("changes nothing" in text) == ("changes nothing" in said)


def test_a_busy_machine_is_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossover, "LEAST", 32)
    monkeypatch.setattr(crossover, "rates", lambda t: None)
    a = np.ones((40, 40), "i4")
    program = td.jit(lambda a: a @ a, backend="native").lower(a)
    assert "too busy to measure whether" in " ".join(program.explain().split())
    program = td.jit(lambda a: td.strassen(a, a), backend="native").lower(a)
    assert "too busy to measure its rates" in " ".join(program.explain().split())


def test_thin_products_are_predicted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossover, "rates", lambda t: Rates(((256, 1e11),), 1e10))
    a, b = np.ones((4000, 8), "f4"), np.ones((8, 16), "f4")
    text = td.jit(td.strassen, backend="native").lower(a, b).explain()
    said = re.search(r"predicted +(\S+) µs, standard would be (\S+) times as fast", text)
    assert said is not None and float(said[1]) > 100 and float(said[2]) > 10, text


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    crossover.measured.cache_clear()
    yield tmp_path
    crossover.measured.cache_clear()


def test_rates_are_measured_once_and_kept(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = []
    made = crossover.Measured(Rates(((256, 1e10), (512, 2e10)), 3e9), time.time(), 0.5)
    monkeypatch.setattr(crossover, "measure", lambda t: count.append(t) or made)
    path = own_cache / "crossover.json"
    assert crossover.rates(int32) == made.rates and crossover.rates(float32) == made.rates
    crossover.measured.cache_clear()  # another process
    assert crossover.measured(int32) == made and count == [int32, float32]
    whole = json.loads(path.read_text(encoding="utf-8"))
    entry = whole["types"]["int32"]
    assert entry["load"] == 0.5 and entry["date"] == time.strftime("%Y-%m-%d", time.gmtime())
    for damage in ({"version": 0}, {"machine": "another"}, {"types": {"int32": {}}},
                   {"types": {"int32": {**entry, "product": [[256, -1], [512, 1]]}}},
                   {"types": {"int32": {**entry, "sums": float("nan")}}},
                   {"types": 3}):  # fmt: skip
        path.write_text(json.dumps({**whole, **damage}), encoding="utf-8")
        assert crossover.read(path, crossover.machine_key()) == {}
    path.write_text("half a fi", encoding="utf-8")
    crossover.measured.cache_clear()
    assert crossover.rates(int32) == made.rates and count[2:] == [int32]
    assert sorted(p.name for p in own_cache.iterdir()) == ["crossover.json"]


def test_what_is_old_or_of_a_busy_machine_is_measured_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates, day = Rates(((256, 1e10), (512, 2e10)), 3e9), 86400.0
    for age, load, fresh in ((0, 0.5, True), (29 * day, 0.5, True), (31 * day, 0.5, False),
                             (1800, 3.0, True), (9e3, 3.0, False), (-1e5, 0.5, False)):  # fmt: skip
        found = crossover.Measured(rates, time.time() - age, load)
        assert found.fresh == fresh
        crossover.write(own_cache / "crossover.json", crossover.machine_key(), {"int32": found})
        again = crossover.Measured(None, time.time(), 9.0)
        monkeypatch.setattr(crossover, "measure", lambda t, again=again: again)
        crossover.measured.cache_clear()
        assert crossover.rates(int32) == (rates if fresh else None)
        # What is not believed is not kept either.
        assert set(crossover.known()) == ({"int32"} if fresh else set())


def test_small_products_measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crossover, "rates", lambda t: pytest.fail("measured"))
    assert crossover.chosen(int32, (5000, 5000, 1000)).algorithm is None


def test_only_rounds_that_agree_are_believed() -> None:
    """Seconds of products of 8, 16 and 32, and of a level at 32: seven of 16, and sums."""
    extents, quiet = (8, 16, 32), [8**3 / 1e6, 16**3 / 2e6, 32**3 / 2e6, 0.016]
    found = crossover.accepted(int32, extents, [quiet] * 6)
    assert found is not None and found.product == ((8, 1e6), (16, 2e6), (32, 2e6))
    moved = 41 * 16**2 * int32.bytes
    assert found.sums == pytest.approx(moved / (0.016 - 7 * 16**3 / 2e6))
    n = (32, 32, 32)  # the level costs what was measured, whatever sums alone would
    assert predict_recursive(found, WINOGRAD, 1, n, int32.bytes) == pytest.approx(0.016)
    # Single rounds that were disturbed do not count; too few rounds do not either.
    assert crossover.accepted(int32, extents, [quiet, [9.0] * 4, quiet, quiet, [7.0] * 4]) == found
    assert crossover.accepted(int32, extents, [quiet] * 3) is None
    # Halves that differ; a large product that is slower than a small one; a level without sums.
    assert crossover.accepted(int32, extents, [quiet] * 3 + [[1.3 * s for s in quiet]] * 3) is None
    assert crossover.accepted(int32, extents, [[*quiet[:2], 3 * quiet[2], 0.06]] * 6) is None
    assert crossover.accepted(int32, extents, [[*quiet[:3], 0.01]] * 6) is None


def test_measuring_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the test's clock, on a machine where everything takes 30 ms: nothing is believed."""
    monkeypatch.setattr(crossover, "EXTENTS", (8, 16, 32))
    ticks = itertools.count(0.0, 0.03)
    assert crossover.measure(int32, lambda: next(ticks)).rates is None
    assert next(ticks) < 1.5 * crossover.SECONDS


# --- what is refused ---------------------------------------------------------------------------


def test_an_execution_needs_an_algorithm() -> None:
    a = np.ones((4, 4))
    with pytest.raises(td.TracingError, match="applies to fast algorithms"):
        td.matmul(a, a, execution="owner")
    with pytest.raises(td.TracingError, match="5 levels have too many"):
        td.strassen(a, a, levels=5, execution="owner")
    assert np.array_equal(td.run(td.strassen(a, a, levels=5), backend="native"), a @ a)
    with pytest.raises(td.TracingError, match="unknown execution"):
        td.matmul(a, a, algorithm="strassen", execution="magic")


# --- error bounds ------------------------------------------------------------------------------


@pytest.mark.parametrize("low", [-1, 0])
@pytest.mark.parametrize("name", ["standard", "strassen", "winograd", "laderman"])
def test_error_bounds_hold(name: str, low: int) -> None:
    """The bound, and what is typical of centred and of positive data."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(low, 1, (2, 120, 120)).astype("f4")
    exact = a.astype("f8") @ b
    for levels in (0,) if name == "standard" else (1, 2):
        found = products.product(a, b, float32, asked(name, None, levels))
        error = np.abs(found - exact)
        said = td.error_bound(a, b, LADERMAN if name == "laderman" else name, levels)
        assert error.max() <= said.bound
        assert 0.7 < np.sqrt(np.mean(error**2)) / said.typical < (2 if name == "laderman" else 1.4)


def test_error_bounds_of_other_operands() -> None:
    a = np.ones((4, 4), "i4")
    assert td.error_bound(a, a, "strassen") == (0.0, 0.0)
    assert repr(td.error_bound(a, a)) == "ErrorBound(typical=0.0, bound=0.0)"
    half = np.ones((4, 4), "f2")
    wide = half.astype("f4")
    standard = td.error_bound(half, half, "standard")
    assert standard.bound > td.error_bound(wide, half, "standard").bound
    assert td.error_bound(half, half, "strassen", 0) == standard
    with pytest.raises(td.DTypeError, match="sums of float16 would be rounded") as said:
        td.error_bound(half, half)
    assert 'error_bound(a, b, "standard")' in str(said.value.hint)
    assert td.error_bound(td.use(wide) + 0, half, STRASSEN) == td.error_bound(wide, half)
    assert td.error_bound(np.ones((0, 3)), np.ones((3, 2))) == (0.0, 0.0)
    with pytest.raises(td.ShapeError, match="not a product"):
        td.error_bound(np.ones((3, 2)), np.ones((3, 2)))
    with pytest.raises(td.TracingError, match="no algorithm"):
        td.error_bound(a, a, "fastest")
    with pytest.raises(td.TracingError, match="levels must be"):
        td.error_bound(wide, half, levels=-1)
    # More levels than the extents allow are as many as they allow, as in the product.
    assert td.error_bound(wide, half, levels=8) == td.error_bound(wide, half, levels=2)


def test_products_and_bounds_know_the_same_names() -> None:
    a = np.ones((4, 4), "f4")
    for name in NAMES[1:]:
        assert td.matmul(a, a, algorithm=name) is not None and td.error_bound(a, a, name).bound
    for refusing in (td.error_bound, lambda a, b, name: td.matmul(a, b, algorithm=name)):
        with pytest.raises(td.TracingError, match="laderman"):
            refusing(a, a, "laderman")
    with pytest.raises(td.TracingError, match="chosen when the product is computed"):
        td.error_bound(a, a, "auto")


def test_explain_says_who_measured(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = Rates(((256, 1e10), (512, 2e10)), 3e9)
    monkeypatch.setattr(crossover, "_took", {})
    monkeypatch.setattr(crossover, "measure", lambda t: crossover.Measured(rates, time.time(), 0.5))
    program = td.jit(td.strassen, backend="native").lower(np.ones((64, 64)), np.ones((64, 64)))
    assert "rates that this process has measured in" in " ".join(program.explain().split())
    crossover._took.clear()  # another process
    assert "(from rates measured on this machine)" in " ".join(program.explain().split())


@pytest.mark.parametrize(
    ("left", "right", "one"),
    [
        ((3, 4, 5), (5, 6), True),
        ((2, 3, 4, 5), (1, 5, 6), True),
        ((2, 3, 1, 5), (5, 1), True),
        ((0, 4, 5), (5, 6), False),
        ((3, 4, 5), (3, 5, 6), False),
        ((2, 1, 4, 5), (3, 5, 6), False),
        ((3, 4, 5), (2, 1, 5, 6), False),
        ((2, 3, 0, 5), (5, 6), False),
    ],
)
def test_a_batch_times_one_matrix_is_one_product(
    monkeypatch: pytest.MonkeyPatch, left: tuple[int, ...], right: tuple[int, ...], one: bool
) -> None:
    a, b = np.random.default_rng(0).random(left), np.random.default_rng(1).random(right)
    want: Any = np.matmul(a, b)
    wide: Any = np.empty((*want.shape[:-1], want.shape[-1] + 2))
    ranks: list[int] = []

    def counted(x: Any, y: Any, out: Any = None, held: Any = np.matmul) -> Any:
        ranks.append(max(x.ndim, y.ndim))
        return held(x, y, out=out)

    monkeypatch.setattr(np, "matmul", counted)
    for out in (None, np.empty_like(want)):
        ranks.clear()
        np.testing.assert_allclose(memory.matmul(a, b, out), want, rtol=1e-14)
        assert out is None or (out == memory.matmul(a, b)).all()
        assert ranks[0] == (2 if one else want.ndim)
    # Of a batch that is a view, each matrix is where it was.
    part = wide[..., : want.shape[-1]]
    memory.matmul(a, np.broadcast_to(b, (*want.shape[:-2], *right[-2:])), part)
    np.testing.assert_allclose(part, want, rtol=1e-14)


@pytest.mark.parametrize(
    "f", [lambda a, b: a @ b, lambda a, b: td.loop(5, lambda k, x: x @ b * 0.5 + k, a)]
)
def test_small_products_are_repeated_without_python(f: Any) -> None:
    a, b = np.random.default_rng(0).random((2, 16, 16))
    program = td.jit(f, backend="native")
    want = td.jit(f, backend="reference")(a, b)
    for _ in range(4):
        np.testing.assert_allclose(program(a, b), want, rtol=1e-12)
    made = program.lower(a, b)
    assert "treadle's" in made.explain()
    assert len(made.executable.calls.replays.records) == 1


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(3, 3), (17, 30), (5, 3, 3), (5, 17, 30)])
def test_neither_schedules_nor_fusion_change_a_bit_of_small_products(dtype: str, shape: Any
                                                                     ) -> None:  # fmt: skip
    a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    b = np.ascontiguousarray(np.swapaxes(a, -1, -2))
    with td.config(backend="native"):
        want = td.run(td.matmul(a, b))
        for order in (S.Row(), S.Morton() | S.Grid(), S.Row() | S.Block(4, 4)):
            np.testing.assert_array_equal(td.run(td.matmul(a, b, schedule=order)), want)
        left, right = td.run((td.sin(td.exp(a)), td.exp(b)))  # too costly to be read repeatedly
        fused = td.jit(lambda a, b: td.matmul(td.sin(td.exp(a)), td.exp(b)))(a, b)
        np.testing.assert_array_equal(fused, td.run(td.matmul(left, right)))


def test_larger_products_are_those_of_a_library() -> None:
    a = np.ones((40, 40))
    made = td.jit(lambda a: a @ a, backend="native").lower(a)
    assert "by BLAS" in made.explain()


def test_products_in_loops_up_to_64_call_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native code makes the iterations; elsewhere BLAS needs no compiler for other extents."""
    rng = np.random.default_rng(0)
    calls = []

    def counted(a: Any, b: Any, out: Any) -> Any:
        calls.append(a.shape)
        return memory.matmul(a, b, out)

    monkeypatch.setattr(products, "matmul", counted)
    for m, n in ((33, 40), (64, 64), (65, 64)):
        xs, w = rng.standard_normal((20, m, n)), rng.standard_normal((n, n)) / n

        def cell(h: Any, x: Any, w: Any = w) -> Any:
            h = td.tanh(h @ w + x)
            return h, td.sum(h)

        first = np.zeros((m, n))
        f = td.jit(lambda xs, h, cell=cell: td.scan(cell, h, xs), backend="native")
        h, sums = first, []
        for x in xs:
            h = np.tanh(h @ w + x)
            sums.append(h.sum())
        for _ in range(3):
            calls.clear()
            last, got = f(xs, first)
            np.testing.assert_allclose(last, h, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(got, sums, rtol=1e-10, atol=1e-11)
        program = f.lower(xs, first)
        assert program.executable.calls.replays.records  # one record, also of calls of a library
        assert calls == ([] if m <= 64 else [(m, n)] * len(xs))
        assert ("by BLAS" in program.explain()) == (m > 64)
        alone = td.jit(lambda h, w: h @ w, backend="native").lower(first, w)
        assert "by BLAS" in alone.explain()


def test_a_long_extent_of_a_product_in_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 256, where m·n·k is that of small products: native code makes the iterations."""
    rng = np.random.default_rng(5)
    calls: list[Any] = []
    monkeypatch.setattr(products, "matmul", lambda *a, **k: calls.append(a) or np.matmul(*a, **k))
    for k, n, by_kernel in ((64, 256, True), (64, 257, False), (128, 256, False)):
        xs, w = rng.standard_normal((20, 16, k)), rng.standard_normal((k, n)) / n
        program = td.jit(
            lambda xs, w: td.scan(lambda s, x: (s + td.sum(x @ w), td.sum(x @ w)), 0.0, xs)[1],
            backend="native",
        )
        for _ in range(3):
            calls.clear()
            got = program(xs, w)
        np.testing.assert_allclose(got, (xs @ w).sum((1, 2)), rtol=1e-9, atol=1e-9)
        assert (not calls) == by_kernel
        assert ("by BLAS" in program.lower(xs, w).explain()) != by_kernel
