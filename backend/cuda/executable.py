"""`cuda` as a backend: plans, lowers, compiles and runs a program on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from treadle.dsl.errors import BackendUnavailable
from treadle.dsl.graph import Matmul
from treadle.dsl.program import TracedProgram

from ..runtime.executor import Executor
from . import availability
from .calls import readable
from .device.device import Device
from .forms import forms_of
from .products.explain import describe
from .products.ways import alternatives
from .several.peers import Peers
from .several.sharded import Sharded, shard
from .source import lowering, remarks as remarks_on, source

if TYPE_CHECKING:
    from treadle.dsl.operations.algebra.product_way import ProductWay
    from treadle.skeletons.model.device import Ceilings

    from .several.executable import SeveralExecutable

__all__ = [
    "borrowed", "describe_product", "device_here", "executable", "forms_of", "lowering", "machine",
    "peers_of", "placed", "product_ways", "remarks", "sharded", "sizes", "source", "wait",
]  # fmt: skip


def remarks(program: TracedProgram) -> list[str]:
    """How loops over arrays run, and how host arrays are copied to the device and back; for several
    GPUs, the blocks of every kernel."""
    if program.devices is not None:
        from .several import executable as several

        here = _here()
        memory = MEMORY if here is None else peers_of(program.devices).memory
        return several.remarks(program, len(program.devices), memory)
    return remarks_on(program, _here())


def describe_product(
    node: Matmul, size: tuple[int, int, int] | None, checked: bool = False, count: int = 1
) -> dict[str, str]:
    """How a product is computed, for `explain`: on the current GPU, or, without one, on a GPU with
    measured parameters.  `checked`: indices are checked; `count`: products along leading axes."""
    return describe(node, size, _here(), checked, count)


def _here() -> Device | None:
    return None if availability.unavailable() else device_here()


def product_ways(node: Matmul, size: tuple[int, int, int]) -> list[ProductWay]:
    """The alternatives for a product from which `tune` chooses; `size` is (m, k, n)."""
    return alternatives(device_here(), node, size)


def placed(data: Sequence[Any]) -> list[Any]:
    """The arrays on the GPU; host arrays are copied."""
    device = device_here()
    return [device.upload(readable(d)) if device.adopt(d) is None else d for d in data]


def machine() -> list[str]:
    """The GPU and its architecture."""
    device = device_here()
    return [device.name, device.arch]


def sizes(shipped: Ceilings) -> Ceilings:
    """The ceilings of the current GPU before any are measured."""
    from .device.optional import cupy

    about: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return replace(
        shipped, name=str(about["name"].decode()), units=int(about["multiProcessorCount"]),
        shared=int(about["l2CacheSize"]) * 7 // 8, clock=1e3 * float(about["clockRate"]),
    )  # fmt: skip


def wait() -> None:
    """Return when the current stream's work is done."""
    device_here().wait()


def device_here() -> Device:
    """The current GPU; tests replace this function."""
    try:
        from .device.optional import require
        from .graphs.launch import CudaDevice

        require()
    except ImportError as error:  # CuPy or cuda-bindings are not installed
        raise BackendUnavailable(
            availability.unavailable() or f"the backend 'cuda' cannot be loaded: {error}."
        ) from None
    return CudaDevice.current()


def peers_of(ordinals: Sequence[int]) -> Peers:
    """The GPUs of these numbers; tests replace this function."""
    device_here()
    from .several.driver import CudaPeers

    return CudaPeers.of(tuple(ordinals))


def executable(program: TracedProgram) -> CudaExecutor | SeveralExecutable:
    """The program, ready to run on the current GPU, or on those that it is compiled for."""
    if program.devices is not None:
        from .several.executable import SeveralExecutable

        return SeveralExecutable(program, peers_of(program.devices))
    return Executor(program, device_here())


def sharded(value: Any, ordinals: Sequence[int]) -> Sharded:
    """An array in parts on the GPUs of these numbers."""
    peers = peers_of(ordinals)
    return shard(peers, value if peers.where(value) is not None else readable(value))


CudaExecutor = Executor[Device]

#: Bytes of memory of a GPU that is absent and only explained: those of an H100.
MEMORY = 80 << 30


def borrowed(value: Any) -> Any:
    """Another library's array on the GPU as a CuPy array, without a copy."""
    from .device.driver import borrowed as found

    return found(value)
