"""Schedules: at most one layer of each kind, composed with ``|``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from treadle.dsl import schedule
from treadle.dsl.errors import user_facing_maker, without_frames
from treadle.dsl.schedule import ScheduleError, ScheduleTypeError

from .layers import (
    Auto,
    Block,
    Chooser,
    Hints,
    Lanes,
    Layer,
    LocalityGraph,
    PerThread,
    Residency,
    Stage,
)
from .orders import Order, Row
from .resolved import Resolved, fit, resolve
from .user_orders import built_in, require_bijection

#: The version of stored dictionaries.
VERSION = 1


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Schedule:
    """An immutable set of layers; a layer that is ``None`` is left to ``chooser``.

    ``a | b`` has the layers of both, and each layer may come from one side only. ``Auto()``, the
    schedule without layers, is neutral. A schedule of one layer equals that layer, and printing
    gives the code that makes the schedule.

    >>> from treadle.skeletons.schedules import Column
    >>> PerThread(rows=8) | Column(256) | Block(8, 32)
    Column(256) | Block(8, 32) | PerThread(rows=8)
    """

    order: Order | None = None
    block: Block | None = None
    per_thread: PerThread | None = None
    lanes: Lanes | None = None
    stage: Stage | None = None
    residency: Residency | None = None
    hints: Hints | None = None
    chooser: Chooser = dataclasses.field(default_factory=Auto)

    def __post_init__(self) -> None:
        _refuse_blocks_of_single_elements(self)
        _refuse_part_of_a_thread(self)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that are fixed, in printing order."""
        values = (getattr(self, slot) for slot in SLOTS)
        return tuple(value for value in values if value is not None and value != Auto())

    @without_frames
    def __or__(self, other: ScheduleLike) -> Schedule:
        merged = {layer.slot: layer for layer in self.layers}
        for layer in as_schedule(other).layers:
            if layer.slot in merged:
                raise _twice(merged[layer.slot], layer)
            merged[layer.slot] = layer
        return _from_layers(merged)

    @without_frames
    def __ror__(self, other: object) -> Schedule:
        return as_schedule(other) | self

    @without_frames
    def replace(self, *layers: Layer) -> Schedule:
        """This schedule with ``layers`` in place of its layers of the same kinds.

        >>> from treadle.skeletons.schedules import Column
        >>> (Column(8) | Block(8, 32)).replace(Column(64))
        Column(64) | Block(8, 32)
        """
        merged = {layer.slot: layer for layer in self.layers}
        for new in layers:
            for layer in as_schedule(new).layers:
                merged[layer.slot] = layer
        return _from_layers(merged)

    @without_frames
    def plot(self, shape: Sequence[int], ax: Any = None) -> Any:
        """Draws the outputs of ``shape`` coloured by time, with the borders of warps and blocks
        (matplotlib), on ``ax`` if given; returns the axes. See ``td.simulator.plot_order``.
        """
        return Layer._plot(self, shape, ax)

    def _repr_html_(self) -> str | None:
        """A small picture, which notebooks show; None if nothing determines an order."""
        return Layer._pictured(self)

    @property
    def visits_blocks(self) -> bool:
        """Whether an order without a ``grain`` visits blocks in this schedule."""
        others = self.lanes is not None or self.stage is not None
        by_graph = isinstance(self.residency, LocalityGraph)
        return self.block is not None or others or by_graph

    def resolve(
        self, ndim: int, *, block: Block | None = None, leaf: Sequence[int] | None = None
    ) -> Resolved:
        """What an operation of rank ``ndim`` visits, in which order and in which units.

        Of layers that the schedule leaves open, the order is ``Row()``, a thread has one output,
        and blocks (where blocks are visited) are ``block``, or 8 x 32. A block given here never
        changes the grain: where elements are visited, it is the number of threads of a block.
        ``leaf`` is the number of elements along each axis that every schedule
        computes as one unit: extents are rounded up to multiples of it, and the result counts
        leaves. Raises ``ScheduleError`` when a layer does not fit the rank.

        >>> from treadle.skeletons.schedules import Column
        >>> (Column(40) | Block(8, 32)).resolve(2).order
        Column(2)
        """
        order = self.order or Row()
        if ndim:
            require_bijection(order, ndim)
        return resolve(
            ndim,
            order,
            order.grain or ("block" if self.visits_blocks else "thread"),
            self.block or block,
            self.per_thread,
            self.lanes,
            leaf,
        )

    def as_schedule(self) -> Schedule:
        """Itself."""
        return self

    def require(
        self,
        axes: int,
        extents: Sequence[int] | None = None,
        *,
        line: bool = False,
        user_orders: bool = True,
    ) -> None:
        """Raises ``ScheduleError`` if the schedule does not fit an operation with ``axes`` axes or,
        where ``extents`` are given, if its order cannot number them.  ``line``: the axes are
        flattened into one.  ``user_orders=False``: user-defined orders are not tested."""
        asked = self.along_a_line() if line else self
        if not user_orders and asked.order is not None and not built_in(asked.order):
            asked = dataclasses.replace(asked, order=None)
        plan = asked.resolve(axes)
        if extents is not None:
            plan.order.require(tuple(int(n) for n in plan.grid(tuple(extents))))

    def to_dict(self) -> dict[str, Any]:
        """The schedule as a dictionary of strings, numbers and lists, which JSON can store.

        Raises ``ScheduleError`` for an order that no other process could import.

        >>> from treadle.skeletons.schedules import Column
        >>> (Column(256) | Block(8, 32)).to_dict()["order"]
        {'kind': 'Column', 'width': 256}
        """
        found: dict[str, Any] = {"version": VERSION}
        for layer in self.layers:
            found[layer.slot] = layer.to_dict()
        return found

    def along_a_line(self) -> Schedule:
        """This schedule for a flattened domain: a block is a run of as many elements.

        >>> (Block(8, 32) | PerThread(rows=2)).along_a_line()
        Block(256) | PerThread(cols=2)
        """
        layers: list[Layer] = []
        if self.block is not None:
            layers.append(Block(math.prod(self.block.extents)))
        if self.per_thread is not None:
            layers.append(PerThread(cols=math.prod(self.per_thread.extents)))
        return dataclasses.replace(self, lanes=None).replace(*layers)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Schedule | Layer):
            return self.layers == as_schedule(other).layers
        return NotImplemented

    def __hash__(self) -> int:
        # A schedule of one layer equals that layer, so their hashes are equal too.
        layers = self.layers or (Auto(),)
        return hash(layers[0]) if len(layers) == 1 else hash(layers)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.layers)) or repr(Auto())


