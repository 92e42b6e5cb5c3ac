"""Products on tensor cores have the bits of the arithmetic that the emulation has
(tests/backend/cuda/products/emulation/tensor.h): the kernels' texts run on the host and on the GPU.
So what is checked without a GPU, and what `td.error_bound` expects, is what is computed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.backend.cuda.products import test_tf32 as host, tiles
from tests.backend.cuda.products.test_tensor import multiply
from treadle.backend.cuda.products import mapped
from treadle.backend.cuda.products.form import FORMS, HOPPER
from treadle.backend.cuda.products.launching import Matrix

pytestmark = pytest.mark.skipif(tiles.COMPILER is None, reason="no g++")
MAPS = [name for name, form in FORMS.items() if form.maps]
PLANES = [name for name, form in FORMS.items() if form.planes and form.precision]
TYPES = {"float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
SHAPE = (150, 200, 270)


def operands(kind: str, types: Any = "f4") -> tuple[Any, Any]:
    """Centred, positive, or lognormal elements, whose exponents differ within every sum."""
    rng = np.random.default_rng(9)
    m, k, n = SHAPE
    made = []
    for shape in ((m, k), (k, n)):
        x = rng.standard_normal(shape)
        if kind == "spread":
            x *= np.exp(1.5 * rng.standard_normal(shape))
        made.append((abs(x) / 8 if kind == "positive" else x / 8).astype(types))
    return made[0], made[1]


@pytest.fixture(scope="module")
def engine() -> Any:
    from treadle.backend.cuda.graphs.launch import CudaDevice
    from treadle.backend.cuda.products.engine import Engine

    return Engine(CudaDevice.current())


def on_gpu(engine: Any, name: str, a: Any, b: Any) -> Any:
    """Bits of the product of two matrices of words."""
    import cupy as cp

    x, y = (cp.asarray(v) for v in (a, b))
    out = cp.zeros((SHAPE[0], SHAPE[2]), a.dtype)
    given = (Matrix(v.data.ptr, *v.shape, v.shape[1], 1, v.itemsize) for v in (out, x, y))
    engine.standard(*given, "owner", name)
    return out.get()


def words(x: Any) -> Any:
    return x.view(f"u{x.itemsize}")


@pytest.mark.parametrize("kind", ["centred", "positive", "spread"])
@pytest.mark.parametrize("name", MAPS)
def test_products_by_tensor_maps(engine: Any, name: str, kind: str,
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Of 16-bit floats, and in tf32."""
    kept = mapped.tensor_map
    a, b = operands(kind, TYPES.get(FORMS[name].types[0], "f4"))
    got = on_gpu(engine, name, words(a), words(b))
    on = host.Emulated(monkeypatch)
    monkeypatch.setattr(mapped, "tensor_map", host._described)
    x, y, out = (on._empty(s, words(a).dtype) for s in (a.shape, b.shape, got.shape))
    x[:], y[:], out[:] = words(a), words(b), 0
    on.standard(*map(host.matrix, (out, x, y)), "owner", name)
    monkeypatch.undo()
    assert kept == mapped.tensor_map
    np.testing.assert_array_equal(got, out)
    found = got.view(a.dtype).astype("f8")
    want = a.astype("f8") @ b.astype("f8")
    assert np.linalg.norm(found - want) < 8e-3 * np.linalg.norm(want)


@pytest.mark.parametrize("kind", ["centred", "positive", "spread"])
@pytest.mark.parametrize("name", PLANES)
def test_products_by_planes(engine: Any, name: str, kind: str) -> None:
    a, b = operands(kind)
    got = on_gpu(engine, name, words(a), words(b)).view("f4")
    out = np.zeros((SHAPE[0], SHAPE[2]), "f4")
    assert multiply(out, a, b, name) == 0
    np.testing.assert_array_equal(words(got), words(out))


def test_all_forms_of_hopper_are_compared() -> None:
    """But those whose sums are exact or in float32, in order."""
    others = {n for n, f in FORMS.items() if f.needs == HOPPER} - {*MAPS, *PLANES}
    assert others <= {"Float32", "Int32", "Limbs32", "Limbs32ImagesSquare"}
