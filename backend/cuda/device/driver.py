"""`DriverDevice`: CuPy's memory and streams, kernels loaded and launched through the driver; and
the dispatch cache, by which repeated calls on device arrays go straight to their replay."""

from __future__ import annotations

import math
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from cuda.bindings import driver as cu

from treadle.dsl.errors import BackendUnavailable, DeviceOutOfMemory, TracingError, TreadleError
from treadle.dsl.frontend.sources import PLAIN_ARRAYS
from treadle.dsl.process import locks
from treadle.dsl.process.recent import Recent

from ...runtime.memory import POOL
from ...runtime.types import DeviceArray, DType, HostArray
from ..compile.nvrtc import Cubin, compile_kernels
from .arguments import Arguments
from .copies import LARGE, Copier, Lanes
from .device import Block, Call, Code, Copy, Fill, Launch, Operation, Repeat
from .optional import (
    DriverError,
    checked,
    cupy,
    launchKernel as launchKernel,
    ndarray,
    ndarray as _ndarray,
    runtime,
)

if TYPE_CHECKING:
    from ..graphs.tape import DeferredChecks

_STATIC_SHARED = 48 * 1024
_LOADED = 4096
_DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 2, 3
#: CuPy's exceptions for shapes whose size overflows.
_TOO_LARGE = (ValueError, OverflowError)
#: More bytes than any device has; CuPy's pool can still round this up without overflow.
_COUNTED = 1 << 62
_ON_GPU = (2, 13)  # DLPack: kDLCUDA, kDLCUDAManaged
#: Errors after which the CUDA context of this process is unusable.
_STICKY = {
    "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_DEINITIALIZED", "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
}  # fmt: skip
_RUNTIME_STICKY = {
    "cudaErrorIllegalAddress", "cudaErrorLaunchFailure", "cudaErrorLaunchTimeout",
    "cudaErrorIllegalInstruction", "cudaErrorMisalignedAddress", "cudaErrorAssert",
    "cudaErrorInvalidPc", "cudaErrorInvalidAddressSpace", "cudaErrorHardwareStackError",
    "cudaErrorECCUncorrectable", "cudaErrorContextIsDestroyed", "cudaErrorDevicesUnavailable",
}  # fmt: skip

if ndarray is not None:
    PLAIN_ARRAYS.add(ndarray)


class Loaded:
    """A kernel loaded on a device: `handle` and the launch parameters other than arguments."""

    __slots__ = ("__weakref__", "handle", "library", "shared", "threads")

    def __init__(self, cubin: Cubin, threads: int) -> None:
        self.library = checked(
            cu.cuLibraryLoadData(cubin.image, None, None, 0, None, None, 0), "loading a kernel"
        )
        kernel = checked(cu.cuLibraryGetKernel(self.library, cubin.name.encode()), cubin.name)
        function = checked(cu.cuKernelGetFunction(kernel), cubin.name)
        self.handle, self.threads = int(function), threads
        self.shared = int(cubin.dynamic_shared_bytes)
        if self.shared > _STATIC_SHARED:
            limit = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(cu.cuFuncSetAttribute(function, limit, self.shared), cubin.name)
        weakref.finalize(self, cu.cuLibraryUnload, self.library).atexit = False


class Mailbox:
    """Receives scalars on the host: 16 bytes of pinned host memory for each, to which the device
    copies without staging, and an event recorded after the copies."""

    __slots__ = ("_memory", "event", "types", "words")

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.types = [b.dtype for b in blocks]
        self._memory = cupy.cuda.alloc_pinned_memory(16 * len(blocks))
        self.words = [self._memory.ptr + 16 * k for k in range(len(blocks))]
        self.event = cupy.cuda.Event(disable_timing=True)

    def post(self, addresses: Sequence[int], stream: int) -> None:
        """Copy the scalars at `addresses` to the host, after earlier work is done."""
        for t, word, address in zip(self.types, self.words, addresses, strict=True):
            runtime.memcpyAsync(word, address, t.itemsize, _DEVICE_TO_HOST, stream)
        runtime.eventRecord(self.event.ptr, stream)

    def read(self) -> list[HostArray]:
        """Wait for the scalars posted last and return them."""
        self.event.synchronize()
        return [np.frombuffer(self._memory, t, 1, 16 * k).reshape(()).copy()
                for k, t in enumerate(self.types)]  # fmt: skip


