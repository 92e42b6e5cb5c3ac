"""The base class of the layers of a schedule.

A subclass only writes its parameters as annotated class attributes. It becomes a frozen
dataclass that prints as the code that makes it and composes with ``|``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np

from treadle.dsl.errors import without_frames
from treadle.dsl.graphs.encoding import where_to_define
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
        except TypeError as error:
            if "unhashable" not in str(error):
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
