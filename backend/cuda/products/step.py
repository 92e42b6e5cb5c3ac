"""Products in the queue of a program: those of a tile engine, with the code fused into them
(`fused.py`), and its standard products of the blocks of a recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.graph import Matmul
from treadle.dsl.operations.algebra.products import MatmulOptions
from treadle.dsl.types import ScalarType
from treadle.skeletons.products import STRASSEN, algorithm_of

from ...runtime.types import DeviceArray
from ..device.device import Call
from ..running import DeviceRun
from .engine import Engine
from .form import Form, form_of
from .fused import Piece, Producer, fused_source
from .launching import Fused, Matrix, address_of
from .operand import Operand
from .ways import standard_way

if TYPE_CHECKING:
    from ..executable import CudaExecutor


class Launcher:
    """Queues a product of the engine, with the `pieces` that are fused into it."""

    def __init__(
        self, owner: CudaExecutor, node: Matmul, engine: Engine, pieces: Sequence[Piece] = ()
    ) -> None:
        self.node, self.engine, self.pieces = node, engine, pieces
        made = {p.slot: p.operands for p in pieces if isinstance(p, Producer)}
        shapes = (*node.batch, node.m, node.k), (*node.batch, node.k, node.n)
        #: The arrays that each side is computed from.
        self.sides = [
            made[slot] if slot in made else [Operand(owner, e, shape)]
            for slot, e, shape in zip(("TILE_A", "TILE_B"), (node.left, node.right), shapes,
                                      strict=True)
        ]  # fmt: skip
        self.source, self.starts = fused_source(pieces) if pieces else ("", [])
        self.slot = owner.planner.slots[node.leaf()]

    def given(self, run: DeviceRun) -> list[list[_Given]]:
        """The arrays of each side in a run."""
        return [[_Given(operand, run) for operand in side] for side in self.sides]

    def alike(self, run: DeviceRun) -> list[bool]:
        """For each side, whether the arrays it is computed from are contiguous along one index."""
        return [
            len(side) < 2 or _alike([_Given(operand, run) for operand in side])
            for side in self.sides
        ]

    def __call__(self, run: DeviceRun, given: Sequence[Sequence[_Given]], size: Sequence[int],
                 form: Form, way: tuple[str, int]) -> None:  # fmt: skip
        """`size`: batch…, m, k, n; `way`: execution and levels."""
        *batch, m, k, n = size
        out = run.queue.block((*batch, m, n), self.node.left.type.numpy)
        arrays = [g for side in given for g in side]
        read = [run.array(g.operand.slot) for g in arrays]
        numbers = []
        for piece in self.pieces:
            blocks, words = piece.element.numbers(run)
            numbers.append((len(blocks), words))
            read += blocks
        run.slots[self.slot] = out
        if out.size == 0:
            return
        engine, arithmetic = self.engine, form.arithmetic
        (mode, levels), each, width = way, m * n * out.itemsize, form.itemsize
        algorithm = algorithm_of(self.node.options.algorithm) or STRASSEN
        indices = list(np.ndindex(*batch))
        count, of_left = len(arrays), len(given[0])

        def action(reads: Sequence[DeviceArray], writes: Sequence[DeviceArray]) -> None:
            library = engine.device.library
            # Sums in memory need contiguous rows or, if no level is fused, columns; tensor maps and
            # copies of lines, either, one line after the other.
            apart = form.maps or form.copies
            either = mode == "recursive" or apart
            whole = (-1, -2) if either else (-1,) if levels == 2 else ()
            found = [g.matrices(library, x, whole, apart)
                     for g, x in zip(arrays, reads[:count], strict=True)]  # fmt: skip
            first = address_of(writes[0])
            for number, index in enumerate(indices):
                made = [f(index) for f in found]
                left = made[:of_left] or [_made_in_place(m, k, left=True)]
                right = made[of_left:] or [_made_in_place(k, n, left=False)]
                code = self._fused(left, right, numbers, reads[count:])
                c = Matrix(first + number * each, m, n, n, 1, width)
                if levels:
                    engine.product(c, left[0], right[0], mode, arithmetic, algorithm, levels, code)
                else:
                    engine.standard(c, left[0], right[0], mode, arithmetic, code)

        run.queue.put(Call(action, tuple(read), (out,)))

    def _fused(self, left: Sequence[Matrix], right: Sequence[Matrix],
               numbers: Sequence[tuple[int, tuple[int, ...]]], reads: Sequence[DeviceArray]
               ) -> Fused | None:  # fmt: skip
        """The words of a launch, in the order of the pieces."""
        words: list[int] = []
        aligned, rest = True, iter(reads)
        for piece, (arrays, values) in zip(self.pieces, numbers, strict=True):
            if isinstance(piece, Producer) and len(piece.operands) > 1:
                x = left[1] if piece.slot == "TILE_A" else right[1].transposed
                words += [x.address, x.down, x.across]
                pitch = max(abs(x.down), abs(x.across))
                aligned = aligned and x.address % 16 == 0 and pitch * x.itemsize % 16 == 0
            words += [address_of(next(rest)) for _ in range(arrays)]
            words += values
        return Fused(self.source, tuple(words), aligned) if self.pieces else None


def _made_in_place(rows: int, cols: int, *, left: bool) -> Matrix:
    """An operand computed from indices alone, with the layout that is best for the engine."""
    if left:
        return Matrix(0, rows, cols, 1, -(-rows // 4) * 4)
    return Matrix(0, rows, cols, -(-cols // 4) * 4, 1)


class Leaves:
    """Standard products of blocks, by an engine if it is faster than the library."""

    def __init__(self, engine: Engine, t: ScalarType, options: MatmulOptions) -> None:
        self.engine, self.type, self.options = engine, t, options

    def __call__(self, a: DeviceArray, b: DeviceArray, out: DeviceArray) -> bool:
        """Computes `out = a @ b` if the engine is faster; returns whether it did."""
        (m, k), n = a.shape, b.shape[1]
        size = m, k, n
        form = form_of(self.type, size, self.engine.device.multiprocessors, self.options,
                       self.engine.device.arch)  # fmt: skip
        assert form is not None
        mode = standard_way(self.engine, form, size, self.options)
        if mode is None or a.dtype.itemsize != form.itemsize:
            return False
        self.engine.standard(_matrix(out), _matrix(a), _matrix(b), mode, form.arithmetic)
        return True


class _Given:
    """An operand in one run: its extents, and the addresses of its matrices."""

    def __init__(self, operand: Operand, run: DeviceRun) -> None:
        self.operand = operand
        self.extents, self.strides, self.origin = operand.layout(run)
        block = run.array(operand.slot)
        self.offset = sum(o * s for o, s in zip(self.origin, block.strides, strict=True))
        self.width = block.itemsize
        self.plain = not operand.casts and all(s % self.width == 0 for s in self.strides)
        _, self.view = operand.view(run)

    def matrices(
        self, library: Any, array: DeviceArray, dense: Sequence[int], apart: bool = False
    ) -> Callable[[Any], Matrix]:
        """A function of the leading indices; `dense`: axes one of which must be contiguous;
        `apart`: its lines must follow each other in memory, and not overlap."""
        first, strides, width = address_of(array) + self.offset, self.strides, self.width
        copy: Any = None
        lines = [x for x in dense if strides[x] == width]
        if apart:
            lines = [x for x in lines if self.extents[-3 - x] <= 1
                     or strides[-3 - x] >= self.extents[x] * width]  # fmt: skip
        if not self.plain or (dense and not lines):
            copy = library.ascontiguousarray(self.view(library, array))
            first, strides, width = address_of(copy), copy.strides, copy.itemsize
        rows, cols = self.extents[-2:]
        down, across = (s // width for s in strides[-2:])

        def matrix(index: Sequence[int], keep: Any = copy) -> Matrix:
            offset = sum(p * s for p, s in zip(index, strides, strict=False))
            return Matrix(first + offset, rows, cols, down, across, width)

        return matrix


def _alike(given: Sequence[_Given]) -> bool:
    """Whether arrays are contiguous along the same index."""
    steps = {
        next((k for k, s in enumerate(g.strides) if s == g.width), -1) if g.plain else -2
        for g in given
    }
    return len(steps) == 1 and -2 not in steps


def _matrix(array: DeviceArray) -> Matrix:
    """A two-dimensional device array as a matrix."""
    width = array.dtype.itemsize
    (rows, cols), (down, across) = array.shape, (s // width for s in array.strides)
    return Matrix(address_of(array), rows, cols, down, across, width)
