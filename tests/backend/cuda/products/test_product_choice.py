"""What `explain()` and `source()` say of a product is what is launched, whatever its type, extents,
operands, epilogue, algorithm and GPU: recorded, and played to an engine that only listens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda import emulated
from tests.backend.cuda.emulated import DeviceArray
from treadle.backend.cuda import gpu as gpu_steps
from treadle.backend.cuda.device.device import Call
from treadle.backend.cuda.products import (
    engine,
    library as products,
    parts as engine_parts,
    ways as product_ways,
)
from treadle.backend.cuda.products.choice import Decision, decide
from treadle.backend.cuda.products.explain import describe
from treadle.backend.cuda.products.form import FORMS as ENGINES, SLOTS, form_of
from treadle.backend.runtime.executor import Executor
from treadle.backend.runtime.run import HostValues
from treadle.driver.program import Program
from treadle.dsl.frontend.trees import flatten_results
from treadle.dsl.graph import Input, Matmul, topological
from treadle.dsl.process.configuration import Settings
from treadle.skeletons.products import STANDARD, STRASSEN
from treadle.skeletons.products.error import SPLITS, error_in_words
from treadle.skeletons.products.measured import MEASURED, levels_of
from treadle.skeletons.products.model import H200 as MODEL

SIZES = {"small": (48, 40, 48), "medium": (512, 512, 512), "large": (4096, 2048, 4096)}
FORMS: dict[str, Any] = {
    "plain": lambda p, a, b, c: p(a, b),
    "epilogue": lambda p, a, b, c: p(a, b) * 2 + c,
    "producer": lambda p, a, b, c: p(2 * a + 1, b),
    "both": lambda p, a, b, c: p(2 * a + 1, b) * 2 + c,
    "two arrays": lambda p, a, b, c: p(a, b + b[::-1]),
    "scattered": lambda p, a, b, c: p(a + td.transpose(b), b + b[::-1]),
    "other type": lambda p, a, b, c: p(a, b) + c == 1,
}
ALGORITHMS: dict[str, Any] = {
    "auto": lambda a, b: a @ b,
    "strassen": lambda a, b: td.strassen(a, b),
    "tf32": lambda a, b: td.matmul(a, b, precision="tf32"),
}
TYPES = ("float16", "float32", "float64", "complex64", "int32", "int64")


class Listening(engine.Engine):
    """Says what it was asked for."""

    def __init__(self, device: Any) -> None:
        super().__init__(device)
        device.heard = []

    def standard(self, *given: Any) -> None:
        self.device.operands = given[1:3]
        self._hear("standard", given[3], given[-1] if len(given) > 5 else None)

    def product(self, *given: Any) -> None:
        copied = given[3] == "recursive" or given[6] > 1
        assert not (copied and given[-1] and "Producer" in given[-1].source)
        self._hear("fast", given[3], given[-1])

    def _hear(self, what: str, mode: str, fused: Any) -> None:
        source = "" if fused is None else fused.source
        slots = [s for s in SLOTS.values() if f"struct {s} {{" in source]
        self.device.heard.append((what, mode, slots))


class Device(emulated.EmulatedDevice):
    """Compiles and runs nothing: keeps what was recorded."""

    def __init__(self, arch: str) -> None:
        super().__init__()
        self.arch, self.heard, self.made = arch, [], 0  # type: ignore[misc]

    def compile(self, codes: Any) -> None:
        pass

    def load(self, *given: Any) -> None:
        raise AssertionError("nothing is compiled")

    def prepare(self, tape: Any) -> Any:
        self.tape = tape


def program(function: Any, product: Any, dtype: str, check: bool = False) -> Program:
    arrays = (td.use(np.ones(s, dtype)) for s in ((8, 6), (6, 8), (8,)))
    leaves, tree = flatten_results(function(product, *arrays))
    inputs = tuple(n for n in topological(leaves) if isinstance(n, Input))
    return Program(leaves, tree, Settings(check=check), "cuda", inputs)


class Kernels:
    """A step by kernels of the skeletons, of which only the results' extents are made."""

    reshaped = None

    def __init__(self, owner: Any, node: Any, expendable: Any = frozenset()) -> None:
        self.owner, self.node = owner, node
        self.shapes = [HostValues(owner.host, out.shape) for out in node.outputs]
        self.targets = [owner.planner.slots[o] for o in node.leaves]

    def __call__(self, run: Any) -> None:
        self.owner.device.made += 1
        for slot, shape, out in zip(self.targets, self.shapes, self.node.outputs, strict=True):
            run.slots[slot] = run.new(tuple(map(int, shape(run))), out.type.numpy)


