"""The name that errors give to an operation: that of the public function that the user called.

Operations are built from each other (`nanmax` from `max`), and the one that finds a mistake names
itself; the stack has the one that the user called.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from .evaluator import public

F = TypeVar("F", bound=Callable[..., object])

#: The start of a message that names an operation.
_NAMED = re.compile(
    r"'?(?P<name>[a-z]\w*(?:\.\w+)?)"
    r"(?=:|'s shape|'? (?:needs|cannot|takes|along|makes|can make|has no argument|was started)\b)"
)
#: The callee in the text of a call.
_CALLEE = re.compile(r"(?:\w+\.)*(\w+)\(")
_PACKAGES = ("linalg", "fft", "random")


def operation_wrapper(call: F) -> F:
    """Mark a function as the wrapper of a public operation."""
    call.__dict__["is_operation"] = True
    return call


def written(operation: str, text: str) -> str:
    """The public operation that an expression calls, if it differs from `operation`, from which it
    is built: `std` for the `sum` in td.std(x); else ""."""
    callee = _CALLEE.match(text)
    name = callee[1] if callee else ""
    if not name or operation.partition(" ")[0] == name:
        return ""
    full = (f"{package}.{name}" if package else name for package in ("", *_PACKAGES))
    return name if any(getattr(_of_package(f), "is_operation", False) for f in full) else ""


def named(
    message: str, is_users: Callable[[FrameType], bool], text: Callable[[FrameType], str]
) -> str:
    """The message of an error, with the operation's name replaced by that of the public operation
    that the user's code called.  `text` returns the expression that a frame evaluates."""
    found = _NAMED.match(message)
    if found is None or not callable(_of_package(found["name"])):
        return message
    called = _called(is_users, text)
    if called is None or called == found["name"]:
        return message
    return message[: found.start("name")] + called + message[found.end() :]


def _called(is_users: Callable[[FrameType], bool], text: Callable[[FrameType], str]) -> str | None:
    """The name of the outermost operation on the stack below the user's code; None if there is
    none, or if a program is running."""
    outermost: object = None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_users(frame):
        if frame.f_globals.get("__name__", "").startswith(("treadle.backend", "treadle.driver")):
            return None
        if frame.f_code.co_name == "call":
            function = frame.f_locals.get("function")
            outermost = function if getattr(function, "is_operation", False) else outermost
        frame = frame.f_back
    if frame is None or outermost is None:
        return None
    own = str(getattr(outermost, "__name__", ""))
    callee = _CALLEE.match(text(frame))
    for name in (callee[1] if callee else own, own):
        for package in ("", *_PACKAGES):
            full = f"{package}.{name}" if package else name
            if getattr(_of_package(full), "__wrapped__", None) is outermost:
                return full
    return None


def _of_package(name: str) -> object:
    package, _, function = name.rpartition(".")
    return getattr(public(package), function, None) if package else public(name)
