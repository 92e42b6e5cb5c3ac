"""Loops of small kernels as one kernel: the threads of one block do all iterations.

A kernel of a CUDA graph begins only after the one that it depends on has ended everywhere, however
small both are; the threads of one block only pass a barrier.  So a loop whose kernels have few
threads is also printed as one kernel: each kernel of an iteration becomes a function that groups of
threads of the block call, and a barrier follows.  The functions have the statements of the kernels,
so results have the same bits.

Whether one multiprocessor is enough is measured: the first runs time both ways (`Choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from operator import getitem
from typing import Any, Protocol, cast

import numpy as np

from treadle.dsl.process.workers import later
from treadle.dsl.types import ScalarType, int64, uint8, uint16, uint32, uint64
from treadle.skeletons.ir.kernel import (
    Barrier,
    Fetch,
    Kernel,
    Publish,
    Special,
    WarpProduct,
    statements,
)

from ..codegen.scalars import type_name
from ..codegen.text import Function, print_functions, shared_bytes
from ..compile.nvrtc import Cubin, compile_text
from ..device.arguments import Arguments
from ..device.device import Code, Copy, Fill, Launch, Operation, Repeat
from ..device.driver import DriverDevice
from ..device.optional import cupy, launchKernel, runtime
from .queued import CopyStep, FillStep, LaunchStep, Step, capturing
from .tape import flattened

#: Threads of the block, at most, and at least.
MOST_THREADS, LEAST_THREADS = 1024, 128
#: Blocks of a kernel that a group of threads computes one after the other, at most, and on average;
#: bytes of an array that is filled or copied, at most; different kernels in a loop, at most.
ROUNDS, MEAN_ROUNDS, BYTES, KERNELS = 16, 4, 1 << 16, 16
#: Barriers of the groups: the hardware has sixteen, of which `__syncthreads` takes one.
BARRIERS = 15
#: Bytes of the parameters of a kernel.
PARAMETERS = 4000
#: A loop that takes fewer milliseconds is not compiled again; one of more is launched in pieces, as
#: a GPU that also draws a screen ends kernels that take long.
WORTH, LONGEST = 0.5, 100.0

ENTRY = "iterations_"
_WORDS: dict[int, tuple[ScalarType, int]] = {
    1: (uint8, 1), 2: (uint16, 1), 4: (uint32, 1), 8: (uint64, 1), 16: (uint64, 2),
}  # fmt: skip
_BUILT_IN = {
    int64: "long long", uint8: "unsigned char", uint16: "unsigned short", uint32: "unsigned int",
    uint64: "unsigned long long",
}  # fmt: skip
_HELPERS = """
template <class T>
static __device__ __forceinline__ void fill_(void* target, long long count, T first, T second) {
  T* const to = static_cast<T*>(target);
  for (long long i = threadIdx.x; i < count; i += blockDim.x) to[i] = i % 2 ? second : first;
}