SLOTS = tuple(field.name for field in dataclasses.fields(Schedule))
ScheduleLike: TypeAlias = Schedule | Layer


@user_facing_maker
def as_schedule(value: object) -> Schedule:
    """The schedule that a value stands for: itself, or the one with only this layer.

    Raises ``ScheduleTypeError`` for anything else.

    Parameters
        value: a schedule or a layer.

    Result: a `Schedule`.

    >>> from treadle.skeletons.schedules import Column
    >>> as_schedule(Column(8)).order, as_schedule(Column(8)).block
    (Column(8), None)
    """
    return cast(Schedule, schedule.as_schedule(value))


def _of_layer(layer: Layer) -> Schedule:
    if layer.slot not in SLOTS:
        raise ScheduleTypeError(f"{layer!r} is not a layer of a schedule: {', '.join(SLOTS)}.")
    return _from_layers({layer.slot: layer})


Layer._compose = _of_layer


#: A layer of more than `_LONG` characters is abbreviated to `_KEPT`, or a table to its length.
_LONG, _KEPT = 120, 40


def shown(value: object) -> str:
    """A schedule as text for people: as it is written, with long layers abbreviated.

    >>> from treadle.skeletons.schedules import Block, Table
    >>> shown(Table(range(100)) | Block(32))
    'Table(… 100 entries …) | Block(32)'
    """
    return " | ".join(map(_short, as_schedule(value).layers)) or repr(Auto())


def _short(layer: Layer) -> str:
    text, ids = repr(layer), getattr(layer, "ids", None)
    if len(text) <= _LONG:
        return text
    start = text[:_KEPT] if ids is None else f"{type(layer).__name__}(… {len(ids):,} entries"
    return f"{start} …)"


def _from_layers(layers: dict[str, Layer]) -> Schedule:
    return Schedule(**cast("dict[str, Any]", layers))


_EXAMPLES = {
    "order": "an order",
    "block": "a block",
    "per_thread": "a number of outputs per thread",
    "lanes": "an axis of lanes",
    "stage": "a staging",
    "residency": "a residency",
    "hints": "one set of hints",
    "chooser": "a chooser",
}


def _twice(old: Layer, new: Layer) -> ScheduleError:
    if isinstance(old, Hints):
        return ScheduleError(
            f"both sides have hints: {old!r} and {new!r}.",
            hint="Write one Hints(...) with all policies.",
        )
    article = _EXAMPLES[old.slot]
    return ScheduleError(
        f"a schedule has one layer of each kind, and {old!r} and {new!r} are both {article}.",
        hint=f"Keep one of them; to exchange it in a schedule, write schedule.replace({new!r}).",
    )


def _refuse_blocks_of_single_elements(schedule: Schedule) -> None:
    order, block, residency = schedule.order, schedule.block, schedule.residency
    if order is None or order.grain != "thread":
        return
    blocks = repr(dataclasses.replace(order, grain=None))
    layer = schedule.lanes if schedule.stage is None else schedule.stage
    if block is not None and any(extent > 1 for extent in block.extents[:-1]):
        raise ScheduleError(
            f"{order!r} visits single elements, so that a block is a run of them and {block!r} "
            "cannot be a rectangle.",
            hint=f"Write {blocks} | {block!r} to visit blocks, or "
            f"{order!r} | Block({math.prod(block.extents)}).",
        )
    if isinstance(residency, LocalityGraph):
        raise ScheduleError(
            f"{residency!r} queues blocks of elements, and {order!r} visits single elements.",
            hint=f"Write {blocks} | Block(8, 32) | {residency!r}.",
        )
    if layer is not None:
        raise ScheduleError(
            f"{order!r} visits single elements, and {layer!r} applies to blocks.",
            hint=f"Write {blocks} | Block(8, 32) | {layer!r} to visit blocks.",
        )


def _refuse_part_of_a_thread(schedule: Schedule) -> None:
    block, per_thread = schedule.block, schedule.per_thread
    if block is None or per_thread is None:
        return
    if schedule.order is not None and schedule.order.grain == "thread":
        patch: tuple[int, ...] = (per_thread.rows * per_thread.cols,)
    else:
        patch = per_thread.extents
    rank = max(len(patch), len(block.extents))
    covered, patch = fit(block.extents, rank), fit(patch, rank)
    if any(extent % size for extent, size in zip(covered, patch, strict=True)):
        whole = [-(-extent // size) * size for extent, size in zip(covered, patch, strict=True)]
        raise ScheduleError(
            f"{block!r} is not a multiple of {per_thread!r}: block extents count elements.",
            hint=f"Write Block({', '.join(map(str, whole))}).",
        )
