"""CUDA C++ of every operation, and of an operation under every kind of schedule.

A change of these files is a change of what runs: read the difference, then
`pytest tests/backend/cuda/codegen --update-golden`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.compile.cubins import without_lines
from tests.skeletons.lower.test_kernel_text import CASES, IMAGE, SCHEDULES, blur
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.cuda.source import kernels_of


def text_of(array: Any, check: bool = False) -> str:
    """The variants that are tried first, of every kernel of an array's node."""
    kernels = [chain[0] for chain in kernels_of(array._leaves[0].node, "sm_90a", check)]
    return without_lines("\n".join(print_kernel(k) for k in kernels))


#: Cases of long kernels that differ little from another's: their files are the differences.
LIKE = {"scanl1": "scanl", "scanr_total": "scanl", "stencil_mirror": "stencil_clamp",
        "stencil_constant": "stencil_clamp"}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", [c for c in CASES if c != "matmul"])
def test_operations(case: str, golden: Callable[[str, str], None]) -> None:
    text = text_of(CASES[case]())
    if case in LIKE:
        before = text_of(CASES[LIKE[case]]()).splitlines()
        changes = difflib.unified_diff(before, text.splitlines(), LIKE[case], case, "", "", 0, "")
        golden(f"operations/{case}.diff", "\n".join(changes) + "\n")
    else:
        golden(f"operations/{case}.cu", text)


@pytest.mark.parametrize("case", ["gather_guarded", "permute_histogram", "broadcast"])
def test_checked_mode(case: str, golden: Callable[[str, str], None]) -> None:
    golden(f"operations/{case}_checked.cu", text_of(CASES[case](), check=True))


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str, golden: Callable[[str, str], None]) -> None:
    made = td.stencil(blur, IMAGE, schedule=SCHEDULES[name])
    golden(f"operations/stencil_under_{name}.cu", text_of(made))


X = np.array([1.0, 2.0])
#: Functions of float64 that C++ has for floats too, with NaN or an infinity as an argument.
NOT_FINITE: dict[str, Callable[[], Any]] = {
    "fmin": lambda: td.fmin(np.nan, np.array([3, 1, 2])),
    "fmax": lambda: td.fmax(X, np.inf),
    "power": lambda: td.power(X, np.inf),
    "arctan2": lambda: td.arctan2(-np.inf, X),
    "hypot": lambda: td.hypot(X, np.inf),
    "fmod": lambda: td.fmod(X, np.inf),
    "nextafter": lambda: td.nextafter(X, -np.inf),
    "copysign": lambda: td.copysign(X, np.nan),
    "chosen": lambda: td.fmin(X, -td.where(X > 1, np.nan, np.inf)),
    "of two types": lambda: td.minimum(X, np.inf) + td.minimum(np.float32(X), np.float32(np.nan)),
    "fold": lambda: td.fold(td.fmin, np.nan, X),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NOT_FINITE)
def test_arguments_that_are_not_finite(name: str, nvrtc: None) -> None:
    from treadle.backend.cuda.compile.nvrtc import compile_kernel

    for chain in kernels_of(NOT_FINITE[name]()._leaves[0].node, "sm_90a", False):
        compile_kernel(chain[0], "sm_90a")


def test_the_text_is_the_same_every_time() -> None:
    some = ("map", "transpose", "fold", "scanl", "permute_histogram")
    assert [text_of(CASES[c]()) for c in some] == [text_of(CASES[c]()) for c in some]
