"""The layers of a schedule other than its order: their base class, and each of them.

A subclass only writes its parameters as annotated class attributes. It becomes a frozen
dataclass that prints as the code that makes it and composes with ``|``.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np

from treadle.dsl.errors import without_frames
from treadle.dsl.graphs.encoding import where_to_define
from treadle.dsl.scalar import run_time_argument
from treadle.dsl.schedule import ScheduleError, ScheduleTypeError, as_schedule

if TYPE_CHECKING:
    from .schedule import Schedule


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Layer:
    """One layer of a schedule: an immutable, hashable, printable value.

    ``slot`` names the kind of the layer; a schedule has at most one layer of each kind
    (schedules.md, section 1). A layer stands for the schedule that has only this layer.

    >>> class Depth(Layer):
    ...     slot = "depth"
    ...     levels: int = 2
    >>> Depth(), Depth(3), Depth(3) == Depth(levels=3)
    (Depth(), Depth(levels=3), True)
    """

    slot: ClassVar[str] = ""
    #: Installed by the modules that define them, which import this one.
    _compose: ClassVar[Callable[[Layer], Schedule]]
    _plot: ClassVar[Callable[..., Any]]
    _pictured: ClassVar[Callable[..., str | None]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own_init = "__init__" in cls.__dict__
        dataclasses.dataclass(frozen=True, repr=False)(cls)
        _explain_calls(cls, finish=not own_init)

    def arguments(self) -> dict[str, Any]:
        """The arguments that make this value again, except those equal to their defaults."""
        values = {field.name: getattr(self, field.name) for field in _fields(self)}
        return {f.name: values[f.name] for f in _fields(self) if not _is_default(f, values[f.name])}

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """The inverse of ``arguments``: the value that has them."""
        return cls(**arguments)

    def _finish(self) -> None:
        """Validation after construction that a subclass's ``__post_init__`` cannot skip."""

    @classmethod
    def example(cls) -> str:
        """A call of the class with its required parameters.

        >>> class Depth(Layer):
        ...     levels: int
        ...     width: int = 2
        >>> Depth.example()
        'Depth(levels)'
        """
        parameters = inspect.signature(cls).parameters.values()
        needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        return f"{cls.__name__}({', '.join(p.name for p in needed)})"

    def to_dict(self) -> dict[str, Any]:
        """The layer as a dictionary of strings, numbers and lists, which JSON can store."""
        arguments = {name: _plain(value, self) for name, value in self.arguments().items()}
        return {"kind": _kind(self), **arguments}

    def as_schedule(self) -> Schedule:
        """The schedule that has only this layer."""
        return self._compose()

    def replace(self, *layers: Layer) -> Schedule:
        """``Schedule.replace`` on the schedule that has only this layer.

        >>> from treadle.skeletons.schedules import Block, Column, Row
        >>> Row().replace(Column(3)), Row().replace(Block(8, 32))
        (Column(3), Row() | Block(8, 32))
        """
        return self.as_schedule().replace(*layers)

    @without_frames
    def plot(self, shape: Sequence[int], ax: Any = None) -> Any:
        """Draws the outputs of ``shape`` coloured by time, with the borders of warps and blocks
        (matplotlib), on ``ax`` if given; returns the axes. See ``td.simulator.plot_order``.
        """
        return self._plot(shape, ax)

    def _repr_html_(self) -> str | None:
        """A small picture, which notebooks show; None if nothing determines an order."""
        return self._pictured()

    def __repr__(self) -> str:
        arguments = self.arguments()
        positional = [f.name for f in _fields(self) if not (_has_default(f) or f.kw_only)]
        parts = [literal(arguments.pop(name)) for name in positional]
        optional = [f for f in _fields(self) if f.name in arguments]
        optional.sort(key=lambda f: f.kw_only is True)  # inherited fields such as grain come last
        parts += [f"{f.name}={literal(arguments[f.name])}" for f in optional]
        return f"{type(self).__name__}({', '.join(parts)})"

    @without_frames
    def __or__(self, other: Layer | Schedule) -> Schedule:
        return self.as_schedule() | other

    @without_frames
    def __ror__(self, other: object) -> Schedule:
        # Reached only when the left operand is not a layer: as_schedule raises the error.
        return as_schedule(other) | self


def literal(value: object) -> str:
    """The source text of a parameter: double quotes for strings, else as Python prints it.

    >>> print(literal("block"), literal((8, 32)))
    "block" (8, 32)
    """
    if isinstance(value, str):
        # An apostrophe in front makes repr choose double quotes, unless the text has some.
        return repr(value) if '"' in value else '"' + repr("'" + value)[2:]
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


