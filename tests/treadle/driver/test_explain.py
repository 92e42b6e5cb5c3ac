"""Explanations, word for word, and the picture of the graph.

`pytest tests/treadle/driver --update-golden` writes the texts again; read the difference before
keeping it.
"""

from __future__ import annotations

import inspect
import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import treadle as td
from treadle.driver.explain import explain
from treadle.driver.shown import graphviz
from treadle.dsl.graphs.names import Names, is_kernel
from treadle.dsl.target import CUDA, NATIVE
from treadle.skeletons.access.maps import accesses, show_access
from treadle.skeletons.lower.launches import lowering_report
from treadle.skeletons.lower.lower import LoweringContext, lower as lower_node
from treadle.skeletons.model import device

from .explained import PROGRAMS, image, lower


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_text(name, golden):
    golden(f"explain_{name}.txt", explain(PROGRAMS[name]()))


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
        (f"{names.array(a.leaf)}: {show_access(a, names.form)}", a.classes)
        for a in accesses(program.kernels[-1])
    ]


def in_loop(iterations):
    """A product by hand; `iterations` of an array with k columns."""

    def product(a, b):
        def element(i, j):
            return td.loop(iterations(a), lambda k, s: s + a[i, k] * b[k, j], np.float32(0))

        return td.generate((a.shape[0], b.shape[1]), element)

    given = np.ones((64, 32), np.float32), np.ones((32, 16), np.float32)
    with td.config(recognise=False):
        return explain(lower(product, *given))


def test_work_of_loops():
    """A multiply-add is two operations, as many as the extents of the arguments say."""
    work = "work       64 operations per element, 65.5 k in all\n"
    assert work in in_loop(lambda a: a.shape[1])
    assert work in in_loop(lambda a: 32)
    work = "65 operations per element, 66.6 k in all (loops of unknown length as 32 iterations)\n"
    assert work in in_loop(lambda a: td.cast(a[0, 0], td.int64))


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

    def description(f):
        return td.jit(f, backend="native").lower(a).explain()

    folded = description(lambda a: td.sum(a, axis=1, schedule=order))
    assert "schedule   Column(8)\n" in folded
    assert "in parts of 8,192 × 1, in the order Column(8)\n" in folded
    assert "no effect" not in folded
    assert "no effect" not in description(lambda a: td.map(lambda x: x + 1, a, schedule=order))
    product = description(lambda a: td.matmul(a, a.T, schedule=order))
    small = "no effect: the kernel for many small products has an order of its own"
    assert small in " ".join(product.split())
    product = description(
        lambda a: td.matmul(td.tile(a, (10, 9)), a.sum() * td.ones((45, 40)), schedule=order)
    )
    assert "no effect: BLAS has an order of its own" in product
    stage = td.schedule.Stage()
    staged = description(lambda a: td.stencil(lambda w: w[0, 1] - w[1, 0], a, schedule=stage))
    assert "Stage() has no effect on a CPU" in staged


def schedules_of(text):
    """The lines about the schedule of every kernel."""
    found, block = [], None
    for line in text.splitlines():
        if line.lstrip().startswith("schedule "):
            found.append(block := [])
        elif not line.strip():
            block = None
        if block is not None:
            block.append(" ".join(line.split()).removeprefix("schedule "))
    return found


