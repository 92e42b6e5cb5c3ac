"""What `source("cuda")` prints for products is what would run on an H200 at these extents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

A, SMALL = np.zeros((4096, 4096), np.float32), np.zeros((512, 512), np.float32)
WHOLE, WIDE = np.zeros((2048, 2048), np.int32), np.zeros((4096, 4096))
ROW = np.zeros(4096, np.float32)


def printed(function: Any, *args: Any, arch: str | None = None) -> str:
    return str(td.jit(function, backend="native").lower(*args).source("cuda", arch))


@pytest.mark.parametrize(
    ("function", "args", "arch", "wanted"),
    [
        (lambda a, b: td.matmul(a, b), (WHOLE, WHOLE), None, "tile::Limbs32"),
        (lambda a, b, c: td.maximum(td.matmul(a, b) + c, 0), (A, A, ROW), None, "TILE_EPILOGUE"),
        (lambda a, b: td.strassen(a, b, execution="recursive"), (A, A), None, "TILE_TERMS 1"),
        (lambda a, b: td.matmul(2 * a + 1, b), (SMALL, SMALL), None, "the product between is the"),
        (lambda a, b: td.matmul(2 * a + 1, b), (A, A), "sm_80", "launch on sm_80"),
        (lambda a, b: td.strassen(a, b), (WIDE, WIDE), None, "no kernel: the host or a library"),
    ],
)
def test_the_kernel_that_would_run(function: Any, args: Any, arch: str, wanted: str) -> None:
    text = printed(function, *args, arch=arch)
    assert wanted in text
    assert "no kernel" in wanted or "no kernel" not in text


def test_a_second_product_has_its_own_slots() -> None:
    text = printed(
        lambda a, b: (
            td.strassen(2 * a + 1, b, execution="persistent"),
            td.strassen(a * 5 - 7, b, execution="persistent"),
        ),
        A, A,
    )  # fmt: skip
    assert text.count("by the tile engine") == 2 and "5.0f" in text and "7.0f" in text


def test_what_would_not_run_is_not_printed() -> None:
    for execution in ("persistent", "hybrid"):
        with pytest.raises(td.ScheduleError, match="does not exist here for float64"):
            printed(lambda a, b: td.strassen(a, b, execution=execution), WIDE, WIDE)
    for arch in ("nope", "90", 90):
        with pytest.raises(td.TracingError, match="no architecture of a GPU"):
            printed(lambda a, b: td.strassen(a, b), A, A, arch=arch)  # type: ignore[arg-type]


@pytest.mark.long
def test_an_epilogue_in_one_file_that_compiles() -> None:
    from treadle.backend.cuda.compile.nvrtc import compile_text

    text = printed(lambda a, b, c: td.maximum(td.matmul(a, b) + c, 0), A, A, ROW)
    made = compile_text(text, "matmul_f32", "sm_90a", dynamic_shared_bytes=103_552)
    assert made.spills == 0
