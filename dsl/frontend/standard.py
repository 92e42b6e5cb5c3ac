"""What the Array API standard (2024.12) asks for besides functions: constants, devices, what is
supported.  The namespace is `treadle` itself: `x.__array_namespace__()`.

A program computes where its backend does, so all arrays are on one device: "cuda" if the backend of
`td.config` (else the default) is cuda, otherwise "cpu".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import DTypeError, ShapeError, TracingError
from ..evaluator import evaluator
from ..process.configuration import settings
from ..target import target_of
from ..types import ALL_TYPES, ScalarType, bfloat16, complex128, float16, float64, int64

if TYPE_CHECKING:
    from ..annotations import Order

__all__ = ["__array_api_version__", "__array_namespace_info__", "e", "inf", "nan", "newaxis", "pi"]

#: The version of the standard.
__array_api_version__ = "2024.12"

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
#: In an index: a new axis of extent 1.
newaxis = None

#: NumPy's limit of the rank.
MOST_AXES = 64

#: The kinds of types that `isdtype` and `dtypes` know, by the kinds of `ScalarType`.
KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


def current_device() -> str:
    """The device of all arrays."""
    target = target_of(evaluator().choose_backend(settings().backend))
    return target.name if target.gpu else "cpu"


def require_device(device: str | None, operation: str) -> None:
    """Refuse a device that is not where programs compute."""
    if device is None or (isinstance(device, str) and device == current_device()):
        return
    raise ShapeError(
        f"{operation}: arrays are on {current_device()!r}, where programs compute, not on "
        f"{device!r}.",
        hint='The backend decides: with td.config(backend="cuda"), or "native" for the CPU; '
        "np.asarray(x) is a copy for the host.",
    )


def require_order(order: Order, operation: str) -> Order:
    """The order of elements, if there is such an order."""
    if isinstance(order, str) and order in ("C", "F", "A", "K"):
        return order
    raise TracingError(
        f"{operation}: order is 'C' or 'F', got {order!r}.",
        hint='"C": the last index varies fastest; "F": the first.',
    )


def require_version(api_version: str | None) -> None:
    """Refuse a version of the standard that is not implemented."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", __array_api_version__):
        raise ShapeError(
            f"treadle implements version {__array_api_version__} of the Array API standard, not "
            f"{api_version!r}.",
            hint="Omit api_version.",
        )


class _Info:
    """The result of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, bool | int]:
        """Whether masks may index, whether extents may depend on data, and the largest rank."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MOST_AXES,
        }

    def default_device(self) -> str:
        """The device of new arrays."""
        return current_device()

    def devices(self) -> list[str]:
        """All devices: the one where programs compute."""
        return [current_device()]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, ScalarType]:
        """The types of new arrays where none is given."""
        require_device(device, "default_dtypes")
        return {"real floating": float64, "complex floating": complex128, "integral": int64,
                "indexing": int64}  # fmt: skip

    def dtypes(
        self, *, device: str | None = None, kind: str | Sequence[str] | None = None
    ) -> dict[str, ScalarType]:
        """The standard's types by name: all, or those of a kind of `td.isdtype`."""
        require_device(device, "dtypes")
        kinds = [kind] if isinstance(kind, str) else kind
        if kinds is not None and not set(kinds) <= set(KINDS):
            raise DTypeError(
                f"dtypes: there is no kind {kind!r}.", hint="Kinds: " + ", ".join(KINDS) + "."
            )
        wanted = None if kinds is None else {own for k in kinds for own in KINDS[k]}
        return {
            t.name: t
            for t in ALL_TYPES
            if t not in (float16, bfloat16) and (wanted is None or t.family in wanted)
        }


def __array_namespace_info__() -> _Info:
    """What this namespace supports, in the Array API standard's form.

    >>> import treadle as td
    >>> td.__array_namespace_info__().default_dtypes()["integral"]
    int64
    """
    return _Info()
