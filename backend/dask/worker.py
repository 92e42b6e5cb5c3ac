"""The code that runs on workers: one block of one kernel.

A task receives the text of a program (treadle's own checked format, never pickled code), a `Block`
of numbers, and chunks of arrays.  It has no side effects, so it can be repeated anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from treadle.dsl.errors import standing_at
from treadle.dsl.process.recent import Recent

from ..blocks.buffers import Block, assembled, kept, pieces_of
from ..blocks.domain import edges
from ..blocks.program import BlockProgram
from ..runtime.storage import unpacked
from .arguments import plain

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
    """The results of a block, an array if there is only one.  `components`: for buffers whose
    pieces are tuples of arrays, the component to use."""
    program = program_of(text)
    with standing_at(program.roots[0].node.where):  # for errors about the chunks
        buffers = _buffers(program, block, pieces, components)
    arrays = kept(block, program.execute(buffers, block.numbers))
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def result_of(computed: Any, number: int | None, part: tuple[slice, ...] | None,
              near: Any = None) -> Any:  # fmt: skip
    """One of the results of a block (None: the only one), or a part of it; `near`: a dependence on
    something that the block has read."""
    array = computed if number is None else computed[number]
    return array if part is None else array[part]


def _buffers(program: BlockProgram, block: Block, pieces: Sequence[Any],
             components: Sequence[int | None] | None) -> list[Any]:  # fmt: skip
    buffers, at = list[Any](), 0
    for k, (cut, given) in enumerate(zip(block.cuts, program.inputs, strict=True)):
        count = pieces_of(cut)
        own = pieces[at : at + count]
        if components is not None and components[k] is not None:
            own = tuple([piece[components[k]] for piece in own])
        dtype = given.type.numpy
        buffers.append(assembled(cut, [_chunk(piece, dtype) for piece in own], dtype))
        at += count
    for k, part in enumerate(block.flat):
        if part is not None:
            buffers[k] = buffers[k].reshape(-1)[part]
    return buffers


def _chunk(piece: Any, dtype: np.dtype[Any]) -> Any:
    """A chunk, checked against the declared type of its array, on which kernels rely."""
    if isinstance(piece, list) or (type(piece) is np.ndarray and piece.dtype == dtype):
        return piece  # (a list has parts computed by other tasks)
    return plain(
        piece, dtype, "an array of dask",
        "Name the dtype that they have where the array is made (dtype=, meta=), or convert them: "
        f"x.map_blocks(lambda chunk: chunk.astype({str(dtype)!r})).",
        "Pass the data and the mask separately, or x.map_blocks(lambda chunk: chunk.filled(0)).",
    )  # fmt: skip


def part_of(run: Any, windows: Any, number: int, first: int, low: int, high: int,
            copy: bool) -> list[Any]:  # fmt: skip
    """The part of a run for the blocks `low` … `high` − 1, where the run has the elements from
    `first` on, as a list of one array."""
    begin, end = windows[low, number, 0] - first, windows[high - 1, number, 1] - first
    return [np.array(run[begin:end], copy=copy or None)]


def parts_of(runs: Sequence[Any], windows: Any, number: int, before: int, low: int, high: int,
             copy: bool) -> list[Any]:  # fmt: skip
    """`part_of` for parts of runs, numbered from `number`, with the blocks from `before` on."""
    return [
        part_of(run, windows, k, windows[before, k, 0], low, high, copy)[0]
        for k, run in enumerate(runs, number)
    ]


def joined(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [array for arrays in lists for array in arrays]


def strip_of(chunk: Any, cut: tuple[tuple[tuple[int, int], ...] | None, ...]) -> Any:
    """A part of a chunk: ranges along each axis (None: all of it), concatenated."""
    chunk = _chunk(chunk, chunk.dtype)
    for axis, ranges in enumerate(cut):
        if ranges is not None:
            before = (slice(None),) * axis
            found = [chunk[(*before, slice(*r))] for r in ranges]
            chunk = np.concatenate(found, axis) if len(found) > 1 else found[0]
    return np.array(chunk, order="C")


#: The elements of a block that lie in one chunk: their row-major positions in the block, and their
#: indices in the chunk.
Request = tuple[Any, tuple[Any, ...]]


def requests_of(positions: Any, extents: Sequence[int], sizes: Sequence[Sequence[int]]
                ) -> dict[int, Request]:  # fmt: skip
    """The requests of a block by chunk number: for elements at row-major positions of an array of
    these extents in chunks of these sizes."""
    flat = np.asarray(positions).reshape(-1)
    owner = np.zeros(flat.size, np.min_scalar_type(prod(map(len, sizes))))  # sorted by digits
    at = [flat] if len(extents) == 1 else np.unravel_index(flat, extents)
    for index, own in zip(at, sizes, strict=True):
        even = len(set(own[:-1])) == 1 and 0 < own[0] >= own[-1]
        chunk = index // own[0] if even else np.searchsorted(edges(own)[1:], index, "right")
        owner = owner * owner.dtype.type(len(own)) + chunk.astype(owner.dtype)
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner, np.arange(prod(map(len, sizes)) + 1), sorter=order)
    first = [edges(own)[:-1] for own in sizes]
    return {
        number: (order[a:b], tuple(i[order[a:b]] - n for i, n in zip(at, begin, strict=True)))
        for number, (begin, (a, b)) in enumerate(zip(product(*first), pairwise(ends), strict=True))
        if a < b
    }


def request_of(requests: dict[int, Request], number: int) -> Request | None:
    return requests.get(number)


def answer_of(request: Request | None, chunk: Any, axes: Sequence[int], dtype: Any) -> Any:
    """The requested elements of a chunk, at indices along the first of its `axes`."""
    if request is None:
        return None
    return _chunk(chunk, dtype).transpose(axes)[request[1]]


def gathered(requests: dict[int, Request], answers: Sequence[Any], shape: tuple[int, ...],
             dtype: Any) -> Any:  # fmt: skip
    """The block of this shape, assembled from the answers."""
    made = np.empty(shape, dtype)
    count = sum(len(where) for where, _ in requests.values())
    rows = made.reshape(count, made.size // max(count, 1))
    for number, (where, _) in requests.items():
        rows[where] = answers[number].reshape(len(where), -1)
    return made
