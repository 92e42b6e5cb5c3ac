"""Operands of a product: arrays read in place as strided views."""

from __future__ import annotations

from ...runtime import operand
from ...runtime.operand import ViewLayout
from ..running import DeviceRun
from .cublas import Layout


class Operand(operand.Operand):
    """One operand, as a library takes it."""

    def plain(self, run: DeviceRun, view: ViewLayout) -> tuple[Layout, int] | None:
        """Extents and strides in elements, and the byte offset of the first element; None if the
        operand is not read in place."""
        (extents, strides, origin), block = view, run.array(self.slot)
        if self.casts or any(s % block.itemsize for s in strides):
            return None
        first = sum(o * s for o, s in zip(origin, block.strides, strict=True))
        return (extents, tuple(s // block.itemsize for s in strides)), first
