"""The environment variables that treadle reads, and their legal values.

A misspelt name or an illegal value causes one warning, and the default applies.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Variable:
    """legal: a description of legal values; read: parses a text (`ValueError` or `KeyError`)."""

    legal: str
    read: Callable[[str], Any]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _folder(text: str) -> Path:
    """An absolute path; `~` is the user's home."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:  # no home directory
        raise ValueError(text) from error


_SWITCH = {"1": True, "true": True, "yes": True, "on": True,
           "0": False, "false": False, "no": False, "off": False}  # fmt: skip

VARIABLES: dict[str, Variable] = {
    # Validated when a program runs, as an error: a default would select another backend.
    "TREADLE_BACKEND": Variable("the name of a backend", str),
    "TREADLE_CACHE_DIR": Variable("the path of a folder", _folder),
    "TREADLE_CHECK": Variable("1 or 0", lambda text: _SWITCH[text.lower()]),
    "TREADLE_NUM_THREADS": Variable("a whole number of cores, 1 or more", _positive),
    "TREADLE_THREADS": Variable("python, or nothing", lambda text: {"python": text}[text.lower()]),
    "TREADLE_VECTOR_BYTES": Variable("16 or 32", lambda text: {"16": 16, "32": 32}[text]),
}

_OF_TESTS = ("TREADLE_TEST_", "TREADLE_UPDATE_", "TREADLE_LONG_")


def variable(name: str) -> Any:
    """The value of a variable of `VARIABLES`; None if unset, empty or illegal (with a warning)."""
    text = os.environ.get(name, "").strip()
    return _value(name, text) if text else None


@cache
def _value(name: str, text: str) -> Any:
    about = VARIABLES[name]
    try:
        return about.read(text)
    except (ValueError, KeyError):
        warn_of(name, text, f"has no effect. Write {about.legal}.")
        return None


@cache
def warn_of(name: str, text: str, what: str) -> None:
    """Warn once that the value of a variable does not take effect."""
    warnings.warn(f"{name}={text} {what}", stacklevel=2)


def warn_of_mistakes() -> None:
    """Check all variables that start with TREADLE_, when treadle is imported."""
    for name in os.environ:
        if name in VARIABLES:
            variable(name)
        elif name.startswith("TREADLE_") and not name.startswith(_OF_TESTS):
            near = get_close_matches(name, VARIABLES, 1)
            meant = f"; did you mean {near[0]}?" if near else "."
            warnings.warn(f"treadle reads no variable {name}{meant}", stacklevel=2)


def cache_directory() -> Path:
    """`TREADLE_CACHE_DIR`, or the platform's cache directory of the user; `OSError` if there is
    none. Other variables are used if they are absolute paths, as the XDG specification requires."""
    asked: Path | None = variable("TREADLE_CACHE_DIR")
    if asked is not None:
        return asked
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "treadle"
    windows = sys.platform == "win32"
    base = Path(os.environ.get("LOCALAPPDATA" if windows else "XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = _home() if windows else _home() / ".cache"
    return base / "treadle" / "cache" if windows else base / "treadle"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from None


#: How a file that did not exist is opened.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def write_atomically(path: str | Path, data: bytes, durable: bool = False) -> None:
    """Create or replace a file atomically: readers see the old or the new content.

    `OSError` on failure, which leaves no temporary file.  durable: also flush it to the disk.
    """
    # (`tempfile` and `pathlib` take as long as the system does to write the file.)
    aside = os.path.join(os.path.dirname(path), f".treadle-{os.urandom(8).hex()}.tmp")
    handle = os.open(aside, _NEW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(handle)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def keep(path: Callable[[], str], data: bytes) -> bool:
    """Write a cache file and return whether that succeeded; `path` may raise `OSError`.

    A cache that cannot be written is disabled; a warning follows if the user chose the directory.
    """
    try:
        file_path = path()
        try:
            write_atomically(file_path, data)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(file_path), exist_ok=True)
            write_atomically(file_path, data)
    except OSError as error:
        asked = variable("TREADLE_CACHE_DIR")
        if asked is not None:
            why = error.strerror or error  # without the file: one warning for all
            warn_of("TREADLE_CACHE_DIR", str(asked), f"cannot be used as a cache: {why}.")
        return False
    return True
