"""The structures and constants of replay.c: a test compares them with the C file.

Fields have eight bytes, or are structures.  Those that are pointers in C are addresses here:
whoever fills a structure keeps what it points to.
"""

from __future__ import annotations

import enum
from ctypes import Structure, c_int64
from typing import TypeVar

_S = TypeVar("_S", bound=type[Structure])


def words(cls: _S) -> _S:
    """A structure with a field of eight bytes for each number that the class annotates."""
    cls._fields_ = [
        (name, c_int64 if kind == "int" else globals()[kind])
        for name, kind in cls.__annotations__.items()
    ]
    return cls


class OperationKind(enum.IntEnum):
    """`struct operation` says what the fields are for each of them."""

    LAUNCH = 0
    FILL = 1
    COPY = 2
    FAILURE = 3
    LOOP = 4
    BRANCH = 5
    EVALUATE = 6
    CALL = 7


class InstructionKind(enum.IntEnum):
    """`enum instruction_kind` says what they do."""

    LOAD = 0
    STORE = 1
    SIZE = 2
    RESIZE = 3
    RELEASE = 4
    REQUIRE = 5
    ADD = 6
    SUBTRACT = 7
    MULTIPLY = 8
    MINIMUM = 9
    MAXIMUM = 10
    NEGATIVE = 11
    ABSOLUTE = 12
    FLOOR_DIVIDE = 13
    REMAINDER = 14
    SELECT = 15
    BITWISE_AND = 16
    BITWISE_OR = 17
    BITWISE_XOR = 18
    INVERT = 19
    CAST = 20
    LESS = 21
    LESS_EQUAL = 22
    EQUAL = 23
    NOT_EQUAL = 24
    MULTIPLIER = 25
    SHIFT = 26


class Outcome(enum.IntEnum):
    """How operations end."""

    DONE = 0
    FAILED = 1
    INTERRUPTED = 2


class NumberKind(enum.IntEnum):
    """Python's classes of numbers among the arguments; of complex ones the parts, also in 32
    bits."""

    FLOAT = 0
    INT = 1
    BOOL = 2
    REAL = 3
    IMAGINARY = 4
    REAL_32 = 5
    IMAGINARY_32 = 6


@words
class Operation(Structure):
    kind: int
    target: int
    source: int
    size: int
    threads: int


@words
class Part(Structure):
    operations: int
    operation_count: int


@words
class Memory(Structure):
    address: int
    size: int
    capacity: int
    block: int
    patches: int
    patch_count: int


@words
class Instruction(Structure):
    kind: int
    bits: int
    exact: int
    to: int
    a: int
    b: int
    c: int


@words
class Evaluation(Structure):
    instructions: int
    count: int
    registers: int


@words
class Branch(Structure):
    test: int
    then: Part
    other: Part


@words
class Buffer(Structure):
    address: int
    bytes: int
    taken: int
    place: int


@words
class Moving(Structure):
    address: int
    buffer: int
    patches: int
    patch_count: int


@words
class State(Structure):
    now: Moving
    first: int
    copied: int
    result: int
    source: int
    next: int
    next_buffer: int


@words
class Made(Structure):
    now: Moving
    first_buffer: int
    last_buffer: int
    result: int
    partner: int


@words
class Loop(Structure):
    first: int
    limit: int
    computed_limit: int
    counter: int
    test: int
    testing: Part
    once: Part
    rest: Part
    states: int
    state_count: int
    made: int
    made_count: int
    buffers: int
    buffer_count: int
    exchanged: int
    exchange_count: int
    passes: int


@words
class Unit(Structure):
    function: int
    source: int
    words: int
    counter: int
    first: int
    blocks: int
    tasks: int
    down: int
    up: int


@words
class Pass(Structure):
    units: int
    unit_count: int
    depth: int
    down: int
    up: int
    bounds: int
    chunks: int
    circular: int
    arguments: int
    words: int
    numbers: int


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
    memory: int
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
    part: Part


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
