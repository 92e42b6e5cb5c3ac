"""Defaults for a block of code, per thread: `with td.config(backend=…, check=…)`."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from .errors import TracingError, user_facing


@dataclass(frozen=True)
class Settings:
    """What a run may depend on besides the program.

    backend None: the best that works here; check: out-of-range indices raise; fast_math: float
    identities that may change a bit; recognise: idioms become library kernels; deterministic: no
    result depends on the order of atomics; fast_precision: Strassen for floats.
    """

    backend: str | None = None
    check: bool = False
    fast_math: bool = False
    recognise: bool = True
    deterministic: bool = False
    fast_precision: bool = False


#: The environment variables that treadle reads.
VARIABLES = (
    "TREADLE_BACKEND",
    "TREADLE_CACHE_DIR",
    "TREADLE_CHECK",
    "TREADLE_NUM_THREADS",
    "TREADLE_THREADS",
    "TREADLE_VECTOR_BYTES",
)


_OF_TESTS = ("TREADLE_TEST_", "TREADLE_UPDATE_", "TREADLE_LONG_")


def _warn_of_unknown_variables() -> None:
    """A misspelt variable would be ignored in silence."""
    for name in os.environ:
        if name.startswith("TREADLE_") and not name.startswith((*VARIABLES, *_OF_TESTS)):
            near = get_close_matches(name, VARIABLES, 1)
            meant = f"; did you mean {near[0]}?" if near else "."
            warnings.warn(f"treadle reads no variable {name}{meant}", stacklevel=2)


_warn_of_unknown_variables()


#: Equal settings are one object, on all threads: calls are repeated where `is` says so.
_known: dict[Settings, Settings] = {}


def _interned(made: Settings) -> Settings:
    return _known.setdefault(made, made)


def _of_environment() -> dict[str, Any]:
    return {
        "backend": os.environ.get("TREADLE_BACKEND") or None,
        "check": os.environ.get("TREADLE_CHECK", "") not in ("", "0"),
    }


class _Local(threading.local):
    def __init__(self) -> None:
        self.environment = _of_environment()
        self.settings = _interned(Settings(**self.environment))
        self.blocks = 0  # of `config` and `precision` around what runs


_local = _Local()


def settings() -> Settings:
    """The settings in force on this thread."""
    return _local.settings


def look_around() -> None:
    """Read the environment again, outside all blocks: calls that trace do, calls that repeat
    spare themselves its half microsecond."""
    if _local.blocks:
        return
    now = _of_environment()
    if now != _local.environment:
        _local.environment = now
        _local.settings = _interned(replace(_local.settings, **now))


@contextmanager
def _block(**changes: Any) -> Iterator[None]:
    look_around()
    before = _local.settings
    _local.settings = _interned(replace(before, **changes))
    _local.blocks += 1
    try:
        yield
    finally:
        _local.settings = before
        _local.blocks -= 1


@user_facing
def config(
    *,
    backend: str | None = None,
    check: bool | None = None,
    fast_math: bool | None = None,
    recognise: bool | None = None,
    deterministic: bool | None = None,
) -> AbstractContextManager[None]:
    """Defaults for a block; what is not given stays as it is."""
    from treadle.backend.registry import require_name

    require_name(backend)
    given = {"backend": backend, "check": check, "fast_math": fast_math, "recognise": recognise,
             "deterministic": deterministic}  # fmt: skip
    return _block(**{k: v for k, v in given.items() if v is not None})


@user_facing
def precision(fast: bool = False) -> AbstractContextManager[None]:
    """`with td.precision(fast=True)`: float products may use Strassen's algorithm."""
    if not isinstance(fast, bool):
        raise TracingError(f"td.precision: fast is True or False, got {fast!r}.",
                           hint="Write td.precision(fast=True).")  # fmt: skip
    return _block(fast_precision=fast)


def current_backend() -> str:
    """The backend a program built here will run on, unless told otherwise."""
    from treadle.backend.registry import choose

    return choose(settings().backend)
