"""CUDA C++ of every operation, and of an operation under every kind of schedule.

A change of these files is a change of what runs: read the difference, then
`pytest tests/cuda --update-golden`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cubins import without_lines

import treadle as td
from treadle.backend.cuda.codegen.text import print_kernel
from treadle.backend.cuda.source import kernels_of

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))

from test_kernel_text import CASES, IMAGE, SCHEDULES, blur


def text_of(array: Any, check: bool = False) -> str:
    """The variants that are tried first, of every kernel of an array's node."""
    kernels = [chain[0] for chain in kernels_of(array._leaves[0].node, "sm_90a", check)]
    return without_lines("\n".join(print_kernel(k) for k in kernels))


@pytest.mark.parametrize("case", [c for c in CASES if c != "matmul"])
def test_operations(case: str, golden: Callable[[str, str], None]) -> None:
    golden(f"text/operations/{case}.cu", text_of(CASES[case]()))


@pytest.mark.parametrize("case", ["gather_guarded", "permute_histogram", "broadcast"])
def test_checked_mode(case: str, golden: Callable[[str, str], None]) -> None:
    golden(f"text/operations/{case}_checked.cu", text_of(CASES[case](), check=True))


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str, golden: Callable[[str, str], None]) -> None:
    made = td.stencil(blur, IMAGE, schedule=SCHEDULES[name])
    golden(f"text/operations/stencil_under_{name}.cu", text_of(made))


def test_the_text_is_the_same_every_time() -> None:
    some = ("map", "transpose", "fold", "scanl", "permute_histogram")
    assert [text_of(CASES[c]()) for c in some] == [text_of(CASES[c]()) for c in some]
