"""Data classes that are frozen for type checkers alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from treadle.dsl.records import dataclass


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 2
    note: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True, eq=False)
class Shape:
    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Square(Shape):
    side: int = 1


def test_values_compare_and_hash_by_their_fields() -> None:
    assert Point(1) == Point(1, 2, "other") != Point(1, 3)
    assert len({Point(1), Point(1, 2), Point(2)}) == 2
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5)
    assert repr(Point(1)) == "Point(x=1, y=2, note='')"


def test_others_are_compared_by_identity_and_keep_their_texts() -> None:
    one: Any = Square("a")
    assert one != Square("a") and len({one, Square("a")}) == 2
    assert repr(one) == "a" and [f.name for f in dataclasses.fields(one)] == ["name", "side"]
    with pytest.raises(TypeError):
        Square()  # type: ignore[call-arg]
