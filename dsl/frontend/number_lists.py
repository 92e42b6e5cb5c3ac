"""Lists of numbers among the arguments of traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from ..errors import TracingError, no_attribute
from ..scalar import Scalar

#: What Python's operators do with lists, where an array was meant.
_LISTS = {
    "*": "* repeats a list",
    "+": "+ joins lists",
    "==": "== compares lists, and is False for anything else",
    "!=": "!= compares lists, and is True for anything else",
}
_HINT = "Give one array, f(np.asarray(x)), or make it here: {}td.stack(x).  [*x, *y] joins lists."


class NumberList(list[object]):
    """A list that is an argument and consists of numbers: a list of its parts like any other, but
    arithmetic with it, and comparisons with anything but a list, is an error.  Whoever writes
    `x * 2` means an array, and a list would be repeated."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(
                f"a list of numbers has no {name!r}: it is no array.  {_hint(self)}", name
            )

    def __reduce__(self) -> tuple[Callable[..., list[object]], tuple[list[object]]]:
        return as_argument, (list(self),)


def as_argument(parts: Sequence[object]) -> list[object]:
    """The list of these symbols, as an argument of a function that is traced."""
    numbers = bool(parts) and all(isinstance(p, Scalar | NumberList) for p in parts)
    return NumberList(parts) if numbers else list(parts)


def _hint(numbers: NumberList) -> str:
    nested = any(isinstance(p, NumberList) for p in numbers)
    return _HINT.replace("{}td.stack", "td.array" if nested else "td.stack")


def _refusing(operator: str) -> Callable[..., NoReturn]:
    def refuse(self: NumberList, *_: object) -> NoReturn:
        instead = _LISTS.get(operator, f"{operator} is not defined for lists")
        raise TracingError(
            f"an argument that is a list of numbers is not an array: {instead}.", hint=_hint(self)
        )

    return refuse


def _comparing(operator: str, name: str) -> Callable[[NumberList, object], object]:
    refuse, compare = _refusing(operator), getattr(list, name)

    def compared(self: NumberList, other: object) -> object:
        return compare(self, other) if isinstance(other, list) else refuse(self)

    return compared


def _joining(name: str) -> Callable[[NumberList, object], object]:
    """`x + [0.0]` and `[0.0] + x` join: whoever writes a list means lists."""
    refuse, join = _refusing("+"), getattr(list, name, None)

    def joined(self: NumberList, other: object) -> object:
        if isinstance(other, NumberList) or not isinstance(other, list):
            refuse(self)
        return [*other, *self] if join is None else join(self, other)

    return joined


_ARITHMETIC = {"sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
               "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
               }  # fmt: skip
for _word, _sign in _ARITHMETIC.items():
    for _prefix in ("", "r", "i"):
        setattr(NumberList, f"__{_prefix}{_word}__", _refusing(_sign))
for _word, _sign in {"neg": "-", "pos": "+", "invert": "~", "abs": "abs"}.items():
    setattr(NumberList, f"__{_word}__", _refusing(_sign))
for _word, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
    setattr(NumberList, f"__{_word}__", _comparing(_sign, f"__{_word}__"))
for _word in ("__add__", "__radd__", "__iadd__"):
    setattr(NumberList, _word, _joining(_word))
#: Messages name it as Python's.
NumberList.__name__ = NumberList.__qualname__ = "list"
