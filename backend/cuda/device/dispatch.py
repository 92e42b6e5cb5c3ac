"""The dispatch cache: repeated calls on device arrays go straight to their replay.

A cache hit depends only on the classes, types and extents of the arguments, and calls the replay of
the program (`launch.py`); any other call goes through `RecordedCalls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from treadle.dsl.process.recent import Recent

from ..device.optional import ndarray as _ndarray

if TYPE_CHECKING:
    from ..graphs.tape import DeferredChecks
    from .driver import DriverDevice

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