def legal_form(cls: type) -> str:
    """The signature of a class's constructor, for error messages.

    >>> class Depth(Layer):
    ...     levels: int = 2
    >>> legal_form(Depth)
    'Depth(levels=2)'
    """
    parameters = inspect.signature(cls).parameters.values()
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return f"{cls.__name__}{inspect.Signature(bare)}"


def _fields(layer: Layer) -> tuple[dataclasses.Field[Any], ...]:
    # Every subclass is a dataclass by __init_subclass__; the type checker sees only the base.
    return dataclasses.fields(layer)  # type: ignore[arg-type]


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return not (
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )


def _is_default(field: dataclasses.Field[Any], value: object) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(value == field.default)


def _explain_calls(cls: type, finish: bool) -> None:
    """Makes a wrong call of the class show the right form; `finish`: call `_finish` at the end."""
    plain = cls.__init__  # type: ignore[misc]
    signature = inspect.signature(plain)

    @without_frames
    @functools.wraps(plain)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise ScheduleTypeError(
                f"{cls.__name__}: {error}.", hint=f"The form is {legal_form(cls)}."
            ) from None
        try:
            plain(self, *args, **kwargs)
            hash(self)
        except dataclasses.FrozenInstanceError as error:
            raise ScheduleTypeError(
                f"{cls.__name__}: {error}: a layer is a value, and its __init__ is made for it.",
                hint=f"Write its parameters as annotated class attributes, without __init__: "
                f"class {cls.__name__}({cls.__mro__[1].__name__}): width: int",
            ) from None
        except (TypeError, ValueError) as error:
            if "hash" not in str(error):
                raise
            raise ScheduleTypeError(
                f"{cls.__name__}: parameters are values that can be compared and hashed: {error}.",
                hint="Write a tuple instead of a list or an array; Table takes a permutation.",
            ) from None
        if finish:
            self._finish()

    cls.__init__ = __init__  # type: ignore[misc]


def is_built_in(cls: type) -> bool:
    """Whether this package defines a class, rather than a user."""
    return cls.__module__.startswith("treadle.skeletons.")


def _kind(layer: Layer) -> str:
    cls = type(layer)
    if is_built_in(cls):
        return cls.__name__
    kind = f"{cls.__module__}:{cls.__qualname__}"
    if cls.__module__ == "__main__" or "<locals>" in kind:
        raise ScheduleError(
            f"{layer!r} cannot be stored: another process could not import its class ({kind}).",
            hint=where_to_define(cls),
        )
    return kind


def _plain(value: object, layer: Layer) -> Any:
    if isinstance(value, np.integer | np.floating | np.bool_):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item, layer) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(item, layer) for key, item in value.items()}
    raise ScheduleTypeError(
        f"{type(layer).__name__} cannot be stored: a parameter is {value!r} "
        f"({type(value).__name__}).",
        hint="Parameters are numbers, strings, None, and tuples of these.",
    )


# --- Blocks, outputs per thread, lanes and staging: how a block is computed -----------------------


class Block(Layer):
    """What one thread block (one task on the CPU) covers, in elements: ``Block(rows, cols)``.

    Any number of axes: ``Block(256)``, ``Block(8, 32)``, ``Block(4, 8, 32)``. The extents belong
    to the last axes; a block has extent 1 along the axes before them. With ``PerThread`` a block
    has fewer threads than elements, not more elements.

    >>> Block(8, 32), Block(8, 32).extents
    (Block(8, 32), (8, 32))
    """

    slot = "block"
    extents: tuple[int, ...]

    def __init__(self, *extents: int) -> None:
        if not extents:
            raise ScheduleTypeError(
                "Block: at least one extent is needed.", hint="Write Block(256) or Block(8, 32)."
            )
        checked = tuple(checked_integer(n, Block, "an extent", 1) for n in extents)
        at_most(MOST_ELEMENTS, prod(checked), Block, "the product of extents")
        object.__setattr__(self, "extents", checked)

    def arguments(self) -> dict[str, Any]:
        return {"extents": self.extents}

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        return cls(*arguments["extents"])

    def __repr__(self) -> str:
        return f"Block({', '.join(map(str, self.extents))})"


class PerThread(Layer):
    """The outputs that one thread computes: ``rows`` x ``cols`` neighbours on the last two axes.

    >>> PerThread(rows=8), PerThread()
    (PerThread(rows=8), PerThread())
    """

    slot = "per_thread"
    rows: int = 1
    cols: int = 1

    def __post_init__(self) -> None:
        integer(self, "rows")
        integer(self, "cols")
        at_most(MOST_ELEMENTS, self.rows * self.cols, PerThread, "rows times cols")

    @property
    def extents(self) -> tuple[int, ...]:
        """The outputs along the last axes, as the extents of a ``Block``."""
        return (self.rows, self.cols) if self.rows > 1 else (self.cols,)