def launched(made: Executor[Any], size: tuple[int, int, int]) -> tuple[int, list[Any]]:
    """How many steps by kernels of the skeletons, and what engines and libraries are asked for."""
    m, k, n = size
    shapes = {(8, 6): (m, k), (6, 8): (k, n), (8,): (n,)}
    given = [np.empty(shapes[node.source.shape], node.source.dtype).view(DeviceArray)
             for node in made.program.inputs]  # fmt: skip
    device: Any = made.device
    device.heard.clear()
    device.made = 0
    made.calls.recording(given, (), [*(device.adopt(g)[1] for g in given), True])
    for op in device.tape.operations:
        assert isinstance(op, Call)
        arrays = [[np.empty(b.shape, b.dtype).view(DeviceArray) for b in side]
                  for side in (op.reads, op.writes)]  # fmt: skip
        op.action(*arrays)
    return device.made, list(device.heard)


def kernels_said(shown: dict[str, str]) -> tuple[int, int]:
    """How many kernels of the skeletons, and how many libraries and engines."""
    separate = re.search(r"and (\d+) separate kernels?", shown.get("launches", ""))
    own = "by a kernel of treadle's" in shown["algorithm"]
    return int(separate[1]) if separate else int(own), 0 if own else 1


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    def listening(device: Any) -> Any:
        return None if engine.engine_for(device) is None else Listening(device)

    def library(device: Any, out: Any, *given: Any) -> None:
        device.heard.append(("library", "", []))

    for module in (engine_parts, gpu_steps):
        monkeypatch.setattr(module, "KernelStep", Kernels)
    monkeypatch.setattr(gpu_steps.Gpu, "kernel_step", Kernels)
    monkeypatch.setattr(engine_parts, "engine_for", listening)
    monkeypatch.setattr(products, "product_into", library)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("dtype", "checked"), [*((t, False) for t in TYPES), ("float32", True), ("int32", True)]
)
def test_what_is_said_is_launched(dtype: str, checked: bool, gpu: Any) -> None:
    for algorithm, product in ALGORITHMS.items():
        if (dtype, algorithm) == ("float16", "strassen") or (
            algorithm == "tf32" and dtype != "float32"
        ):
            continue  # refused
        for form, function in FORMS.items():
            made = program(function, product, dtype, checked)
            (node,) = (n for n in topological(made.roots) if isinstance(n, Matmul))
            extra = sum(n.__class__.__name__ == "Generate" for n in topological(made.roots))
            for arch in ("sm_90a", "sm_80", "sm_75"):
                device = Device(arch)
                runs = Executor(made, device)
                for name, size in SIZES.items():
                    case = dtype, algorithm, form, arch, name
                    shown = describe(node, size, device, checked)
                    found, heard = launched(runs, size)
                    kernels, others = kernels_said(shown)
                    assert found == kernels + extra, (case, found, shown)
                    assert len(heard) == others, (case, heard, shown)
                    check(shown, heard, case)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_86"])
