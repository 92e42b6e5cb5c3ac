"""The interface of a GPU: memory, copies, launches.  Nothing else accesses the hardware.

`CudaDevice` (graphs/launch.py) is the real one.  The tests have another one, over NumPy and an
interpreter of GPU kernels, so that whole programs of this backend run where there is no GPU.

Operations are values: running a program either hands them to the device one by one, or records
them on a tape (graphs/tape.py) that is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from treadle.dsl.errors import TreadleError
from treadle.dsl.records import dataclass
from treadle.skeletons.ir.kernel import Buffer, Kernel

from ...runtime import executor
from ...runtime.types import DeviceArray, DType, HostArray, Numbers
from ..codegen.text import passed


class Block:
    """An array on the device: its layout, and its memory once it has some.

    `array` is the device's own array (CuPy's; in the emulation whatever the device made), None
    while recording.  `strides` are in bytes; `dense`: row-major without gaps; `aligned`: begins at
    a multiple of 16 bytes.  kind: "input" (owned by the caller, read-only) or "work" (allocated by
    the program, dense and aligned).

    Blocks are equal if they are the same memory, in one shape or several (`reshaped`).
    """

    __slots__ = (
        "_array", "_kind", "_whole", "aligned", "dense", "dtype", "itemsize", "shape", "strides",
    )  # fmt: skip

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        array: DeviceArray = None,
        *,
        kind: str = "work",
        strides: tuple[int, ...] | None = None,
        dense: bool = True,
        aligned: bool = True,
    ) -> None:
        self.shape, self.dtype, self._array, self._kind = shape, dtype, array, kind
        #: The block whose memory this is, if another; it has no memory to itself.
        self._whole: Block | None = None
        self.itemsize = dtype.itemsize
        self.strides = strides if strides is not None else row_major(shape, dtype.itemsize)
        self.dense, self.aligned = dense, aligned

    def reshaped(self, shape: tuple[int, ...]) -> Block:
        """The same memory, which is dense, as an array of another shape with as many elements."""
        if shape == self.shape:
            return self
        made = Block(shape, self.dtype, aligned=self.aligned)
        assert self.dense and made.size == self.size, (self, shape)
        made._whole = self.whole
        return made

    @property
    def whole(self) -> Block:
        """The block that has the memory."""
        return self if self._whole is None else self._whole

    @property
    def array(self) -> DeviceArray:
        if self._whole is None:
            return self._array
        array = self._whole._array
        return None if array is None else array.reshape(self.shape)

    @array.setter
    def array(self, array: DeviceArray) -> None:
        assert self._whole is None
        self._array = array

    @property
    def kind(self) -> str:
        return self.whole._kind

    @kind.setter
    def kind(self, kind: str) -> None:
        self.whole._kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.whole is other.whole

    def __hash__(self) -> int:
        return id(self.whole)

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for n in self.shape:
            total *= n
        return total

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def reach(self) -> int:
        """Number of elements from the first to the last in memory, inclusive (0 if empty)."""
        if self.dense or not self.size:
            return self.size
        spans = zip(self.shape, self.strides, strict=True)
        return 1 + sum((n - 1) * abs(s) for n, s in spans) // self.itemsize

    def __repr__(self) -> str:
        return f"<{self.kind} {self.dtype}{list(self.shape)}>"


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a dense array."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


class Code:
    """A kernel and its compiled form (`function`: opaque to callers, None until compiled).

    `scalars`: those that a launch passes.  `idle`: a device's memory for arguments, used by one
    launch at a time.
    """

    __slots__ = (
        "errors",
        "fast_math",
        "function",
        "idle",
        "kernel",
        "pointers",
        "scalars",
        "written",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, fast_math: bool) -> None:
        self.kernel, self.fast_math = kernel, fast_math
        self.function: Any = None
        self.idle: list[Any] = []
        self.scalars = passed(kernel)
        #: The buffers that a launch needs addresses of, in order; and which may be written to.
        self.pointers: tuple[Buffer, ...] = tuple(
            b for b in kernel.buffers if b.role not in ("local", "shared")
        )
        self.written = tuple(b.role != "input" for b in self.pointers)
        self.errors = kernel.errors


@dataclass(frozen=True, eq=False)
class Launch:
    """`tasks` (≥ 1) blocks of a kernel.

    `blocks` are the arrays of `code.pointers`; `scalars` the values of `code.scalars`; `errors`
    an int64 array for kernels in which something can fail (`Kernel.errors`).  `varying` computes
    `scalars` anew from the program's parameters.
    """

    code: Code
    blocks: tuple[Block, ...]
    scalars: tuple[Any, ...]
    tasks: int
    errors: Block | None = None
    varying: Callable[[Sequence[Any]], tuple[Any, ...]] | None = None

    @property
    def writes(self) -> tuple[Block, ...]:
        return tuple(b for b, w in zip(self.blocks, self.code.written, strict=True) if w)

    @property
    def reads(self) -> tuple[Block, ...]:
        """The blocks it may read: all, because an output may contain data of another kernel."""
        return self.blocks


@dataclass(frozen=True, eq=False)
class Fill:
    """Set every element of a dense array to `value` (a rank-0 array of its type)."""

    block: Block
    value: HostArray

    @property
    def writes(self) -> tuple[Block, ...]:
        return (self.block,)

    @property
    def reads(self) -> tuple[Block, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class Copy:
    """`target[...] = source` on the device: equal shapes and types, `target` dense."""

    target: Block
    source: Block

    @property
    def writes(self) -> tuple[Block, ...]:
        return (self.target,)

    @property
    def reads(self) -> tuple[Block, ...]:
        return (self.source,)


class Addressed(Protocol):
    """A call of cuBLAS, given the addresses of (reads…, writes…)."""

    def __call__(self, addresses: Sequence[int]) -> None: ...

    def queue(self, handle: int, addresses: Sequence[int]) -> int:
        """Queues it on the stream of a handle of the library; the status."""


@dataclass(frozen=True, eq=False)
class Call:
    """A library call: `action(arrays of reads, arrays of writes)`, queued on the stream.

    It does not wait and keeps no address.  `addressed` does the same without creating arrays, and
    can be captured into a graph; None if the library has no such call.
    """

    action: Callable[[Numbers, Numbers], None]
    reads: tuple[Block, ...]
    writes: tuple[Block, ...]
    addressed: Addressed | None = None


@dataclass(frozen=True, eq=False)
class Repeat:
    """A loop over arrays whose iterations consist of fixed operations.

    The state is in `front` before iterations 0, 2, … and in `back` before iterations 1, 3, …:
    `even` reads `front` and writes `back`, `odd` the reverse.  `trips` is the trip count.  If it is
    None, the loop runs while its test holds: before an iteration `testing[0]` (on `front`) or
    `testing[1]` (on `back`) writes a rank-0 bool to `test[0]` or `test[1]`.  A loop with a test
    ends with its state in `front`; a counted loop ends with it where the next iteration would read
    it.
    `harmless`: an iteration may run even if the test has failed, because the addresses it accesses
    do not depend on data and it leaves the state that it starts from as it is.
    """

    trips: int | None
    front: tuple[Block, ...]
    back: tuple[Block, ...]
    even: tuple[Operation, ...]
    odd: tuple[Operation, ...]
    testing: tuple[tuple[Operation, ...], tuple[Operation, ...]] = ((), ())
    test: tuple[Block, Block] | None = None
    harmless: bool = False

    @property
    def inside(self) -> tuple[Operation, ...]:
        return (*self.testing[0], *self.even, *self.testing[1], *self.odd)

    @property
    def writes(self) -> tuple[Block, ...]:
        more = (*self.front, *self.back) if self.trips is None else ()
        return tuple(dict.fromkeys((*more, *(b for op in self.inside for b in op.writes))))

    @property
    def reads(self) -> tuple[Block, ...]:
        more = (*self.front, *self.back, *(self.test or ()))
        return tuple(dict.fromkeys((*more, *(b for op in self.inside for b in op.reads))))


Operation = Launch | Fill | Copy | Call | Repeat


class Transfer(Protocol):
    """A copy in progress."""

    def finish(self) -> None:
        """Wait until the copy is complete; raises its error if it failed."""


class Lanes(Protocol):
    """Copies between the host and the device, in both directions and concurrent with kernels.

    A copy begins once a mark has been reached (`Device.mark`).
    """

    def send(self, target: DeviceArray, source: HostArray, after: Any) -> Transfer:
        """Copy a host array to a dense device array."""

    def fetch(self, target: HostArray, source: DeviceArray, after: Any) -> Transfer:
        """Copy a dense device array to a dense host array."""


class Replay(Protocol):
    """The arrays of a tape's inputs and parameters → arrays of its results, and what its numbers
    are.  The results are new arrays, or `into`, if all of these are dense and aligned."""

    def __call__(
        self, arrays: Sequence[DeviceArray], params: Numbers,
        into: Sequence[DeviceArray] | None = None,
    ) -> list[DeviceArray]: ...  # fmt: skip


class Device(executor.Device, Protocol):
    """One GPU, as the calling thread sees it: work goes to its current stream, in order.

    Arrays are the device's own (`Block.array`).  Errors are treadle's: `DeviceOutOfMemory` with
    sizes, `CompilationError`, `BackendUnavailable` when the GPU is lost.
    """

    name: str
    arch: str
    multiprocessors: int
    shared: int
    """Bytes of shared memory that a block can ask for."""
    library: Any
    """The module with NumPy's functions for its arrays: CuPy (NumPy in the emulation)."""

    def __hash__(self) -> int: ...

    def is_current(self) -> bool:
        """Whether this is the calling thread's current device."""

    def compile(self, codes: Sequence[Code]) -> None:
        """Compile every code (set its `function`), several in parallel."""

    def empty(self, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
        """An uninitialised dense array, aligned to 256 bytes."""

    def adopt(self, value: Any) -> tuple[DeviceArray, Hashable] | None:
        """A device array that shares the memory and strides of `value`, ordered after pending
        operations of `value`'s owner; None if `value` is on the host.

        The second element is a key of its layout: the shape if the array is dense and aligned, else
        more.
        """

    def block(self, array: DeviceArray) -> Block:
        """An "input" block of an array that `adopt` returned."""

    def upload(self, value: HostArray) -> DeviceArray:
        """A dense copy of a host array (of any layout, in native byte order)."""

    def download(self, array: DeviceArray) -> HostArray:
        """A new host array with the contents, after all earlier work on the array is done."""

    def mark(self) -> DeviceArray:
        """An event that is reached when the work queued so far on the current stream is done."""

    def lanes(self) -> AbstractContextManager[Lanes]:
        """Lanes for copies; on exit no copy is in progress.  No other copies may be made while they
        are open."""

    def wait(self) -> None:
        """Return when the work of the current stream is done."""

    def run(self, operation: Operation) -> None:
        """Queue an operation whose blocks are allocated and whose codes are compiled."""

    def error(self, error: Exception) -> TreadleError | None:
        """The treadle error for an error of the device's libraries; None for any other error."""

    def current(self) -> Device:
        """The calling thread's current GPU."""

    def dispatcher(self, args: Sequence[Any], unrepeatable: type[Exception]) -> DeviceArray:
        """What repeats calls of a program with arguments like `args` at the least cost
        (`Dispatcher`), None where the device has nothing better than `prepare`."""

    def prepare(self, tape: Any) -> Replay:
        """What replays a tape."""