class Lanes(Layer):
    """The axis of a block along which the 32 lanes of a warp are placed; by default the last axis.

    On a CPU it is the axis of the vectors. Lanes apply to blocks: without a ``Block``, blocks have
    32 elements along this axis and 8 along the last.

    >>> Lanes(0)
    Lanes(0)
    """

    slot = "lanes"
    axis: int

    def __post_init__(self) -> None:
        integer(self, "axis", least=None)


class Stage(Layer):
    """Stages in shared memory what a block reads more than once: neighbours, transposed reads.

    It makes an order visit blocks, of 8 x 32 elements unless there is a ``Block``. It has no effect
    on a CPU, where the caches do this.

    >>> Block(8, 32) | Stage()
    Block(8, 32) | Stage()
    """

    slot = "stage"


# --- Hints: how loads and stores are cached -------------------------------------------------------

POLICIES = ("default", "streaming", "evict_first", "evict_last", "no_l1")
CLASSES = ("horizontal", "vertical", "stream", "random", "stores")


class Hints(Layer):
    """Cache policies by access class, or for single arrays (Prasetya 2021, sections 1.1, 4.3).

    Classes: ``horizontal`` and ``vertical`` (reuse along a row, between rows), ``stream`` (read
    once), ``random`` (data-dependent), ``stores``. ``arrays`` maps names of arrays to policies
    and takes precedence over the classes: an argument has its own name, a result that of the
    operation. Policies: "default", "streaming" (read or written once), "evict_first",
    "evict_last", "no_l1" (cached in L2 only). Without a policy the hardware decides.

    >>> Hints(stream="evict_first", arrays={"image": "evict_last"})
    Hints(stream="evict_first", arrays={"image": "evict_last"})
    """

    slot = "hints"
    horizontal: str | None = None
    vertical: str | None = None
    stream: str | None = None
    random: str | None = None
    stores: str | None = None
    arrays: Mapping[str, str] | tuple[tuple[str, str], ...] = ()

    def __init__(
        self,
        *,
        horizontal: str | None = None,
        vertical: str | None = None,
        stream: str | None = None,
        random: str | None = None,
        stores: str | None = None,
        arrays: Mapping[str, str] | tuple[tuple[str, str], ...] = (),
        **unknown: str,
    ) -> None:
        for name in unknown:
            raise ScheduleError(
                f"Hints: there is no access class {literal(name)}; there are "
                f"{', '.join(CLASSES)}, and arrays={{name: policy}} for single arrays.",
                hint=did_you_mean(name, CLASSES),
            )
        given = (horizontal, vertical, stream, random, stores)
        for name, policy in zip(CLASSES, given, strict=True):
            if policy is not None:
                policy = choice(policy, POLICIES, Hints, name)
            object.__setattr__(self, name, policy)
        object.__setattr__(self, "arrays", _by_array(arrays))

    @property
    def by_array(self) -> dict[str, str]:
        """The policies of single arrays."""
        return dict(self.arrays)

    def arguments(self) -> dict[str, Any]:
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        given["arrays"] = self.by_array
        return {name: value for name, value in given.items() if value}


def _by_array(arrays: object) -> tuple[tuple[str, str], ...]:
    """Sorted pairs, so that hints are hashable and equal when they mean the same."""
    try:
        pairs = dict(arrays)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise ScheduleTypeError(
            f"Hints: arrays must map names to policies, got {arrays!r}.",
            hint='Write Hints(arrays={"image": "evict_last"}).',
        ) from None
    for name in pairs:
        if not isinstance(name, str):
            raise ScheduleTypeError(f"Hints: names of arrays are strings, got {name!r}.")
    return tuple(
        sorted((k, choice(v, POLICIES, Hints, f"arrays[{k!r}]")) for k, v in pairs.items())
    )


# --- Residency: which processor runs a block ------------------------------------------------------

METHODS = ("mst", "kway", "bisect")


class Residency(Layer):
    """The base class of residencies.

    >>> import treadle as td
    >>> isinstance(td.schedule.Agents(2), td.schedule.Residency)
    True
    """

    slot = "residency"


class Grid(Residency):
    """The hardware assigns blocks to multiprocessors, roughly in the order of their ids.

    >>> Grid()
    Grid()
    """


class Clusters(Residency):
    """Groups of ``n`` neighbouring blocks run on one multiprocessor, if the hardware assigns blocks
    round-robin: the ids of a group are as far apart as there are multiprocessors (redirection;
    Li et al., ASPLOS 2017). On a CPU neighbouring blocks run together anyway.

    >>> Clusters(4)
    Clusters(4)
    """

    n: int

    def __post_init__(self) -> None:
        integer(self, "n")