@pytest.mark.parametrize("execution", product_ways.BY_ENGINE)
def test_operands_and_epilogues_of_every_execution(execution: str, arch: str, gpu: Any) -> None:
    """Where sums of blocks are in memory, operands are there before."""
    for levels in (1, 2):
        made = program(
            FORMS["both"], lambda a, b: td.strassen(a, b, levels=levels, execution=execution),
            "float32",
        )  # fmt: skip
        (node,) = (n for n in topological(made.roots) if isinstance(n, Matmul))
        device = Device(arch)
        shown = describe(node, (4096, 4096, 4096), device)
        found, heard = launched(Executor(made, device), (4096, 4096, 4096))
        assert found == kernels_said(shown)[0]
        check(shown, heard, (execution, levels))


def check(shown: dict[str, str], heard: list[Any], case: Any) -> None:
    """What was asked of an engine or a library against what was said."""
    if not heard:
        assert "a kernel of treadle's" in shown["algorithm"], (case, shown)
        return
    ((what, mode, slots),) = heard
    assert ("by the tile engine" in shown["algorithm"]) == (what != "library"), (case, shown, heard)
    if what == "library":
        assert "cuBLAS" in shown["algorithm"] or "leaves by" in shown["algorithm"], (case, shown)
        return
    assert f"execution {mode}" in shown["algorithm"], (case, shown, heard)
    assert ("standard" in shown["algorithm"]) == (what == "standard"), (case, shown)
    places = {"left operand": "ProducerA", "right operand": "ProducerB", "epilogue": "Epilogue"}
    inside = [s for part, s in places.items()
              if part in shown and not shown[part].startswith("a kernel of its own")]  # fmt: skip
    assert slots == inside, (case, shown, heard)