SEEN = {
    # program → the first lines on a GPU, and on a CPU
    "map": (lambda a: td.sqrt(a) * 2, ["none given; as Row()",
            "32,768 blocks of 128 threads, 4 elements each; 2 contiguous axes as one"],
            ["none given; as Row()", "1,024 tasks of 16,384 elements; 2 contiguous axes as one"]),
    "transposition": (lambda a: a.T + 1, ["none given",
            "4,096 blocks of 512 threads, 8 elements each; tiles of 64 × 64 in shared memory: a"],
            ["none given; as Row()", "1,024 tasks of 16,384 elements"]),
    "stencil": (lambda a: td.stencil(lambda w: w[-1, 0] + w[1, 0] + w[0, 1], a),
            ["none given; as Row() | PerThread(rows=4, cols=4)",
             "8,192 blocks of 128 threads, 16 elements each"],
            ["none given; as Row()", "1,024 tasks of 16,384 elements"]),
    "columns": (lambda a: td.sum(a, axis=0), ["none given; as Row()",
            "2,048 blocks of 256 threads, 32 elements each; columns side by side, threads take",
            "elements round-robin",
            "then 64 blocks of 1,024 threads; partial results from top to bottom",
            "a block folds 64 of 4,096 elements for each of 128 results: 64 parts of a result"],
            ["none given; as Row()",
             "32 tasks of 524,288 elements; columns side by side, blocks of 1024 rows",
             "then 8 tasks; partial results from top to bottom",
             "a task folds 1,024 of 4,096 elements for each of 512 results: 4 parts of a result"]),
    "scan": (lambda a: td.cumsum(a, axis=1), ["none given; as Row()",
            "512 blocks of 256 threads, 128 elements each; several rows to a block"],
            ["none given; as Row()", "1,024 tasks of 16,384 elements; 8 steps together"]),
    "chosen": (lambda a: td.permute(td.overwrite, a, lambda i, j: (j, i), a), [
            "none given; Column(8) was chosen",
            "396 blocks of 512 threads, 83 elements each; stores updates",
            "one by one, in the order Column(8)"],
            ["none given; Row() | Block(256, 8) was chosen",
             "8,192 tasks of 2,048 elements; stores updates",
             "one by one, 256 × 8 of them together, in the order Row()"]),
    "product": (lambda a: a @ a, ["the tile engine has an order of its own"],
            ["BLAS has an order of its own"]),
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SEEN)
def test_every_kernel_tells_its_schedule_in_numbers(name, monkeypatch):
    monkeypatch.setattr(device, "ceilings", lambda backend, machine: device.H200
                        if backend == "cuda" else device.UNKNOWN_CPU)  # fmt: skip
    function, gpu, cpu = SEEN[name]
    program = td.jit(function, backend="native").lower(image(4096, 4096))
    for backend, wanted in (("cuda", gpu), ("native", cpu)):
        (description,) = schedules_of(program.explain(backend))
        assert description[: len(wanted)] == wanted


@pytest.mark.parametrize("target", [CUDA, NATIVE], ids=["cuda", "cpu"])
@pytest.mark.parametrize("name", [n for n in SEEN if n != "product"])
def test_code_that_is_told_makes_the_very_kernels(name, target):
    """What explain() says a kernel is "as", without a schedule, is what that schedule makes."""
    node = lower(SEEN[name][0], image(96, 80)).kernels[-1]
    context = LoweringContext(target, 132)
    code = lowering_report(node, context, {}).code
    assert (code is None) == ((name, target) == ("transposition", CUDA))
    if code is not None:
        assert kernel_text(node, context) == kernel_text(node, replace(context, schedule=code))


def kernel_text(node, context):
    return re.sub(r"(?m)^\s*// .*$", "", "".join(map(str, lower_node(node, context).kernels)))


def test_kernels_with_schedules_of_their_own_say_that_they_are_not_fused():
    block, a = td.schedule.Block(64), np.ones(1000)
    said = "kernel 1 with 2  operations with schedules of their own are kernels of their own"

    def explained(f):
        return lower(f, a).explain()

    both = lambda x, s, t: (td.map(lambda v: v * 2, x, schedule=s), td.map(abs, x, schedule=t))
    assert said in explained(lambda x: both(x, block, block))
    assert said in explained(lambda x: both(x, block, None))
    assert said not in explained(lambda x: both(x, None, None))  # they are one
    assert said not in explained(lambda x: (both(x, block, None)[0], td.map(abs, x[1:])))
    one = explained(lambda x: td.map(lambda v: (v * 2, abs(v)), x, schedule=block))
    assert "1 kernel launched" in one and "Not fused" not in one


def test_kernels_have_the_word_that_the_user_wrote():
    def titles(f):
        found = re.findall(r"Kernel \d+: (.*) at", lower(f, np.ones((9, 9))).explain())
        return [re.sub(r" #\d+", "", title) for title in found]

    assert titles(lambda a: td.std(a, axis=1))[-1] == "sum of std"
    assert all(title.endswith(" of median") for title in titles(lambda a: np.median(a)))
    assert titles(lambda a: a.mean(axis=0)) == ["mean"]
    assert titles(lambda a: td.std(a, name="spread"))[-1] == "sum 'spread'"
    assert titles(lambda a: abs(td.linalg.norm(a)))[-1].endswith(" of norm")


