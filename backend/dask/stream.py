"""Plans run from files, without dask: read ahead, compute, write behind.

Arrays are anything with a shape, a dtype and slices: `np.memmap`, zarr arrays, h5py data sets.
Arrays between the stages of a plan are temporary files.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from treadle.dsl.errors import MemoryLimitExceeded, ShapeError, StorageError
from treadle.dsl.graph import Leaf
from treadle.dsl.program import TracedProgram
from treadle.dsl.text import in_bytes

from ..blocks.buffers import Whole, assembled, kept
from ..blocks.domain import Chunks, edges
from ..blocks.engine import Engine, cut, default_chunks
from ..blocks.localise import Blocks
from ..blocks.memory import projected
from ..blocks.plan import Planner
from ..blocks.stages import Either, Gathered, Later, Plan, Repeat, Stage
from ..blocks.tasks import Task, count, tasks
from .arguments import Parts, check_shape, check_storage, given_chunks
from .files import File, opened
from .worker import answer_of, requests_of

#: Blocks in memory at a time: three input blocks (one is computed, the others are read ahead), and
#: two output blocks (one is computed, one is written).
BLOCKS_IN_MEMORY = 3
#: The smallest blocks to try, in bytes.  An array that would be cut into more than `MOST` of these
#: is cut into `MOST`, or into blocks of `SENSIBLE` bytes.
SMALLEST, MOST, SENSIBLE = 1 << 9, 10_000, 1 << 20
#: The least number of blocks of an array, unless they are smaller than `LARGE`: reading the first
#: block and writing the last do not overlap with anything.
OVERLAPPED, LARGE = 16, 64 << 20
#: If blocks are smaller than `SMALL` bytes and there are `MANY`, most time is spent between them;
#: the advice aims at larger blocks, or at most `FEW`.  Blocks are as large as they get with
#: `ENOUGH` times the bytes read.
SMALL, MANY, FEW, ENOUGH = 1 << 18, 500, 32, 64
#: Modes of memory maps whose pages are those of the file.
_SHARED = ("r", "r+", "w+")
#: Bytes per second of files, for the number of iterations of a loop in one pass.
RATE = 1e9
#: The most bytes of memory per element that is gathered from a file's chunks.
REQUESTED = 128

Report = Callable[[int, int], None]


def plan_for(
    program: TracedProgram,
    sources: Sequence[Any],
    params: Sequence[Any],
    memory: int,
    given: Sequence[Chunks | None] = (),
) -> Plan:
    """The plan with the largest blocks that fit in memory; else `MemoryLimitExceeded`.  `given`:
    the blocks of arrays that are fixed."""
    shapes = [tuple(int(n) for n in s.shape) for s in sources]
    sizes = [prod(n) * node.type.numpy.itemsize
             for n, node in zip(shapes, program.inputs, strict=True)]  # fmt: skip
    largest = max(sizes, default=0)
    least = max(SMALLEST, min(-(-largest // MOST), SENSIBLE))
    # Halve the blocks as long as results need memory too; a little is reserved for everything else.
    most = max(largest // OVERLAPPED, LARGE)
    size = max(min(memory // BLOCKS_IN_MEMORY * 15 // 16, most), SMALLEST)
    needed: list[int] = []
    given = given or [None] * len(shapes)
    free = all(one is None for one in given)
    if free and (half := memory // (2 * BLOCKS_IN_MEMORY)) < least and size < largest:
        raise _too_small(largest, max(half, 1), least, memory)

    def planned(allowed: int) -> Plan:
        chunks = [
            one or _aligned(default_chunks(shape, node.type.numpy.itemsize, size), source)
            for one, shape, node, source in zip(given, shapes, program.inputs, sources, strict=True)
        ]
        engine = Engine("files", "native", program.settings, allowed,
                        partial(default_chunks, size=size), overhead=size / RATE,
                        dynamic=True)  # fmt: skip
        return Planner(program, shapes, chunks, params, engine).plan

    while True:
        try:
            plan = planned(memory // BLOCKS_IN_MEMORY)
            if any(isinstance(part, Later) for part in plan.parts()) and size > least:
                # The blocks of the rest are not known yet, and may need more.
                size = max(size // 4, least)
                plan = planned(memory // BLOCKS_IN_MEMORY)
            return plan
        except MemoryLimitExceeded as error:
            if not needed:  # raises an error if no memory suffices for some part
                planned(sys.maxsize)
            # If a quarter of the size changes nothing, smaller blocks do not either.
            if size <= least or needed[-2:] == [error.needed] * 2:
                raise _too_large(error, memory) from None
            size = max(size // 2, least)
            needed.append(error.needed)


def _too_large(error: MemoryLimitExceeded, memory: int) -> MemoryLimitExceeded:
    """The error in terms of `td.stream`."""
    return MemoryLimitExceeded(
        f"{error.what} needs {in_bytes(error.needed)}, and of memory={in_bytes(memory)} a third "
        "is for what is computed: one block is read and one is written at the same time.",
        hint=f"Write memory={in_bytes(BLOCKS_IN_MEMORY * error.needed)!r} or more, if the machine "
        "has it; or call it for parts that do not depend on each other: rows, out[k : k + n] = f(x["
        "k : k + n]), but for a scan or a sort along the first axis columns, out[:, k : k + n] = "
        "f(x[:, k : k + n]).  The page on arrays larger than memory says what is computed in "
        "blocks.",
        where=error.where,
    )


def _too_small(largest: int, size: int, least: int, memory: int) -> MemoryLimitExceeded:
    """The error for blocks that take longer to plan than to compute."""
    enough = -(-2 * BLOCKS_IN_MEMORY * least // 1000)
    return MemoryLimitExceeded(
        f"memory={in_bytes(memory)} cuts an array of {in_bytes(largest)} into "
        f"{-(-largest // size):,} blocks of {in_bytes(size)}; blocks have {in_bytes(least)} or "
        "more.",
        hint=f"Write memory='{enough} kB' or more: a block is read, computed and written at the "
        "same time, each with its results.",
    )


def _aligned(chunks: Chunks, source: Any) -> Chunks:
    """Blocks aligned to a file's chunks along the first axis, if a block spans several."""
    own = _own_chunks(source)
    if not chunks or own is None:
        return chunks
    rows = chunks[0][0] // own[0] * own[0]
    return (cut(sum(chunks[0]), rows), *chunks[1:]) if rows else chunks


