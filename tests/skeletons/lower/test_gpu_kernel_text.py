"""Kernel IR of elements on a GPU: the variant for well-placed data, and what it asks for.

A change of these files is a change of what runs: read the difference, then
`pytest tests/skeletons/lower --update-golden`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from treadle.skeletons import schedules as sc
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.lower import LoweringContext, lower

IMAGE = np.zeros((5, 7), "f4")
ROW = np.zeros(7, "f4")


def heavy(x):
    for k in range(9):
        x = td.exp(-x * k)
    return x


def product(a, b):
    x, y = td.use(a), td.use(b)
    return td.generate(
        (x.shape[0], y.shape[1]),
        lambda i, j: td.loop(x.shape[1], lambda k, t: t + x[i, k] * y[k, j], td.float32(0)),
    )


CASES = {
    "map": (lambda: td.map(lambda x: x * 2 + 1, IMAGE), None),
    "map_heavy": (lambda: td.map(heavy, IMAGE), None),
    "broadcast": (lambda: td.use(IMAGE) + ROW, None),
    "reverse": (lambda: td.use(IMAGE)[:, ::-1], None),
    "transpose": (lambda: td.use(IMAGE).T, None),
    "transpose_by_column": (lambda: td.use(IMAGE).T, sc.Column(8)),
    "transpose_by_blocks": (lambda: td.use(IMAGE).T, sc.Column(64) | sc.Block(8, 32)),
    "product_of_a_rectangle": (
        lambda: product(IMAGE, IMAGE.T),
        sc.Row() | sc.Block(16, 64) | sc.PerThread(2, 2),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_elements_on_a_gpu(case, golden):
    make, schedule = CASES[case]
    context = LoweringContext(target="cuda", schedule=schedule)
    (kernel,) = lower(make()._leaves[0].node, context).kernels
    verify(kernel)
    text = str(replace(kernel, fallback=None))
    text = re.sub(r"_line\d+", "", re.sub(r"(\.py):\d+", r"\1", text))
    golden(f"gpu_{case}.txt", text)
