"""What tuning tries: schedules that often win, and of them those that the model predicts to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .blocks import Block, PerThread
from .orders import Column, Row, Tile
from .schedule import Schedule, ScheduleLike, as_schedule

if TYPE_CHECKING:
    from treadle.dsl.graph import Generate, Permute
    from treadle.dsl.names import Names
    from treadle.dsl.program import Program

MOST = 12  # schedules of an operation that are timed, where the model can tell which promise most
ROWS_PER_THREAD = (2, 4, 8)

# What a block covers: threads on a GPU, a task on a CPU.
_BLOCKS = {"cuda": ((4, 64), (8, 32), (16, 32), (32, 32))}
_CPU_BLOCKS = ((16, 256), (32, 512), (64, 128), (64, 64))


def candidates(backend: str, extents: Sequence[int | None]) -> list[Schedule]:
    """Promising schedules for an operation of these extents (None: not known), the plain first.

    >>> candidates("native", (1, 1)), candidates("native", (64, 300))[:3]
    ([Row()], [Row(), Column(64), Column(256)])
    """
    height, width = (10**9 if n is None else n for n in extents[-2:])
    found: list[ScheduleLike] = [Row()]
    found += [Column(w) for w in (64, 256) if w < width]
    found += [Tile(r, c) for r, c in ((32, 64), (64, 256)) if r < height and c < width]
    if height > 16 and width > 512:
        found.append(Column(512) | Block(16, 256))
    for rows, cols in _BLOCKS.get(backend, _CPU_BLOCKS):
        if rows >= 2 * height or cols >= 2 * width:
            continue
        block = Row() | Block(rows, cols)
        found.append(block)
        found += [block | PerThread(rows=k) for k in ROWS_PER_THREAD if rows % k == 0]
    return [as_schedule(s) for s in found]


def promising(program: Program, node: Any, extents: Sequence[int | None], known: Mapping[Any, int]
              ) -> list[Schedule]:  # fmt: skip
    """Of `candidates` and what `Auto` considers, the row order and the MOST that the model predicts
    to be fastest; all candidates where it knows nothing (other backends, extents from data)."""
    found = candidates(program.backend, extents)
    if program.backend not in ("native", "cuda"):
        return found
    from treadle.skeletons.analysis import choose, device, kernel_maps

    kernel = kernel_maps(node, known)
    if kernel is None or not kernel.size or 0 in kernel.inner:
        return found
    ceilings = device.device_of(program)
    extra = [s for s in choose.candidates(kernel, None, ceilings.gpu) if s is not None]
    pool = list(dict.fromkeys([*found, *extra]))
    way = choose.way_of(node, ceilings.gpu)
    guessed = choose.choose(kernel, ceilings, None, way, pool, complete=True).predictions
    ranked = sorted(guessed, key=lambda p: (p.seconds, sum(p.terms)))
    best = [p.schedule for p in ranked if p.schedule is not None and p.schedule != Row()]
    return [as_schedule(Row()), *best[:MOST]]


def subjects(program: Program) -> dict[str, tuple[int | None, ...]]:
    """What can be tuned: the address of every operation that is a kernel of independent elements
    (or updates) over two axes or more, with its extents where they are known."""
    from treadle.dsl.names import Names

    return {op: extents for op, _, extents in tunable(Names(program))}


def tunable(names: Names) -> Iterator[tuple[str, Generate | Permute, tuple[int | None, ...]]]:
    """Address, node and extents of what can be tuned."""
    from treadle.dsl.graph import Generate, Permute
    from treadle.dsl.names import address

    for node in names.kernels:
        number = names.number(node)
        if number is None or not isinstance(node, Generate | Permute):
            continue
        shape = node.shape if isinstance(node, Generate) else node.domain
        if len(shape) >= 2:
            yield node.label.name or address(number), node, tuple(map(names.value, shape))
