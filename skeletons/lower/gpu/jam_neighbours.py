"""Jams the counted loops of neighbouring elements that share reads.

A product written with `generate` reads a row of one array and a column of the other per element;
a rectangle of elements per thread (`jam.py`) reads each row and column once for several elements.
This applies to large domains only: small ones need as many threads as possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from treadle.dsl.expr import Expr, Index, Loop, Read, walk
from treadle.dsl.graph import Generate
from treadle.skeletons.schedules import Block, PerThread, Row, Schedule

from ...ir import arithmetic as at
from ...ir.kernel import Buffer, Kernel
from ..build import Builder
from ..elementwise.gpu_elements import Elements
from . import orders
from .common import contains, unconditional

#: Blocks, elements per thread, and the minimum threads per multiprocessor for which they were the
#: fastest on an H200, the best last (products of 512 to 4 096 squared).  Of each pair the first
#: feasible one is used: several columns require that neighbours are read at once and fit registers.
PLANS = (
    ((Block(32, 128), PerThread(4, 4), 180), (Block(64, 32), PerThread(8, 1), 480)),
    ((Block(64, 128), PerThread(8, 8), 220), (Block(64, 128), PerThread(8, 4), 240)),
)
#: The same if loops cannot read several iterations at once.
ONE_BY_ONE = (((Block(64, 32), PerThread(8, 1), 480),), PLANS[1])
#: Maximum bytes of the states of a thread's jammed loops, which should stay in registers.
MOST_STATE = 256
#: Expressions per element times elements per thread that compile in acceptable time.
MOST_EXPRESSIONS = 4096


def jam_neighbours(
    builder: Builder, node: Generate, outs: Sequence[Buffer], fallback: Kernel
) -> Kernel:
    """Several elements per thread if their loops share reads, otherwise `fallback`."""
    rank = len(node.shape)
    if rank < 2 or builder.context.check:
        return fallback
    reads = _reads_in_loops(node.elements)
    if not any(not contains(e, Index(rank - 2)) for e in reads):
        return fallback
    axes = tuple(map(Index, range(rank)))
    elements = Elements(builder, outs, node.elements, axes, node.shape)
    size = sum(1 for _ in walk(elements.inside))
    state = max(sum(v.type.bytes for v in e.vars[1:]) for e in walk(elements.inside)
                if isinstance(e, Loop))  # fmt: skip

    def columns(own: PerThread) -> int:
        """Neighbours that are read and written at once."""
        return math.gcd(own.cols, elements.widest())

    def possible(own: PerThread) -> bool:
        several, count = own.rows * own.cols, columns(own)
        if size * several > MOST_EXPRESSIONS or state * several > MOST_STATE:
            return False
        return own.cols == 1 or (count > 1 and bool(elements.wide_reads(count).reads))

    kernel, unrolled = fallback, elements.unrolled()
    tried = [(elements, pair) for pair in ONE_BY_ONE]
    if unrolled is not None:
        tried += [(unrolled, pair) for pair in PLANS]
    for which, pair in tried:
        found = first_possible(pair, possible, builder.context.processors)
        if found is None:
            continue
        schedule, per_thread, least = found
        enough = at.less_equal(least, builder.scalar(at.product(node.shape), "size"))
        plan = schedule.resolve(rank)
        kernel = orders.by_blocks(builder, node, which, plan, columns(per_thread), kernel, [enough])
    return kernel


def first_possible(pair: Sequence[tuple[Block, PerThread, int]],
                   possible: Callable[[PerThread], bool], processors: int
                   ) -> tuple[Schedule, PerThread, int] | None:  # fmt: skip
    """The first feasible plan of a pair, and the least size of a domain that it is used for."""
    for block, own, least in pair:
        if possible(own):
            return Row() | block | own, own, own.rows * own.cols * processors * least
    return None


def _reads_in_loops(roots: Sequence[Expr]) -> list[Read]:
    """The reads in counted loops that every element runs."""
    loops = [e for e in unconditional(roots) if isinstance(e, Loop)]
    outside = set(unconditional(roots))
    return [e for loop in loops for e in walk(loop.scoped)
            if isinstance(e, Read) and e not in outside]  # fmt: skip
