"""Calls of the driver and their errors."""

from __future__ import annotations

from typing import Any


class DriverError(Exception):
    """A call of the driver that failed: `name` is the error's, as in CUDA_ERROR_…"""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{what}: {name}")
        self.name = name


def checked(result: tuple[Any, ...], what: str) -> Any:
    """The result of a cuda.bindings call without its status, which is checked."""
    status, *values = result
    if int(status):
        raise DriverError(getattr(status, "name", str(status)), what)
    return values[0] if len(values) == 1 else tuple(values)
