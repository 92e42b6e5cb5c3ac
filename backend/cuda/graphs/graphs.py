"""CUDA graphs: a program's kernels ordered by data dependencies, iterations of a loop, and loops
with a test on the device (conditional nodes)."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

from cuda.bindings import driver as cu

from treadle.dsl.types import int64

from ...runtime.types import Handle
from ..compile.nvrtc import compile_text
from ..device.arguments import Arguments
from ..device.device import Block, Operation, Repeat
from ..device.driver import DriverDevice, Loaded, Mailbox, patterns
from ..device.optional import DriverError, checked
from .captured import Capture, destroyed
from .queued import AddressStep, CopyStep, FillStep, LaunchStep, Step
from .tape import dependencies, flattened, rounds_of

if TYPE_CHECKING:
    from .launch import RepeatStep

#: The approximate number of nodes of a graph of loop iterations.
NODES = 128
_CONDITIONAL = 12040  # the first CUDA release that has conditional nodes

#: The kernels that a loop with a test on the device needs in addition to its own.
_LOOPS = """\
extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle handle, unsigned int value);

// A loop over arrays goes on as long as its tests hold.
extern "C" __global__ void go_on(cudaGraphConditionalHandle loop, const bool* a, const bool* b) {
    cudaGraphSetConditional(loop, *a && *b ? 1u : 0u);
}

