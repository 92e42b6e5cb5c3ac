"""Fast products on a GPU: every algorithm, execution and type at awkward shapes and strides,
repeatability where it is promised, and the workspace that `explain()` says."""

from __future__ import annotations

import re
from functools import cache, partial

import numpy as np
import pytest

import treadle as td
from treadle.dsl.operations.algebra.products import EXECUTIONS

NAMED = tuple(e for e in EXECUTIONS if e is not None)
TYPES = ("float32", "float64", "int32", "int64", "complex64")
#: m, k, n: one, primes, a power of two and its neighbours, tall, wide, a long sum, nothing.
SHAPES = (
    (1, 1, 1), (7, 11, 13), (64, 64, 64), (255, 256, 257), (513, 127, 65), (3, 1009, 5),
    (1031, 70, 67), (66, 70, 1029), (129, 0, 65), (0, 64, 64),
)  # fmt: skip
VIEWS = {
    "rows": lambda x: x,
    "columns": lambda x: x.T.copy().T,
    "every other": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "backwards": lambda x: x[::-1].copy()[::-1],
}


def data(name, shape, seed):
    """Small integers, of which every sum is exact in every type of more than eight bits."""
    found = np.random.default_rng(seed).integers(0 if name[0] == "u" else -4, 5, shape)
    if np.dtype(name).kind == "c":
        found = found + 1j * np.random.default_rng(seed + 9).integers(-4, 5, shape)
    return found.astype(name)


#: What is combined from the library's standard products, of every type and algorithm.
BY_LIBRARY = (None, "recursive", "sequential", "streams", "batched")


def exists(name, algorithm, execution):
    """Whether a GPU has an execution: the others are the engines', which Winograd's sums of up to
    four blocks do not fit."""
    engine = algorithm == "strassen" and name in ("float32", "int32")
    return execution in BY_LIBRARY or engine


@cache
def product(algorithm, levels, execution, deterministic=False):
    multiply = partial(td.matmul, algorithm=algorithm, levels=levels, execution=execution,
                       deterministic=deterministic)  # fmt: skip
    return td.jit(lambda a, b: multiply(a, b), backend="cuda")


@pytest.mark.parametrize("execution", (None, *NAMED))
@pytest.mark.parametrize("algorithm", ("strassen", "winograd"))
@pytest.mark.parametrize("name", TYPES)
def test_every_algorithm_execution_type_shape_and_stride(name, algorithm, execution):
    cupy = pytest.importorskip("cupy")
    for levels in (1, 2):
        program = product(algorithm, levels, execution)
        if not exists(name, algorithm, execution):
            with pytest.raises(td.ScheduleError, match=repr(execution)):
                program(*(cupy.ones((64, 64), name) for _ in range(2)))
            continue
        for number, (m, k, n) in enumerate(SHAPES):
            a, b = data(name, (m, k), number), data(name, (k, n), number + 50)
            views = list(VIEWS.values()) if number in (3, 4) else [VIEWS["rows"]]
            for iteration, view in enumerate(views):
                left, right = view(a), views[-1 - iteration](b)
                got = program(_placed(cupy, left), _placed(cupy, right)).get()
                np.testing.assert_array_equal(
                    got, a @ b, err_msg=f"{levels} {m} {k} {n} {iteration}"
                )


def _placed(cupy, x):
    """On the device with the same strides."""
    there = cupy.asarray(np.ascontiguousarray(x))
    if x.flags.c_contiguous:
        return there
    if x.flags.f_contiguous:
        return cupy.asfortranarray(there)
    if x.strides[0] < 0:
        return there[::-1].copy()[::-1]
    return cupy.repeat(cupy.repeat(there, 2, 0), 2, 1)[::2, ::2]