def test_defaults_are_updated_in_place():
    def counted(a):
        return td.permute(
            lambda new, old: new + old, td.zeros(16, td.int64), lambda i: a[i] % 16, a
        )

    text = explain(lower(counted, np.zeros(1000, np.int64)))
    assert "kernel 1: updated in place  int64[16]" in text
    kept = explain(lower(lambda a: (h := td.zeros(16, td.int64) + 1, td.scatter(h, a, a)),
                         np.zeros(1000, np.int64)))  # fmt: skip
    assert "kernel 1: whole" in kept and "in place" not in kept


def test_explaining_for_a_gpu_that_is_not_here():
    a = np.zeros((4096, 4096), np.float32)
    program = td.jit(lambda x, y: td.maximum(td.strassen(x, y) + 1, 0), backend="native")
    text = program.lower(a, a).explain("cuda")
    assert "on cuda" in text and "1 kernel launched" in text
    assert "by the tile engine" in text and "workspace  0 bytes" in text
    assert "on native" in program.lower(a, a).explain()
    with pytest.raises(td.BackendUnavailable, match="no backend 'cud'"):
        program.lower(a, a).explain("cud")


def test_single_elements_on_a_cpu_are_told_with_what_gives_vectors():
    schedules, a = td.schedule, np.ones((40, 50), np.float32)

    class Diagonal(schedules.PlaneOrder):
        width: int

        def plane(self, i, height, width):
            return schedules.Column(self.width).plane(i, width, height)[::-1]

    def said(schedule):
        found = td.jit(lambda a: td.sqrt(a).scheduled(schedule), backend="native").lower(a)
        return " ".join(found.explain().split())

    block = schedules.Block(8, 256)
    assert "one by one, in the order Diagonal(8): add a Block for vectors, e.g. Diagonal(8) | " \
           "Block(8, 256)" in said(Diagonal(8))  # fmt: skip
    assert "one by one, in the order Column(1)" in said(schedules.Column(1))
    assert "4 at a time, in the order ZigZag(4): add a Block" in said(schedules.ZigZag(4))
    for order in (schedules.ZigZag(4), schedules.ZigZag(64)):
        assert "takes each piece of a row that the order visits from left to right" in said(order)
    assert "from left to right" not in said(schedules.Column(64))
    for order in (Diagonal(8) | block, schedules.Column(64), schedules.Row()):
        assert "one by one" not in said(order)


def labels(source, target, count):
    """The least of what points to each of `count` places."""
    return td.permute(td.minimum, td.full((count,), td.int64(9)), lambda k: target[k], source)


def test_numbers_of_the_arguments_are_extents_that_are_known():
    some = np.zeros(1000, np.int64)
    program = td.jit(labels, backend="native").lower(some, some, 200_000)
    text = program.explain()
    assert "a number given at each call, here 200000" in text
    assert "as many as the extents ask for" not in text
    other = td.jit(labels, backend="native").lower(some, some, 3)
    assert "here 3" in other.explain() and "here 200000" in program.explain()
    assert "blocks of" in program.explain("cuda") and "as many" not in program.explain("cuda")


def test_ways_that_exclude_each_other_are_either_and_or():
    some = np.zeros(1000, np.int64)
    program = td.jit(labels, backend="native").lower(some, some, 200_000)
    unknown = program.explained_for(program.example_shapes)
    lines = next(x for x in schedules_of(unknown.explain()) if len(x) > 2)
    assert [line.split()[0] for line in lines[1:]] == ["either", "then", "or"], lines


def test_extents_of_slices_of_slices_stay_short():
    def shrunk(u):
        for _ in range(24):
            u = td.compute(u[1:-1] + u[2:])
        return u

    text = td.jit(shrunk, backend="native").lower(np.ones(100)).explain()
    assert "float64[n1 - 48]" in text and max(map(len, text.split("\n"))) < 200


# --- where it is read ------------------------------------------------------------------------


def test_texts_show_themselves_at_a_prompt():
    program = lower(lambda a: td.sum(a), image(5))
    for text in (program.explain(), program.source(), program.graph()):
        assert "\n" in text and repr(text) == text == str(text) and isinstance(text, str)


