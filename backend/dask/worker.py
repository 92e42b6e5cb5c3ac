"""What runs on the workers: one block of one kernel.

A task receives the text of a program (treadle's own checked format, never pickled code), a `Block`
of numbers, and chunks of arrays.  It changes nothing, so it can be repeated anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from treadle.dsl.process.recent import Recent

from ..blocks.buffers import Block, assembled, kept, pieces_of
from ..blocks.program import BlockProgram
from ..runtime.storage import unpacked

#: The programs kept by a process.
PROGRAMS = 256

_programs = Recent[str, BlockProgram](PROGRAMS)
_lock = Lock()


def program_of(text: str) -> BlockProgram:
    """The program with this text, read and compiled once per process."""
    with _lock:
        found = _programs.get(text)
        if found is None:
            found = _programs[text] = unpacked(text, BlockProgram, "the program of a task")
        found.executable  # noqa: B018 - compiled by one thread
    return found


def computed(
    text: str, block: Block, *pieces: Any, components: Sequence[int | None] | None = None
) -> Any:
    """The results of a block, an array if there is one.  `components`: of buffers whose pieces are
    tuples of arrays, which of them."""
    program = program_of(text)
    buffers, at = [], 0
    for k, (cut, given) in enumerate(zip(block.cuts, program.inputs, strict=True)):
        count = pieces_of(cut)
        own = pieces[at : at + count]
        if components is not None and components[k] is not None:
            own = tuple([piece[components[k]] for piece in own])
        buffers.append(assembled(cut, own, given.type.numpy))
        at += count
    for k, part in enumerate(block.flat):
        if part is not None:
            buffers[k] = buffers[k].reshape(-1)[part]
    arrays = kept(block, program.execute(buffers, block.numbers))
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def part_of(run: Any, windows: Any, number: int, first: int, low: int, high: int,
            copy: bool) -> list[Any]:  # fmt: skip
    """What goes to the blocks `low` … `high` − 1 of a run, the elements of an array from `first`
    on, as a list of one array."""
    begin, end = windows[low, number, 0] - first, windows[high - 1, number, 1] - first
    return [np.array(run[begin:end], copy=copy or None)]


def parts_of(runs: Sequence[Any], windows: Any, number: int, before: int, low: int, high: int,
             copy: bool) -> list[Any]:  # fmt: skip
    """The same of parts of runs, the first of which has this number: of what goes to the blocks
    from `before` on."""
    return [
        part_of(run, windows, k, windows[before, k, 0], low, high, copy)[0]
        for k, run in enumerate(runs, number)
    ]


def joined(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Lists of arrays as one."""
    return [array for arrays in lists for array in arrays]


def strip_of(chunk: Any, cut: tuple[tuple[tuple[int, int], ...] | None, ...]) -> Any:
    """A part of a chunk, cut where the chunk is: ranges along each axis (None: all of it), one
    after the other."""
    for axis, ranges in enumerate(cut):
        if ranges is not None:
            before = (slice(None),) * axis
            found = [chunk[(*before, slice(*r))] for r in ranges]
            chunk = np.concatenate(found, axis) if len(found) > 1 else found[0]
    return np.array(chunk, order="C")