@pytest.mark.parametrize("name", ("float32", "float64", "int32", "uint8"))
@pytest.mark.parametrize("algorithm", ("strassen", "winograd"))
def test_leaves_of_engines(name, algorithm):
    """Sums in memory over products that engines of ours compute: into blocks of the result."""
    cupy = pytest.importorskip("cupy")
    for levels, n in ((1, 1024), (1, 1536), (2, 2050), (1, 3072)):
        a, b = (cupy.asarray(data(name, (n, n), seed)) for seed in (1, 2))
        got = product(algorithm, levels, "recursive")(a, b)
        want = (a.astype("f8") @ b.astype("f8")).astype("i8").astype(name)
        assert bool((got == want).all()), (levels, n, int((got != want).sum()))


@pytest.mark.parametrize("name", ("float32", "float64"))
@pytest.mark.parametrize(
    ("algorithm", "levels", "execution"),
    [("standard", None, None), *(("strassen", x, e) for x in (1, 2)
      for e in (None, "owner", "sequential", "streams", "recursive", "persistent"))],
)  # fmt: skip
def test_promised_bits(name, algorithm, levels, execution):
    """Twenty runs, the same bits: deterministic products, whatever computes them."""
    cupy = pytest.importorskip("cupy")
    program = product(algorithm, levels, execution, True)
    rng = cupy.random.default_rng(3)
    a, b = (rng.standard_normal((1100, 1100)).astype(name) for _ in range(2))
    if algorithm == "strassen" and not exists(name, algorithm, execution):
        with pytest.raises(td.ScheduleError, match=repr(execution)):
            program(a, b)
        return
    first = program(a, b)
    for _ in range(19):
        assert bool((program(a, b) == first).all())
    error = float(abs(first - a.astype("f8") @ b.astype("f8")).max())
    assert error < {"float32": 2e-3, "float64": 1e-11}[name]


@pytest.mark.parametrize("execution", (None, "owner", "atomic", "persistent", "recursive"))
def test_lines_that_vectors_cannot_load(execution):
    """Large operands of odd extents, of which the engine makes copies with whole vectors."""
    cupy = pytest.importorskip("cupy")
    m, k, n = 2053, 2051, 2049
    a, b = (cupy.asarray(data("float32", s, seed)) for s, seed in (((m, k), 1), ((k, n), 2)))
    want = a.astype("f8") @ b.astype("f8")
    for levels in (1, 2):
        for left in (a, cupy.asfortranarray(a)):
            for right in (b, cupy.asfortranarray(b)):
                got = product("strassen", levels, execution)(left, right)
                assert bool((got == want).all()), (levels, int((got != want).sum()))


@pytest.mark.parametrize("levels", (1, 2))
@pytest.mark.parametrize(
    ("name", "execution", "n"),
    [(name, e, n) for name in ("float32", "float64", "int32") for e in (None, *NAMED)
     if exists(name, "strassen", e) for n in (2048, 2050)[: 1 + (name == "float32")]],
)  # fmt: skip
def test_the_workspace_is_what_explain_says(name, execution, n, levels):
    """All that the pool gives out in a call, less the result."""
    cupy = pytest.importorskip("cupy")
    program = product("strassen", levels, execution)
    a, b = cupy.ones((n, n), name), cupy.ones((n, n), name)
    text = program.lower(a, b).explain()
    out = program(a, b)
    assert out.dtype == name and bool((out == n).all())
    said = int(re.search(r"workspace\W+([\d,]+) bytes", text)[1].replace(",", ""))
    del out
    for _ in range(3):
        program(a, b)  # whatever is kept from call to call is there
    with _Given() as given:
        program(a, b)
    result = n * n * a.itemsize
    assert given.most - result <= said + 4096, (given.most - result, said)
    assert given.most - result >= said, (given.most - result, said)


class _Given:
    """The most bytes that CuPy's pool has given out at one time, since it was entered."""

    def __enter__(self):
        import cupy

        self.most = self._now = 0

        class Hook(cupy.cuda.memory_hook.MemoryHook):
            name = "given"

            def malloc_postprocess(hook, **kw):
                self._now += kw["mem_size"]
                self.most = max(self.most, self._now)

            def free_postprocess(hook, **kw):
                self._now -= kw["mem_size"]

        self._hook = Hook()
        self._hook.__enter__()
        return self

    def __exit__(self, *what):
        self._hook.__exit__(*what)