def test_a_notebook_has_cells_instead_of_files(monkeypatch):
    """The file of a cell has an unknown name; IPython knows its number."""
    here = Path(__file__)
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={str(here): 7}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert "sum #1 at cell 7, line " in lower(lambda a: td.sum(a), image(5)).explain()
    shell.compile._filename_map.clear()
    assert f"sum #1 at {here.name}:" in lower(lambda a: td.sum(a), image(5)).explain()


def test_a_traceback_in_a_notebook_ends_at_the_users_line(monkeypatch):
    """IPython shows what `_render_traceback_` of an error returns."""
    shown = []

    def structured_traceback(kind, error, frames):
        shown.extend(inspect.getinnerframes(frames))
        return [str(error)]

    shell = SimpleNamespace(
        InteractiveTB=SimpleNamespace(structured_traceback=structured_traceback)
    )
    pictures = image(5), image(6)
    for call in (
        lambda: td.jit(lambda a: a[9])(pictures[0]),
        lambda: td.use(pictures[0]) + pictures[1],
        lambda: td.gamma,
        lambda: td.use(pictures[0]).numpy(),
        lambda: td.use(pictures[0]).at[0].get(),
    ):
        with pytest.raises((td.TreadleError, AttributeError)) as raised:
            call()
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        shown.clear()
        assert raised.value._render_traceback_() == [str(raised.value)]
        monkeypatch.undo()
        assert {frame.filename for frame in shown} == {__file__}
        assert shown[-1].function == "<lambda>"


# --- random programs: `explain()` never raises ---------------------------------------------------

S = td.schedule
SCHEDULES = (
    S.Auto(), S.Row(), S.Column(3), S.Morton() | S.Block(32), S.Hilbert() | S.Block(8, 32),
    S.Hilbert(), S.Tile(4, 8), S.ZigZag(4), S.Row() | S.PerThread(rows=2), S.Block(4, 64),
    S.Morton() | S.Block(4) | S.LocalityGraph(), S.Agents(2), S.Hints(stream="no_l1"),
)  # fmt: skip


def last(a):
    return a.shape[-1]