// target = source, unless `test` holds: the state that a loop left on the other side.
extern "C" __global__ void unless(const bool* test, uint4* target, const uint4* source,
                                  long long size) {
    if (test != nullptr && *test) return;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < size; i += step) {
        target[i] = source[i];
    }
}
"""
_COPY_THREADS, _COPY_BLOCKS = 256, 2048


class ExecutableGraph:
    """An instantiated graph; launches of the same graph are serialised.  `held` lives as long, the
    graph need not."""

    __slots__ = ("__weakref__", "_handle", "_held")

    def __init__(self, graph: Handle, held: Capture | None = None, priorities: bool = False
                 ) -> None:  # fmt: skip
        """`priorities`: kernels have those of the streams from which they were captured."""
        self._held = held
        flags = cu.CUgraphInstantiate_flags.CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
        flag = flags.value if priorities else 0
        self._handle = checked(cu.cuGraphInstantiate(graph, flag), "making a CUDA graph")
        weakref.finalize(self, cu.cuGraphExecDestroy, self._handle).atexit = False

    def launch(self, stream: int) -> None:
        status = cu.cuGraphLaunch(self._handle, stream)
        if status[0]:
            checked(status, "launching a CUDA graph")


class Builder:
    """Adds operations to a graph, each after its dependencies.

    `shared`: blocks whose memory overlaps (`tape.sharing`); `capture` adds calls of cuBLAS."""

    def __init__(
        self, graph: Handle, shared: Mapping[Block, Sequence[Block]] | None = None,
        capture: Capture | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.shared, self.capture = graph, shared or {}, capture
        self._called: list[Handle] = []

    def kernel(self, after: Sequence[Handle], handle: int, tasks: int, threads: int, shared: int,
               arguments: int) -> Handle:  # fmt: skip
        """A kernel node; the arguments are copied."""
        node = cu.CUDA_KERNEL_NODE_PARAMS()
        node.func = cu.CUfunction(handle)
        node.gridDimX, node.gridDimY, node.gridDimZ = tasks, 1, 1
        node.blockDimX, node.blockDimY, node.blockDimZ = threads, 1, 1
        node.sharedMemBytes, node.kernelParams = shared, arguments
        return checked(cu.cuGraphAddKernelNode(self.graph, list(after), len(after), node),
                       "a kernel of a CUDA graph")  # fmt: skip

    def step(self, step: Step, after: Sequence[Handle]) -> list[Handle]:
        """The nodes of a bound step."""
        if isinstance(step, LaunchStep):
            return [self.kernel(after, step.handle, step.tasks, step.threads, step.shared,
                                step.arguments.address)]  # fmt: skip
        if isinstance(step, FillStep):
            return [
                self.fill(after, step.address + offset, words, pitch, word, size)
                for words, pitch, offset, word, size in patterns(step.value, step.count)
            ] or list(after)
        if isinstance(step, AddressStep):
            assert self.capture is not None
            after = _unique([*after, *self._called])  # they share a workspace
            self._called = [self.capture.add(self.graph, after, step.queue)]
            return self._called
        assert isinstance(step, CopyStep), step
        if not step.nbytes:  # CUDA refuses such a node
            return list(after)
        return [self.copy(after, step.target, step.source, step.nbytes)]

    def fill(self, after: Sequence[Handle], address: int, words: int, pitch: int, word: int,
             size: int) -> Handle:  # fmt: skip
        """A memset node; see `driver.patterns`."""
        node = cu.CUDA_MEMSET_NODE_PARAMS()
        node.dst, node.value, node.elementSize = address, word, size
        node.pitch = pitch or words * size
        node.width, node.height = (1, words) if pitch else (words, 1)
        return checked(
            cu.cuGraphAddMemsetNode(self.graph, list(after), len(after), node, _context()),
            "a fill of a CUDA graph",
        )

    def copy(self, after: Sequence[Handle], target: int, source: int, nbytes: int,
             to_host: bool = False) -> Handle:  # fmt: skip
        """A copy within the device, or to host memory."""
        node = cu.CUDA_MEMCPY3D()
        device = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
        node.srcMemoryType, node.srcDevice = device, source
        if to_host:
            node.dstMemoryType, node.dstHost = cu.CUmemorytype.CU_MEMORYTYPE_HOST, target
        else:
            node.dstMemoryType, node.dstDevice = device, target
        node.WidthInBytes, node.Height, node.Depth = nbytes, 1, 1
        return checked(
            cu.cuGraphAddMemcpyNode(self.graph, list(after), len(after), node, _context()),
            "a copy of a CUDA graph",
        )

    def all(
        self,
        operations: Sequence[Operation],
        steps: Sequence[Step],
        first: Sequence[Handle] = (),
        made: dict[Block, list[Handle]] | None = None,
    ) -> list[Handle]:
        """Add every step after its dependencies; returns the nodes without successors.

        All added nodes run after the nodes `first`.  `made`, if given, is updated with the nodes
        that last wrote each block.
        """
        nodes: list[list[Handle]] = []
        followed: set[int] = set()
        for step, needs in zip(steps, dependencies(operations, self.shared), strict=True):
            after = [n for k in needs for n in nodes[k]]
            followed.update(needs)
            nodes.append(self.step(step, _unique(after) or list(first)))
        if made is not None:
            for op, found in zip(operations, nodes, strict=True):
                made.update((b, found) for b in op.writes)
        last = [n for k, found in enumerate(nodes) if k not in followed for n in found]
        return _unique(last) or list(first)


def _unique(nodes: Sequence[Handle]) -> list[Handle]:
    return list({int(n): n for n in nodes}.values())


def _context() -> Handle:
    return checked(cu.cuCtxGetCurrent(), "the context")


#: The mailbox that receives scalars, and their addresses and blocks.
Post = tuple[Mailbox, Sequence[int], Sequence[Block]]


def program_graph(
    operations: Sequence[Operation], steps: Sequence[Step], post: Post | None = None,
    shared: Mapping[Block, Sequence[Block]] | None = None, capture: Capture | None = None,
) -> ExecutableGraph:  # fmt: skip
    """The graph of a complete program, whose steps are bound.  With `post`, it also copies scalars
    to the mailbox; no other node waits for these copies.  `shared`, `capture`: see `Builder`."""
    with _new_graph() as graph:
        builder = Builder(graph, shared, capture)
        made: dict[Block, list[Handle]] = {}
        builder.all(operations, steps, made=made)
        if post is not None:
            box, addresses, blocks = post
            sent = [
                builder.copy(made[b], word, address, b.nbytes, to_host=True)
                for word, address, b in zip(box.words, addresses, blocks, strict=True)
            ]
            event = cu.CUevent(box.event.ptr)
            checked(cu.cuGraphAddEventRecordNode(graph, sent, len(sent), event),
                    "an event of a CUDA graph")  # fmt: skip
        return ExecutableGraph(graph, capture)


def _new_graph() -> AbstractContextManager[Handle]:
    return destroyed(checked(cu.cuGraphCreate(0), "making a CUDA graph"))


def chunk_of(op: Repeat) -> int:
    """An even number of iterations that form a graph of about `NODES` nodes."""
    size = sum(1 for _ in flattened(op.inside))
    return 2 * max(NODES // max(size, 1), 1)


def iterations_graph(step: RepeatStep, count: int, capture: Capture | None) -> ExecutableGraph:
    """The graph of an even number of iterations."""
    operations = [*step.op.even, *step.op.odd] * (count // 2)
    with _new_graph() as graph:
        builder = Builder(graph, step.shared(), capture)
        builder.all(operations, [*step.even, *step.odd] * (count // 2))
        return ExecutableGraph(graph, capture)


# --- loops with a test on the device -------------------------------------------------------------


@lru_cache(maxsize=64)
def conditional(device: DriverDevice) -> str | None:
    """Why this driver does not support conditional nodes; None if it does."""
    version = checked(cu.cuDriverGetVersion(), "the driver's version")
    if version < _CONDITIONAL or cu.CUDA_VERSION < _CONDITIONAL:
        return "the driver is older than CUDA 12.4"
    try:
        go_on(device)
    except DriverError as error:
        return str(error)
    return None


@lru_cache(maxsize=64)
def go_on(device: DriverDevice) -> tuple[Loaded, Loaded]:
    """The kernel that sets the condition of a conditional node, and the kernel that copies."""
    go = device.load(compile_text(_LOOPS, "go_on", device.arch), 1)
    return go, device.load(compile_text(_LOOPS, "unless", device.arch), _COPY_THREADS)


def while_graph(step: RepeatStep) -> ExecutableGraph:
    """Evaluate the test; while it holds, run rounds of iterations (`tape.rounds_of`)."""
    with _new_graph() as graph:
        _add_loop(graph, step)
        return ExecutableGraph(graph)


def _add_loop(graph: Handle, step: RepeatStep) -> None:
    op = step.op
    assert step.test is not None and op.test is not None
    go, unless = go_on(step.device)
    tests = [step.addresses[k] for k in step.test]
    flag = cu.CU_GRAPH_COND_ASSIGN_DEFAULT
    handle = checked(cu.cuGraphConditionalHandleCreate(graph, _context(), 0, flag),
                     "a loop of a CUDA graph")  # fmt: skip

    def ask(builder: Builder, after: Sequence[Handle], *addresses: int) -> Handle:
        arguments = Arguments(3, [])
        arguments.point([int(handle), *addresses])
        return builder.kernel(after, go.handle, 1, 1, 0, arguments.address)

    def back(builder: Builder, after: Sequence[Handle], test: int) -> list[Handle]:
        nodes = []
        for copy in step.back:
            arguments = Arguments(3, [int64])
            arguments.point([test, copy.target, copy.source])
            words = -(-copy.nbytes // 16)
            arguments.scalars([words])
            blocks = min(max(-(-words // _COPY_THREADS), 1), _COPY_BLOCKS)
            nodes.append(builder.kernel(after, unless.handle, blocks, _COPY_THREADS, 0,
                                        arguments.address))  # fmt: skip
        return nodes

    outside = Builder(graph, step.shared())
    started = outside.all(op.testing[0], step.testing[0])
    # A loop without iterations leaves its state in `front`, as if the second test held.
    held = outside.fill([], tests[1], 1, 0, 1, 1)
    asked = ask(outside, started, tests[0], tests[0])
    params = cu.CUgraphNodeParams()
    params.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = handle
    params.conditional.type = cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
    params.conditional.size = 1
    params.conditional.ctx = _context()
    node = checked(_add_node(graph, [asked, held], params), "a loop of a CUDA graph")
    inside = Builder(params.conditional.phGraph_out[0], outside.shared)
    rounds = rounds_of(op)
    if rounds == "after":
        first = inside.all(op.even, step.even)
        copied = back(inside, first, 0)
        ask(inside, inside.all(op.testing[0], step.testing[0], copied or first), tests[0], tests[0])
    elif rounds == "two":
        round_ = [*op.even, *op.testing[1], *op.odd, *op.testing[0]]
        steps = [*step.even, *step.testing[1], *step.odd, *step.testing[0]]
        ask(inside, inside.all(round_, steps), *tests)
        back(outside, [node], tests[1])
    else:
        nodes = inside.all([*op.even, *op.testing[1]], [*step.even, *step.testing[1]])
        back(inside, nodes, 0)
        ask(inside, nodes, tests[1], tests[1])


def _add_node(graph: Handle, after: list[Handle], params: Handle) -> tuple[Handle, ...]:
    """cuGraphAddNode, which since CUDA 13 also takes the edge data."""
    if cu.CUDA_VERSION >= 13000:
        found: tuple[Handle, ...] = cu.cuGraphAddNode(graph, after, None, len(after), params)
        return found
    found = cu.cuGraphAddNode(graph, after, len(after), params)
    return found