def _own_chunks(source: Any) -> tuple[int, ...] | None:
    own = getattr(source, "chunks", None)
    return own if isinstance(own, tuple) and own and isinstance(own[0], int) else None


@dataclass
class _Storage:
    """Where arrays are while a plan runs: the results and their targets, the progress reporter, and
    the threads that read and write.  `room`: bytes of memory that no block needs."""

    targets: dict[Leaf, Any]
    report: Report
    threads: tuple[Executor, Executor]
    room: int
    closing: ExitStack
    folder: str | None = None
    #: The bytes of arrays in memory, by their `id`.
    held: dict[int, int] = field(default_factory=dict)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], is_result: bool) -> Any:
        """Memory for an array; a temporary file if there is no room and it is not a result."""
        size = prod(shape) * dtype.itemsize
        if is_result or size <= self.room:
            made = np.empty(shape, dtype)
            if not is_result:
                self.held[id(made)] = size
                self.room -= size
            return made
        if self.folder is None:
            folder = tempfile.TemporaryDirectory(prefix="treadle-")
            self.folder = self.closing.enter_context(folder)
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
            _reserve(file.fileno(), 0, size, file.name)
            return np.memmap(file, dtype=dtype, mode="w+", shape=shape)

    def forget(self, array: Any) -> None:
        self.room += self.held.pop(id(array), 0)
        name = getattr(array, "filename", None)
        if isinstance(array, np.memmap) and name and str(Path(name).parent) == self.folder:
            Path(name).unlink()


def _blocks(plan: Plan) -> int:
    return sum(count(stage.blocks) for stage in plan.every())