#: What is done to an array, with the keywords that carry a schedule; of any rank.
ANY = {
    "map": lambda a, **k: td.map(lambda x: x * 2 + 1, a, **k),
    "imap": lambda a, **k: td.imap(lambda *ix: ix[-1] + sum(ix[:-1]), a, **k),
    "loop": lambda a, **k: td.map(lambda x:
        td.loop(5, lambda i, s: s + td.cast(i, s.dtype), x), a, **k),
    "while": lambda a, **k: td.map(lambda x:
        td.while_loop(lambda s: s < 9, lambda s: s * 2 + 1, x), a, **k),
    "cond": lambda a, **k: td.map(lambda x:
        td.cond(x > 2, td.sqrt(td.cast(x, td.float32)), 1), a, **k),
    "where": lambda a, **k: td.where(a > 1, a, 0),
    "spread": lambda a, **k: a + td.arange(3),
    "outer": lambda a, **k: a[..., None] * td.arange(2),
    "replicate": lambda a, **k: td.replicate(a, 2, 0, **k),
    "none of it": lambda a, **k: td.replicate(a, 0, 0, **k),
    "total": lambda a, **k: td.sum(a, **k),
    "largest": lambda a, **k: td.fold(td.maximum, 0, a, axis=None, **k),
    "flatten": lambda a, **k: td.flatten(a),
    "pair": lambda a, **k: td.unzip(td.map(lambda x: (x, x > 1), a, **k))[0],
    "array loop": lambda a, **k: td.iterate(3, lambda s: s + a, a),
    "array cond": lambda a, **k: td.cond(td.sum(a) > 3, a, a + 1),
    "compute": lambda a, **k: td.compute(a),
    "bins": lambda a, **k: td.permute(lambda n, o: n + o, td.zeros(4, td.int64),
                                      lambda *ix: sum(ix) % 4, td.cast(a, td.int64), **k),
    "place": lambda a, **k: td.permute(td.overwrite, a, lambda *ix: ix, a, **k),
    "one place": lambda a, **k: td.permute(lambda n, o: n + o, td.zeros((), td.float32),
                                           lambda *ix: (), td.cast(a, td.float32), **k),
}  # fmt: skip
#: … of rank 1 at least.
AXES = {
    "transpose": lambda a, **k: td.transpose(a, **k),
    "reversed": lambda a, **k: a[::-1],
    "strided": lambda a, **k: a[5:1:-2],
    "tail": lambda a, **k: a[..., 1:, None],
    "roll": lambda a, **k: td.roll(a, 3, 0, **k),
    "pad": lambda a, **k: td.pad(a, 1),
    "joined": lambda a, **k: td.concatenate([a, a, a], -1),
    "stacked": lambda a, **k: td.stack([a, a + 1], -1),
    "taken": lambda a, **k: td.take(a, np.array([0, 0]), 0),
    "along": lambda a, **k: td.take_along_axis(a, td.zeros((*a.shape[:-1], 2), td.int64), -1),
    "gathered": lambda a, **k: td.gather(a, td.zeros(3, td.int64), **k),
    "looked up": lambda a, **k: td.generate(4, lambda i: a[(i,) * a.ndim], **k),
    "sum": lambda a, **k: td.sum(a, axis=0, **k),
    "variance": lambda a, **k: td.var(td.cast(a, td.float32), axis=-1),
    "most": lambda a, **k: td.argmax(a, axis=-1),
    "running": lambda a, **k: td.cumsum(a, axis=0),
    "scanned": lambda a, **k: td.scanl(lambda x, y: x + y, 0, a, **k),
    "from the right": lambda a, **k: td.scanr1(td.minimum, a, **k),
    "segments": lambda a, **k: td.fold_seg(td.maximum, 0, a, td.stack([td.the(td.unit(last(a)))])),
    "sorted": lambda a, **k: td.sort(a),
    "filtered": lambda a, **k: td.filter(lambda x: x > 1, td.flatten(a))[0],
    "near": lambda a, **k: td.stencil(lambda w: w[(0,) * a.ndim] + w[(-1,) * a.ndim], a, **k),
    "mirrored": lambda a, **k: td.stencil(lambda w: w[(2,) * a.ndim], a, boundary=td.mirror, **k),
    "product": lambda a, **k: td.matmul(td.reshape(a, (-1, last(a))),
                                        td.reshape(a, (-1, last(a))).T),
    "dot": lambda a, **k: td.dot(td.flatten(a), td.flatten(a)),
    "diagonal": lambda a, **k: td.diagonal(a[None, :] + td.zeros((3, *a.shape), td.int32)),
}  # fmt: skip
EXTENTS = (0, 1, 1, 2, 3, 5, 8, 33)
TYPES = (np.float32, np.int32, np.uint8, np.float64, np.int64)


#: Operations of a program, and programs.
LENGTH, RANDOM_PROGRAMS = 6, 24
NAMES = random.Random(0).sample([*ANY, *AXES], len(ANY) + len(AXES))


def chain(seed: int):
    """A random program: its function, its argument, and the names of its operations.

    Successive seeds go round-robin through all operations."""
    pick = random.Random(seed)
    rank = seed % 6
    value = np.zeros([pick.choice(EXTENTS) for _ in range(rank)], pick.choice(TYPES))
    names = [NAMES[(seed * LENGTH + k) % len(NAMES)] for k in range(LENGTH)]
    schedules = [pick.choice(SCHEDULES) if pick.random() < 0.4 else None for _ in names]
    done: list[str] = []

    def program(a):
        done.clear()
        results = [a]
        for name, schedule in zip(names, schedules, strict=True):
            source = results[-1] if pick.random() < 0.6 else td.compute(results[-1])
            if name in AXES and not source.ndim:
                continue
            under = {} if schedule is None else {"schedule": schedule}
            try:
                made = (ANY.get(name) or AXES[name])(source, **under)
            except td.TreadleError:  # a user's mistake: such arrays have none of it
                continue
            if made.ndim < 6:
                results.append(made)
                done.append(name)
        return tuple(results[1:])

    return program, value, done


@pytest.mark.parametrize("target", ["native", "cuda"])
def test_every_program_is_explained(target):
    description: set[str] = set()
    for seed in range(RANDOM_PROGRAMS):
        program, value, done = chain(seed)
        text = td.jit(program).lower(value).explain(target)
        assert target in text.splitlines()[0], f"seed {seed}: {done}"
        description.update(done)
    assert description == {*ANY, *AXES}


