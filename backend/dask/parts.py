"""Parts of arrays of other packages, which must be what the arrays say of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.dsl.errors import DTypeError, ShapeError, TracingError


class Parts:
    """An array of which parts are read, and checked: kernels read them by its shape and type."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(int(n) for n in array.shape)
        self.dtype = np.dtype(array.dtype)
        self.chunks = getattr(array, "chunks", None)

    def __getitem__(self, at: Any) -> np.ndarray[Any, Any]:
        part: np.ndarray[Any, Any] = np.asanyarray(self.array[at])
        if part.dtype.newbyteorder("=") != self.dtype.newbyteorder("="):
            raise DTypeError(
                f"{self._name()} has the dtype {self.dtype}, and parts of it have {part.dtype}.",
                hint="If it scales what is stored (a variable of netCDF4 does), read what is "
                "stored, variable.set_auto_maskandscale(False), and scale it in the function.",
            )
        if isinstance(part, np.ma.MaskedArray):
            if np.ma.is_masked(part):
                raise TracingError(
                    f"a part of {self._name()} is masked, and would lose its mask.",
                    hint="Read the values that stand for missing ones, "
                    "variable.set_auto_mask(False), and compare with them in the function.",
                )
            part = np.asarray(part.data)
        wanted = self._shape(at)
        if part.shape != wanted:
            raise ShapeError(
                f"{self._name()} has the shape {self.shape}, and a part that should have "
                f"{wanted} has {part.shape}.",
                hint="Another program may have changed it.  Open it again.",
            )
        return part

    def _shape(self, at: Any) -> tuple[int, ...]:
        """The extents of a part: of slices along the first axes, and all of the others."""
        slices = () if at is Ellipsis else at if isinstance(at, tuple) else (at,)
        along = zip(slices, self.shape, strict=False)
        return (*(len(range(*s.indices(n))) for s, n in along), *self.shape[len(slices) :])

    def _name(self) -> str:
        return f"an argument of type {type(self.array).__name__}"