class DriverDevice(ABC):
    """Memory, code and single operations of a GPU; `launch.CudaDevice` repeats and replays them."""

    library = cupy

    def __init__(self, ordinal: int) -> None:
        properties = runtime.getDeviceProperties(ordinal)
        self.ordinal = ordinal
        self.name: str = properties["name"].decode()
        major, minor = properties["major"], properties["minor"]
        # The architecture-specific instruction set ("sm_90a"), where NVRTC has one.
        self.arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        self.multiprocessors: int = properties["multiProcessorCount"]
        self.shared: int = properties["sharedMemPerBlockOptin"]
        self._loaded = Recent[tuple[str, bytes, int], Loaded](_LOADED)
        self._lock = locks.lock()
        self._copier = Copier(ordinal)

    def is_current(self) -> bool:
        if not _thread.entered:
            enter()
        return bool(runtime.getDevice() == self.ordinal)

    # --- memory ---

    def empty(self, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
        size = math.prod(shape, start=dtype.itemsize)
        if size >= _COUNTED:  # the pool's size computation would overflow
            raise self.out_of_memory(size, f"an array of shape {shape} ({dtype})")
        try:
            return cupy.ndarray(shape, dtype)
        except (cupy.cuda.memory.OutOfMemoryError, *_TOO_LARGE):
            cupy.get_default_memory_pool().free_all_blocks()
        try:
            return cupy.ndarray(shape, dtype)
        except (cupy.cuda.memory.OutOfMemoryError, *_TOO_LARGE):
            raise self.out_of_memory(size, f"an array of shape {shape} ({dtype})") from None

    def allocate(self, size: int) -> DeviceArray:
        """Allocate `size` bytes from CuPy's pool; the returned pointer owns them."""
        try:
            return cupy.cuda.alloc(size)
        except cupy.cuda.memory.OutOfMemoryError:
            cupy.get_default_memory_pool().free_all_blocks()
        try:
            return cupy.cuda.alloc(size)
        except cupy.cuda.memory.OutOfMemoryError:
            raise self.out_of_memory(size, "the intermediate arrays of a program") from None

    def out_of_memory(self, size: int, what: str) -> DeviceOutOfMemory:
        """The error, which reports how many bytes were requested, allocated and free."""
        free, total = runtime.memGetInfo()
        pool = cupy.get_default_memory_pool()
        asked = f"{size:,} bytes asked for, " if size else ""
        return DeviceOutOfMemory(
            f"no memory on {self.name} for {what}: {asked}"
            f"{pool.used_bytes():,} in use by arrays, {free:,} of {total:,} free.",
            hint='Use smaller arrays, compute in parts, or run on the CPU: backend="native".  '
            "Delete arrays that are not needed; the program stays usable.",
        )

    def adopt(self, value: Any) -> tuple[DeviceArray, Hashable] | None:
        cls = type(value)
        if cls is np.ndarray:
            return None
        array = value if cls is cupy.ndarray else borrowed(value)
        if array is None:
            return None
        data = array.data
        if data.device_id != self.ordinal:
            with cupy.cuda.Device(self.ordinal):
                array = array.copy()
            data = array.data
        if array._c_contiguous:
            return array, array.shape if not data.ptr & 15 else (array.shape, "unaligned")
        if any(s % array.itemsize for s in array.strides):
            array = cupy.ascontiguousarray(array)
            return array, array.shape
        return array, (array.shape, array.strides, data.ptr & 15 == 0)

    def block(self, array: DeviceArray) -> Block:
        return Block(
            array.shape, array.dtype, array, kind="input", strides=array.strides,
            dense=array._c_contiguous, aligned=not array.data.ptr & 15,
        )  # fmt: skip

    def upload(self, value: HostArray) -> DeviceArray:
        dense = np.ascontiguousarray(value).reshape(value.shape)
        array = self.empty(dense.shape, dense.dtype)
        if dense.nbytes:
            stream, source = cupy.cuda.get_current_stream(), dense.ctypes.data
            if dense.nbytes < LARGE:
                array.data.copy_from_host_async(source, dense.nbytes, stream)
            else:
                self._copier.upload(array.data.ptr, source, dense.nbytes, self.mark())
        return array

    def download(self, array: DeviceArray) -> HostArray:
        found: HostArray = POOL.allocate(array.shape, array.dtype)
        if array.nbytes:
            stream, target = cupy.cuda.get_current_stream(), found.ctypes.data
            dense = array if array._c_contiguous else cupy.ascontiguousarray(array)
            if found.nbytes < LARGE:
                dense.data.copy_to_host_async(target, found.nbytes, stream)
                stream.synchronize()
            else:
                self._copier.download(target, dense.data.ptr, found.nbytes, self.mark())
        return found

    def mark(self) -> DeviceArray:
        made = cupy.cuda.Event(disable_timing=True)
        made.record()
        return made

    def lanes(self) -> AbstractContextManager[Lanes]:
        return self._copier.lanes()

    def mailbox(self, blocks: Sequence[Block]) -> Mailbox:
        """A mailbox for the scalars of a tape."""
        return Mailbox(blocks)

    def wait(self) -> None:
        cupy.cuda.get_current_stream().synchronize()

    # --- code ---

    def compile(self, codes: Sequence[Code]) -> None:
        for fast in (False, True):
            mine = [c for c in codes if c.fast_math is fast and c.function is None]
            if not mine:
                continue
            for code, cubin in zip(
                mine, compile_kernels([c.kernel for c in mine], self.arch, fast), strict=True
            ):
                code.function = self.load(cubin, code.kernel.threads)

    def load(self, cubin: Cubin, threads: int) -> Loaded:
        """A compiled kernel, loaded once."""
        key = (cubin.name, cubin.image, threads)
        with self._lock:
            found = self._loaded.made(key, lambda: Loaded(cubin, threads))
            self._loaded.move_to_end(key)
        return found

    # --- running ---

    def run(self, operation: Operation) -> None:
        match operation:
            case Launch():
                self._launch(operation)
            case Fill():
                b = operation.block
                fill(b.array.data.ptr, b.size, operation.value, stream_here())
            case Copy():
                self._copy(operation)
            case Call():
                with cupy.cuda.Device(self.ordinal):
                    _call(operation)
            case Repeat():
                self.repeat(operation)

    @abstractmethod
    def repeat(self, operation: Repeat) -> None:
        """Run a loop until its test fails or its trip count is reached."""

    def _launch(self, op: Launch) -> None:
        loaded = op.code.function
        try:
            made = op.code.idle.pop()
        except IndexError:
            made = arguments_of(op.code)
        addresses = [b.array.data.ptr for b in op.blocks]
        if op.code.errors:
            assert op.errors is not None, op.code.kernel.name
            addresses.append(op.errors.array.data.ptr)
        made.point(addresses)
        made.scalars(op.scalars)
        launchKernel(loaded.handle, op.tasks, 1, 1, loaded.threads, 1, 1, loaded.shared,
                     stream_here(), made.address, 0)  # fmt: skip
        op.code.idle.append(made)

    @staticmethod
    def _copy(op: Copy) -> None:
        if not op.target.size:
            return
        if op.source.dense:
            runtime.memcpyAsync(op.target.array.data.ptr, op.source.array.data.ptr,
                                op.target.nbytes, _DEVICE_TO_DEVICE, stream_here())  # fmt: skip
        else:
            cupy.copyto(op.target.array, op.source.array)

    def dispatcher(self, args: Sequence[Any], unrepeatable: type[Exception]) -> Dispatcher | None:
        """A dispatcher for calls with arguments like these; None if not all are on the GPU."""
        if not any(type(a) is cupy.ndarray for a in args):
            return None
        return Dispatcher(args, self, unrepeatable)

    # --- errors ---

    def error(self, error: Exception) -> TreadleError | None:
        """The treadle error for an error of CUDA or CuPy; None for any other error."""
        if isinstance(error, TreadleError):
            return None
        if (
            isinstance(error, cupy.cuda.memory.OutOfMemoryError)
            or "CUDA_ERROR_OUT_OF_MEMORY" in str(error)
            or "cudaErrorMemoryAllocation" in str(error)
        ):
            return self.out_of_memory(0, f"what a library or the driver wanted ({error})")
        return explained(error, self.name, self.arch)


def _call(op: Call) -> None:
    if op.addressed is not None:
        op.addressed([b.array.data.ptr for b in (*op.reads, *op.writes)])
    else:
        op.action([b.array for b in op.reads], [b.array for b in op.writes])


def explained(error: Exception, name: str, arch: str) -> TreadleError | None:
    text = str(error)
    words = set(text.replace(":", " ").split())
    lost = words & (_STICKY | _RUNTIME_STICKY)
    if lost:
        return BackendUnavailable(
            f"{name} is lost for this process ({', '.join(sorted(lost))}): a kernel, of treadle's "
            "or of another library, went wrong, or the GPU did.",
            hint='The process can go on with backend="native"; a new process can use the GPU '
            "again.  td.config(check=True) finds indices that are out of range.",
        )
    if words & {"CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_IMAGE",
                "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}:  # fmt: skip
        return BackendUnavailable(
            f"the driver does not take code for {arch} ({text}).",
            hint="Update the NVIDIA driver, or install an NVRTC of its CUDA release.",
        )
    if isinstance(error, DriverError) or type(error).__module__.startswith("cupy_backends"):
        return BackendUnavailable(f"{name}: {text}.")
    return None


def borrowed(value: Any) -> DeviceArray:
    """A CuPy array over another library's device memory (DLPack orders the streams); None if the
    memory is on the host."""
    try:
        if hasattr(value, "__dlpack__"):
            kind, _ = value.__dlpack_device__()
            if int(kind) in _ON_GPU:
                return cupy.from_dlpack(value)
        elif hasattr(value, "__cuda_array_interface__"):
            return cupy.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TracingError(
            f"an array of {type(value).__module__} cannot be used: {error}",
            hint="A tensor that takes part in automatic differentiation: pass x.detach().",
        ) from None
    return None


class _Thread(threading.local):
    """Whether a thread has a context: the driver, unlike CUDA's runtime, does not make one."""

    entered = False


_thread = _Thread()


def enter() -> None:
    """Make the context of the current device the thread's."""
    runtime.setDevice(runtime.getDevice())
    runtime.free(0)
    _thread.entered = True


def stream_here() -> int:
    """CuPy's current stream."""
    found: int = cupy.cuda.get_current_stream().ptr
    return found


def arguments_of(code: Code) -> Arguments:
    """Memory for the arguments of a kernel."""
    return Arguments(len(code.pointers) + bool(code.errors), [v.type for v in code.scalars])


def fill(address: int, count: int, value: HostArray, stream: int) -> None:
    """Set `count` elements to one value with the driver's memset."""
    for words, pitch, offset, word, size in patterns(value, count):
        where = address + offset
        if pitch == 0:
            call = {1: cu.cuMemsetD8Async, 2: cu.cuMemsetD16Async, 4: cu.cuMemsetD32Async}[size]
            checked(call(where, word, words, stream), "filling an array")
        else:
            checked(cu.cuMemsetD2D32Async(where, pitch, word, 1, words, stream), "filling an array")


def patterns(value: HostArray, count: int) -> list[tuple[int, int, int, int, int]]:
    """How memset writes `count` copies of a value: (words, pitch, offset, word, bytes of a word).

    With pitch 0 words are contiguous; otherwise there is one four-byte word every `pitch` bytes.

    >>> patterns(np.asarray(1, np.int64), 3)
    [(3, 8, 0, 1, 4), (3, 8, 4, 0, 4)]
    """
    raw = value.tobytes()
    if not count:
        return []
    if len(set(raw)) == 1:
        return [(count * len(raw), 0, 0, raw[0], 1)]
    if len(raw) <= 4:
        return [(count, 0, 0, int.from_bytes(raw, "little"), len(raw))]
    words = [int.from_bytes(raw[k : k + 4], "little") for k in range(0, len(raw), 4)]
    if len(set(words)) == 1:
        return [(count * len(words), 0, 0, words[0], 4)]
    return [(count, len(raw), 4 * k, word, 4) for k, word in enumerate(words)]


#: Maximum number of cached combinations of extents.
_KNOWN = 64
#: A recording: the arrays it reads (None: all, and nothing else), the addresses of its constants,
#: its replay, and its checks.
Entry: TypeAlias = "tuple[Sequence[int] | None, list[int], Any, DeferredChecks | None]"


class Dispatcher:
    """`dispatch(*args)`: the result of a call (an array, or a tuple), or None on a cache miss.

    The arguments are dense, aligned CuPy arrays, and Python scalars as kernels take them.
    """

    def __init__(
        self, args: Sequence[Any], device: DriverDevice, unrepeatable: type[Exception]
    ) -> None:
        """`unrepeatable`: the exception for parameters to which a recording does not apply."""
        #: The element type of each array argument; the class of each scalar argument.
        self.kinds = [a.dtype if type(a) is _ndarray else type(a) for a in args]
        self.unrepeatable, self.device = unrepeatable, device
        self.ordinal = self.device.ordinal
        self.known = Recent[tuple[Any, ...], Entry](_KNOWN)

    def add(self, args: Sequence[Any], entry: Entry) -> None:
        """Use `entry` for calls with arrays of these extents."""
        self.known[tuple([a.shape for a in args if type(a) is _ndarray])] = entry

    def __call__(self, *args: Any) -> Any:
        if len(args) != len(self.kinds):
            return None
        shapes, addresses, params = [], [], []
        for a, kind in zip(args, self.kinds, strict=True):
            if type(a) is _ndarray:
                if a.dtype is not kind or not a._c_contiguous:
                    return None
                data = a.data
                address = data.ptr
                if address & 15 or data.device_id != self.ordinal:
                    return None
                shapes.append(a.shape)
                addresses.append(address)
            elif type(a) is not kind or (kind is int and not -(1 << 63) <= a < 1 << 63):
                return None
            else:
                params.append(a)
        entry = self.known.get(tuple(shapes))
        if entry is None or not self.device.is_current():
            return None
        used, constants, replay, checks = entry
        if checks is not None:
            checks.before(params)
        try:
            if used is not None:
                addresses = [addresses[k] for k in used] + constants
            found = replay.run(addresses, params)
            if checks is not None:
                found = checks(found, params)
        except self.unrepeatable:
            return None
        except Exception as error:
            made = self.device.error(error)
            if made is None:
                raise
            raise made from None
        return found[0] if len(found) == 1 else tuple(found)