@pytest.mark.parametrize("schedule", [S.Row() | S.Block(2, 8, 1), S.Lanes(2)], ids=str)
def test_a_fold_under_a_block_of_its_source(schedule):
    """Its parts, and its results, have as many axes as what is folded where one axis is."""
    value = np.zeros((2, 3, 8), np.uint64)
    for f in (td.fold, lambda op, init, a, **k: td.argmax(a, **k)):
        program = td.jit(lambda a, f=f: f(td.maximum, 0, a, axis=2, schedule=schedule))
        assert "predicted" in program.lower(value).explain("cuda")


@pytest.mark.parametrize("target", ["native", "cuda"])
def test_what_has_no_elements_is_not_launched(target):
    for f in (lambda a: a[:, ::-1], lambda a: td.sum(a, axis=1), lambda a: td.cumsum(a, axis=1)):
        text = td.jit(f).lower(np.zeros((0, 7))).explain(target)
        assert text.splitlines()[0].endswith("0 kernels launched")
        assert "nothing is launched: there are no elements" in text


def test_indices_and_extents_are_simplified_and_keep_their_parentheses() -> None:
    def f(a):
        n = a.shape[0]
        return (
            a[1:][::-1] + a[: n - 1][::-1],
            a[n // 4 * 3 :],
            a[: 2 * (n // 4)],
            td.reshape(a[: n // 4 * 4], (n // 4, 4)) + 1,
        )

    text = td.jit(f, backend="native").lower(np.ones(9)).explain()
    for part in (
        "a: [-i + n1 - 1 + {-1, 0}]", "a: [i + 3·(n1 // 4)]", "[n1 - 3·(n1 // 4)]",
        "float64[2·(n1 // 4)]", "a: [4·i + j]", "float64[n1 // 4, 4]",
    ):  # fmt: skip
        assert part in text
    assert "select" not in text and "[(" not in text


def test_indices_by_the_counter_of_a_loop_are_affine():
    def solve(a):
        def row(k, x):
            return x.at[k].set((x[k] - td.sum(a[k, :k] * x[:k])) / a[k, k])

        return td.loop(a.shape[0], row, td.ones(a.shape[0]))

    def shortest(p):
        return td.loop(p.shape[0], lambda k, p: td.minimum(p, p[:, k, None] + p[k, :]), p)

    def looked_up(a, order):
        return td.loop(a.shape[0], lambda k, x: x + a[order[k]], td.zeros(a.shape[1]))

    a = np.eye(4)
    text = td.jit(solve, backend="native").lower(a).explain()
    assert "a: [counter2, i] " in text and "a: [counter2, counter2]" in text
    assert "each from [min(counter2, n2)] elements" in text and "random" not in text
    text = td.jit(shortest, backend="native").lower(a).explain()
    assert "state1: [i, counter2]" in text and "state1: [counter2, i]" in text
    assert "changes with each iteration" in " ".join(text.split()) and "random" not in text
    text = td.jit(looked_up, backend="native").lower(a, np.arange(4)).explain()
    assert "a: [data-dependent]" in text


def test_what_leaves_a_walk_is_fused_into_the_kernels_that_compute_it():
    def run(x):
        def step(s, v):
            return 0.5 * s + v, td.log(s * s - 1)

        return td.scan(step, td.sqrt(x[0]), td.exp(td.sin(x)) / x)

    text = td.jit(run, backend="native").lower(np.ones(4000)).explain()
    kernels = {}
    for line in text.split("Recognised")[0].splitlines():
        if line.startswith("Kernel"):
            kernels[name := line.split(": ")[1].split(" at")[0]] = ""
        elif kernels:
            kernels[name] += line + "\n"
    walk = next(made for name, made in kernels.items() if name.startswith("scan #"))
    before, after = kernels["scan (elements)"], kernels["scan (results)"]
    for word, there in (
        ("exp", [before]), ("sin", [before]), ("true_divide", [before]), ("log", [after]),
        ("subtract", [after]), ("add", [walk]), ("multiply", [walk, after]),
    ):  # fmt: skip
        assert [k for k in (walk, before, after) if f" {word} at" in k] == there, (word, text)


def test_only_scatters_that_run_by_atomics_are_said_to_vary():
    x, k = np.ones(100_000), np.arange(100_000) % 70_000

    def total(x, k):
        return td.zeros(70_000).at[k].add(x)

    text = " ".join(td.jit(total, backend="native").lower(x, k).explain().split())
    assert ("updates by atomics" in text) == ("atomic updates" in text)
