"""Products that the tile engine computes, with what is fused into their write-back.

The epilogue of a node is printed as a kernel of one element and called where the engine stores a
finished value: its arrays and numbers travel as 64-bit words of the launch.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.dsl.errors import ScheduleError
from treadle.dsl.expr import Expr, Index, Var, constant
from treadle.dsl.graph import Leaf, Matmul
from treadle.dsl.quantities import duration
from treadle.dsl.types import ScalarType, int32
from treadle.skeletons.algorithms import STRASSEN, BilinearAlgorithm, instances
from treadle.skeletons.algorithms.error import error_in_words
from treadle.skeletons.algorithms.executions import plan
from treadle.skeletons.algorithms.measured import MEASURED, ways
from treadle.skeletons.algorithms.model import H200
from treadle.skeletons.kernel.ir import Buffer, Kernel, Store

from .device import Block, Call
from .engine import Engine, Fused, Matrix, address_of, engine_for
from .engine_form import WORDS, Form, form_of
from .products import (
    BY_LIBRARY,
    Card,
    Operand,
    Product,
    algorithm_of,
    by_library,
    plain_operands,
    refuse,
)
from .running import HostFunction, Run

#: Executions of the engine; "hybrid" is two levels by the faster of "atomic" and "owner".
BY_ENGINE = ("owner", "sequential", "streams", "atomic", "batched", "hybrid")
#: The least extent that a level of the engine is used for by its name.
LEAST = 64

Action = Callable[[Run], None]


def engine_step(owner: Any, node: Matmul, other: Action) -> Action:
    """The step of a product: by an engine of ours where it is the best, else `other`."""
    engine, form = engine_for(owner.device), form_of(node.left.type)
    fused = None
    possible = engine is not None and form is not None and plain_operands(node)
    if possible and node.epilogue != (node.result,):
        simple = len(node.epilogue) == 1 and node.epilogue[0].type == node.left.type
        possible = simple and not node.batch and not owner.program.settings.check
        fused = Epilogue(owner, node) if possible and _standard(node) else None
        possible = fused is not None and fused.fits
    error = refused(node, form if possible else None)
    if error is not None:
        raise error
    if not possible or engine is None or form is None:
        return other
    return EngineProduct(owner, node, engine, fused, other)


def refused(node: Matmul, form: Form | None) -> ScheduleError | None:
    """Why an execution that is asked for does not exist here; `form`: of an engine that can compute
    the product."""
    asked, algorithm = node.options.execution, algorithm_of(node.options.algorithm)
    if asked is None or algorithm is None or not node.options.levels:
        return None
    if form is not None and asked == "persistent":
        why = "the engine adds to C in the L2 cache, and no block knows that it is the last one"
        return refuse(node, why, "atomic")
    by_own = form is not None and by_engine(form, algorithm, node.options)
    if asked in BY_LIBRARY or (by_own and asked in BY_ENGINE):
        return None
    known = ", ".join(BY_LIBRARY)
    nearest = "recursive" if asked in ("hybrid", "owner") else "batched"
    return refuse(node, f"no tile engine computes this product, only {known} exist", nearest)


def by_engine(form: Form, algorithm: BilinearAlgorithm, options: Any) -> bool:
    """Whether an engine computes a fast product itself: one level or two, of few terms."""
    two = options.levels == 2 and (
        form.sums is not None and max(len(t) for i in instances(algorithm) for t in (i.a, i.b)) <= 2
    )
    return form.fits(algorithm) and (options.levels == 1 or two) and options.scaling is None


def _standard(node: Matmul) -> bool:
    return node.options.algorithm in ("auto", "standard") or not node.options.levels


class EngineProduct:
    """One `Matmul` (module docstring)."""

    def __init__(self, owner: Any, node: Matmul, engine: Engine, fused: Epilogue | None,
                 other: Action) -> None:  # fmt: skip
        self.node, self.engine, self.fused, self.other = node, engine, fused, other
        if isinstance(other, Product):
            other.leaf = self._leaf
        self.left = Operand(owner, node.left, (*node.batch, node.m, node.k))
        self.right = Operand(owner, node.right, (*node.batch, node.k, node.n))
        self.slot = owner.planner.slots[node.leaf()]

    def __call__(self, run: Run) -> None:
        left, right = _Given(self.left, run), _Given(self.right, run)
        batch, m, k, n = left.extents[:-2], *left.extents[-2:], right.extents[-1]
        form = self._form(m, n, k)
        way = self._way(form, m, n, k)
        if way is None:
            self.other(run)
            return
        out = run.queue.block((*batch, m, n), self.node.left.type.numpy)
        blocks = [run.block(self.left.slot), run.block(self.right.slot)]
        read, numbers = self.fused.words(run) if self.fused is not None else ((), ())
        run.faces[self.slot] = out
        if out.size == 0:
            return
        engine, arithmetic, fused = self.engine, form.arithmetic, self.fused
        (mode, levels), each, size = way, m * n * out.itemsize, form.itemsize
        algorithm = algorithm_of(self.node.options.algorithm) or STRASSEN
        places = list(np.ndindex(*batch))

        def action(reads: Sequence[Any], writes: Sequence[Any]) -> None:
            library = engine.device.library
            a, b = (g.matrices(library, x, levels == 2) for g, x in
                    ((left, reads[0]), (right, reads[1])))  # fmt: skip
            code = None
            if fused is not None:
                code = Fused(fused.source, (*(address_of(r) for r in reads[2:]), *numbers))
            first = address_of(writes[0])
            for number, place in enumerate(places):
                c = Matrix(first + number * each, m, n, n, 1, size)
                if levels:
                    engine.product(c, a(place), b(place), mode, arithmetic, algorithm, levels)
                else:
                    engine.standard(c, a(place), b(place), mode, arithmetic, code)

        run.queue.put(Call(action, (*blocks, *read), (out,)))

    def _form(self, m: int, n: int, k: int) -> Form:
        """Of the engines of the type the one whose tiles suit the extents."""
        form = form_of(self.node.left.type, (m, k, n), self.engine.device.multiprocessors)
        assert form is not None
        return form

    def _way(self, form: Form, m: int, n: int, k: int) -> tuple[str, int] | None:
        """(execution, levels) of the engine; None where something else is better."""
        options = self.node.options
        if options.precision == "tf32":
            return None
        if self.fused is not None:
            mode = self.engine.standard_mode(m, n, k, True, form.arithmetic)
            return None if mode is None else (mode, 0)
        return way_for(self.engine, form, options, (m, k, n))

    def _leaf(self, a: Any, b: Any, out: Any) -> bool:
        """A block's standard product by the engine, where that is better than the library's."""
        (m, k), n = a.shape, b.shape[1]
        form = self._form(m, n, k)
        mode = self.engine.standard_mode(m, n, k, False, form.arithmetic)
        if mode is None or a.dtype.itemsize != form.itemsize:
            return False
        self.engine.standard(_matrix(out), _matrix(a), _matrix(b), mode, form.arithmetic)
        return True


def way_for(engine: Engine, form: Form, options: Any, size: tuple[int, int, int]
            ) -> tuple[str, int] | None:  # fmt: skip
    """(execution, levels) for an (m, k) by (k, n) product; None: the library's, or ours in memory.

    Deterministic floats never meet in C by atomic additions.
    """
    m, k, n = size
    algorithm = algorithm_of(options.algorithm)
    exact = not form.arithmetic.startswith("Float")
    ordered = options.deterministic and not exact
    if algorithm is None or not options.levels:
        mode = engine.standard_mode(m, n, k, False, form.arithmetic)
        fast = options.algorithm == "auto" and (options.fast or exact) and options.scaling is None
        best = predicted(engine, form, size, fast=True, deterministic=ordered) if fast else {}
        if options.levels is not None:  # at most so many
            best = {name: s for name, s in best.items() if _levels_of(name) <= options.levels}
        if best:
            name = min(best, key=best.__getitem__)
            if _levels_of(name):
                return name.rsplit(" ", 1)[1], _levels_of(name)
        return None if mode is None else (mode, 0)
    if options.execution == "recursive" or not by_engine(form, algorithm, options):
        return None
    if min(size) < LEAST and options.execution is None:
        return None
    if options.execution in (None, "hybrid"):
        return _best_way(engine, form, size, options.levels, ordered), options.levels
    if ordered and options.execution in ("atomic", "batched"):
        raise ScheduleError(
            f"matmul: execution {options.execution!r} adds floats in any order, but the result "
            "must be deterministic.",
            hint='Use execution="owner", "streams" or "sequential".',
        )
    return options.execution, options.levels


def _levels_of(way: str) -> int:
    """Of a way as `predicted` names it."""
    return 0 if way.startswith(("library", "standard")) else 1 + way.startswith("two levels")


def _best_way(engine: Engine, form: Form, size: tuple[int, int, int], levels: int, ordered: bool
              ) -> str:  # fmt: skip
    if ordered:
        return "owner"
    found = predicted(engine, form, size, fast=True, deterministic=False, levels=levels)
    return min(found, key=found.__getitem__).rsplit(" ", 1)[1] if found else "atomic"


def predicted(engine: Engine, form: Form, size: tuple[int, int, int], *, fast: bool,
              deterministic: bool, levels: int | None = None) -> dict[str, float]:  # fmt: skip
    """Seconds by way, of what was measured on a device of the kind; {} for other engines."""
    if (H200.name, form.arithmetic) not in MEASURED or 0 in size:
        return {}
    on = replace(H200, processors=engine.device.multiprocessors,
                 fma=H200.fma * engine.device.multiprocessors / H200.processors)  # fmt: skip
    return ways(form.arithmetic, size, fast=fast, deterministic=deterministic, levels=levels, on=on)


@dataclass(frozen=True)
class _Measured:
    """The GPU that predictions are for, where there is none."""

    arch: str = "sm_90a"
    multiprocessors: int = H200.processors
    load: Any = None


def describe(node: Matmul, size: tuple[int, int, int] | None, device: Any = None) -> dict[str, str]:
    """How a product is computed, for `explain`: on `device`, where that has an engine."""
    device = device or _Measured()
    t, options = node.left.type, node.options
    engine, form = engine_for(device), form_of(t, size, device.multiprocessors)
    algorithm = algorithm_of(options.algorithm)
    if size is None:
        return {"algorithm": "the extents decide"} if options.levels or options.fast else {}
    own = engine is not None and form is not None and plain_operands(node)
    error = refused(node, form if own else None)
    if error is not None:
        return {"algorithm": f"none: {error.message}"}
    way = way_for(engine, form, options, size) if own and engine and form else None
    fused = node.epilogue != (node.result,)
    m, k, n = size
    if fused and own and engine is not None and form is not None:
        mode = engine.standard_mode(m, n, k, True, form.arithmetic)
        way = None if mode is None else (mode, 0)
    asked = options.levels if algorithm is not None else None
    levels = way[1] if way is not None else asked or 0
    found: dict[str, str] = {}
    if way is not None and engine is not None and form is not None:
        execution, chosen = way[0], algorithm or STRASSEN
        name = f"{chosen.name}, {levels} level{'s' * (levels > 1)}" if levels else "standard"
        found["algorithm"] = f"{name}, execution {execution}, by the tile engine"
        if not levels:
            found["algorithm"] += options.unused_levels(t)
        if levels == 2:
            found["algorithm"] += ": outer sums in memory, the inner level fused"
        tile = f"{form.rows} x {form.columns}, {form.step} deep"
        found["tiles"] = f"{tile}, {form.threads} threads, {form.shared_bytes:,} bytes shared"
        space = engine.workspace(m, n, k, form.arithmetic, chosen, levels)
        split = 4 * (device.multiprocessors + 2) if execution == "split" else 0
        found["workspace"] = f"{space + split:,} bytes"
        found |= _seconds(engine, form, size, levels, execution)
    elif levels and algorithm is not None and not fused:
        made = plan(algorithm, options.execution or "recursive", levels, size, Card.workers)
        width = 4 if t.bytes == 2 else t.bytes
        found["algorithm"] = (
            f"{algorithm.name}, {made.levels} level{'s' * (made.levels > 1)}, execution "
            f"{made.execution}: sums in memory, leaves by the best standard product"
        )
        found["workspace"] = f"{made.workspace * width:,} bytes"
        levels = made.levels
    else:
        found["algorithm"] = (
            "standard, by "
            + ("cuBLAS" if by_library(node) else "a kernel of treadle's")
            + options.unused_levels(t)
        )
    if levels and t.is_inexact:
        found["error"] = error_in_words(algorithm or STRASSEN, levels, size,
                                        "float32" if t.bytes == 2 else t.name)  # fmt: skip
    return found


def _seconds(engine: Engine, form: Form, size: tuple[int, int, int], levels: int, execution: str
             ) -> dict[str, str]:  # fmt: skip
    """Predicted time, with the other ways beside it."""
    others = predicted(engine, form, size, fast=True, deterministic=False)
    what = {0: "standard", 1: "strassen", 2: "two levels"}[levels]
    mine = others.get(f"{what} {execution}")
    if mine is None:
        return {}
    best = min(others[v] for v in others if v.startswith(("library", "standard")))
    why = f"{best / mine:.2f} times as fast as the best standard product" if levels else (
        f"the library {duration(others['library'])}")  # fmt: skip
    return {"predicted": f"{duration(mine)}; {why} (measured on an {H200.name}, interpolated)"}


class _Given:
    """An operand of one run: its extents, and where its matrices are."""

    def __init__(self, operand: Operand, run: Run) -> None:
        self.operand = operand
        self.extents, self.strides, self.origin = operand.layout(run)
        block = run.block(operand.slot)
        self.offset = sum(o * s for o, s in zip(self.origin, block.strides, strict=True))
        self.width = block.itemsize
        self.plain = not operand.casts and all(s % self.width == 0 for s in self.strides)
        _, self.view = operand.view(run)

    def matrices(self, library: Any, array: Any, dense: bool) -> Callable[[Any], Matrix]:
        """A function of the leading indices; `dense`: with columns side by side."""
        first, strides = address_of(array) + self.offset, self.strides
        held: Any = None
        if not self.plain or (dense and strides[-1] != self.width):
            held = library.ascontiguousarray(self.view(library, array))
            first, strides = address_of(held), held.strides
        rows, cols = self.extents[-2:]
        down, across = (s // self.width for s in strides[-2:])

        def matrix(place: Sequence[int], keep: Any = held) -> Matrix:
            offset = sum(p * s for p, s in zip(place, strides, strict=False))
            return Matrix(first + offset, rows, cols, down, across, self.width)

        return matrix


def _matrix(array: Any) -> Matrix:
    """An array of the device, two-dimensional."""
    width = array.dtype.itemsize
    (rows, cols), (down, across) = array.shape, (s // width for s in array.strides)
    return Matrix(address_of(array), rows, cols, down, across, width)


class Epilogue:
    """What a product stores, as code for the engine."""

    def __init__(self, owner: Any, node: Matmul) -> None:
        kernel = _one_element(node)
        self.reads = [b for b in kernel.buffers if b.role == "input"]
        self.types = [v.type for v in kernel.scalars[:-3]]
        self.fits = len(self.reads) + len(self.types) <= WORDS and not any(
            t.is_complex for t in self.types
        )
        self.slots = [owner.slot_of(b.leaf) for b in self.reads]
        self.values = HostFunction(owner.host, kernel.scalar_values[:-3])
        self.source = self._text(kernel) if self.fits else ""

    def words(self, run: Run) -> tuple[tuple[Block, ...], tuple[int, ...]]:
        """The arrays that it reads, and its numbers as words."""
        blocks = tuple(run.dense(s) for s in self.slots)
        values = zip(self.values(run), self.types, strict=True)
        return blocks, tuple(_word(v, t) for v, t in values)

    def _text(self, kernel: Kernel) -> str:
        from .text import entry_name, print_kernel

        name = entry_name(kernel)
        head = re.compile(r'extern "C" __global__ void __launch_bounds__\([^)]*\)\s+' + name)
        text = head.sub(f"static __device__ __forceinline__ void {name}", print_kernel(kernel))
        pointers = [b for b in kernel.buffers if b.role in ("input", "output")]
        given, at = [], 0
        for b in pointers:
            if b.role == "output":
                given.append("&y")
            else:
                given.append(f"reinterpret_cast<const {_c_type(b.type)}*>(extra[{at}])")
                at += 1
        for t in self.types:
            given.append(_from_word(t, at))
            at += 1
        kind = _c_type(kernel.scalars[-3].type)
        return (
            f"{text}\nstruct Fused {{\n  static constexpr bool identity = false;\n"
            f"  __device__ static __forceinline__ {kind} finish({kind} x, int i, int j, "
            f"const u64 *extra) {{\n    {kind} y;\n"
            f"    {name}({', '.join([*given, 'x', 'i', 'j'])});\n    return y;\n  }}\n}};\n"
        )


def _one_element(node: Matmul) -> Kernel:
    """A kernel that stores the element at (i, j) of a product's value x; its last scalars are
    x, i and j."""
    from treadle.skeletons.kernel import transform
    from treadle.skeletons.kernel.build import Builder, LoweringContext

    builder = Builder(node, LoweringContext(target="cuda"))
    (root,) = transform.resolve(node.epilogue, builder, (node.m, node.n))
    x, i, j = Var("x", node.result.type), Var("i", int32), Var("j", int32)
    out = Buffer("out", root.type, "output", constant(1))
    into = builder.emitter()
    from treadle.dsl import simplify
    from treadle.dsl.types import int64

    row, col = (simplify.cast(v, int64) for v in (i, j))
    bindings: dict[Expr, Expr] = {Index(0): row, Index(1): col, node.result: x}
    with into.when_always(bindings):
        into.append(Store(out, constant(0), into.value(root)))
    task, thread = Var("task", int64), Var("thread", int64)
    kernel = builder.kernel("epilogue", constant(1), task, tuple(into.out), threads=32,
                            thread=thread)  # fmt: skip
    return dataclasses.replace(kernel, scalars=(*kernel.scalars, x, i, j),
                               scalar_values=(*kernel.scalar_values, x, i, j))  # fmt: skip


def _word(value: Any, t: ScalarType) -> int:
    """A number as the low bits of a word."""
    raw = np.asarray(value, t.numpy).tobytes()
    return int.from_bytes(raw, "little")


def _c_type(t: ScalarType) -> str:
    from .scalars import type_name

    return type_name(t)


def _from_word(t: ScalarType, at: int) -> str:
    return f"*reinterpret_cast<const {_c_type(t)}*>(extra + {at})"


__all__ = ["EngineProduct", "Leaf", "engine_step"]
