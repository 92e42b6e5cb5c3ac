"""NPBench's codes outside its folders: physics, chemistry, fractals, transforms."""

from __future__ import annotations

import treadle as td
from benchmarks.npbench.registry import program


@program("go_fast")
def go_fast(a):
    return a + td.sum(td.tanh(td.diagonal(a)))


@program("compute")
def compute(array_1, array_2, a, b, c):
    return td.clip(array_1, 2, 10) * a + array_2 * b + c
