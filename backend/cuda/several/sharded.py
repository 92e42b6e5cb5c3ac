"""`Sharded`: an array in parts on several GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod

import numpy as np

from treadle.dsl.frontend.sources import IN_PARTS

from ...blocks.domain import Chunks, edges, even
from ...runtime.memory import POOL
from ...runtime.types import DeviceArray, DType, HostArray
from .peers import Peers

Box = tuple[slice, ...]


class Sharded:
    """An array in parts on several GPUs, as programs compiled for several GPUs take and return it.

    `parts`: the parts in row-major order, arrays of CuPy; `devices`: the GPU of each; `boxes`: the
    indices of each, a slice for every axis; `chunks`: the sizes of the parts along every axis;
    `shape`, `dtype`, `ndim`, `size`, `nbytes`: of the whole.

    `np.asarray(x)` copies it to the host, `x.gather()` to the first of its GPUs.  Parts belong to
    the array: do not write to them.

    >>> import numpy as np, treadle as td
    >>> td.shard(np.arange(5), devices=2).boxes  # doctest: +SKIP
    ((slice(0, 3, None),), (slice(3, 5, None),))
    """

    __slots__ = ("__weakref__", "_peers", "chunks", "dtype", "owners", "parts", "shape")

    def __init__(
        self, peers: Peers, parts: Sequence[DeviceArray], owners: Sequence[int], chunks: Chunks,
        dtype: DType,
    ) -> None:  # fmt: skip
        """`owners`: the positions of the GPUs among `peers`, whose numbers are `ordinals`."""
        self._peers, self.parts, self.owners = peers, tuple(parts), tuple(owners)
        self.chunks, self.dtype = chunks, dtype
        self.shape = tuple(map(sum, chunks))

    @property
    def devices(self) -> tuple[int, ...]:
        return tuple(self.ordinals[k] for k in self.owners)

    @property
    def ordinals(self) -> Sequence[int]:
        return self._peers.ordinals

    @property
    def boxes(self) -> tuple[Box, ...]:
        return boxes(self.chunks)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def gather(self) -> DeviceArray:
        """All of it on the first of its GPUs, an array of CuPy."""
        peers = self._peers
        marks = []
        for owner in sorted(set(self.owners)):
            peers.enter(owner)
            with peers.on(owner):
                marks.append(peers.mark())
        with peers.on(self.owners[0]):
            for mark in marks:
                peers.follow(mark)
            made = peers.empty(self.shape, self.dtype)
            for box, part in zip(self.boxes, self.parts, strict=True):
                peers.copy(made[box], part)
            done = peers.mark()
        for owner in sorted(set(self.owners)):  # until then, the parts must not be reused
            with peers.on(owner):
                peers.follow(done)
        peers.leave(self.owners[0])
        return made

    def wait(self) -> Sharded:
        """Return the array when all of it is computed."""
        for owner in sorted(set(self.owners)):
            with self._peers.on(owner):
                self._peers.wait()
        return self

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> HostArray:
        if copy is False:
            raise ValueError("an array on GPUs can only be copied to the host.")
        found: HostArray = POOL.allocate(self.shape, self.dtype)
        for box, part, owner in zip(self.boxes, self.parts, self.owners, strict=True):
            self._peers.enter(owner)
            with self._peers.on(owner):
                self._peers.download(found[box] if box else found, part)
        return found if dtype is None else found.astype(dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        sizes = "×".join(map(str, self.shape)) or "one element"
        gpus = ", ".join(map(str, dict.fromkeys(self.devices)))
        return f"<Sharded {self.dtype} {sizes}, {len(self.parts)} parts on GPUs {gpus}>"


IN_PARTS.add(Sharded)


def boxes(chunks: Chunks) -> tuple[Box, ...]:
    """The indices of all chunks, in row-major order."""
    along = []
    for sizes in chunks:
        ends = edges(sizes)
        along.append([slice(a, b) for a, b in pairwise(ends)])
    return tuple(product(*along))


def shard(peers: Peers, value: DeviceArray) -> Sharded:
    """An array, of the host or of a GPU, cut along its first axis into a part for each GPU."""
    if isinstance(value, Sharded):
        return value
    shape = tuple(value.shape)
    chunks: Chunks = tuple((n,) for n in shape)
    if shape:
        chunks = (even(shape[0], len(peers.ordinals)), *chunks[1:])
    here = peers.where(value)
    mark = None
    for k in range(len(peers.ordinals)):
        peers.enter(k)
    if here is not None and here in peers.ordinals:
        with peers.on(peers.ordinals.index(here)):
            mark = peers.mark()
    parts = []
    read = []
    for k, box in enumerate(boxes(chunks)):
        with peers.on(k):
            if here is None:
                parts.append(peers.upload(np.asarray(value[box] if box else value)))
                continue
            if mark is not None:
                peers.follow(mark)
            parts.append(peers.empty(tuple(s.stop - s.start for s in box), value.dtype))
            peers.copy(parts[-1], value[box] if box else value)
            read.append(peers.mark())
    if here is not None and here in peers.ordinals:
        with peers.on(peers.ordinals.index(here)):  # until then, the memory must not be reused
            for done in read:
                peers.follow(done)
    for k in range(len(peers.ordinals)):
        peers.leave(k)
    return Sharded(peers, parts, range(len(parts)), chunks, np.dtype(value.dtype))