class Agents(Residency):
    """``per_sm`` persistent blocks on each multiprocessor process the blocks assigned to it.

    A persistent block reads its multiprocessor from ``%smid``, takes the next block of a contiguous
    range, and steals from the tail of the fullest range when its own is empty (Li et al., ASPLOS
    2017, agent-based clustering). The threads of a CPU always work like this.

    >>> Agents(2)
    Agents(2)
    """

    per_sm: int

    def __post_init__(self) -> None:
        integer(self, "per_sm")


class LocalityGraph(Residency):
    """Persistent blocks with a queue per multiprocessor, filled from the block-sharing graph.

    Blocks that read many cache lines in common share a queue; on a CPU, a thread. ``method``:
    "mst", the order of a maximum spanning tree; "kway", a partition into as many parts as there
    are multiprocessors; "bisect", recursive bisection (PAVER: Tripathy et al., TACO 2021). The
    last two need ``pymetis`` (the extra ``schedules``). Blocks are 8 x 32 unless a ``Block`` says
    otherwise. The graph is built at the first call for given extents and, if indices depend on
    the contents of arguments, rebuilt whenever these change.

    >>> LocalityGraph(method="kway")
    LocalityGraph(method="kway")
    """

    method: str = "mst"

    def __post_init__(self) -> None:
        choice(self.method, METHODS, LocalityGraph, "method")


# --- Choosers: how the layers that a schedule leaves open are chosen ------------------------------


class Chooser(Layer):
    """The base class of choosers."""

    slot = "chooser"


class Auto(Chooser):
    """The model chooses, without running anything. As a schedule, it fixes no layer.

    >>> Auto() | Auto(), Auto() == Auto() | Auto()
    (Auto(), True)
    """


class Tuned(Chooser):
    """The fastest measured schedule, or the choice of ``Auto`` until one has been measured.

    >>> Tuned()
    Tuned()
    """


# --- Validation of parameters ------------------------------------------------------------------


def integer(layer: Layer, name: str, least: int | None = 1) -> None:
    """Checks and normalises an integer parameter of a layer under construction.

    Raises ``ScheduleTypeError`` for anything but an integer, ``ScheduleError`` below ``least``.
    """
    value = checked_integer(getattr(layer, name), type(layer), name, least)
    object.__setattr__(layer, name, value)


#: The largest number in a schedule: a product of two is a number of 64 bits.
LARGEST = 2**31

#: The most elements of a block or a thread, which iterate over all of them, also where only a part
#: lies inside the array.
MOST_ELEMENTS = 2**24


def checked_integer(value: object, owner: type[Layer], name: str, least: int | None) -> int:
    """``value`` as an ``int`` that is at least ``least``, or an error that shows the form.

    >>> checked_integer(8, Layer, "width", 1)
    8
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        of_the_run = run_time_argument(value, f"{owner.__name__}: {name}")
        if of_the_run is not None:
            raise ScheduleTypeError(of_the_run.message, hint=of_the_run.hint) from None
        raise ScheduleTypeError(
            f"{owner.__name__}: {name} must be an integer, got {literal(value)} "
            f"({type(value).__name__}).",
            hint=f"The form is {legal_form(owner)}.",
        ) from None
    if least is not None and number < least:
        raise ScheduleError(
            f"{owner.__name__}: {name} must be {least} or more, got {number}.",
            hint=f"The form is {legal_form(owner)}.",
        )
    return number if least is None else at_most(LARGEST, number, owner, name)


def at_most(most: int, number: int, owner: type[Layer], name: str) -> int:
    """``number``, or an error if it is above ``most``.

    >>> at_most(8, 8, Block, "an extent")
    8
    """
    if number > most:
        raise ScheduleError(
            f"{owner.__name__}: {name} must be {most} or less, got {number}.",
            hint="A part of an array need not be larger than the array.",
        )
    return number


def choice(value: object, legal: Iterable[str], owner: type[Layer], name: str) -> str:
    """``value`` when it is one of a few words; else an error that lists them.

    >>> choice("mst", ("mst", "kway"), Layer, "method")
    'mst'
    """
    words = tuple(legal)
    if isinstance(value, str) and value in words:
        return value
    kind = ScheduleError if isinstance(value, str) else ScheduleTypeError
    raise kind(
        f"{owner.__name__}: {name} must be one of {', '.join(map(literal, words))}, "
        f"got {literal(value)}.",
        hint=did_you_mean(value, words),
    )


def did_you_mean(word: object, legal: Iterable[str]) -> str | None:
    """A suggestion for a misspelt word, if one is near.

    >>> did_you_mean("strem", ["stream", "random"])
    'Did you mean "stream"?'
    """
    near = difflib.get_close_matches(str(word), list(legal), 1)
    return f"Did you mean {literal(near[0])}?" if near else None