def _mean_size(plan: Plan) -> int:
    """The mean bytes of a block: each stage traverses its largest array once."""
    sizes = {leaf: prod(map(sum, chunks)) * leaf.type.numpy.itemsize
             for leaf, chunks in plan.chunks.items()}  # fmt: skip
    gone_over = sum(
        max((sizes.get(leaf, 0) for leaf in (*stage.uses(), *stage.leaves)), default=0)
        for stage in plan.every()
    )
    return gone_over // max(_blocks(plan), 1)


def _are_small(plan: Plan, many: int) -> bool:
    """Whether most time is spent between blocks, given that there are at least `many` of them."""
    return _blocks(plan) >= many and _mean_size(plan) < SMALL


class Stream:
    """A call of a program on files."""

    def __init__(
        self,
        program: TracedProgram,
        sources: Sequence[Any],
        params: Sequence[Any],
        memory: int,
        chunks: Any = None,
    ) -> None:
        """`chunks`: as passed to `td.stream`."""
        self.sources = [s if isinstance(s, np.ndarray) else Parts(s) for s in sources]
        self.memory, self.asked = memory, chunks is not None
        given = given_chunks(chunks, sources)
        self._planned = partial(plan_for, program, sources, params, given=given)
        known = [(tuple(map(int, s.shape)), _own_chunks(s)) for s in sources]
        numbers = [(type(p), np.asarray(p).tobytes()) for p in params]
        self.plan = program.executable.planned_once(
            (tuple(known), tuple(numbers), memory, tuple(given)),
            lambda: plan_for(program, sources, params, memory, given),
        )
        self.total = _blocks(self.plan)

    def too_small(self) -> str | None:
        """The warning if blocks are so small that most time is spent between them."""
        if not _are_small(self.plan, MANY):
            return None
        cause, advice = "chunks=", "  Write larger ones, or leave chunks= out."
        if not self.asked:
            cause = f"memory={in_bytes(self.memory)}"
            read = sum(prod(s.shape) * np.dtype(s.dtype).itemsize for s in self.sources)
            enough, plan = self.memory, self.plan
            while (small := _are_small(plan, FEW)) and enough < ENOUGH * read:
                enough *= 2
                plan = self._planned(enough)
            advice = "" if small else f"  Write memory={in_bytes(enough)!r} or more."
        return (
            f"{cause} makes {self.total:,} blocks of {in_bytes(_mean_size(self.plan))}, and most "
            f"of the time is spent between them.{advice}"
        )

    def decoded_again(self) -> str | None:
        """The warning if a file's chunks, decoded whole, are decoded for several blocks each."""
        leaf = max(self.plan.given, key=partial(self._times, self.plan), default=None)
        if leaf is None or self.asked or (times := self._times(self.plan, leaf)) < 2:
            return None
        enough = self.memory
        while self._times(self._planned(enough), leaf) >= 2:
            enough *= 2
        return (
            f"memory={in_bytes(self.memory)} makes blocks of {self._rows(self.plan, leaf)} rows of "
            f"a file with chunks of {self._chunk(leaf)} rows, each of which is decoded {times} "
            f"times.  Write memory={in_bytes(enough)!r} or more."
        )

    def _times(self, plan: Plan, leaf: Leaf) -> int:
        """The number of blocks that read a chunk."""
        return -(-self._chunk(leaf) // self._rows(plan, leaf))

    def _rows(self, plan: Plan, leaf: Leaf) -> int:
        return max(*plan.chunks[leaf][0], 1) if plan.chunks[leaf] else 1

    def _chunk(self, leaf: Leaf) -> int:
        """The rows of a chunk of an argument's file; 0 for arrays without chunks."""
        source = self.sources[self.plan.given[leaf]]
        own = _own_chunks(source)
        return min(own[0], source.shape[0]) if own else 0

    def shape(self, leaf: Leaf) -> tuple[int, ...]:
        if leaf not in self.plan.chunks:
            raise ShapeError(
                "the extents of a result depend on what the arrays hold, so no out can have them.",
                hint="Leave out=None: the result is an array in memory.",
            )
        return tuple(sum(sizes) for sizes in self.plan.chunks[leaf])

    def run(self, outs: Sequence[Any | None], report: Report) -> list[Any]:
        """The results, written to `outs`; those that are None are arrays in memory."""
        stored: dict[Leaf, Any] = {leaf: self.sources[k] for leaf, k in self.plan.given.items()}
        stored.update(self.plan.constants)
        for leaf, out in zip(self.plan.roots, outs, strict=True):
            if out is not None:
                check_shape(out, self.shape(leaf), leaf.type.numpy)
        check_storage(outs, [s.array if isinstance(s, Parts) else s for s in self.sources])
        for out in outs:
            if isinstance(out, np.memmap):
                _reserve_mapped(out)
        targets = dict(zip(self.plan.roots, outs, strict=True))
        self.done = 0
        with ExitStack() as closing:
            threads = [closing.enter_context(ThreadPoolExecutor(1)) for _ in range(2)]
            storage = _Storage(targets, report, (threads[0], threads[1]), self._room(), closing)
            self._run(self.plan, stored, storage)
            found: list[Any] = []
            for leaf, out in zip(self.plan.roots, outs, strict=True):
                made = self._result(leaf, out, stored)
                found.append(made.copy() if any(made is other for other in found) else made)
        return found

    def _run(self, plan: Plan, stored: dict[Leaf, Any], storage: _Storage) -> None:
        """Compute a plan; adds arrays that are read later or outside it to those `stored`."""
        parts = list(plan.parts())
        last = {leaf: k for k, part in enumerate(parts) for leaf in part.uses()}
        own: set[Leaf] = set()
        for k, part in enumerate(parts):
            own.update(part.leaves)
            match part:
                case Stage():
                    for leaf in part.leaves:
                        out = storage.targets.get(leaf)
                        if out is None:
                            is_result = leaf in storage.targets
                            out = storage.array(self.shape(leaf), leaf.type.numpy, is_result)
                        stored[leaf] = out
                    allowed = self.memory // BLOCKS_IN_MEMORY
                    for _ in _computed(part, stored, self.plan, allowed, storage.threads):
                        self.done += 1
                        storage.report(self.done, max(self.total, self.done))
                case Repeat():
                    state = self._repeat(part, stored, storage)
                    stored.update(zip(part.leaves, state, strict=True))
                case Either():
                    side = 0 if stored[part.predicate][()] else 1
                    inner = dict(stored)
                    self._run(part.sides[side], inner, storage)
                    found = [inner[leaf] for leaf in part.results[side]]
                    stored.update(zip(part.leaves, found, strict=True))
                case Gathered():
                    (leaf,) = part.leaves
                    out = storage.array(self.shape(leaf), leaf.type.numpy, False)
                    chunks, room = self.plan.chunks[part.source], self.memory // BLOCKS_IN_MEMORY
                    _gather(part, stored[part.source], chunks, stored[part.positions], out, room)
                    stored[leaf] = out
                case Later():
                    try:
                        after = part.resume([stored[leaf] for leaf in part.needs])
                    except MemoryLimitExceeded as error:
                        raise _too_large(error, self.memory) from None
                    stored.update(after.constants)
                    self.total += sum(count(s.blocks) for s in after.every())
                    self._run(after, stored, storage)
            for leaf in [x for x in own & stored.keys() if last.get(x, -1) == k]:
                if leaf not in storage.targets and leaf not in plan.roots:
                    storage.forget(stored.pop(leaf))

    def _repeat(self, loop: Repeat, stored: dict[Leaf, Any], storage: _Storage) -> list[Any]:
        first = state = [stored[leaf] for leaf in loop.init]
        iteration = 0
        while True:
            inner = {**stored, **dict(zip(loop.state, state, strict=True))}
            if loop.predicate is None:
                if iteration == loop.count:
                    return state
            else:
                self._run(loop.test, inner, storage)
                if not inner[loop.predicate][()]:
                    return state
            if loop.index is not None:
                inner[loop.index] = np.asarray(iteration)
            self._run(loop.step, inner, storage)
            before, state = state, [inner[leaf] for leaf in loop.body]
            for array in before:
                if not any(array is other for other in (*state, *first)):
                    storage.forget(array)
            iteration += 1

    def _room(self) -> int:
        """The bytes of memory that blocks leave for arrays between stages."""
        small = self.memory // (16 * BLOCKS_IN_MEMORY)
        if any(isinstance(part, Later) for part in self.plan.parts()):
            return small
        needed = max((projected(s.blocks) for s in self.plan.every()), default=0)
        return max(self.memory - BLOCKS_IN_MEMORY * needed, small)

    def _result(self, leaf: Leaf, out: Any, stored: dict[Leaf, Any]) -> Any:
        found = stored[leaf]
        if out is None:
            shared = any(found is source for source in self.sources)
            copied = shared or isinstance(found, np.memmap)
            return np.array(found[...], leaf.type.numpy) if copied else found
        if found is not out:  # an argument, or a result given twice
            for at in _rows(self.shape(leaf)):
                out[at] = found[at]
        return out


def _reserve(file: int, offset: int, size: int, name: str) -> None:
    """Reserve disk space for a part of a file.  A disk that becomes full while mapped pages are
    written would kill the process."""
    if not hasattr(os, "posix_fallocate") or not size:
        return
    try:
        os.posix_fallocate(file, offset, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return  # a file system that cannot reserve
        raise StorageError(
            f"there is no room for the {in_bytes(size)} of {name}: {error.strerror}.",
            hint="Free some of the disk, write to another one, or have temporary files elsewhere "
            "(the variable TMPDIR).",
        ) from None


def _reserve_mapped(out: np.memmap[Any, Any]) -> None:
    """Reserve space for an array that maps a file, which may have holes."""
    if out.filename is None or out.mode not in ("r+", "w+"):
        return
    offset, size = int(out.offset), int(out.nbytes)
    try:
        file = os.open(out.filename, os.O_RDWR)
    except OSError:  # the file has been renamed or removed
        return
    try:
        if offset + size <= os.fstat(file).st_size:
            _reserve(file, offset, size, str(out.filename))
    finally:
        os.close(file)


def _rows(shape: tuple[int, ...]) -> list[Any]:
    return [slice(k, k + 1) for k in range(shape[0])] if shape else [()]


class _Here(Executor):
    """An executor without threads: reads before a block, and writes after it."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        made: Future[Any] = Future()
        made.set_result(call(*args, **named))
        return made


def _computed(stage: Stage, stored: dict[Leaf, Any], plan: Plan, allowed: int,
              threads: tuple[Executor, Executor]) -> Iterator[None]:  # fmt: skip
    """Compute the blocks of a stage, in order; yields after each."""
    blocks = stage.blocks
    program = blocks.program
    sources = [stored[b.leaf] for b in blocks.buffers]
    outs = [stored[leaf] for leaf in stage.leaves]
    tables = [None if b.windows is None else stored[b.windows] for b in blocks.buffers]
    single = [tuple((sum(sizes),) for sizes in plan.chunks[b.leaf]) for b in blocks.buffers]
    later = [k for k, b in enumerate(blocks.buffers) if b.leaf in stage.leaves]
    reading = _Reader(blocks, sources, tables, allowed, later)
    written = [opened(o, True) for o in outs]
    reader, writer = threads if count(blocks) > 1 else (_Here(), _Here())
    pending: deque[tuple[Task, Future[list[Any]]]] = deque()
    writing: deque[Future[None]] = deque()
    queue = tasks(blocks, single)
    if blocks.backwards:
        queue = reversed(list(queue))

    def read_ahead() -> None:
        while len(pending) < BLOCKS_IN_MEMORY - 1 and (task := next(queue, None)):
            pending.append((task, reader.submit(reading.read, task)))

    try:
        read_ahead()
        while pending:
            task, buffers = pending[0][0], pending.popleft()[1].result()
            read_ahead()
            if reading.later:  # its inputs from the previous block
                while writing:
                    writing.popleft().result()
                reading.read_later(task, buffers)
            found = program.execute(reading.arguments(task, buffers), task.block.numbers)
            reading.again(buffers)
            del buffers
            while writing:
                writing.popleft().result()
            writing.append(writer.submit(_write, blocks, task, found, outs, written, allowed))
            del found
            yield
        while writing:
            writing.popleft().result()
    finally:
        wait([future for _, future in pending])
        wait(writing)
        for file in (*reading.files, *written):
            if file is not None:
                file.close()


def _gather(part: Gathered, source: Any, chunks: Chunks, positions: Any, out: Any,
            allowed: int) -> None:  # fmt: skip
    """Write the gathered elements of an array in a file to `out`, a batch of positions at a time,
    grouped by the blocks of the file."""
    sizes = [chunks[a] for a in part.axes]
    extents, others = tuple(map(sum, sizes)), part.others()
    axes = (*part.axes, *others)
    ends = [edges(n) for n in chunks]
    grid = tuple(map(len, sizes))
    flat = positions.reshape(-1)
    rows = out.reshape(flat.size, *(sum(chunks[a]) for a in others))
    step = max(allowed // REQUESTED, 1)
    # Accounts for the answers, and for the pages they are read from and written to.
    some = max(allowed // (4 * prod(max(chunks[a]) for a in others) * out.dtype.itemsize), 1)
    for first in range(0, flat.size, step):
        asked = requests_of(flat[first : first + step], extents, sizes)
        for number, request in asked.items():
            own = np.unravel_index(number, grid)
            for beside in product(*(range(len(chunks[a])) for a in others)):
                at = dict(zip(axes, (*map(int, own), *beside), strict=True))
                box = [slice(ends[a][k], ends[a][k + 1]) for a, k in sorted(at.items())]
                block = np.asarray(source[tuple(box)], out.dtype)
                columns = tuple(box[a] for a in others)
                for k in range(0, len(request[0]), some):
                    where, *indices = (i[k : k + some] for i in (request[0], *request[1]))
                    found = answer_of((where, tuple(indices)), block, axes, out.dtype)
                    rows[(first + where, *columns)] = found
                    _release_pages(source)
                    _release_pages(out)


class _Reader:
    """Reads the buffers of blocks: as pages of files, or into recycled memory."""

    def __init__(self, blocks: Blocks, sources: Sequence[Any], tables: Sequence[Any],
                 allowed: int, later: Sequence[int]) -> None:  # fmt: skip
        """`tables`: the arrays with the windows of buffers, which may use `allowed` bytes; `later`:
        the buffers that read what earlier blocks compute."""
        self.blocks, self.sources, self.tables = blocks, sources, tables
        self.allowed, self.later = allowed, later
        self.files = [
            opened(source) if source.dtype == given.type.numpy else None
            for source, given in zip(sources, blocks.program.inputs, strict=True)
        ]
        #: Buffers that are no longer used.
        self.spare: list[list[Any]] = [[] for _ in sources]

    def read(self, task: Task) -> list[Any]:
        return [None if k in self.later else self._buffer(k, task)
                for k in range(len(self.sources))]  # fmt: skip

    def read_later(self, task: Task, buffers: list[Any]) -> None:
        """Read the buffers that `read` omitted."""
        for k in self.later:
            buffers[k] = self._buffer(k, task)

    def arguments(self, task: Task, buffers: Sequence[Any]) -> list[Any]:
        flat = task.block.flat or (None,) * len(buffers)
        return [
            buffer if part is None else buffer.reshape(-1)[part]
            for buffer, part in zip(buffers, flat, strict=True)
        ]

    def again(self, buffers: Sequence[Any]) -> None:
        """Recycle buffers that the program no longer uses (its results have their own memory)."""
        for spare, file, buffer in zip(self.spare, self.files, buffers, strict=True):
            if file is not None and not file.free(buffer):
                spare.append(buffer)

    def _buffer(self, k: int, task: Task) -> Any:
        source, table, file = self.sources[k], self.tables[k], self.files[k]
        cut, dtype = task.block.cuts[k], self.blocks.program.inputs[k].type.numpy
        spare, self.spare[k] = self.spare[k], []
        if table is not None:
            buffer = self._windows(source, table[task.position[0]].tolist(), dtype)
        else:
            found = None if file is None else file.read(cut, spare)
            if found is not None:
                return found
            if isinstance(cut, Whole):
                buffer = np.array(source[...], dtype, order="C")
            else:
                buffer = _taken(cut, source, len(task.chunks[k]), dtype, self.allowed)
        _release_pages(source)
        return buffer

    def _windows(self, source: Any, windows: Sequence[tuple[int, int]], dtype: Any) -> Any:
        """Ranges of a rank-1 array, concatenated."""
        size = sum(high - low for low, high in windows) * dtype.itemsize
        if size > self.allowed:
            raise MemoryLimitExceeded(
                f"{in_bytes(size)} go to one block of the result, and a block may use "
                f"{in_bytes(self.allowed)}.",
                hint="Give stream more memory=, or combine elements that have the same target.",
                where=self.blocks.node.where,
            )
        buffer = np.empty(size // dtype.itemsize, dtype)
        filled = 0
        for low, high in windows:
            buffer[filled : filled + high - low] = source[low:high]
            filled += high - low
            _release_pages(source)  # pages may be much larger than windows
        return buffer


def _taken(cut: Any, source: Any, pieces: int, dtype: Any, allowed: int) -> Any:
    """A copy of a part of an array; from a memory map, some rows at a time."""
    if not cut or len(cut[0]) != 1 or not isinstance(source, np.memmap):
        return np.array(assembled(cut, [source] * pieces, dtype), order="C")
    ((begin, end, first, _),) = cut[0]
    made = np.empty(tuple(along[-1][1] if along else 0 for along in cut), dtype)
    step = _rows_at_a_time(source, allowed)
    for k in range(begin, end, step):
        n = min(step, end - k)
        rows = ((0, n, first + k, first + k + n),)
        made[k : k + n] = assembled((rows, *cut[1:]), [source] * pieces, dtype)
        _release_pages(source)
    return made


def _rows_at_a_time(array: np.memmap[Any, Any], allowed: int) -> int:
    """The rows of a memory map that may be accessed before their pages are released: the system may
    map all pages of these rows, which may fill a quarter of what is allowed."""
    return max(allowed // 4 * int(array.shape[0]) // max(array.nbytes, 1), 1)


def _release_pages(array: Any) -> None:
    """Drop the mapped pages of a file, which count as this process's memory; the operating system
    keeps what was written to them."""
    if sys.platform == "linux" and isinstance(array, np.memmap) and array.mode in _SHARED:
        pages: mmap.mmap = array._mmap  # type: ignore[attr-defined]
        pages.madvise(mmap.MADV_DONTNEED)


def _write(blocks: Blocks, task: Task, found: Sequence[Any], outs: Sequence[Any],
           files: Sequence[File | None], allowed: int) -> None:  # fmt: skip
    """Store the results of a block; `files`: those that `outs` map."""
    arrays = kept(task.block, found)
    for array, result, out, file in zip(arrays, blocks.results, outs, files, strict=True):
        at = tuple(
            slice(None) if axis is None or axis.dimension is None
            else slice(int(axis.start.reshape(-1)[task.position[axis.dimension]]),
                       int(axis.stop.reshape(-1)[task.position[axis.dimension]]))
            for axis in result.axes
        )  # fmt: skip
        if file is None or not file.write(at, array):
            _store(array, out, at, allowed)


def _store(array: Any, out: Any, at: tuple[slice, ...], allowed: int) -> None:
    """Store a part of an array; to a memory map, some rows at a time."""
    if not at or not isinstance(out, np.memmap):
        out[at] = array
        return
    first, step = at[0].start or 0, _rows_at_a_time(out, allowed)
    for k in range(0, len(array), step):
        part = array[k : k + step]
        out[(slice(first + k, first + k + len(part)), *at[1:])] = part
        _release_pages(out)
