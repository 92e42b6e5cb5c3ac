"""Primitives on complex numbers."""
from __future__ import annotations

from treadle.dsl.types import ScalarType

from .lanes import Lanes
from .target import Target
from .text import Reg


def apply_complex(v: Lanes, target: Target, name: str, t: ScalarType,
                  args: list[tuple[Reg, ...]]) -> tuple[Reg, ...]:  # fmt: skip
    raise AssertionError(name)
