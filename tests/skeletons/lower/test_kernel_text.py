"""Kernel IR of every operation, and of an operation under every kind of schedule.

A change of these files is a change of what runs: read the difference, then
`pytest tests/skeletons/lower --update-golden`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from treadle.backend.runtime.storage import canonical_key
from treadle.driver.program import Program
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.process.configuration import Settings
from treadle.dsl.target import CUDA
from treadle.skeletons import schedules as sc
from treadle.skeletons.ir.narrow import narrow
from treadle.skeletons.ir.verify import verify
from treadle.skeletons.lower.lower import LoweringContext, lower

IMAGE = np.zeros((5, 7), "f4")
ROW = np.zeros(7, "f4")
COUNTS = np.zeros(7, "i4")
LENGTHS = np.array([4, 0, 3])


def plus(x, y):
    return x + y


def affine(x, y):
    return x[0] * y[0], x[1] * y[0] + y[1]


def blur(w):
    return w[-1, 0] + w[0, -1] + w[0, 0] + w[0, 1] + w[1, 0]


def pairs():
    return td.zip(IMAGE, IMAGE)


def gathered(i):
    return td.cond(td.use(COUNTS)[i] >= 0, td.use(ROW)[td.use(COUNTS)[i]], 0.0)


def scattered(combine, defaults, source):
    return td.permute(combine, defaults, lambda i: td.use(COUNTS)[i], source)


CASES = {
    "map": lambda: td.map(lambda x: x * 2 + 1, IMAGE),
    "map_tuple": lambda: td.map(lambda x: (x, x * 2), IMAGE),
    "broadcast": lambda: td.use(IMAGE) + ROW,
    "rank0": lambda: td.unit(td.float32(1)) + 1,
    "gather_guarded": lambda: td.generate(td.use(ROW).shape, gathered),
    "while": lambda: td.map(lambda x: td.while_loop(lambda s: s < 9, lambda s: s * s, x), IMAGE),
    "transpose": lambda: td.use(IMAGE).T,
    "reshape": lambda: td.reshape(td.use(IMAGE), (-1,)),
    "concatenate": lambda: td.concatenate((td.use(IMAGE), IMAGE[:, 2:]), axis=1),
    "slice": lambda: td.use(IMAGE)[::-1, 1::2],
    "stencil_clamp": lambda: td.stencil(blur, IMAGE),
    "stencil_mirror": lambda: td.stencil(blur, IMAGE, boundary=td.mirror),
    "stencil_constant": lambda: td.stencil(blur, IMAGE, boundary=td.constant(0)),
    "stencil_row": lambda: td.stencil(lambda w: w[-1] + w[1], ROW, boundary=td.wrap),
    "fold": lambda: td.fold(plus, 0, IMAGE),
    "fold_all": lambda: td.sum(td.use(IMAGE)),
    "fold_across": lambda: td.fold(plus, 0, IMAGE, axis=0),
    "fold_ordered": lambda: td.fold(affine, (1.0, 0.0), pairs()),
    "fold_argmax": lambda: td.argmax(td.use(IMAGE)),
    "fold_seg": lambda: td.fold_seg(plus, 0, ROW, LENGTHS),
    "scanl": lambda: td.scanl(plus, 0, ROW),
    "scanl1": lambda: td.scanl1(plus, ROW),
    "scanr_total": lambda: td.scanr_total(plus, 0, ROW)[0],
    "scan_across": lambda: td.cumsum(td.use(IMAGE), axis=0),
    "scan_ordered": lambda: td.scanl1(affine, pairs()),
    "permute_histogram": lambda: scattered(plus, np.zeros(9, "i4"), COUNTS),
    "permute_any": lambda: scattered(lambda n, o: (n + o) % 9, np.zeros(9, "i4"), COUNTS),
    "permute_overwrite": lambda: scattered(td.overwrite, np.zeros(9, "f4"), ROW),
    "permute_tuple": lambda: scattered(
        td.overwrite, td.zip(np.zeros(9, "f4"), np.zeros(9, "i4")), td.zip(ROW, COUNTS)
    ),
    "matmul": lambda: td.matmul(np.zeros((5, 7), "i4"), np.zeros((7, 3), "i4")),
}

SCHEDULES = {
    "column": sc.Column(256),
    "zigzag": sc.ZigZag(64),
    "tile": sc.Tile(8, 8),
    "swizzle": sc.Swizzle(4),
    "morton": sc.Morton(),
    "hilbert": sc.Hilbert(),
    "row_blocks": sc.Row() | sc.Block(8, 32) | sc.PerThread(rows=8),
    "column_blocks": sc.Column(64) | sc.Block(8, 32),
}


def text_of(array, **context):
    lowered = lower(array._leaves[0].node, LoweringContext(**context))
    for kernel in lowered.kernels:
        verify(kernel)
    return anywhere("\n".join(str(k) for k in lowered.kernels))


def anywhere(text):
    """Where the case stands in this file is no matter."""
    return re.sub(r"_line\d+", "", re.sub(r"(\.py):\d+", r"\1", text))


#: Threads enough that permutes have kernels of every way.
THREADS = 16


@pytest.mark.parametrize("case", CASES)
def test_operations(case, golden):
    golden(f"{case}.txt", text_of(CASES[case](), threads=THREADS))


def test_crossed_folds(golden):
    f = td.jit(lambda a, x, y: a.T @ (a @ x - y), backend="native")
    program = f.lower(np.zeros((5, 7)), ROW.astype("f8"), np.zeros(5))
    lowered = lower(program.kernels[0], LoweringContext())
    for kernel in lowered.kernels:
        verify(kernel)
    golden("crossed_folds.txt", anywhere("\n".join(str(k) for k in lowered.kernels)))


@pytest.mark.parametrize("case", ["gather_guarded", "permute_histogram", "broadcast"])
def test_checked_mode(case, golden):
    golden(f"{case}_checked.txt", text_of(CASES[case](), threads=THREADS, check=True))


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name, golden):
    made = td.stencil(blur, IMAGE, schedule=SCHEDULES[name])
    golden(f"stencil_under_{name}.txt", text_of(made))


@pytest.mark.parametrize("case", ["broadcast", "transpose", "stencil_clamp"])
def test_narrow(case, golden):
    made = narrow(lower(CASES[case]()._leaves[0].node, LoweringContext()).kernels[0])
    assert made is not None
    verify(made)
    golden(f"{case}_narrow.txt", anywhere(str(made).partition("otherwise")[0]))


def test_the_text_is_the_same_every_time():
    first = {case: text_of(make()) for case, make in CASES.items()}
    assert first == {case: text_of(make()) for case, make in CASES.items()}


def used_programs():
    """Of captured arrays, new at each call: what makes the expression, and the arrays."""
    a, b, c = np.zeros((5, 7), "f4"), np.zeros((5, 7), "f4"), np.zeros(7, "i4")

    def expressions():
        u, v, at = td.use(a), td.use(b), td.use(c)
        size = u.shape[0] * v.shape[1]
        return [
            td.sum(td.map(lambda x, y: x * y, u, v), axis=1),
            td.generate((size,), lambda i: u[i // v.shape[1], i % u.shape[1]]),
            td.map(lambda i: u[0, td.use(c)[i]] + v[1, i], at),
        ]

    return expressions, [a, b, c]


@pytest.mark.parametrize("backend", ["native", "cuda"])
def test_nothing_depends_on_where_else_arrays_are_used(backend):
    def texts(expression):
        program = Program(*flatten_results(expression), Settings(check=True), backend)
        keys = [canonical_key(r, program.settings) for r in (program.source_roots, program.roots)]
        return [*keys, str(program.source()), str(program.explain())]

    expressions, _ = used_programs()
    first = [texts(e) for e in expressions()]
    expressions, arrays = used_programs()
    elsewhere = [td.use(a) for a in reversed(arrays)]
    elsewhere += [td.use(a) for a in arrays]
    assert [texts(e) for e in expressions()] == first
    del elsewhere


# --- elements on a GPU: the variant for aligned data ---------------------------------------------


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


GPU_CASES = {
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


@pytest.mark.parametrize("case", GPU_CASES)
def test_elements_on_a_gpu(case, golden):
    make, schedule = GPU_CASES[case]
    context = LoweringContext(target=CUDA, schedule=schedule)
    (kernel,) = lower(make()._leaves[0].node, context).kernels
    verify(kernel)
    golden(f"gpu_{case}.txt", anywhere(str(replace(kernel, fallback=None))))
