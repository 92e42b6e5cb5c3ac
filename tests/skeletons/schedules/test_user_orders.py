"""An order that a user writes in ten lines, and what is said when it is wrong."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.skeletons.schedules.users_order import Snake
from treadle.skeletons.schedules import (
    Block,
    Order,
    PlaneOrder,
    ScheduleError,
    ScheduleTypeError,
    Table,
    as_schedule,
    check,
    draw,
    evaluate,
    from_dict,
    to_dict,
)


def test_no_ceremony() -> None:
    assert check(Snake(), (4, 5)) == 0
    assert evaluate(Snake(), (2, 2)).tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]
    assert repr(Snake()) == "Snake()"
    assert repr(Snake(2, grain="block") | Block(8, 32)) == (
        'Snake(height=2, grain="block") | Block(8, 32)'
    )
    assert Snake(2) == Snake(height=2) != Snake(3)
    assert len({Snake(2), Snake(height=2), Snake()}) == 2
    assert eval(repr(Snake(2))) == Snake(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Snake().height = 3  # type: ignore[misc]


def test_stored_by_its_module() -> None:
    schedule = Snake(2) | Block(8, 32)
    data = json.loads(json.dumps(to_dict(schedule)))
    assert data["order"] == {"kind": f"{Snake.__module__}:Snake", "height": 2}
    assert from_dict(data) == schedule


def test_a_local_class_cannot_be_stored() -> None:
    class Local(Order):
        def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
            return (i,)

    with pytest.raises(ScheduleError, match=r"Local\(\) cannot be stored(.|\n)*top level"):
        to_dict(Local())
    Local.__module__, Local.__qualname__ = "__main__", "Local"
    with pytest.raises(ScheduleError, match=r"cannot be stored(.|\n)*a module of its own"):
        to_dict(Local())


def test_an_order_of_the_plane_has_every_rank() -> None:
    class Mirrored(PlaneOrder):
        def plane(self, i: Any, height: Any, width: Any) -> tuple[Any, Any]:
            return i // width, width - 1 - i % width

    assert check(Mirrored(), (2, 3, 5)) == 0
    assert check(Mirrored(), (5,)) == 0


def test_an_order_that_pads() -> None:
    class Padded(Order):
        def linear_size(self, shape: tuple[Any, ...]) -> Any:
            return (shape[0] + 3) // 4 * 4

        def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
            return (i ^ 3,)

    assert not Padded.dense
    assert check(Padded(), (5,)) == 3
    assert evaluate(Padded(), (5,)).ravel().tolist() == [3, 2, 1, 0, 4]


def wrong(body: Any, shape: tuple[int, ...]) -> str:
    class Mine(Order):
        width: int = 8

        def coordinates(self, i: Any, shape: tuple[Any, ...]) -> Any:
            return body(i, shape)

    with pytest.raises(ScheduleError) as caught:
        check(Mine(width=4), shape)
    return f"{caught.value.message}\n{caught.value.hint or ''}".strip()


def test_the_first_collision_is_shown() -> None:
    message = wrong(lambda i, s: (i // s[1], (i * 2) % s[1]), (2, 4))
    assert message == ("Mine(width=4) is not a bijection on (2, 4): ids 0 and 2 both visit (0, 0).")


def test_an_id_outside_is_shown() -> None:
    message = wrong(lambda i, s: (i // s[1], i % s[1] + 1), (2, 4))
    assert "id 3 visits (0, 4), which is outside" in message
    assert "linear_size" in message


def test_a_gap_is_shown() -> None:
    class Short(Order):
        def linear_size(self, shape: tuple[Any, ...]) -> Any:
            return shape[0] + 1

        def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
            return (i + 1,)

    with pytest.raises(ScheduleError, match=r"no id visits \(0,\)"):
        check(Short(), (4,))


def test_an_if_on_a_value_is_explained() -> None:
    def body(i: Any, s: tuple[Any, ...]) -> tuple[Any, ...]:
        if i % 2 == 0:
            return (i,)
        return (s[0] - i,)

    message = wrong(body, (6,))
    assert "Mine.coordinates failed on (6,)" in message and "where(p, a, b)" in message


def test_wrong_results_are_explained() -> None:
    assert "Divide with //" in wrong(lambda i, s: (i / 2,), (6,))
    assert "a tuple of 2 coordinates" in wrong(lambda i, s: (i,), (2, 3))
    assert "got 'list'" in wrong(lambda i, s: [i], (3,))


def test_integers_and_arrays_must_agree() -> None:
    message = wrong(lambda i, s: (i if isinstance(i, np.ndarray) else s[0] - 1 - i,), (4,))
    assert "coordinates (3,) with Python integers, but (0,) with NumPy arrays" in message


def test_draw() -> None:
    assert draw(Snake(), (2, 6)) == " 0  1  2  3  4  5\n11 10  9  8  7  6"
    assert draw(Table([1, 0, 2]), (3,)) == "1 0 2"
    assert draw(Snake(), (40, 40)).endswith(" ...\n...")

    class Deep(Order):
        def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
            return i // 4, i // 2 % 2, i % 2

    assert draw(Deep(), (2, 2, 2)) == "[0, :, :]\n0 1\n2 3\n\n[1, :, :]\n4 5\n6 7"
    assert draw(Deep(), (9, 2, 2)).endswith("... and 5 more")


def test_shapes_are_checked() -> None:
    with pytest.raises(ScheduleTypeError, match="a shape is a tuple"):
        check(Snake(), 5)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="extents are 0 or more"):
        check(Snake(), (-1, 2))


def test_an_order_without_coordinates_says_what_is_missing() -> None:
    class Nothing(Order):
        pass

    class Flat(PlaneOrder):
        pass

    for order, asked in ((Nothing(), "coordinates(self, i, shape)"), (Flat(), "plane(self, i")):
        with pytest.raises(ScheduleTypeError, match=re.escape(asked)):
            order.coordinates(0, (2, 3))


class BadUnits(Order):
    """The slips of `in_units`."""

    slip: str

    def in_units(self, *given: Any) -> Any:
        if self.slip == "raises":
            raise ValueError("no units")
        if self.slip == "arity":
            return (lambda rows: self)(*given)
        return None

    def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return i // shape[1], i % shape[1]


@pytest.mark.parametrize(
    ("slip", "said"),
    [("raises", "failed: no units"), ("arity", "positional argument"), ("none", "returned None")],
)
def test_in_units_that_goes_wrong_is_said_to_be_the_users(slip: str, said: str) -> None:
    with pytest.raises(ScheduleError, match=rf"BadUnits.in_units.*{said}") as caught:
        (BadUnits(slip) | Block(2, 2)).resolve(2)
    assert "in_units(self, rows, cols)" in str(caught.value)


def test_parameters_are_annotations_and_values() -> None:
    class Assigned(Order):
        def __init__(self, width: int) -> None:
            self.width = width

    with pytest.raises(ScheduleTypeError, match="cannot assign to field 'width'") as caught:
        Assigned(3)
    assert "annotated class attributes" in str(caught.value)

    class Listed(Order):
        table: list[int]

    with pytest.raises(ScheduleTypeError, match="compared and hashed: unhashable type: 'list'"):
        Listed([1, 2])


def test_an_order_of_planes_says_what_it_misses() -> None:
    class Empty(PlaneOrder):
        pass

    class Single(PlaneOrder):
        def plane(self, i: Any, height: Any, width: Any) -> Any:
            return i

    for order, said in ((Empty(), "has to define plane"), (Single(), "return a tuple of 2")):
        with pytest.raises(ScheduleError, match=said):
            as_schedule(order).resolve(2)


def test_the_reference_refuses_what_others_refuse() -> None:
    class Twice(Order):
        def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
            return i * 0, i % shape[1]

    a = np.ones((4, 6))
    with pytest.raises(ScheduleError, match="a Table for 2 ids cannot order"):
        td.map(lambda x: x + 1, a, schedule=Table([1, 0]))  # its extents are known
    later = td.jit(lambda x: td.map(lambda v: v + 1, x, schedule=Table([1, 0])),
                   backend="reference")  # fmt: skip
    assert later(np.ones((1, 2))).sum() == 4
    with pytest.raises(ScheduleError, match="a Table for 2 ids cannot order"):
        later(a)
    with pytest.raises(ScheduleError, match="is not a bijection"):
        td.run(td.map(lambda x: x + 1, a, schedule=Twice()), backend="reference")


class Falling(PlaneOrder):
    width: int
    by: int = 0

    def plane(self, i: Any, height: Any, width: Any) -> Any:
        return i // width, (i % width) // self.width * self.width + (i % width + self.by) % 1


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (2.5, r"width must be an integer, got 2\.5 \(float\)"),
        ("3", 'width must be an integer, got "3"'),
        (True, "width must be an integer, got True"),
        (0, "width must be 1 or more, got 0"),
    ],
)
def test_integers_of_an_own_order_are_checked_as_those_of_ours(width: Any, said: str) -> None:
    with pytest.raises(ScheduleError if width == 0 else ScheduleTypeError, match=said):
        Falling(width)


def test_other_integers_may_be_nothing_or_less() -> None:
    assert Falling(np.int64(3)).width == 3 and type(Falling(np.int64(3)).width) is int
    assert [Falling(2, by).by for by in (0, -4)] == [0, -4]


def test_a_drawing_says_what_is_wrong() -> None:
    from treadle.skeletons.schedules import draw

    assert "not a bijection" not in draw(Falling(1), (2, 4))
    picture, words = draw(Falling(2), (2, 4)).split("\n\n")
    assert "-1" in picture and words.endswith("ids 0 and 1 both visit (0, 0).")
