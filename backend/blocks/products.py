"""Products of matrices whose sum goes along the chunks of its operands: a product for each part of
the sum, then these together, in order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from treadle.dsl.analysis.combines import simple_combine
from treadle.dsl.expr import Expr, Index, constant, substitute
from treadle.dsl.graph import Fold, Matmul, indices
from treadle.skeletons.ir import arithmetic as at

from .localise import Blocks
from .memory import projected

#: The smallest parts of a sum that are tried.
LEAST = 16


@dataclass
class Parts:
    """A product in parts of `size` elements of its sum of `count`: the `whole` parts, along an axis
    before those of the matrices, the `rest`, and what adds them up."""

    whole: Matmul
    rest: Matmul | None
    total: Fold


def parts(node: Matmul, size: int, count: int) -> Parts:
    """See `Parts`."""
    full, left = divmod(count, size)
    batch = len(node.batch)
    before: dict[Expr, Expr] = {Index(k): Index(k) for k in range(batch)}
    at_part = at.add(at.multiply(Index(batch), size), Index(batch + 2))
    # The operands have indices (batch…, row, k) and (batch…, k, column).
    rows = {**before, Index(batch): Index(batch + 1), Index(batch + 1): at_part}
    at_part = at.add(at.multiply(Index(batch), size), Index(batch + 1))
    columns = {**before, Index(batch): at_part, Index(batch + 1): Index(batch + 2)}
    plain = node.with_(epilogue=(node.result,), checks=())
    whole = plain.with_(
        batch=(*node.batch, constant(full)), k=constant(size),
        left=substitute((node.left,), rows)[0], right=substitute((node.right,), columns)[0],
    )  # fmt: skip
    at_all = indices(batch + 3)
    (part,) = whole.leaves
    element: Expr = part.at(*at_all[:batch], at_all[-1], *at_all[batch:-1])
    rest = None
    if left:
        ends = at.add(Index(batch + 1), full * size), at.add(Index(batch), full * size)
        rest = plain.with_(
            k=constant(left),
            left=substitute((node.left,), {Index(batch + 1): ends[0]})[0],
            right=substitute((node.right,), {Index(batch): ends[1]})[0],
        )
        last = rest.leaves[0].at(*indices(batch + 2))
        (element,) = at.choose(at.less(at_all[-1], full), (element,), (last,))
    total = Fold(
        (*node.batch, node.m, node.n), (constant(full + bool(left)),), (element,),
        simple_combine("add", node.result.type), None, (node.result,), node.epilogue,
        label=node.label, where=node.where,
    )  # fmt: skip
    return Parts(whole, rest, total)


def are_better(cut: Blocks, plain: Blocks, allowed: int) -> bool:
    """Whether blocks of parts read and write less than blocks of the result; blocks that need more
    than the `allowed` bytes are no choice."""
    fits, too = (projected(blocks) <= allowed for blocks in (cut, plain))
    return fits and (not too or _read(cut) + 2 * _written(cut) < _read(plain))


def _read(blocks: Blocks) -> int:
    """The bytes that all blocks read."""
    total = 0
    for buffer in blocks.buffers:
        size = np.asarray(np.int64(buffer.leaf.type.numpy.itemsize))
        for low, high in zip(buffer.low, buffer.high, strict=True):
            size = size * (high - low)
        total += int(np.broadcast_to(size, blocks.grid).sum())
    return total


def _written(blocks: Blocks) -> int:
    return sum(prod(r.shape) * r.type.numpy.itemsize for r in blocks.results)
