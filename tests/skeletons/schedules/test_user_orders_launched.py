"""A user's own order in a program: tried on small shapes, and on the extents of every launch."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.backend.cuda.emulated import emulation
from tests.skeletons.schedules.users_order import Snake
from treadle.dsl.target import CUDA, NATIVE, Target
from treadle.skeletons.schedules import user_orders

S = td.schedule


class Wide(S.Order):
    """A bijection on rows of up to `limit` elements."""

    limit: int = 60

    def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        width = shape[1]
        column = i % width
        return i // width, S.where(width > self.limit, column * 2 % width, column)


class Line(S.Order):
    def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        (count,) = shape
        return (count - 1 - i,)


class Deep(S.Order):
    def coordinates(self, i: Any, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        plane = shape[1] * shape[2]
        return i // plane, i // shape[2] % shape[1], i % shape[2]


class Stuck(S.Order):
    def coordinates(self, i: Any, shape: tuple[Any, ...]) -> Any:
        return i * 0, i % shape[1]


class Bare(S.Order):
    def coordinates(self, i: Any, shape: tuple[Any, ...]) -> Any:
        return i


def blurred() -> Any:
    @td.jit
    def blur(image: Any) -> Any:
        return td.stencil(lambda w: w[0, 0] + w[0, 1], image, name="blur")

    return blur


@pytest.fixture(params=["native", "cuda"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "native":
        with td.config(backend="native"):
            yield "native"
        return
    with emulation(), td.config(backend="cuda"):
        yield "cuda"


def message(call: Callable[[], Any]) -> str:
    with pytest.raises(td.TreadleError) as caught:
        call()
    return str(caught.value)


def test_extents_on_which_it_is_none_are_refused(backend: str) -> None:
    blur = blurred().scheduled(blur=Wide())
    small, large = np.ones((4, 40)), np.ones((4, 136))
    for _ in range(3):  # run, recorded, replayed
        assert np.asarray(blur(small)).min() >= 1
        text = message(lambda: blur(large))
        assert "stencil 'blur': Wide() is not a bijection on (4, 136): ids 0 and 68 both" in text
        assert "td.schedule.check(Wide(), (4, 136))" in " ".join(text.split())


def test_blocks_are_what_is_numbered(backend: str) -> None:
    blur = blurred().scheduled(blur=Wide(limit=20) | S.Block(2, 4))
    assert np.asarray(blur(np.ones((4, 80)))).min() >= 1
    assert "not a bijection on (2, 22)" in message(lambda: blur(np.ones((4, 88))))


def test_extents_are_tried_once_and_orders_of_the_package_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []
    plain = user_orders._visits_each_once
    monkeypatch.setattr(user_orders, "_visits_each_once", lambda *a: tried.append(a) or plain(*a))
    for order in (Wide(limit=90), S.Hilbert(), S.Table(np.arange(4 * 51))):
        blur = blurred().scheduled(blur=order)
        for _ in range(3):
            blur(np.ones((4, 51)))
    assert [(type(order), shape) for order, shape, _ in tried] == [(Wide, (4, 51))]


def test_what_a_user_edits_is_not_taken_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored order is the name of a class; what it computes may be another thing next time."""
    from treadle.backend.native import recipe

    kept: list[Any] = []
    memory = recipe.Recent[str, Any](2)
    monkeypatch.setattr(recipe, "_memory", memory)
    monkeypatch.setattr(recipe._disk, "put", lambda *a: kept.append(a))
    with td.config(backend="native"):
        blurred().scheduled(blur=Snake(height=3))(np.ones((4, 9)))
    assert not kept and not memory


def test_large_grids_are_tried_in_checked_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_orders, "TRIED", 4 * 60)
    monkeypatch.setattr(user_orders, "_AT_ONCE", 100)
    user_orders.require_fit(Wide(limit=50), (4, 61))
    with pytest.raises(S.ScheduleError, match=r"not a bijection on \(4, 62\)"):
        user_orders.require_fit(Wide(limit=50), (4, 62), thorough=True)
    user_orders.require_fit(Wide(limit=50), (4, 50), thorough=True)
    user_orders.require_fit(Wide(limit=50), (0, 62), thorough=True)
    with td.config(check=True, backend="native"):
        blur = blurred().scheduled(blur=Wide(limit=50))
        assert "not a bijection on (4, 64)" in message(lambda: blur(np.ones((4, 64))))


@pytest.mark.parametrize("order", [S.Morton(), S.Column(3), S.Row()])
def test_both_ways_to_look_agree(order: Any) -> None:
    size = order.linear_size((5, 9))
    assert user_orders._visits_each_once(order, (5, 9), size)
    assert not user_orders._visits_each_once(Stuck(), (5, 9), 45)


@pytest.mark.parametrize(("order", "own"), [(Line(), "1 axis"), (Deep(), "3 axes")])
def test_an_order_of_another_rank(order: Any, own: str) -> None:
    wanted = f"stencil 'blur': {order!r} is an order of {own}, and the operation has 2 axes."
    image = np.ones((4, 8))
    blur = blurred()
    with td.config(backend="native"):
        for call in (
            lambda: blur.scheduled(blur=order)(image),
            lambda: blur.lower(image).scheduled(blur=order),
            lambda: td.stencil(lambda w: w[0, 0], image, name="blur").scheduled(order),
        ):
            text = message(call)
            assert wanted in text and "(row, column)" in text.replace("\n ", "")


def test_small_shapes_are_called_so() -> None:
    text = message(lambda: blurred().scheduled(blur=Stuck())(np.ones((4, 8))))
    assert "first tested on a few small shapes" in text
    assert "An order is a bijection" in text and "check(Stuck(), shape)" in text
    text = message(lambda: blurred().scheduled(blur=Bare())(np.ones((4, 8))))
    assert "a tuple of 2 coordinates" in text and "An order is a bijection" not in text


def test_schedules_are_given_by_name() -> None:
    blur, image = blurred(), np.ones((4, 8))
    text = message(lambda: blur.scheduled(S.Column(4)))
    assert "Write blur.scheduled(name=Column(4))" in text
    program = blur.lower(image)
    for wrong in (blur.scheduled, program.scheduled):
        text = message(lambda wrong=wrong: wrong(S.Column(4)))  # type: ignore[misc]
        assert ".scheduled(blur=Column(4))" in text and "operations: blur" in text
    assert 'Did you mean "blur"?' in message(lambda: program.scheduled(blurr=S.Column(4)))


@pytest.mark.parametrize("target", [NATIVE, CUDA], ids=["cpu", "cuda"])
def test_a_block_of_two_axes_on_a_line(target: Target) -> None:
    from treadle.skeletons.lower.lower import LoweringContext, lower

    line, schedule = np.ones(300), S.Block(8, 32)
    for make in (td.sum, td.cumsum, td.cummax):
        text = message(lambda make=make: make(line, schedule=schedule))
        assert "Block(8, 32) has 2 axes, the operation has 1." in text and "Block(32)" in text
    for make in (td.sum, td.cumsum, td.cumprod, td.cummin):  # of the flattened array
        whole = td.jit(lambda x, make=make: make(x, schedule=schedule)).lower(np.ones((9, 40)))
        assert lower(whole.roots[0].node, LoweringContext(target=target)).kernels


def test_explaining_shows_no_frames_of_ours() -> None:
    program = td.jit(
        lambda x: td.stencil(lambda w: w[0], x, schedule=S.Block(2, 2)), backend="native"
    )
    with pytest.raises(S.ScheduleError) as caught:
        program.lower(np.ones(8)).explain()
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