template <class T>
static __device__ __forceinline__ void copy_(void* target, const void* source, long long count) {
  T* const to = static_cast<T*>(target);
  const T* const from = static_cast<const T*>(source);
  for (long long i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

"""
#: Statements that concern several blocks of a kernel at once, or a multiprocessor.
_BETWEEN_BLOCKS = (Fetch, Publish, Special, WarpProduct)


class Loop(Step, Protocol):
    """The step of a loop (`launch.RepeatStep`): the steps of its operations, the positions of the
    results of its test, and what brings its state back to where it was."""

    op: Repeat
    even: list[Step]
    odd: list[Step]
    testing: tuple[list[Step], list[Step]]
    test: tuple[int, int] | None
    back: list[CopyStep]
    addresses: list[int]


def _threads(op: Repeat) -> int:
    """The threads of the block: as many as the largest kernel has, if these are few."""
    launches = [o for o in flattened(op.inside) if isinstance(o, Launch)]
    wanted = max((o.tasks * o.code.kernel.threads for o in launches), default=LEAST_THREADS)
    wanted = max(wanted, *(o.code.kernel.threads for o in launches), LEAST_THREADS)
    return min(1 << (wanted - 1).bit_length(), MOST_THREADS)


def _groups(kernel: Kernel, threads: int, room: int) -> int:
    """The groups of threads that compute blocks of a kernel side by side."""
    groups = threads // kernel.threads
    if _meets(kernel):
        groups = min(groups, BARRIERS)
    if used := shared_bytes(kernel):
        groups = min(groups, room // used)
    return groups


def _meets(kernel: Kernel) -> bool:
    """Whether the threads of a block wait for each other."""
    return bool(shared_bytes(kernel)) or any(
        isinstance(s, Barrier) for s in statements(kernel.body)
    )


def is_suited(op: Repeat, room: int) -> bool:
    """Whether one block of threads, with `room` bytes of shared memory, can do a loop."""
    codes: dict[Code, None] = {}
    rounds: list[int] = []
    threads = _threads(op)
    for inner in flattened(op.inside):
        match inner:
            case Launch(code=code):
                kernel = code.kernel
                if kernel.thread is None or kernel.threads % 32 or kernel.policies or code.errors:
                    return False
                if any(isinstance(s, _BETWEEN_BLOCKS) for s in statements(kernel.body)):
                    return False
                rounds.append(-(-inner.tasks // max(_groups(kernel, threads, room), 1)))
                codes[code] = None
            case Fill() | Copy():
                block = inner.writes[0]
                dense = all(b.dense for b in (block, *inner.reads))
                if not dense or block.nbytes > BYTES or block.itemsize not in _WORDS:
                    return False
            case Repeat():
                if inner.trips is None:
                    return False
            case _:
                return False
    if not rounds or max(rounds) > ROUNDS or sum(rounds) > MEAN_ROUNDS * len(rounds):
        return False
    return len(codes) <= KERNELS and len({c.fast_math for c in codes}) == 1


class Text:
    """The text of a loop, and what its kernel is given: the addresses with these positions in the
    step's list, then scalars of these types, each the current value of its source."""

    def __init__(self, step: Loop, room: int) -> None:
        launches = [o for o in flattened(step.op.inside) if isinstance(o, Launch)]
        codes = list(dict.fromkeys(o.code for o in launches))
        functions, complete = print_functions([c.kernel for c in codes], codes[0].fast_math)
        self._functions: dict[Code, Function] = dict(zip(codes, functions, strict=True))
        self.threads, self._room = _threads(step.op), room
        self.shared = max(
            shared_bytes(c.kernel) * _groups(c.kernel, self.threads, room) for c in codes
        )
        self.positions: dict[int, None] = {}
        self.types: list[ScalarType] = []
        self.sources: list[Callable[[], Any]] = []
        #: The first of the iterations to do, and the end of these.
        self.span = [0, step.op.trips or 0]
        #: Whether scalars depend on the program's parameters.
        self.varies = False
        self._lines: list[str] = []
        self._depth = 0
        self._loop(step)
        given = [f"unsigned char* const b{k}" for k in self.positions]
        given += [f"const {_BUILT_IN.get(t, type_name(t))} s{k}" for k, t in enumerate(self.types)]
        head = [
            f'extern "C" __global__ void __launch_bounds__({self.threads}) {ENTRY}(',
            ",\n".join(f"    {g}" for g in given) + ") {",
            "  extern __shared__ __align__(16) unsigned char shared_memory[];",
        ]
        self.text = complete("\n".join([_HELPERS, *head, *self._lines, "}", ""]))

    @property
    def parameter_bytes(self) -> int:
        return 8 * len(self.positions) + sum(max(t.bytes, 8) for t in self.types)

    def _line(self, text: str) -> None:
        self._lines.append("  " * (1 + self._depth) + text)

    def _scalar(self, t: ScalarType, source: Callable[[], Any]) -> str:
        self.types.append(t)
        self.sources.append(source)
        return f"s{len(self.types) - 1}"

    def _scalar_of(self, odd: str, t: ScalarType, even: LaunchStep, other: LaunchStep,
                   value: Callable[[LaunchStep], Any]) -> str:  # fmt: skip
        """A number of the launch of an even and of that of an odd iteration."""
        first = self._scalar(t, lambda: value(even))
        if even.varying is other.varying is None and value(even) == value(other):
            return first
        return f"({odd} ? {self._scalar(t, lambda: value(other))} : {first})"

    def _array(self, odd: str, positions: tuple[int, int]) -> str:
        self.positions |= dict.fromkeys(positions)
        one, other = (f"b{k}" for k in positions)
        return one if one == other else f"({odd} ? {other} : {one})"

    def _loop(self, step: Loop) -> None:
        n, trips = self._depth, step.op.trips
        iteration, odd = f"iteration{n}", f"odd{n}"
        first = "0"
        if trips is not None and not n:
            first, until = (self._scalar(int64, partial(getitem, self.span, k)) for k in (0, 1))
        elif trips is not None:
            until = self._scalar(int64, lambda: trips)
        self._line(f"long long {iteration} = {first};")
        if trips is None:
            self._line(f"for (;; ++{iteration}) {{")
        else:
            self._line(f"for (; {iteration} < {until}; ++{iteration}) {{")
        self._depth += 1
        self._line(f"const bool {odd} = {iteration} & 1;")
        if step.test is not None:
            self._both(odd, step.op.testing, step.testing)
            holds = self._array(odd, step.test)
            self._line(f"const bool holds = *reinterpret_cast<const volatile bool*>({holds});")
            self._line("__syncthreads();")  # what follows may write to it
            self._line("if (!holds) break;")
        self._both(odd, (step.op.even, step.op.odd), (step.even, step.odd))
        self._depth -= 1
        self._line("}")
        if trips is None and step.back:
            self._line(f"if ({iteration} & 1) {{")
            self._depth += 1
            for copy in step.back:
                self._copy(odd, copy, copy)
            self._depth -= 1
            self._line("}")

    def _both(self, odd: str, operations: tuple[Sequence[Operation], Sequence[Operation]],
              steps: tuple[Sequence[Step], Sequence[Step]]) -> None:  # fmt: skip
        """The operations of an even and of an odd iteration: one text, if only arrays differ."""
        if _are_alike(*operations):
            for op, *both in zip(operations[0], *steps, strict=True):
                self._operation(odd, op, *both)
            return
        for k, condition in enumerate((f"!{odd}", odd)):
            self._line(f"if ({condition}) {{")
            self._depth += 1
            for op, step in zip(operations[k], steps[k], strict=True):
                self._operation(odd, op, step, step)
            self._depth -= 1
            self._line("}")

    def _operation(self, odd: str, op: Operation, even: Step, other: Step) -> None:
        match op:
            case Launch():
                self._launch(odd, op, cast(LaunchStep, even), cast(LaunchStep, other))
            case Fill():
                self._fill(odd, op, cast(FillStep, even), cast(FillStep, other))
            case Copy():
                self._copy(odd, cast(CopyStep, even), cast(CopyStep, other))
            case _:
                self._line("{")
                self._loop(cast(Loop, even))
                self._line("}")

    def _launch(self, odd: str, op: Launch, even: LaunchStep, other: LaunchStep) -> None:
        kernel, function = op.code.kernel, self._functions[op.code]
        size, used = kernel.threads, shared_bytes(kernel)
        groups, meets = _groups(kernel, self.threads, self._room), _meets(kernel)
        self.varies |= not (even.varying is other.varying is None)
        tasks = self._scalar_of(odd, int64, even, other, lambda step: step.tasks)
        arguments = [
            "block", f"threadIdx.x % {size}", "group + 1", f"shared_memory + {used} * group",
        ]  # fmt: skip
        pairs = zip(function.pointers, even.indices, other.indices, strict=True)
        arguments += [f"reinterpret_cast<{t}*>({self._array(odd, (e, o))})" for t, e, o in pairs]
        arguments += [
            self._scalar_of(odd, v.type, even, other, partial(_scalar_at, k))
            for k, v in enumerate(op.code.scalars)
        ]
        self._line("{")
        self._depth += 1
        self._line(f"const int group = threadIdx.x / {size};")
        some = f"if (group < {groups}) " if groups * size < self.threads else ""
        self._line(f"{some}for (int block = group; block < {tasks}; block += {groups}) {{")
        self._line(f"  {function.name}({', '.join(arguments)});")
        if meets:
            self._line(f'  asm volatile("bar.sync %0, {size};" : : "r"(group + 1) : "memory");')
        self._line("}")
        self._depth -= 1
        self._line("}")
        self._line("__syncthreads();")

    def _fill(self, odd: str, op: Fill, even: FillStep, other: FillStep) -> None:
        word, count = _WORDS[op.block.itemsize]
        bits = np.asarray(op.value).reshape(1).view(word.numpy)
        target = self._array(odd, (even.index, other.index))
        first = self._scalar(word, lambda: bits[0])
        second = self._scalar(word, lambda: bits[-1])
        size = self._scalar(int64, lambda: op.block.size * count)
        self._line(f"fill_<{_BUILT_IN[word]}>({target}, {size}, {first}, {second});")
        self._line("__syncthreads();")

    def _copy(self, odd: str, even: CopyStep, other: CopyStep) -> None:
        word, count = _WORDS[even.op.target.itemsize]
        pairs = zip(even.indices, other.indices, strict=True)
        target, source = (self._array(odd, pair) for pair in pairs)
        size = self._scalar(int64, lambda: even.op.target.size * count)
        self._line(f"copy_<{_BUILT_IN[word]}>({target}, {source}, {size});")
        self._line("__syncthreads();")


def _scalar_at(k: int, step: LaunchStep) -> Any:
    return step.scalars[k]


def _are_alike(even: Sequence[Operation], odd: Sequence[Operation]) -> bool:
    """Whether two lists of operations differ in the arrays only."""

    def alike(a: Operation, b: Operation) -> bool:
        match a, b:
            case Launch(), Launch():
                return a.code is b.code
            case Fill(), Fill():
                kind = a.block.size == b.block.size and a.block.dtype == b.block.dtype
                return kind and a.value.tobytes() == b.value.tobytes()
            case Copy(), Copy():
                return a.target.size == b.target.size and a.target.dtype == b.target.dtype
        return False

    return len(even) == len(odd) and all(map(alike, even, odd))


class OneBlock:
    """The kernel of a loop."""

    def __init__(self, device: DriverDevice, step: Loop, text: Text, cubin: Cubin, pieces: int
                 ) -> None:  # fmt: skip
        """A counted loop is launched in `pieces`."""
        self.loaded = device.load(cubin, text.threads)
        self.arguments = Arguments(len(text.positions), text.types)
        self._text, self._positions = text, tuple(text.positions)
        trips = step.op.trips or 0
        ends = [trips * k // pieces for k in range(pieces + 1)]
        self._spans = list(pairwise(ends)) if step.op.trips is not None else [(0, 0)]
        self._set = False

    def run(self, addresses: Sequence[int], stream: int) -> None:
        text, loaded, arguments = self._text, self.loaded, self.arguments
        arguments.point([addresses[k] for k in self._positions])
        for text.span[:] in self._spans:
            if text.varies or not self._set or len(self._spans) > 1:
                arguments.scalars([source() for source in text.sources])
                self._set = True
            launchKernel(loaded.handle, 1, 1, 1, loaded.threads, 1, 1, text.shared, stream,
                         arguments.address, 0)  # fmt: skip


class _Compilation:
    """A loop that another thread compiles for one block."""

    def __init__(self, device: DriverDevice, text: Text, pieces: int) -> None:
        self._device, self._text, self._pieces = device, text, pieces
        self._cubin: Cubin | None = None
        self.ended = False

    def __call__(self) -> None:
        text = self._text
        try:
            self._cubin = compile_text(text.text, ENTRY, self._device.arch,
                                       dynamic_shared_bytes=text.shared)  # fmt: skip
        finally:
            self.ended = True

    def loaded(self, step: Loop) -> OneBlock | None:
        """The kernel; None if it could not be compiled."""
        if self._cubin is None:
            return None
        return OneBlock(self._device, step, self._text, self._cubin, self._pieces)


class Choice:
    """Which way runs a loop.  The first runs are those of its kernels; if these take long, another
    thread compiles it for one block, some are by that, and the faster way is that of all later
    ones."""

    def __init__(self, device: DriverDevice) -> None:
        self._device = device
        self._runs = 0
        self._timed: list[tuple[Any, Any]] = []
        self._compilation: _Compilation | None = None
        self._block: OneBlock | None = None
        #: Whether one block is the way; None while that is unknown.
        self.decided: bool | None = None

    @staticmethod
    def of(device: DriverDevice, op: Repeat) -> Choice | None:
        """None if one block cannot do the loop."""
        return Choice(device) if is_suited(op, device.shared) else None

    def run(self, step: Loop, stream: int, by_kernels: Callable[[], None]) -> None:
        if self.decided is None and not capturing.here:
            self._try(step, stream, by_kernels)
        elif self.decided and self._block is not None:
            self._block.run(step.addresses, stream)
        else:
            by_kernels()

    def _try(self, step: Loop, stream: int, by_kernels: Callable[[], None]) -> None:
        """One of the runs that decide: two by kernels (whose graph is then known), the same timed,
        others until one block's code is compiled, one by that (it is then loaded), the same timed.
        """
        run, self._runs = self._runs, self._runs + 1
        if run < 3:
            return self._time(by_kernels, stream, run == 2)
        if len(self._timed) == 2:
            self._decide()
            return self.run(step, stream, by_kernels)
        if self._block is not None:
            block = self._block
            return self._time(lambda: block.run(step.addresses, stream), stream, True)
        if self._compilation is None:
            self._begin(step)
        elif self._compilation.ended:
            self._block = self._compilation.loaded(step)
            if self._block is not None:
                return self._block.run(step.addresses, stream)
            self.decided = False
        return by_kernels()

    def _time(self, work: Callable[[], None], stream: int, timed: bool) -> None:
        if not timed:
            return work()
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        runtime.eventRecord(began.ptr, stream)
        work()
        runtime.eventRecord(ended.ptr, stream)
        self._timed.append((began, ended))

    def _milliseconds(self, k: int) -> float:
        began, ended = self._timed[k]
        ended.synchronize()
        return float(cupy.cuda.get_elapsed_time(began, ended))

    def _begin(self, step: Loop) -> None:
        """Compile the loop for one block, if it takes long enough."""
        taken = self._milliseconds(0)
        text = Text(step, self._device.shared) if taken >= WORTH else None
        if text is None or text.parameter_bytes > PARAMETERS:
            self.decided = False
            return
        self._compilation = _Compilation(self._device, text, 1 + int(taken // LONGEST))
        later(self._compilation, 0.0)

    def _decide(self) -> None:
        self.decided = self._milliseconds(1) < self._milliseconds(0)
        self._timed.clear()
        if not self.decided:
            self._block = None
