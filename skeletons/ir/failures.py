"""Raises the exception for the error report of a launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.dsl.errors import TreadleError, out_of_range
from treadle.dsl.types import ScalarType

if TYPE_CHECKING:
    from .kernel import Kernel


def error_words(t: ScalarType) -> int:
    """The length of a number in int64 words."""
    return -(-t.bytes // 8)


def raise_failure(kernel: Kernel, errors: np.ndarray[Any, Any]) -> None:
    """Raise the error in the report of a launch, unless it is all zeros (see `Kernel.errors`)."""
    number = int(errors[0]) - 1
    if number < 0:
        return
    if number < len(kernel.sites):
        site, (index, extent) = kernel.sites[number], (int(n) for n in errors[1:3])
        raise out_of_range(site.operation, site.array, site.axis, index, extent, site.where)
    function = kernel.raising[number - len(kernel.sites)]
    values, at = [], 1
    for t in function.arguments:
        values.append(_number(errors[at:], t))
        at += error_words(t)
    function(*values)
    raise TreadleError(
        f"the foreign function '{function.name}' raised an exception for "
        f"({', '.join(map(str, values))}), but not when it was called again.",
        hint="A foreign function must depend on its arguments alone.",
    )


def _number(words: np.ndarray[Any, Any], t: ScalarType) -> Any:
    return np.frombuffer(words.tobytes(), t.numpy, 1)[0]
