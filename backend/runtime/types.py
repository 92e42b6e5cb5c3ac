"""Type aliases for untyped values: users' data, and objects of untyped libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

#: An array on the host, of any element type and rank.
HostArray: TypeAlias = np.ndarray[Any, Any]
#: The element type of an array.
DType: TypeAlias = np.dtype[Any]
#: An array on a device: CuPy's, or NumPy's in the emulation of one.
DeviceArray: TypeAlias = Any
#: A handle of the CUDA driver: cuda-bindings has no types.
Handle: TypeAlias = Any
#: Scalars of a run (extents, parameters, host values) as Python or NumPy numbers.
Numbers: TypeAlias = Sequence[Any]
