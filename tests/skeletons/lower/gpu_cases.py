"""What the tests of GPU lowerings share: awkward extents, data of every type, comparison."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import treadle as td
from tests.skeletons.ir import simt

#: None, one, around a warp, a prime, around a block of 256, a prime beyond several blocks.
EXTENTS = (0, 1, 2, 31, 32, 33, 97, 255, 256, 257, 1021, 5003)
SHAPES = ((0, 3), (3, 0), (1, 1), (1, 7), (7, 1), (33, 31), (4, 257), (257, 4), (97, 101),
          (2, 3, 5), (5, 1, 37), (3, 40, 2), (2, 33, 35))  # fmt: skip
TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
         "float16", "bfloat16", "float32", "float64", "complex64", "complex128")  # fmt: skip
INTEGERS = TYPES[1:9]


def dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def data(shape: Any, name: str = "int64", seed: int = 0, low: int = 0, high: int = 9) -> Any:
    """Small whole numbers of any type: sums and products of a few of them are exact."""
    values = np.random.default_rng(seed).integers(low, high, shape)
    if name.startswith("complex"):
        values = values + 1j * np.random.default_rng(seed + 99).integers(low, high, shape)
    return np.asarray(values).astype(dtype(name))


def same(got: Any, want: Any, label: str = "") -> None:
    """The same type, shape and elements (NaN equals NaN), for arrays and tuples of arrays."""
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            same(g, w, f"{label}[{k}]")
        return
    want = np.asarray(want)
    assert got.dtype == want.dtype, (label, got.dtype, want.dtype)
    assert got.shape == want.shape, (label, got.shape, want.shape)
    wrong = ~((got == want) | ((got != got) & (want != want)))
    if np.any(wrong):
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(f"{label} {want.dtype}{want.shape}: {np.count_nonzero(wrong)} differ, "
                             f"first at {at}: got {got[at]!r}, not {want[at]!r}")  # fmt: skip


def agrees(array: Any, label: str = "", **options: Any) -> Any:
    """Lowered for a GPU and interpreted, an array is what `reference` says it is."""
    want = td.run(array, backend="reference")
    got = simt.run_array(array, **options)
    same(got, want, label)
    return got