@pytest.mark.parametrize("name, product", [
    ("Float16", "auto"), ("Float16SmallPortable", "auto"), ("Float32Tf32", "tf32"),
])  # fmt: skip
def test_lines_that_are_copied_lie_apart(name: str, product: str, gpu: Any,
                                         monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Of views that walk backwards, in steps, or read an element several times too."""
    n, by = 48, Decision("engine", way=("owner", 0), form=ENGINES[name])
    arch, dtype = "sm_80" if by.form and by.form.copies else "sm_90a", ENGINES[name].types[0]
    monkeypatch.setattr(engine_parts, "decide", lambda *_, **__: by)
    for function in (
        lambda p, a, b, c: p(a[::-1], b) + c, lambda p, a, b, c: p(a, b[:, ::-1]) + c,
        lambda p, a, b, c: p(a[:, ::2], b[::2]) + c,
        lambda p, a, b, c: p(td.broadcast_to(c, (n, n)), b) + c,
        lambda p, a, b, c: p(a, td.transpose(td.broadcast_to(c, (n, n)))) + c,
    ):  # fmt: skip
        arrays = (td.use(np.ones(s, dtype)) for s in ((n, n), (n, n), (n,)))
        leaves, tree = flatten_results(function(ALGORITHMS[product], *arrays))
        inputs = tuple(x for x in topological(leaves) if isinstance(x, Input))
        made = Program(leaves, tree, Settings(), "cuda", inputs)
        device: Any = Device(arch)
        runs: Any = Executor(made, device)
        given = [np.empty(x.source.shape, dtype).view(DeviceArray) for x in inputs]
        runs.calls.recording(given, (), [*(device.adopt(g)[1] for g in given), True])
        for op in device.tape.operations:
            op.action(*([np.empty(b.shape, b.dtype).view(DeviceArray) for b in side]
                        for side in (op.reads, op.writes)))  # fmt: skip
        assert [what for what, *_ in device.heard] == ["standard"]
        for x in device.operands:
            line, pitch = (x.cols, x.down) if x.across == 1 else (x.rows, x.across)
            assert 1 in (x.across, x.down) and pitch >= line, x


PRINTED = [
    ("float32", "epilogue", "medium"), ("float32", "both", "medium"), ("float32", "both", "large"),
    ("float32", "producer", "small"), ("float32", "two arrays", "large"),
    ("int32", "both", "medium"), ("int32", "other type", "large"),
]  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize(("dtype", "form", "name"), PRINTED)
def test_what_is_printed_is_launched(dtype: str, form: str, name: str, gpu: Any) -> None:
    m, k, n = size = SIZES[name]
    given = [np.empty(s, dtype) for s in ((m, k), (k, n), (n,))]
    lowered = td.jit(lambda a, b, c: FORMS[form](ALGORITHMS["auto"], a, b, c), backend="native")
    text = lowered.lower(*given).source("cuda")
    runs = Executor(program(FORMS[form], ALGORITHMS["auto"], dtype), Device("sm_90a"))
    kernels, heard = launched(runs, size)
    engines = [mode for what, mode, _ in heard if what != "library"]
    assert re.findall(r"by the tile engine: execution (\w+)", text) == engines
    said = "the product between is the library's" in text or "by a library's kernels" in text
    assert said == any(what == "library" for what, *_ in heard)
    entries = text.count("__global__ void") - len(engines)
    assert entries == kernels, (entries, kernels)


# --- what is chosen ------------------------------------------------------------------------------

H200 = engine.Engine(SimpleNamespace(multiprocessors=132, arch="sm_90a"))
FOLDER = Path(__file__).parents[4] / "benchmarks" / "matmul" / "results"


def decided(form: str, dtype: str, size: tuple[int, int, int], on: Any = H200) -> Decision:
    made = program(FORMS[form], ALGORITHMS["auto"], dtype)
    (node,) = (n for n in topological(made.roots) if isinstance(n, Matmul))
    return decide(on, node, size, processors=132)


def test_layers_are_computed_in_a_way_that_was_fast() -> None:
    """No way that was measured to be a third slower than another one."""
    rows = json.loads((FOLDER / "2026-11-22-nvidia-h200-layers.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    for row in rows:
        form = "epilogue" if row["left"] == "a" else "both"
        made = decided(form, row["type"], tuple(row["size"]))
        way = "kernel" if made.by == "kernel" else "around" if made.separate else "engine"
        known = {w: t for w, t in row["microseconds"].items() if w != "torch"}
        assert known[way] < 1.34 * min(known.values()), (row, made)


def test_layers_below_the_engine() -> None:
    """The library's product and a kernel over it, whatever the operand, also without an engine."""
    for size in ((512, 512, 512), (1024, 1024, 1024), (64, 4096, 4096)):
        for form in ("epilogue", "both"):
            for on in (H200, None):
                made = decided(form, "float32", size, on)
                assert made.by == "library" and "epilogue" in made.separate
                assert "cuBLAS stores plain products" in made.why["epilogue"]
                assert bool(made.prices) == (on is not None)
    assert decided("epilogue", "float32", (2048,) * 3, None).by == "library"
    assert decided("both", "int32", (512,) * 3).way == ("atomic", 0)
    assert decided("both", "float32", (2048, 512, 2048)).way == ("owner", 0)
    assert decided("both", "float32", (2048, 128, 2048)).by == "kernel"


def test_products_along_leading_axes_are_priced_by_their_number() -> None:
    a, b = (td.use(np.ones(s, "f4")) for s in ((2, 8, 6), (2, 6, 8)))
    leaves, tree = flatten_results(td.maximum(3 * (a @ b), 0))
    inputs = tuple(n for n in topological(leaves) if isinstance(n, Input))
    made = Program(leaves, tree, Settings(), "cuda", inputs)
    (node,) = (n for n in topological(made.roots) if isinstance(n, Matmul))
    for count, size, by in ((16, (512, 64, 512), "kernel"), (8, (1024,) * 3, "library"),
                            (4, (4096,) * 3, "engine")):  # fmt: skip
        found = decide(H200, node, size, count=count)
        assert found.by == by and (by == "kernel") == (not found.separate)


def test_prices_are_told() -> None:
    """Those of the other ways, and the rule by which an operand is computed in a product."""
    made = decided("epilogue", "float32", (512, 512, 512))
    assert [words.split(" (")[0] for words, _ in made.prices] == [
        "cuBLAS and 1 separate kernel", "a kernel of treadle's", "the tile engine",
    ]  # fmt: skip
    large = decided("producer", "float32", (12288,) * 3).why["left operand"]
    assert large.endswith("603,979,776 bytes for its result, for which up to 2 % are paid")


# --- tensor cores --------------------------------------------------------------------------------

PRECISIONS = ("fp16x3", "bf16x6", "tf32x3")


def chosen(function: Any, size: tuple[int, int, int], *, count: int = 1, dtype: str = "float32",
           on: Any = H200) -> tuple[Matmul, Decision]:  # fmt: skip
    """The product of a function of two matrices (batched if `count` > 1), and the decision."""
    lead = (2,) * (count > 1)
    leaves, tree = flatten_results(
        function(*(td.use(np.ones((*lead, *s), dtype)) for s in ((8, 6), (6, 8))))
    )
    inputs = tuple(n for n in topological(leaves) if isinstance(n, Input))
    made = Program(leaves, tree, Settings(), "cuda", inputs)
    (node,) = (n for n in topological(made.roots) if isinstance(n, Matmul))
    return node, decide(on, node, size, count=count)


def arithmetic_of(made: Decision) -> str | None:
    return made.form.arithmetic if made.form is not None else None


def multiplied(**more: Any) -> Any:
    return lambda a, b: td.matmul(a, b, **more)


def relu(product: Any) -> Any:
    return lambda a, b: td.maximum(2 * product(a, b), 0)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_named_precision_is_that_engine_s_from_its_inner_extent_on(precision: str) -> None:
    least, product = SPLITS[precision].least, multiplied(precision=precision)
    for k in (least, 2 * least, 4096):
        for m, n in ((1, 1), (40, 300), (4096, 4096)):
            for function, parts in (
                (product, set()),
                (relu(product), {"epilogue"}),
                (lambda a, b: product(2 * a + 1, b), {"left operand"}),
            ):
                _, made = chosen(function, (m, k, n))
                assert (made.by, made.way, made.separate) == ("engine", ("owner", 0), frozenset())
                assert made.form is not None and made.form.precision == precision
                assert set(made.why) == parts
    for k in (0, 1, least - 1):  # float32 itself is as precise
        for function in (product, relu(product)):
            node, made = chosen(function, (300, k, 300))
            assert made.form is None or not made.form.precision
            shown = describe(node, (300, k, 300))
            assert (
                shown["precision"]
                == f"{precision!r} is computed in float32, which is no less exact"
            )
            assert "error" not in shown
    for size in ((0, 200, 8), (8, 200, 0)):
        assert chosen(relu(product), size)[1].by == "library"


def tf32(function: Any, size: tuple[int, int, int], arch: str = "sm_90a", count: int = 1
         ) -> tuple[Decision, dict[str, str]]:  # fmt: skip
    """The decision for a function of a product in tf32 and two matrices, and its description."""
    device = product_ways.Measured(arch)
    node, made = chosen(lambda a, b: function(multiplied(precision="tf32"), a, b), size,
                        on=engine.engine_for(device), count=count)  # fmt: skip
    return made, describe(node, size, device, count=count)


def test_tf32_with_an_epilogue() -> None:
    for n in (40, 512, 2048, 8192, 16384):
        made, shown = tf32(lambda p, a, b: td.maximum(p(a, b) + 1, 0), (n, n, n))
        assert (made.by == "engine") == (n >= 2048), (n, made)
        assert "11 significant bits" in shown["precision"] and "error" in shown
        if made.by == "engine":
            assert made.form is not None and made.form.precision == "tf32"
            assert made.separate == frozenset() and made.way == ("owner", 0)
            (_, mine), *others = made.prices
            assert all(mine < seconds for _, seconds in others)
        else:
            assert made.separate == {"epilogue"}


def test_plain_tf32_is_the_engine_s_where_that_is_faster() -> None:
    names = product_ways.PLAIN
    for n in (40, 512, 1000, 2048, 4096, 8192, 16384):
        times = {name: product_ways.predicted(H200, name, (n,) * 3, fast=False, deterministic=True)
                 for name in names}  # fmt: skip
        faster = min(t["standard owner"] for t in times.values()) < times[min(names)]["library"]
        faster = faster and n >= 1024  # smaller ones were not measured
        made, shown = tf32(lambda p, a, b: p(a, b), (n,) * 3)
        assert made.by == ("engine" if faster else "library"), n
        assert "11 significant bits" in shown["precision"] and "error" in shown
        assert ("tf32 on tensor cores" in shown["algorithm"]) == faster


def test_an_operand_of_tf32_is_computed_on_its_way_through_registers() -> None:
    """One of them, where the other one's lines are along the inner index."""
    t, left, right = td.transpose, "left operand", "right operand"
    for function, separate in (
        (lambda p, a, b: p(a, 2 * b + 1), set()),
        (lambda p, a, b: p(a, t(2 * a + 1)), set()),
        (lambda p, a, b: p(2 * a + 1, t(a)), set()),
        (lambda p, a, b: p(2 * a + 1, b), {left}),
        (lambda p, a, b: p(t(b), 2 * b + 1), {right}),
        (lambda p, a, b: p(2 * a + 1, 3 * b), {left}),  # whose kernel writes rows
        (lambda p, a, b: p(a, b + b[::-1]), {right}),  # two arrays
    ):
        made, shown = tf32(lambda p, a, b, f=function: td.maximum(f(p, a, b), 0), (4096,) * 3)
        assert made.separate - {"epilogue"} == separate, (separate, made)
        assert made.by == "engine" or separate
        for part in separate:
            assert shown[part].startswith("a kernel of its own"), shown


def test_an_operand_that_is_transposed_first_is_paid_for() -> None:
    seconds = []
    for function in (lambda p, a, b: p(a, b), lambda p, a, b: p(td.transpose(b), b)):
        made, _ = tf32(lambda p, a, b, f=function: td.maximum(f(p, a, b), 0), (8192,) * 3)
        seconds.append(dict(made.prices))
    key = "the tile engine (owner)"
    one, two = (s.get(key) or s.get(f"{key} and 1 separate kernel") for s in seconds)
    assert one is not None and two is not None and two > one + 2 * 4 * 8192**2 / 4.3e12


def test_tf32_elsewhere() -> None:
    """Along leading axes by the library, with kernels; on other GPUs too; no level of Strassen's
    algorithm, also with permission to be fast; nothing to tune."""

    def layer(p: Any, a: Any, b: Any) -> Any:
        return td.maximum(p(a, b) + 1, 0)

    made, _ = tf32(layer, (150, 200, 140), count=3)
    assert made.by == "library" and made.separate == {"epilogue"}
    made, shown = tf32(layer, (8192,) * 3, "sm_80")
    assert made.by == "library" and "11 significant bits" in shown["precision"]
    with td.precision(fast=True):
        node, made = chosen(multiplied(precision="tf32"), (16384,) * 3)
    assert "levels" not in describe(node, (16384,) * 3)["algorithm"]
    assert product_ways.alternatives(product_ways.Measured(), node, (16384,) * 3) == []
    for more in ({"algorithm": "strassen"}, {"algorithm": "winograd", "levels": 2},
                 {"algorithm": STRASSEN}):  # fmt: skip
        with pytest.raises(td.TracingError, match="11 significant bits"):
            chosen(multiplied(precision="tf32", **more), (8192,) * 3)


def fastest(n: int, levels: int = 2) -> tuple[str, tuple[str, int]]:
    """The form of fp16x3 and its way that were measured to be fastest for n x n x n."""
    known = {
        (name, (way.rsplit(" ", 1)[1], levels_of(way))): times[n]
        for name in ("Float32Fp16x3", "Float32Fp16x3Square")
        for way, times in MEASURED[MODEL.name, name].items()
        if way != "library" and levels_of(way) <= levels
    }
    return min(known, key=known.__getitem__)


def test_tiles_of_the_engine_by_extents() -> None:
    for n in (256, 2048, 8192, 16384):
        _, made = chosen(multiplied(precision="fp16x3"), (n, n, n))
        assert (arithmetic_of(made), made.way) == fastest(n, levels=0)
    assert form_of(td.float32, (8192,) * 3, 132) == ENGINES["Float32"]
    assert form_of(td.int32, (1024,) * 3, 132) == ENGINES["Limbs32"]
    assert form_of(td.int32, (8192,) * 3, 132) == ENGINES["Limbs32ImagesSquare"]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_leading_axes_reach_tensor_cores_where_each_matrix_fills_them(precision: str) -> None:
    product = multiplied(precision=precision)
    for function in (product, relu(product)):
        node, made = chosen(function, (150, 200, 140), count=3)
        assert made.by == "library"
        assert "computed in float32" in describe(node, (150, 200, 140), count=3)["precision"]
        _, made = chosen(function, (4096, 512, 4096), count=3)
        assert (made.by, made.way) == ("engine", ("owner", 0))
        assert made.form is not None and made.form.precision == precision
        assert made.separate == (frozenset() if function is product else {"epilogue"})


def test_permission_to_be_fast() -> None:
    """fp16x3 where it was measured to be faster than the library, and no other precision."""
    size = {n: (n, n, n) for n in (512, 2048, 16384)}
    with td.precision(fast=True):
        small, large, largest = (chosen(multiplied(), size[n])[1] for n in (512, 2048, 16384))
        short = chosen(multiplied(), (4096, SPLITS["fp16x3"].least - 1, 4096))[1]
        exact = chosen(multiplied(precision="float32"), size[2048])[1]
        whole = chosen(multiplied(), size[2048], dtype="int32")[1]
        standard = chosen(multiplied(algorithm="standard"), size[16384])[1]
        at_most = chosen(multiplied(levels=0), size[16384])[1]
        fused = chosen(relu(multiplied()), size[2048])[1]
    assert small.by == "library"
    assert (arithmetic_of(large), large.way) == fastest(2048)
    assert (arithmetic_of(largest), largest.way) == fastest(16384)
    for other in (standard, at_most):
        assert (arithmetic_of(other), other.way) == fastest(16384, levels=0)
    assert (arithmetic_of(fused), fused.way, fused.separate) == (*fastest(2048), frozenset())
    for other in (short, exact):
        assert other.form is None or not other.form.precision
    assert arithmetic_of(whole) == "Limbs32ImagesSquare"
    assert not [f for f in (chosen(multiplied(), size[n])[1].form for n in size) if f and f.planes]


def test_executions_named_within_a_permission_to_be_fast_are_those_of_float32() -> None:
    with td.precision(fast=True):
        for execution in product_ways.BY_ENGINE:
            levels = 2 if execution == "hybrid" else 1
            _, made = chosen(multiplied(algorithm="strassen", execution=execution, levels=levels),
                             (8192,) * 3)  # fmt: skip
            assert made.by == "engine" and made.way is not None and made.way[1] == levels
            assert (arithmetic_of(made) == "Float32") == (execution != "owner")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_executions_of_tensor_cores(precision: str) -> None:
    """One level in one launch; others only over the library."""
    size = (2048,) * 3
    for execution in (None, "owner"):
        node, made = chosen(
            multiplied(precision=precision, algorithm="strassen", execution=execution), size
        )
        assert made.by == "engine" and made.way == ("owner", 1)
        shown = describe(node, size)
        assert shown["algorithm"].startswith("strassen, 1 level, execution owner")
        assert shown["precision"].startswith(f"{precision!r}: float32 as")
    for execution in product_ways.BY_LIBRARY:
        _, made = chosen(
            multiplied(precision=precision, algorithm="strassen", execution=execution), size
        )
        assert made.by == "library"
    for execution in ("atomic", "persistent"):
        with pytest.raises(td.ScheduleError, match="added in order, by the block") as said:
            chosen(multiplied(precision=precision, algorithm="strassen", execution=execution), size)
        assert said.value.hint == "The nearest is execution='owner'."
    for more in ({"levels": 2}, {"algorithm": "winograd"}, {"scaling": "outer"}):
        options = {"algorithm": "strassen", "precision": precision, **more}
        assert chosen(multiplied(**options), size)[1].by == "library"
        with pytest.raises(td.ScheduleError, match="no tile engine computes this product"):
            chosen(multiplied(**options, execution="owner"), size)
    below = chosen(multiplied(precision=precision, algorithm="strassen"), (40, 512, 512))[1]
    assert below.by == "library"


def test_alternatives_that_are_measured() -> None:
    """Of a product by tensor cores: one level; of a named algorithm, its other executions."""
    size, on = (4096,) * 3, product_ways.Measured()

    def ways(**more: Any) -> list[tuple[Any, ...]]:
        node, _ = chosen(multiplied(**more), size)
        found = product_ways.alternatives(on, node, size)
        return [(w.algorithm, w.levels, w.execution) for w in found]

    with td.precision(fast=True):
        assert ways() == [("strassen", 1, "owner")]
        assert ways(levels=0) == []
    for precision in PRECISIONS:
        found = ways(precision=precision, algorithm="strassen")
        assert {execution for *_, execution in found} == set(product_ways.BY_LIBRARY)
        assert ways(precision=precision) == []  # floats keep the standard product


def test_what_is_said_of_tensor_cores() -> None:
    size = (2048,) * 3
    for precision in PRECISIONS:
        node, made = chosen(multiplied(precision=precision), size)
        shown = describe(node, size)
        assert shown["algorithm"] == (
            f"standard, execution owner, by the tile engine ({precision} on tensor cores)"
        )
        form = made.form
        assert form is not None
        assert shown["tiles"].startswith(
            f"{2048 // form.rows * -(-2048 // form.columns):,} of {form.rows} x {form.columns}, "
            f"{form.step} deep; 132 blocks of 384 threads at most, {form.shared_bytes:,} bytes"
        )
        assert (
            shown["workspace"]
            == f"{H200.workspace(*size, form.arithmetic, STRASSEN, 0, 'owner'):,} bytes"
        )
        split = SPLITS[precision]
        assert shown["error"] == error_in_words(STANDARD, 0, size, "float32", split)
        assert float(shown["error"].split("typically ")[1].split()[0]) < 0.7
        assert ("predicted" in shown) == (precision == "fp16x3")
    with td.precision(fast=True):
        node, _ = chosen(multiplied(), size)
    shown = describe(node, size)
    assert "fp16x3 on tensor cores" in shown["algorithm"] and "precision" not in shown
    assert shown["why"].startswith("one level of Strassen's algorithm, execution owner, would take")


@pytest.mark.parametrize("t", ["float16", "bfloat16"])
def test_layers_of_halves_use_the_tile_that_is_faster_in_the_same_run(t: str) -> None:
    """Times of different runs do not compare: a GPU's rate depends on its power limit."""
    names = [name for name, form in ENGINES.items() if t in form.types and form.maps]
    assert len({str(MEASURED[MODEL.name, name]["library"]) for name in names}) == 1
    for n, tile in ((2048, 256), (4096, 256), (8192, 256), (3072, None)):
        _, made = chosen(relu(lambda a, b: a @ b), (n, n, n), dtype=t)
        assert (made.form and made.form.columns) == tile, n
