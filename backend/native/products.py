"""Matrix products on the host: BLAS, and fast algorithms over the standard product.

Operands are NumPy arrays of one type, (batch…, m, k) and (batch…, k, n), with any strides.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.expr import Apply, Expr, Index, Read
from treadle.dsl.graph import Fold, Matmul, Node
from treadle.dsl.operations.algebra.product_way import ProductWay, executed, left_open
from treadle.dsl.operations.algebra.products import DEEPEST, MatmulOptions
from treadle.dsl.passes.convolutions import Contraction
from treadle.dsl.passes.short_folds import LOOPED
from treadle.dsl.process.recent import Recent
from treadle.dsl.text import duration
from treadle.dsl.types import ScalarType, float32
from treadle.skeletons.products import algorithm_of, executions
from treadle.skeletons.products.elements import without_epilogue
from treadle.skeletons.products.error import error_in_words
from treadle.skeletons.products.executions import Plan, plan
from treadle.skeletons.products.model import predict_recursive
from treadle.skeletons.products.scaling import scaled, undo
from treadle.skeletons.products.small import is_tall, reads_once, repeated

from ..runtime import operand
from ..runtime.memory import POOL, matmul
from ..runtime.operand import plain
from ..runtime.run import HostValues, Unrecordable
from ..runtime.steps import Action, moving
from ..runtime.types import HostArray
from . import crossover
from .forms import by_kernel
from .product_kit import HostKit, blas, standard_for
from .running import HostRun
from .runtime.threads import thread_count
from .steps import KernelStep

if TYPE_CHECKING:
    from .executable import NativeExecutor


#: For a sum over several axes that is a matrix product: the most bytes of the right operand that
#: stay in a core's cache, and the smallest extents for which a library is faster than a fold.
STAYS, LEAST = 1 << 18, 16

Repeated = Callable[..., HostArray | None]
#: The number of argument extents for which repeated calls are cached.
KEPT = 64


class ProductStep:
    """One `Matmul`: BLAS, a fast algorithm if it is faster, or a treadle kernel: `standard` for
    types that BLAS does not support, `small` for many small products."""

    def __init__(
        self, owner: NativeExecutor, node: Matmul, standard: Action | None, small: Action | None
    ) -> None:
        self.options, self.type = node.options, node.left.type
        self.standard, self.small, self.looped = standard, small, repeated(node)
        self.extents = HostValues(owner.host, (*node.batch, node.m, node.k, node.n))
        self.left = Operand(owner, node.left, (*node.batch, node.m, node.k))
        self.right = Operand(owner, node.right, (*node.batch, node.k, node.n))
        self.slot = owner.planner.slots[node.leaf()]
        self.in_rows = reads_rows(node)
        #: Extents of results by those of arguments, and the function that repeats such calls.
        self.results = Recent[tuple[tuple[int, ...], ...], tuple[int, ...]](KEPT)
        self.repeated: Repeated | None = None

    def __call__(self, run: HostRun) -> None:
        if self.small is not None:
            *batch, m, k, n = (int(v) for v in self.extents(run))
            if by_kernel(self.type, (m, k, n), math.prod(batch), self.looped) or (
                self.in_rows and reads_once(self.type, m, k, n) and self.right.has_rows(run)
            ):
                self.small(run)
                return
        if run.recording:
            self._record(run)
            return
        a, b = self.left(run), self.right(run)
        if self.standard is not None:
            how = chosen(self.type, (a.shape[-2], a.shape[-1], b.shape[-1]), self.options)
            if how is None or not how.levels:
                self.standard(run)
                return
        result = product(a, b, self.type, self.options)
        run.slots[self.slot] = np.ascontiguousarray(result)

    def _record(self, run: HostRun) -> None:
        """Record a product by the standard algorithm: one call of BLAS, or the kernel."""
        t, options = self.type, self.options
        *batch, m, k, n = run.extents(self.extents(run))
        how = chosen(t, (m, k, n), options)
        if how is not None and how.levels:
            raise Unrecordable("a product by a fast algorithm")
        if self.standard is not None:
            self.standard(run)
            return
        if standard_for(t) is not blas:
            raise Unrecordable("a product by a library")
        left, right = self.left.repeated(run), self.right.repeated(run)
        ordered = options.deterministic and t.is_inexact

        def multiply(a: HostArray, b: HostArray, out: HostArray) -> None:
            a, b = left(a), right(b)
            if ordered:
                a, b = _in_rows(a), _in_rows(b)
            with np.errstate(all="ignore"):
                matmul(a, b, out)

        target = self.slot, (*batch, m, n), t.numpy
        if not run.recorded(multiply, (self.left.slot, self.right.slot), [target]):
            raise Unrecordable("a product of constants")

    def direct(self, run: HostRun, args: Sequence[HostArray]) -> Repeated | None:
        """For a program that consists of this product, after a call with the arguments `args` (the
        inputs in the first slots of `run`): a function that repeats calls with arguments of known
        extents as one call of BLAS.  None if the product takes more than that."""
        t, options, sides = self.type, self.options, (self.left, self.right)
        if standard_for(t) is not blas or options.deterministic:
            return None
        a, b = (side(run) for side in sides)
        views = (side.permuted_view(run.slots[side.slot]) for side in sides if side.whole)
        if [x.shape for x in views] != [a.shape, b.shape]:
            return None
        size = a.shape[-2], a.shape[-1], b.shape[-1]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        once = self.in_rows and reads_once(t, *size) and self.right.has_rows(run)
        if self.small is not None and (by_kernel(t, size, math.prod(batch)) or once):
            return None
        how = chosen(t, size, options)
        if how is not None and how.levels:
            return None
        self.results[tuple([x.shape for x in args])] = (*batch, size[0], size[2])
        if self.repeated is None:
            self.repeated = self._repeated(run, [x.dtype for x in args])
        return self.repeated

    def _repeated(self, run: HostRun, types: Sequence[np.dtype[Any]]) -> Repeated:
        """That function; it returns None for arguments of other extents or types."""
        sides, results, count = (self.left, self.right), self.results, len(types)
        captured = [None if side.slot < count else run.slots[side.slot] for side in sides]
        positions, out_type = [side.slot for side in sides], self.type.numpy

        def repeated(*given: Any) -> HostArray | None:
            for x, t in zip(given, types, strict=False):
                if type(x) is not np.ndarray or x.dtype != t:
                    return None
            shape = results.get(tuple([x.shape for x in given])) if len(given) == count else None
            if shape is None:
                return None
            a, b = (
                side.permuted_view(given[position] if array is None else array)
                for side, position, array in zip(sides, positions, captured, strict=True)
            )
            try:
                with np.errstate(all="ignore"):
                    found: HostArray = matmul(a, b, POOL.allocate(shape, out_type))
            except MemoryError:  # the step-by-step call raises the error
                return None
            return found

        return repeated


class FusedProductStep:
    """Products along leading axes with an epilogue: one kernel if they are small; otherwise a
    library call and a kernel for the epilogue."""

    def __init__(self, owner: NativeExecutor, node: Matmul) -> None:
        inner, after = without_epilogue(node)
        slots = owner.planner.slots
        self.type, self.spent = node.left.type, owner.planner.slot(inner.leaf())
        self.looped = repeated(node)
        for leaf, own in zip(after.leaves, node.leaves, strict=True):
            slots[leaf] = slots[own]
        self.extents = HostValues(owner.host, (*node.batch, node.m, node.k, node.n))
        self.small, self.after = KernelStep(owner, node), KernelStep(owner, after)
        self.product = ProductStep(owner, inner, None, None)

    def __call__(self, run: HostRun) -> None:
        *batch, m, k, n = (int(v) for v in self.extents(run))
        if by_kernel(self.type, (m, k, n), math.prod(batch), self.looped):
            self.small(run)
            return
        self.product(run)
        self.after(run)
        run.slots[self.spent] = None


class ContractionStep(KernelStep):
    """A sum over several axes that is a matrix product: loops while the right operand stays in the
    cache, otherwise a library product of operands that are stored first."""

    def __init__(self, owner: NativeExecutor, node: Fold, parts: Contraction) -> None:
        super().__init__(owner, node)
        slots, product = owner.planner.slots, parts.product
        nodes: tuple[Node, ...] = (*parts.before, product)
        self.spent = [owner.planner.slot(leaf) for n in nodes for leaf in n.leaves]
        for leaf, own in zip(parts.after.leaves, node.leaves, strict=True):
            slots[leaf] = slots[own]
        self.extents = HostValues(owner.host, (product.m, product.k, product.n))
        self.bytes, self.deep = product.left.type.bytes, node in owner.short.deep
        self.parts: list[Action] = [moving(KernelStep(owner, n)) for n in parts.before]
        self.parts += [
            ProductStep(owner, product, None, None),
            moving(KernelStep(owner, parts.after)),
        ]

    def __call__(self, run: HostRun) -> None:
        m, k, n = (max(int(v), 0) for v in self.extents(run))
        loops = self.deep and k <= LOOPED and k * n * self.bytes <= STAYS
        if loops or min(m, k, n) < LEAST:
            super().__call__(run)
            return
        for act in self.parts:
            act(run)
        for slot in self.spent:
            run.slots[slot] = None


def product_step(owner: NativeExecutor, node: Matmul, standard: Action | None) -> Action:
    """The step of a product; `standard` is the treadle kernel, if one can compute it."""
    options, t = node.options, node.left.type
    if t.is_inexact and node.epilogue != (node.result,):
        return FusedProductStep(owner, node)
    if standard is None:
        small = KernelStep(owner, node) if _may_be_small(node) else None
        return ProductStep(owner, node, None, small)
    if options.algorithm != "auto" or t.is_inexact or t.family == "bool":
        return standard
    if node.epilogue != (node.result,) or not all(map(plain, (node.left, node.right))):
        return standard
    return ProductStep(owner, node, standard, None)


def _may_be_small(node: Matmul) -> bool:
    """Whether the kernel for small products may compute a product of floats, depending on extents.
    A schedule does not matter, since neither that kernel nor the library uses it."""
    return node.options.algorithm in ("auto", "standard")


def reads_rows(node: Matmul) -> bool:
    """Whether kernels for a long inner axis may compute a product: its right operand is read along
    rows, and the grouping of sums may depend on that."""
    right = node.right
    while isinstance(right, Apply):
        right = right.args[0]
    last = right.args[-1] if isinstance(right, Read) and right.args else None
    return last is Index(1) and not node.batch and not node.options.deterministic


class Operand(operand.Operand):
    """One operand as a view of the array in its slot: affine index maps need no copy."""

    def __init__(self, owner: NativeExecutor, e: Expr, shape: Sequence[Expr]) -> None:
        super().__init__(owner, e, shape)
        # The common case: the whole array with permuted axes and inserted axes of extent 1.
        axes = [a.axis for a in self.index if isinstance(a, Index)]
        self.whole = len(axes) == self.axes == len(set(axes)) and not self.casts
        self.positions, self.sizes = tuple(np.argsort(axes).tolist()), HostValues(owner.host, shape)
        self.in_place = self.positions == tuple(range(self.axes))
        self.between = tuple(slice(None) if k in axes else None for k in range(self.rank))

    def __call__(self, run: HostRun) -> HostArray:
        array: HostArray = run.slots[self.slot]
        if self.whole:
            found = self.permuted_view(array)
            if found.shape == self.sizes.plain(run.slots, run.params):
                return found
        _, view = self.view(run)
        made: HostArray = view(np, array)
        return made

    def repeated(self, run: HostRun) -> Callable[[HostArray], HostArray]:
        """A function that makes the operand from other arrays like the one in its slot."""
        array: HostArray = run.slots[self.slot]
        if self.whole and self.permuted_view(array).shape == self.sizes(run):
            return self.permuted_view
        _, view = self.view(run)
        return functools.partial(view, np)

    def has_rows(self, run: HostRun) -> bool:
        array: HostArray = run.slots[self.slot]
        return array.strides[-1] == array.itemsize

    def permuted_view(self, array: HostArray) -> HostArray:
        """The whole array with its axes in the order of the operand (`whole`)."""
        found = array if self.in_place else array.transpose(self.positions)
        return found if self.axes == self.rank else found[self.between]


def chosen(t: ScalarType, size: tuple[int, int, int], options: MatmulOptions) -> Plan | None:
    """The plan of a product by a fast algorithm; None: by the standard algorithm."""
    if t.family == "bool":
        return None
    algorithm, levels, execution = (
        algorithm_of(options.algorithm),
        options.levels,
        options.execution,
    )
    if options.may_recurse(t):
        found = crossover.chosen(t, size, options.levels)
        algorithm, levels = found.algorithm, found.levels
    if algorithm is None or not levels:
        return None
    workers = 1 if options.deterministic and t.is_inexact else thread_count()
    return plan(algorithm, execution or "recursive", levels, size, workers)


def product(a: Any, b: Any, t: ScalarType, options: MatmulOptions) -> Any:
    """a @ b by the options.  The product over an empty inner axis is zero."""
    size = a.shape[-2], a.shape[-1], b.shape[-1]
    how = chosen(t, size, options)
    if options.deterministic and t.is_inexact:
        a, b = _in_rows(a), _in_rows(b)
    with np.errstate(all="ignore"):
        if how is None or not how.levels:
            return standard_for(t)(a, b)
        rows = columns = None
        if options.scaling is not None and t.is_inexact:
            a, b, rows, columns = scaled(np, a, b, options.scaling)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = POOL.allocate((*batch, size[0], size[2]), t.numpy)
        kit = HostKit(t, ordered=t.is_inexact and options.deterministic)
        a, b = (np.broadcast_to(_readable(x), (*batch, *x.shape[-2:])) for x in (a, b))
        room = POOL.allocate((how.workspace,), t.numpy)
        for at in np.ndindex(*batch):
            executions.execute(kit, how, a[at], b[at], out[at], room)
        if rows is not None:
            undo(np, out, rows, columns)
        return out


def _in_rows(x: Any) -> Any:
    """The operand with consecutive rows: BLAS rounds differently for other strides."""
    whole, once = slice(None), slice(0, 1)
    batch = tuple(whole if stride else once for stride in x.strides[:-2])
    return np.broadcast_to(np.ascontiguousarray(x[batch]), x.shape)


def _readable(x: Any) -> Any:
    """The operand, or a copy if no axis is contiguous: BLAS reads each block many times."""
    side_by_side = x.itemsize in x.strides[-2:] and min(x.strides, default=0) >= 0
    return x if side_by_side else np.ascontiguousarray(x)


#: Executions that `tune` tries in addition, if the algorithm is not fixed.
TRIED = ("recursive", "batched", "owner", "streams")


def alternatives(node: Matmul, size: tuple[int, int, int]) -> list[ProductWay]:
    """Alternative ways to compute an (m, k) by (k, n) product, for `tune`."""
    t, options, found = node.left.type, node.options, left_open(node)
    if not found or node.epilogue != (node.result,) or 0 in size:
        return []  # a treadle kernel includes the epilogue
    now = chosen(t, size, options)
    made: dict[ProductWay, None] = {}
    if found == "execution":
        for execution in executions.EXECUTIONS:
            if execution == "recursive" or options.levels <= DEEPEST:
                made[executed(node, execution)] = None
    else:
        made[ProductWay("standard")] = None
        most = DEEPEST if options.levels is None else options.levels
        deepest = min(most, int(math.log2(max(2 * min(size) / crossover.LEAST, 1))))
        for name in ("strassen", "winograd"):
            for levels in range(1, deepest + 1):
                for execution in TRIED[: None if levels == 1 else 1]:
                    made[ProductWay(name, levels, execution)] = None
    return [w for w in made if _is_other(w, now, size, options)]


def _is_other(
    way: ProductWay, now: Plan | None, size: tuple[int, int, int], options: MatmulOptions
) -> bool:
    """Whether the extents allow an alternative, and it differs from the current choice `now`."""
    algorithm = algorithm_of(way.algorithm or options.algorithm)
    if algorithm is None or not way.levels or way.execution is None:
        return now is not None and now.levels > 0
    made = plan(algorithm, way.execution, way.levels, size)
    if made.levels < way.levels or (way.execution == "hybrid" and made.levels < 2):
        return False
    same = now is not None and (now.algorithm, now.levels, now.execution) == (
        algorithm, made.levels, made.execution)  # fmt: skip
    return not same


def describe(node: Matmul, size: tuple[int, int, int] | None, count: int = 1) -> dict[str, str]:
    """How a product is computed, for `explain`; `size` is (m, k, n), if known; `count`: the number
    of products along leading axes."""
    t, options = node.left.type, node.options
    library = "BLAS" if t.is_inexact else "a kernel of treadle's"
    fused = node.epilogue != (node.result,)
    small = t.is_inexact and _may_be_small(node) and not options.levels
    if small and size is not None and by_kernel(t, size, count, repeated(node)):
        return {
            "algorithm": "standard, by a kernel of treadle's",
            "workspace": "0 bytes",
            "tiles": "consecutive products in a task, sums in registers",
        }
    if small and size is not None and reads_rows(node) and reads_once(t, *size):
        where = "registers" if is_tall(t, size[0], size[2]) else "the first cache"
        return {
            "algorithm": "standard, by kernels of treadle's where the rows of the right operand "
            f"are contiguous, else by {library}",
            "tiles": f"a block of the inner axis in a task, sums in {where}",
        }
    free = options.may_recurse(t) and not fused
    if size is None:
        if free or (options.levels and options.algorithm not in ("auto", "standard")):
            return {"algorithm": f"{show(options)}; the extents decide about levels and workspace"}
        return {"algorithm": f"standard, by {library}{options.unused_levels(t)}"}
    how = None if fused else chosen(t, size, options)
    if how is None or not how.levels:
        why = _why_standard(t, options, size, free)
        found = {"algorithm": f"standard, by {library}{why}"} | _standard(node, size)
        if fused and t.is_inexact:
            found["launches"] = "the products, and 1 separate kernel"
            found["epilogue"] = "a kernel of its own: BLAS stores plain products"
        return found
    parts = (how.algorithm.m, how.algorithm.k, how.algorithm.n)
    m, k, n = (c // p**how.levels for c, p in zip(how.core, parts, strict=True))
    found = {
        "algorithm": f"{how.algorithm.name}, {how.levels} level{'s' * (how.levels > 1)}, "
        f"execution {how.execution}",
        "tiles": f"{m} x {k} by {k} x {n} at the leaves, each by {library}",
        "workspace": f"{how.workspace * t.bytes:,} bytes",
    }
    found |= _predicted(how, t) | options.scaling_notes(size, t)
    if t.is_inexact:
        found["error"] = error_in_words(how.algorithm, how.levels, size, t.name)
    return found


def _standard(node: Matmul, size: tuple[int, int, int]) -> dict[str, str]:
    """Describes a standard product: the reason, tiles, workspace, and the time if known."""
    t, (m, k, n) = node.left.type, size
    wide = float32 if t.is_narrow else t
    found: dict[str, str] = node.options.notes(t)
    if t.is_inexact:
        found["tiles"] = "the library's own"
        copied = (m * k + k * n + m * n) * wide.bytes if wide != t else 0
        found["workspace"] = f"{copied:,} bytes beside what the library packs"
        kept = crossover.known().get(wide.name)
        if kept is not None and kept.rates is not None and not node.batch:
            seconds = m * k * n / kept.rates.multiply_adds(size)
            found["predicted"] = f"{duration(seconds)} ({crossover.origin(wide)})"
    return found


def show(options: MatmulOptions) -> str:
    """The algorithm, levels and execution that the options request."""
    name = getattr(options.algorithm, "name", options.algorithm)
    if name == "auto":
        return "standard, or Strassen's where that is faster"
    return f"{name}, {options.levels} levels, execution {options.execution or 'recursive'}"


def _why_standard(
    t: ScalarType, options: MatmulOptions, size: tuple[int, int, int], free: bool
) -> str:
    if free and min(size) >= crossover.LEAST and crossover.rates(t) is None:
        return ": the machine is too busy to measure whether Strassen's algorithm is faster"
    if free:
        return ": no level of Strassen's algorithm is predicted to be faster here"
    unused = options.unused_levels(t)
    return unused or (" (the extents allow no level)" if options.levels else "")


def _predicted(how: Plan, t: ScalarType) -> dict[str, str]:
    """The choice by this machine's rates, which are measured on first use."""
    if how.execution != "recursive":
        return {}
    rates = crossover.rates(t)
    if rates is None:
        return {"predicted": "nothing: the machine is too busy to measure its rates"}
    mine, standard = (
        predict_recursive(rates, how.algorithm, x, how.size, t.bytes) for x in (how.levels, 0)
    )
    ratio = f"{standard / mine:.2f} times as fast as standard"
    if mine > standard:
        ratio = f"standard would be {mine / standard:.2f} times as fast"
    return {"predicted": f"{duration(mine)}, {ratio} ({crossover.origin(t)})"}
