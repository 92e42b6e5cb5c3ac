"""Alternatives for a product: cuBLAS, a recursion over its products, or a tile engine.

They depend on the options, on what the engines support, and on times measured on such a device;
also the time of a product by the kernel of the skeletons (skeletons/products/kernel_gpu.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

from treadle.dsl.errors import ScheduleError
from treadle.dsl.graph import Matmul
from treadle.dsl.operations.algebra.product_way import WORTH_TRYING, ProductWay, executed, left_open
from treadle.dsl.operations.algebra.products import DEEPEST, EXECUTIONS
from treadle.dsl.types import ScalarType, float64, int32
from treadle.skeletons.products import BilinearAlgorithm, algorithm_of, instances
from treadle.skeletons.products.elements import sum_type
from treadle.skeletons.products.kernel_gpu import TENSOR, tiles
from treadle.skeletons.products.measured import MEASURED, exact, levels_of, ways
from treadle.skeletons.products.model import H200, Machine

from ...runtime.operand import plain
from .engine import Engine, engine_for
from .form import FORMS, HOPPER, TARGETS, Form, capability, features, form_of, machine_of

#: Executions over the library's standard product; the others need our engines.
BY_LIBRARY = ("recursive", "sequential", "streams", "batched")
#: Executions of the engine; "hybrid" is two levels by the faster of "atomic" and "owner".
BY_ENGINE = ("owner", "sequential", "streams", "atomic", "batched", "hybrid", "persistent",
             "recursive")  # fmt: skip
#: Types without an engine whose products by the library, and levels over these, were measured; the
#: names of their measurements.
OVER_LIBRARY = {"float64": "Float64"}
#: Below STEADY multiply-adds the library's rate varies between extents by VARIES: the predicted
#: speed-up of an engine's standard product must be larger.
STEADY, VARIES = 2048**3, 1.15
#: On GPUs other than the measured ones, the library is taken to be faster by so much.
UNSURE = 1.05
#: Seconds in which the host issues the launches of a product from tile images (measured).
ISSUED = 9e-5
#: Arithmetics of tensor maps, and of lines that are copied, whose engine computes plain products
#: too, where it is predicted to be faster than the library.  (The engines of 16-bit floats are as
#: fast as the library at best, which takes strides and leading axes.)
PLAIN = frozenset(("Float32Tf32", "Float32Tf32Square"))
#: … of at least as many multiplications as the smallest of the measured ones.
LEAST_PLAIN = 1024**3
#: The least extent for which an engine computes a named algorithm, if no execution is named.
LEAST = 64


def by_library(node: Matmul) -> bool:
    """Whether no kernel of the skeletons computes a product, for any extents: it is queued as a
    library call."""
    t = node.left.type
    if t.family == "bool":
        return False
    if algorithm_of(node.options.algorithm) is not None and node.options.levels:
        return True
    views = plain(node.left) and plain(node.right)
    whole = views and node.epilogue == (node.result,) and type(node) is Matmul
    own = t.name == "float32" or (t.name == "float64" and not views)
    return t.is_inexact and (whole or not own)


def refuse(node: Matmul, why: str, nearest: str) -> ScheduleError:
    """The error for an execution that does not exist on this device, with the nearest that does."""
    asked, name = node.options.execution, node.left.type.name
    return ScheduleError(
        f"{node.label.operation}: execution {asked!r} does not exist here for {name}: {why}.",
        hint=f"The nearest is execution={nearest!r}.",
        where=node.where,
    )


def refused(node: Matmul, form: Form | None) -> ScheduleError | None:
    """The error if a requested execution does not exist here; `form`: of an engine that can compute
    the product, or None."""
    asked, algorithm = node.options.execution, algorithm_of(node.options.algorithm)
    if asked is None or algorithm is None or not node.options.levels:
        return None
    if (form is not None and form.planes and asked not in BY_LIBRARY
            and by_engine(form, algorithm, replace(node.options, execution=None))
            and not form.executes(asked)):  # fmt: skip
        why = "products on tensor cores are added in order, by the block that owns a tile"
        return refuse(node, why, "owner")
    if form is not None and asked == "persistent" and asked not in form.modes:
        why = "no block of this engine can tell that it is the last one to add to a tile"
        return refuse(node, why, "atomic")
    by_own = form is not None and by_engine(form, algorithm, node.options)
    anyhow = node.options.deterministic and form is not None and not exact(form.arithmetic)
    if by_own and anyhow and asked in ("atomic", "batched"):
        return ScheduleError(
            f"{node.label.operation}: execution {asked!r} adds floats in any order, but the result "
            "must be deterministic.",
            hint='Use execution="owner", "streams" or "sequential".',
            where=node.where,
        )
    if asked in BY_LIBRARY or (by_own and asked in BY_ENGINE):
        return None
    known = ", ".join(BY_LIBRARY)
    nearest = "recursive" if asked in ("hybrid", "owner") else "batched"
    return refuse(node, f"no tile engine computes this product, only {known} exist", nearest)


def by_engine(form: Form, algorithm: BilinearAlgorithm, options: Any) -> bool:
    """Whether an engine computes a fast product itself: one or two levels, with few terms."""
    made = instances(algorithm)
    if form.planes:  # its blocks are summed as images are made, their products added by one kernel
        return (form.fits(algorithm) and options.levels == 1 and options.scaling is None
                and form.executes(options.execution))  # fmt: skip
    summed = form.sums is not None and max(len(t) for i in made for t in (i.a, i.b)) <= 2
    two = options.levels == 2 and summed and max(len(i.c) for i in made) ** 2 <= TARGETS
    one = options.levels == 1 and (summed or options.execution != "recursive")
    return form.fits(algorithm) and (one or two) and options.scaling is None


def named(form: Form | None, options: Any) -> bool:
    """Whether the program names the precision of a form, which no library has."""
    return form is not None and form.planes > 0 and form.precision == options.precision


def standard_way(engine: Engine, form: Form, size: tuple[int, int, int], options: Any
                 ) -> str | None:  # fmt: skip
    """How the engine distributes a standard product; None if another alternative is faster."""
    if named(form, options):
        return "owner"
    if (form.maps or form.copies) and form.arithmetic not in PLAIN:
        return None
    m, k, n = size
    if form.arithmetic in PLAIN and m * k * n < LEAST_PLAIN:
        return None
    found = predicted(engine, form.arithmetic, size, fast=False, deterministic=True)
    if not found:
        return engine.standard_mode(m, n, k, False, form.arithmetic)
    if m * k * n < STEADY and not exact(form.arithmetic):
        found["library"] /= VARIES
    best = min(found, key=found.__getitem__)
    return None if best == "library" else best.rsplit(" ", 1)[1]


def way_in(node: Matmul, engine: Engine, form: Form, size: tuple[int, int, int]
           ) -> tuple[str, int] | None:  # fmt: skip
    """`way_for` a product that may have leading axes: the engine needs a launch for each of their
    matrices, so each must be large enough."""
    m, _, n = size
    way = way_for(engine, form, node.options, size)
    if node.batch and way is not None and not way[1]:
        return way if engine.fills(m, n, form.arithmetic) else None
    return way


def way_for(engine: Engine, form: Form, options: Any, size: tuple[int, int, int]
            ) -> tuple[str, int] | None:  # fmt: skip
    """(execution, levels) for an (m, k) by (k, n) product; None: the library, or a recursion over
    it.

    Deterministic floats are never combined in C by atomic additions.
    """
    algorithm = algorithm_of(options.algorithm)
    sure = exact(form.arithmetic)
    ordered = options.deterministic and not sure
    if algorithm is None or not options.levels:
        fast = options.algorithm == "auto" and (options.fast or sure) and options.scaling is None
        best = {} if not fast else predicted(engine, form.arithmetic, size, fast=True,
                                             deterministic=ordered)  # fmt: skip
        if options.levels is not None:  # an upper limit
            best = {name: s for name, s in best.items() if levels_of(name) <= options.levels}
        name = min(best, key=best.__getitem__) if best else "library"
        if levels_of(name):
            return name.rsplit(" ", 1)[1], levels_of(name)
        mode = standard_way(engine, form, size, options)
        return None if mode is None else (mode, 0)
    if not by_engine(form, algorithm, options):
        return None
    if min(size) < LEAST and options.execution is None:
        return None
    if form.planes:
        return "owner", options.levels
    if options.execution in (None, "hybrid"):
        return _best_way(engine, form, size, options, ordered), options.levels
    return options.execution, options.levels


def _best_way(engine: Engine, form: Form, size: tuple[int, int, int], options: Any, ordered: bool
              ) -> str:  # fmt: skip
    """The fastest execution for the given levels; "hybrid" is the one that fuses the last level."""
    found = predicted(engine, form.arithmetic, size, fast=True, deterministic=ordered,
                      levels=options.levels)  # fmt: skip
    if options.execution == "hybrid":
        found = {way: s for way, s in found.items() if not way.endswith("recursive")}
    if not found:
        return "owner" if ordered else "atomic"
    return min(found, key=found.__getitem__).rsplit(" ", 1)[1]


#: The most alternatives that `tune` tries.
MOST_WAYS = 8


def alternatives(device: Any, node: Matmul, size: tuple[int, int, int]) -> list[ProductWay]:
    """The alternatives for an (m, k) by (k, n) product that the program leaves open, for `tune`:
    those supported by the engines and the library of a device, except those that were measured on
    such a device to be many times slower than the fastest."""
    found, options = left_open(node), node.options
    if not found or 0 in size or options.precision == "tf32":
        return []
    engine = engine_for(device)
    form = None
    if engine is not None:
        form = form_of(node.left.type, size, device.multiprocessors, options, device.arch)
    if found == "execution":
        made = [executed(node, e) for e in EXECUTIONS if e is not None]
        made = [w for w in made if options.levels <= DEEPEST or w.execution == "recursive"]
    else:
        t = node.left.type
        arithmetic = form.arithmetic if form is not None else OVER_LIBRARY.get(t.name)
        made = [ProductWay("standard"), *_fast_ways(engine, arithmetic, options, size)]
    legal = [w for w in made if refused(w.put_on(node), form) is None
             and not (w.execution == "hybrid" and w.levels == 1)]  # fmt: skip
    now = None if engine is None or form is None else way_in(node, engine, form, size)
    if now is not None and not now[1]:  # the standard product, by an engine
        return [w for w in legal if w.levels]
    return [w for w in legal if now is None or (w.execution, w.levels) != now]


def _fast_ways(engine: Engine | None, arithmetic: str | None, options: Any,
               size: tuple[int, int, int]) -> list[ProductWay]:  # fmt: skip
    """Fast algorithms, those with the least predicted times first."""
    most = 2 if options.levels is None else min(options.levels, 2)
    known: dict[str, float] = {}
    if engine is not None and arithmetic is not None:
        ordered = options.deterministic and not exact(arithmetic)
        known = predicted(engine, arithmetic, size, fast=True, deterministic=ordered)
    limit = WORTH_TRYING * min(known.values(), default=0.0)
    names = sorted((n for n, s in known.items() if 0 < levels_of(n) <= most and s <= limit),
                   key=known.__getitem__)  # fmt: skip
    if known:
        return [ProductWay("strassen", levels_of(n), n.rsplit(" ", 1)[1])
                for n in names[:MOST_WAYS]]  # fmt: skip
    return [
        ProductWay(name, levels, execution)
        for levels in range(1, most + 1)
        for name in ("strassen", "winograd")
        for execution in ("recursive", "batched")
    ]


def unsure(arch: str) -> float:
    """How much faster than its measurements, scaled, the library may be on an architecture."""
    return 1.0 if features(arch) >= HOPPER else UNSURE


def predicted(engine: Engine, arithmetic: str, size: tuple[int, int, int], *, fast: bool,
              deterministic: bool, levels: int | None = None) -> dict[str, float]:  # fmt: skip
    """The predicted seconds by way, for ways measured on an H200 whose engine, with its features,
    is that of the device; {} for other arithmetics.

    The "library" of integers is the kernel of the skeletons.  On other GPUs than Hopper, times are
    scaled by multiprocessors and units, and the library is `UNSURE` times faster than that."""
    arch, form = engine.device.arch, FORMS.get(arithmetic)
    like = features(arch) >= HOPPER if form is None else form.runs_on(arch)
    if not like or (H200.name, arithmetic) not in MEASURED or 0 in size:
        return {}
    on = machine_of(arch, engine.device.multiprocessors)
    found = ways(arithmetic, size, fast=fast, deterministic=deterministic, levels=levels, on=on)
    if "library" in found and exact(arithmetic):
        found["library"] = kernel_seconds(int32, size, on)
    if "library" in found:
        found["library"] /= unsure(arch)
    if form is not None and form.planes:
        found = {way: s if way == "library" else max(s, ISSUED) for way, s in found.items()}
    return found


@dataclass(frozen=True)
class Measured:
    """The GPU that predictions are for, if the machine has none."""

    arch: str = "sm_90a"
    multiprocessors: int = H200.processors
    load: Any = None


# The times of a kernel of the skeletons are fitted to products of float32 and int32 with bias and
# relu on an NVIDIA H200, queued behind other work (benchmarks/matmul/NOTES.md, "Layers"): squares
# from 16 to 2 048, 64 × 4 096 × 4 096 and similar ones, 4 096 × 16 × 4 096, 65 536 × 64 × 64,
# within a third.

#: Seconds of a wave of blocks in addition to its steps, and of eight rows of a step, whose operands
#: come from the L2 cache, one step ahead.  The addition to a step for computing an operand.
FIXED, STEP, COMPUTED = 3.2e-6, 0.5e-6, 0.13e-6
#: The fraction of peak multiply-adds that full multiprocessors reach, of floats and of integers.
FLOATS, INTEGERS = 0.73, 0.9
#: Warps of small blocks that are resident on a multiprocessor.
WARPS = 32


def kernel_seconds(t: ScalarType, size: tuple[int, int, int], on: Machine, computed: int = 0,
                count: int = 1) -> float:  # fmt: skip
    """Seconds of `count` (m, k) by (k, n) products of a type; `computed`: computed operands."""
    m, k, n = size
    processors = on.processors
    of = sum_type(t)
    sides = [(x, x.span(0, of), x.span(1, of)) for x in tiles(of)]
    counts = [count * -(-m // rows) * -(-n // cols) for _, rows, cols in sides]
    number = next(  # the order in which the kernel's variants are tried
        (x for x, (_, rows, cols) in enumerate(sides[:-1])
         if counts[x] >= processors // 2 and rows // 2 <= m and cols // 2 <= n),
        len(sides) - 1,
    )  # fmt: skip
    (tile, rows, cols), blocks = sides[number], counts[number]
    each = -(-blocks // processors)
    steps = -(-k // tile.depth)
    step = (STEP if number == len(sides) - 1 else 1.25 * STEP) + COMPUTED * computed
    resident = tile.resident or max(WARPS * 32 // tile.threads, 1)
    waiting = max(each / resident, 1.0) * (FIXED + steps * step * tile.depth / 8)
    lanes = {4: 128, 8: 64, 16: 16}[of.bytes] / 2.0
    if of.is_inexact:  # twice as many, but at compute capability 8.0
        lanes *= on.fma / processors / on.clock / 64
    rate = lanes * on.clock * (FLOATS if of.is_inexact else INTEGERS)
    issuing = FIXED + each * steps * tile.depth * rows * cols / rate
    moved = count * t.bytes * (m * k + k * n + m * n)
    return max(waiting, issuing) + moved / on.memory


#: Multiply-adds of float64 that the tensor cores of a multiprocessor do in a clock, by compute
#: capability, where these are made for it; the fraction of them that the kernel reaches; seconds in
#: which a wave of blocks begins and ends.
TENSOR64 = {80: 64, 90: 128}
REACHED, WAVE = 0.5, 5e-6


def tensor_seconds(size: tuple[int, int, int], on: Machine, arch: str, computed: int, count: int
                   ) -> float:  # fmt: skip
    """Seconds of `count` (m, k) by (k, n) products of float64 on tensor cores; `computed`: elements
    that are not in memory, as they are computed from smaller arrays, or only folded."""
    rate = TENSOR64.get(capability(arch))
    if rate is None:
        return inf
    m, k, n = size
    shapes = [(x.span(0, float64), x.span(1, float64)) for x in TENSOR]
    rows, cols = next((x for x in shapes if 3 * x[0] <= 4 * m and 3 * x[1] <= 4 * n), shapes[-1])
    depth = TENSOR[0].depth
    inside = count * -(-m // rows) * rows * -(-n // cols) * cols * -(-k // depth) * depth
    multiplying = inside / (rate * REACHED * on.processors * on.clock)
    moved = 8 * (count * (m * k + k * n + m * n) - computed) / on.memory
    return max(multiplying, moved) + 2 * WAVE
