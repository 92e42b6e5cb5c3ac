"""How the arguments of a call reach a function: by position or by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from treadle.dsl.errors import keywords, misfitting, unknown_keyword

#: What a user gives to a function, or a user's function gets: of any type.
Value: TypeAlias = Any

#: The forms of calls that are remembered for a function.
FORMS = 64


class Form(NamedTuple):
    """A way of writing calls: the keywords in the order of the parameters, and those of them, the
    last ones, that the function takes by name."""

    order: tuple[str, ...]
    by_name: tuple[str, ...]


def separated(
    values: tuple[Value, ...], by_name: Sequence[str]
) -> tuple[tuple[Value, ...], dict[str, Value]]:
    """The values of a call by position, and those by name."""
    count = len(values) - len(by_name)
    return values[:count], dict(zip(by_name, values[count:], strict=True))


class Forms:
    """The forms of the calls of a function.

    A call is its values in the order of the parameters: those that are given.  What is not given
    has the default that the function has, a constant.
    """

    def __init__(self, function: Callable[..., Value]) -> None:
        self._function = function
        self._known: dict[tuple[object, ...], Form] = {}

    def values(
        self, args: tuple[Value, ...], kwargs: Mapping[str, Value]
    ) -> tuple[tuple[Value, ...], tuple[str, ...]]:
        """The values of a call with keywords, and the names of the last of them, which are given to
        the function by name."""
        key = len(args), *kwargs
        form = self._known.get(key)
        if form is None:
            form = self._form(args, kwargs)
            if len(self._known) >= FORMS:
                self._known.clear()
            self._known[key] = form
        return (*args, *[kwargs[word] for word in form.order]), form.by_name

    def _form(self, args: tuple[Value, ...], kwargs: Mapping[str, Value]) -> Form:
        function = self._function
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # not known: of a function of C
            return Form(tuple(kwargs), tuple(kwargs))
        known = keywords(function)
        if known is not None and not known.issuperset(kwargs):
            raise unknown_keyword(function, kwargs, known)
        try:
            bound = signature.bind(*args, **{word: word for word in kwargs})
        except TypeError as misfit:
            raise misfitting(function, args, misfit) from None
        by_name = tuple(bound.kwargs)
        return Form((*bound.args[len(args) :], *by_name), by_name)

    def names(self, count: int, by_name: Sequence[str] = ()) -> list[str]:
        """The names of a call's values, for explanations and errors."""
        try:
            found = [
                p.name
                for p in inspect.signature(self._function).parameters.values()
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ]
        except (TypeError, ValueError):
            found = []
        positional = count - len(by_name)
        found += [f"argument {k}" for k in range(len(found), positional)]
        return [*found[:positional], *by_name]
