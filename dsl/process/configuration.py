"""Defaults for a block of code, per thread: `with td.config(backend=…, check=…)`."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..errors import user_facing
from ..evaluator import evaluator
from .environment import variable, warn_of_mistakes


@dataclass(frozen=True)
class Settings:
    """The options of a run that are not part of the program.

    backend: None for the best available; check: out-of-range indices raise; fast_math: permit float
    identities that may change bits; recognise: replace idioms by library kernels; deterministic: no
    result depends on the order of atomics; fast_precision: permit Strassen for floats.
    """

    backend: str | None = None
    check: bool = False
    fast_math: bool = False
    recognise: bool = True
    deterministic: bool = False
    fast_precision: bool = False


warn_of_mistakes()


#: Settings are interned across threads, because replayed calls compare them with `is`.
_known: dict[Settings, Settings] = {}


def _interned(made: Settings) -> Settings:
    return _known.setdefault(made, made)


def _of_environment() -> dict[str, Any]:
    return {"backend": variable("TREADLE_BACKEND"), "check": bool(variable("TREADLE_CHECK"))}


class _Local(threading.local):
    def __init__(self) -> None:
        self.environment = _of_environment()
        self.settings = _interned(Settings(**self.environment))
        self.outside: list[Settings] = []  # settings outside each entered block


_local = _Local()


def settings() -> Settings:
    """The current settings of this thread."""
    return _local.settings


@contextmanager
def under(wanted: Settings) -> Iterator[None]:
    """Settings of an earlier moment, as they were."""
    _local.outside.append(_local.settings)
    _local.settings = wanted
    try:
        yield
    finally:
        _local.settings = _local.outside.pop()


def refresh_settings() -> None:
    """Read the environment variables again, unless inside a block.

    Calls that trace do this; replayed calls save its half microsecond.
    """
    if _local.outside:
        return
    now = _of_environment()
    if now != _local.environment:
        _local.environment = now
        _local.settings = _interned(replace(_local.settings, **now))


class _Block(ContextDecorator, AbstractContextManager[None]):
    """Settings for a block of code or a decorated function.  Warns if never entered."""

    def __init__(self, name: str, **changes: Any) -> None:
        given = ", ".join(f"{k}={v!r}" for k, v in changes.items())
        self.changes, self.used = changes, False
        self.text = f"td.{name}({given.replace('fast_precision', 'fast')})"

    def __repr__(self) -> str:
        return f"<{self.text}: for a block, with {self.text}: …>"

    def __enter__(self) -> None:
        self.used = True
        refresh_settings()
        changed = _interned(replace(_local.settings, **self.changes))
        _local.outside.append(_local.settings)
        _local.settings = changed

    def __exit__(self, *_: object) -> None:
        _local.settings = _local.outside.pop()

    def __call__(self, function: Any) -> Any:
        self.used = True
        return super().__call__(function)

    def __del__(self) -> None:
        if not self.used:
            warnings.warn(
                f"{self.text} alone changes nothing: write `with {self.text}:` around the code it "
                "is for.",
                stacklevel=2,
            )


def given(**options: bool | None) -> dict[str, bool]:
    """The options that are not None."""
    return {word: bool(value) for word, value in options.items() if value is not None}


@user_facing
def config(
    *,
    backend: str | None = None,
    check: bool | None = None,
    fast_math: bool | None = None,
    recognise: bool | None = None,
    deterministic: bool | None = None,
) -> AbstractContextManager[None]:
    """Change settings for a block; those not given keep their values.

    Parameters
        backend: "native", "cuda", "reference" or "dask"; optional.
        check: whether indices and conversions are tested; default: the settings'.
        fast_math: whether floating-point sums and products may be reordered and approximated;
            optional.
        recognise: whether loops that are known operations are replaced by these; optional.
        deterministic: whether sums of floats have the same bits in every run; default: the
            settings', which begin with False.

    Result: a context manager.

    >>> import treadle as td
    >>> with td.config(backend="reference"):
    ...     td.run(td.iota(3))
    array([0, 1, 2])
    """
    evaluator().require_backend_name(backend)
    changes = given(check=check, fast_math=fast_math, recognise=recognise,
                    deterministic=deterministic)  # fmt: skip
    return _Block("config", **({} if backend is None else {"backend": backend}), **changes)


@user_facing
def precision(fast: bool = False) -> AbstractContextManager[None]:
    """`with td.precision(fast=True)`: float products may use Strassen's algorithm, and float32
    products tensor cores (`precision="fp16x3"` of `td.matmul`).

    Parameters
        fast: whether fast products of floats are allowed, whose errors are larger; default False.

    Result: a context manager.

    >>> import treadle as td
    >>> with td.precision(fast=True):
    ...     td.run(td.matmul(td.eye(2), td.ones((2, 1)))).shape
    (2, 1)
    """
    return _Block("precision", fast_precision=bool(fast))


def current_backend() -> str:
    """The backend on which a program traced now will run by default."""
    return evaluator().choose_backend(settings().backend)
