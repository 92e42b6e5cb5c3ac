"""The structures and constants of replay.c: a test compares them with the C file.

Fields have eight bytes.  Those that are pointers in C are addresses here: whoever fills a structure
keeps what it points to.
"""

from __future__ import annotations

import enum
from ctypes import Structure, c_int64
from typing import TypeVar

_S = TypeVar("_S", bound=type[Structure])


def words(cls: _S) -> _S:
    """A structure with a field of eight bytes for each name that the class annotates."""
    cls._fields_ = [(name, c_int64) for name in cls.__annotations__]
    return cls


class OperationKind(enum.IntEnum):
    """`struct operation` says what the fields are for each of them."""

    LAUNCH = 0
    FILL = 1
    COPY = 2
    TEST = 3
    NUMBER = 4
    FAILURE = 5


class NumberKind(enum.IntEnum):
    """Python's classes of numbers among the arguments."""

    FLOAT = 0
    INT = 1
    BOOL = 2


@words
class Operation(Structure):
    kind: int
    target: int
    source: int
    size: int
    threads: int


@words
class Phase(Structure):
    operations: int
    operation_count: int


@words
class Dimension(Structure):
    extent: int
    stride: int


@words
class Array(Structure):
    position: int
    captured: int
    dtype: int
    rank: int
    dimensions: int
    patches: int
    patch_count: int


@words
class Number(Structure):
    position: int
    kind: int
    least: int
    most: int
    bits: int
    patches: int
    patch_count: int


@words
class Block(Structure):
    owner: int
    address: int


@words
class Result(Structure):
    dtype: int
    rank: int
    extents: int
    blocks: int
    block_count: int
    patches: int
    patch_count: int
    made: int


@words
class Record(Structure):
    next: int
    busy: int
    argument_count: int
    arrays: int
    array_count: int
    numbers: int
    number_count: int
    results: int
    result_count: int
    operations: int
    operation_count: int


@words
class View(Structure):
    object_size: int
    type: int
    references: int
    data: int
    rank: int
    extents: int
    strides: int
    dtype: int
    flags: int
