"""Explanations, word for word, and the picture of the graph.

`TREADLE_UPDATE_GOLDEN=1` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle.dsl.access import accesses, show_access
from treadle.dsl.explain import explain, graphviz
from treadle.dsl.names import Names, is_kernel

from .explained import PROGRAMS, image, lower

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_text(name):
    text = explain(PROGRAMS[name]())
    path = GOLDEN / f"explain_{name}.txt"
    if os.environ.get("TREADLE_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_are_short(name):
    assert max(map(len, explain(PROGRAMS[name]()).splitlines())) <= 100


@pytest.mark.parametrize("name", PROGRAMS)
def test_picture_has_every_kernel(name):
    program = PROGRAMS[name]()
    text = graphviz(program)
    assert text.startswith("digraph") and text.count("{") == text.count("}")
    for k in range(1, 1 + sum(map(is_kernel, program.kernels))):
        assert f"kernel {k}\\n" in text
    declared = set(re.findall(r"^  (\w+) \[", text, re.M))
    used = set(re.findall(r"(\w+) -> (\w+)", text))
    assert {end for edge in used for end in edge} <= declared


def shown(function, *args):
    """The access texts and classes of the last kernel."""
    program = lower(function, *args)
    names = Names(program)
    return [
        (f"{names.array(a.leaf)}: {show_access(a, names.atom)}", a.classes)
        for a in accesses(program.kernels[-1])
    ]


def in_loop(turns):
    """A product by hand; `turns` of an array with k columns."""

    def product(a, b):
        def element(i, j):
            return td.loop(turns(a), lambda k, s: s + a[i, k] * b[k, j], np.float32(0))

        return td.generate((a.shape[0], b.shape[1]), element)

    given = np.ones((64, 32), np.float32), np.ones((32, 16), np.float32)
    with td.config(recognise=False):
        return explain(lower(product, *given))


def test_work_of_loops():
    """A multiply-add is two operations, as many as the extents of the arguments say."""
    told = "work       64 operations per element, 65.5 k in all\n"
    assert told in in_loop(lambda a: a.shape[1])
    assert told in in_loop(lambda a: 32)
    assert "65 operations per element, 66.6 k in all (loops of unknown length as 32 turns)\n" in (
        in_loop(lambda a: td.cast(a[0, 0], td.int64)))  # fmt: skip


def test_index_maps():
    flat = image(8, 8)
    cases = {
        "w: [i, j]": (lambda w: td.map(lambda x: x + 1, w), ("streaming",)),
        "w: [i + 1, j]": (lambda w: w[1:, :] + 0, ("streaming",)),
        "w: [i, -j + n2 - 1]": (lambda w: td.reverse(w, 1) + 0, ("streaming",)),
        "w: [j, i]": (lambda w: w.T + 0, ("vertical",)),
        "w: [i, j + {-2, 1}] wrap": (
            lambda w: td.stencil(lambda p: p[0, -2] + p[0, 1], w, boundary=td.wrap),
            ("horizontal",),
        ),
        "w: [i + {-1, 1}, j] clamp": (
            lambda w: td.stencil(lambda p: p[-1, 0] + p[1, 0], w),
            ("vertical",),
        ),
        "w: [i + {-4…4}, j] clamp": (
            lambda w: td.stencil(lambda p: sum(p[k, 0] for k in range(-4, 5)), w),
            ("vertical",),
        ),
        "w: [0, j]": (lambda w: td.generate((4, 8), lambda i, j: w[0, j]), ("vertical",)),
        "w: [i, 0]": (lambda w: td.generate((4, 8), lambda i, j: w[i, 0]), ("horizontal",)),
        "w: [computed from the indices]": (
            lambda w: td.generate((4, 8), lambda i, j: w[i // 2, j]),
            ("streaming",),
        ),
    }
    for text, (function, classes) in cases.items():
        assert shown(function, flat) == [(text, classes)]


def test_data_dependent_places():
    found = shown(lambda w, at: td.generate(at.shape, lambda i: w[at[i]]),
                  np.zeros(4), np.zeros(3, np.int64))  # fmt: skip
    assert ("w: [data-dependent]", ("random",)) in found
    assert ("at: [i]", ("streaming",)) in found


def test_loops_take_part_in_the_maps():
    found = shown(
        lambda w: td.generate((4,), lambda i: td.loop(3, lambda k, s: s + w[i + 2 * k], 0.0)),
        np.zeros(16),
    )
    assert [text for text, _ in found] == ["w: [i + 2·index]"] or "·" in found[0][0]
    assert found[0][1] == ("horizontal",)


def test_without_shapes_costs_are_per_element():
    program = lower(lambda a: a + 1, image(4, 4))
    program.example_shapes = None
    text = explain(program)
    assert "4 B read + 4 B written per element" in text and "in all" not in text


def test_numbers_with_shapes():
    text = explain(lower(lambda a: a + 1, image(500, 1000)))
    assert "2 MB read + 2 MB written" in text
    assert "1 operation per element, 500 k in all" in text
    assert "memory is the limit" in text


def test_reference_runs_everything_as_written():
    text = td.jit(lambda a: (a + 1) * 2, backend="reference").lower(image(4)).explain()
    assert "2 operations written, 2 kernels launched" in text
    assert "as it was written" in text


def test_captured_data_and_unnamed_operations_have_names():
    held = np.arange(3.0)
    text = td.jit(lambda a: a * held, backend="reference").lower(np.zeros(3)).explain()
    assert "a " in text and "input " in text
    assert "multiply #1" in text


def test_other_schedules_keep_the_shapes():
    program = PROGRAMS["blur_and_sum"]().scheduled(blur=td.schedule.Row())
    text = program.explain()
    assert "schedule   Row()" in text and "n1 = 480" in text
    assert program.overrides == {"blur": td.schedule.Row()}


def test_what_a_schedule_orders_or_that_it_has_no_effect():
    order = td.schedule.Column(8)
    a = np.ones((4, 5))

    def told(f):
        return td.jit(f, backend="native").lower(a).explain()

    folded = told(lambda a: td.sum(a, axis=1, schedule=order))
    assert "sum: Column(8): in parts of 8,192 × 1, in the order Column(8)." in folded
    assert "no effect" not in folded
    assert "no effect" not in told(lambda a: td.map(lambda x: x + 1, a, schedule=order))
    product = told(lambda a: td.matmul(a, a.T, schedule=order))
    assert "matmul: Column(8) has no effect: BLAS has an order of its own." in product
    stage = td.schedule.Stage()
    staged = told(lambda a: td.stencil(lambda w: w[0, 1] - w[1, 0], a, schedule=stage))
    assert "stencil: Stage() has no effect on a CPU" in staged


def test_explaining_for_a_gpu_that_is_not_here():
    a = np.zeros((4096, 4096), np.float32)
    program = td.jit(lambda x, y: td.maximum(td.strassen(x, y) + 1, 0), backend="native")
    text = program.lower(a, a).explain("cuda")
    assert "on cuda" in text and "1 kernel launched" in text
    assert "by the tile engine" in text and "workspace  0 bytes" in text
    assert "on native" in program.lower(a, a).explain()
    with pytest.raises(td.BackendUnavailable, match="no backend 'cud'"):
        program.lower(a, a).explain("cud")
