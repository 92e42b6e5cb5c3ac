"""Data classes of `dsl/records.py` behave like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from treadle.dsl import records

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("dataclass", [dataclasses.dataclass, records.dataclass])


@records.dataclass(frozen=True)
class Point:
    x: int
    y: float = 2.5
    names: list[str] = field(default_factory=list, compare=False)


@BOTH
def test_constructor(dataclass: Decorator) -> None:
    class Base:
        a: int
        kind: ClassVar[str] = "none"
        b: list[int] = field(default_factory=list)
        last: int = field(default=9, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.a + self.last)

    class Derived(Base):
        c: str = "c"
        d: int = field(init=False, default=4)
        e: list[int] = field(init=False, default_factory=lambda: [5])

    dataclass(frozen=True)(Base)
    made = dataclass(frozen=True)(Derived)(1, last=2)
    assert (made.a, made.b, made.c, made.d, made.e, made.last) == (1, [], "c", 4, [5], 2)
    assert made.sum == 3 and made.b is not Derived(1).b
    assert list(inspect.signature(Derived).parameters) == ["a", "b", "c", "last"]
    assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b", "last", "c", "d", "e"]
    assert Derived.__match_args__ == ("a", "b", "c")
    with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument"):
        Derived()
    with pytest.raises(TypeError, match="unexpected keyword argument 'd'"):
        Derived(1, d=4)


@BOTH
def test_equality_and_hash(dataclass: Decorator) -> None:
    def of(**options: bool) -> Any:
        class Pair:
            a: int
            b: int = field(default=0, compare=False)
            c: int = field(default=0, hash=False)

        return dataclass(**options)(Pair)

    frozen, mutable, identical = of(frozen=True), of(), of(frozen=True, eq=False)
    assert frozen(1, 2) == frozen(1, 3) != frozen(2, 2)
    assert hash(frozen(1, 2, 3)) == hash(frozen(1, 3, 4)) == hash((1,))
    assert frozen(1) != of(frozen=True)(1) and frozen(1) != (1, 0)
    assert mutable(1, 2) == mutable(1, 3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(mutable(1))
    one = identical(1)
    assert one != identical(1) and len({one, one, identical(1)}) == 2


@BOTH
def test_methods_of_the_class_stay(dataclass: Decorator) -> None:
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    made = dataclass(frozen=True)(Own)
    assert made(1) == 3 and repr(made(1)) == "own" and hash(made(1)) == hash((1,))


@BOTH
def test_frozen(dataclass: Decorator) -> None:
    class One:
        a: int

    one = dataclass(frozen=True)(One)(1)
    with pytest.raises(FrozenInstanceError, match=r"^cannot assign to field 'a'$"):
        one.a = 2
    with pytest.raises(FrozenInstanceError, match=r"^cannot delete field 'a'$"):
        del one.a

    class Other:
        a: int

    other = dataclass()(Other)(1)
    other.a = 2
    assert other.a == 2


@BOTH
def test_text(dataclass: Decorator) -> None:
    class Shown:
        """Its documentation."""

        a: Any
        b: int = field(default=3, repr=False)

    made = dataclass(Shown)
    one = made("x")
    assert repr(one) == f"{Shown.__qualname__}(a='x')" and made.__doc__ == "Its documentation."
    one.a = one
    assert repr(one) == f"{Shown.__qualname__}(a=...)"


def test_functions_of_the_standard_library() -> None:
    point = Point(1, names=["a"])
    assert dataclasses.replace(point, x=2) == Point(2)
    assert dataclasses.asdict(point) == {"x": 1, "y": 2.5, "names": ["a"]}
    assert dataclasses.is_dataclass(Point) and Point.__doc__ is None
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2.5)


def test_the_package_has_no_others() -> None:
    """Except layers of schedules, which users derive from, and a class with slots."""
    root = Path(records.__file__).parents[1]
    found = [
        str(path.relative_to(root))
        for folder in ("dsl", "skeletons", "backend", "treadle/driver", "treadle/tuning")
        for path in (root / folder).rglob("*.py")
        if re.search(
            r"^from dataclasses import .*\bdataclass\b|\bdataclasses\.dataclass\(",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ]
    assert sorted(found) == [
        "backend/native/codegen/values.py",
        "dsl/records.py",
        "skeletons/schedules/layers.py",
    ]
