"""Operands and epilogues computed with a product on a GPU, exactly, and bit for bit repeatable."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

#: Of (product, maximum, a, a2, b, b2, scale along k, bias along n).
PROGRAMS = {
    "line": lambda p, top, a, a2, b, b2, s, c: p(2 * a + 1, b),
    "both": lambda p, top, a, a2, b, b2, s, c: p(a * a - 1, 3 - b),
    "two arrays": lambda p, top, a, a2, b, b2, s, c: p(a + a2, b),
    "two arrays each": lambda p, top, a, a2, b, b2, s, c: p(a + a2, b * b2),
    "scaled": lambda p, top, a, a2, b, b2, s, c: p(a * s, b),
    "relu": lambda p, top, a, a2, b, b2, s, c: top(p(a, b) + c, 0),
    "everything": lambda p, top, a, a2, b, b2, s, c: top(p(2 * a + 1, b + 1) * 2 + c, 0),
    "heavy": lambda p, top, a, a2, b, b2, s, c: p(a, ((b * b + 1) * b - 2) * b + 1),
}
SHAPES = ((300, 180, 272), (257, 129, 131))
EXECUTIONS = ("owner", "persistent", "atomic", "streams", "recursive")


def arrays(m, k, n, name="float32", transposed=False):
    rng = np.random.default_rng(m + k + n)
    shapes = ((m, k), (m, k), (k, n), (k, n), (k,), (n,))
    found = [rng.integers(-3, 4, shape).astype(name) for shape in shapes]
    return [np.asfortranarray(x) if transposed else x for x in found]


def program(name, product):
    function = PROGRAMS[name]
    return td.jit(lambda *given: function(product, td.maximum, *given), backend="cuda")


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_strassen(name, execution):
    for transposed in (False, True)[: 1 + (name == "everything")]:
        made = program(name, lambda a, b: td.strassen(a, b, execution=execution))
        for shape in SHAPES:
            given = arrays(*shape, transposed=transposed)
            want = PROGRAMS[name](np.matmul, np.maximum, *given)
            np.testing.assert_array_equal(made(*given), want, err_msg=str((shape, transposed)))


@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_standard(name, kind):
    """Whole tiles, tiles in parts, and what is too small for the engine: cuBLAS's, and ours."""
    made = program(name, lambda a, b: a @ b)
    for shape in ((2048, 512, 2048), (1536, 1536, 1536), (256, 256, 256), (61, 70, 33)):
        given = arrays(*shape, name=kind)
        want = PROGRAMS[name](np.matmul, np.maximum, *(x.astype("float64") for x in given))
        np.testing.assert_array_equal(made(*given), want.astype(kind), err_msg=str(shape))


@pytest.mark.parametrize("name", ["line", "everything"])
def test_bits_repeat(name):
    made = program(name, lambda a, b: td.matmul(a, b, algorithm="strassen", deterministic=True))
    given = [np.random.default_rng(k).standard_normal(x.shape).astype("f4")
             for k, x in enumerate(arrays(1500, 300, 1300))]  # fmt: skip
    first = made(*given)
    assert all(np.array_equal(made(*given), first) for _ in range(20))
