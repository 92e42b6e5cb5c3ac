"""Recordings: memory, order, arguments; no device."""

from __future__ import annotations

import ctypes
import itertools
import random

import numpy as np
import pytest

from treadle.backend.cuda.device.arguments import Arguments
from treadle.backend.cuda.device.device import Block, Copy, Fill, Repeat, row_major
from treadle.backend.cuda.graphs.tape import (
    Tape,
    dependencies,
    flattened,
    lifetimes,
    plan_memory,
    rounds_of,
    sharing,
)
from treadle.dsl import types

F8 = np.dtype("f8")


def block(n=10):
    return Block((n,), F8)


def random_tape(seed):
    """Copies and fills among blocks of different sizes, with a loop now and then."""
    rng = random.Random(seed)
    source = Block((8,), F8, kind="input")
    held = [source]
    operations = []

    def some(count):
        ops = []
        for _ in range(count):
            made = block(rng.choice((1, 8, 40, 100)))
            ops.append(Copy(made, rng.choice(held)) if rng.random() < 0.8 else
                       Fill(made, np.zeros(())))  # fmt: skip
            held.append(made)
            if len(held) > 6:
                held.pop(rng.randrange(len(held)))
        return ops

    for _ in range(rng.randrange(2, 6)):
        operations += some(rng.randrange(1, 5))
        if rng.random() < 0.5:
            front, back = block(), block()
            operations.append(Fill(front, np.zeros(())))
            before = list(held)
            held.append(front)
            even = [*some(2), Copy(back, held[-1])]
            held[:] = [*before, back]
            odd = [*some(2), Copy(front, held[-1])]
            held[:] = [*before, front]
            operations.append(Repeat(5, (front,), (back,), tuple(even), tuple(odd)))
    return Tape((source,), tuple(operations), (held[-1],))


@pytest.mark.parametrize("seed", range(30))
def test_blocks_in_use_together_lie_apart(seed):
    tape = random_tape(seed)
    spans = lifetimes(tape)
    offsets, size = plan_memory(tape)
    plain, whole = plan_memory(tape, reuse=False)
    assert size <= whole and set(plain) == set(offsets)
    assert set(offsets) == set(tape.work) - set(tape.results)
    for a, at in offsets.items():
        assert at % 256 == 0 and at + a.nbytes <= size
        for b, bt in offsets.items():
            together = spans[a][0] <= spans[b][1] and spans[b][0] <= spans[a][1]
            if a is not b and together:
                assert at + a.nbytes <= bt or bt + b.nbytes <= at


def test_memory_is_used_again():
    chain = [Block((1000,), F8, kind="input"), *(block(1000) for _ in range(20))]
    copies = tuple(Copy(b, a) for a, b in itertools.pairwise(chain))
    tape = Tape((chain[0],), copies, (chain[-1],))
    assert plan_memory(tape)[1] == 2 * 8192
    assert plan_memory(tape, reuse=False)[1] == 19 * 8192


def test_what_a_loop_keeps_is_not_given_away():
    source, front, back, late = block(), block(), block(), block()
    loop = Repeat(9, (front,), (back,), (Copy(back, front),), (Copy(front, back),))
    early = block()
    ops = (Fill(early, np.zeros(())), Copy(front, early), Copy(source, early), loop,
           Copy(late, source))  # fmt: skip
    spans = lifetimes(Tape((), ops, (late,)))
    assert spans[source][1] > spans[back][1] and spans[early][1] < spans[back][0]


@pytest.mark.parametrize("seed", range(30))
def test_any_order_that_dependencies_allow_gives_the_same(seed):
    rng = random.Random(seed)
    tape = random_tape(seed)
    operations = [op for op in flattened(tape.operations) if not isinstance(op, Repeat)]
    needs = dependencies(operations)

    def run(order):
        memory = {}
        for k in order:
            op = operations[k]
            if isinstance(op, Copy):
                memory[op.target] = ("copy", k, memory.get(op.source))
            else:
                memory[op.block] = ("fill", k)
        return memory

    left, order = set(range(len(operations))), []
    while left:
        k = rng.choice([k for k in left if not left & set(needs[k])])
        left.remove(k)
        order.append(k)
    assert run(order) == run(range(len(operations)))


@pytest.mark.parametrize("seed", range(30))
def test_any_order_gives_the_same_in_planned_memory(seed):
    """Iterations of a loop are a graph, and their blocks alternate in memory."""
    rng = random.Random(seed)
    tape = random_tape(seed)
    offsets, size = plan_memory(tape)
    others = enumerate((*tape.inputs, *tape.results))
    places = offsets | {b: size + 4096 * k for k, b in others}
    operations = [op for op in flattened(tape.operations) if not isinstance(op, Repeat)]
    needs = dependencies(operations, sharing(places))

    def run(order):
        cells = {}
        for k in order:
            op = operations[k]
            for b in op.writes:
                read = [cells.get(at) for r in op.reads for at in _cells(r, places)]
                cells.update(dict.fromkeys(_cells(b, places), hash((k, *read))))
        return cells

    left, order = set(range(len(operations))), []
    while left:
        order.append(rng.choice([k for k in left if not left & set(needs[k])]))
        left.remove(order[-1])
    assert run(order) == run(range(len(operations)))


def _cells(b, places):
    return range(places[b], places[b] + b.nbytes, 8)


def test_who_shares_memory():
    a, b, c, none = block(4), block(2), block(2), block(0)
    found = sharing({a: 0, b: 8, c: 32, none: 0})
    assert found == {a: [b], b: [a]}


def test_rounds_of_loops_that_test_themselves():
    front, back = block(), block()
    first, second, seen, unseen = (Block((), np.dtype("?")) for _ in range(4))
    testing = (Copy(first, seen),), (Copy(second, unseen),)
    even, odd = (Copy(back, front),), (Copy(front, back),)
    held = (front,), (back,), even, odd, testing, (first, second)
    assert rounds_of(Repeat(None, *held, harmless=True)) == "two"
    assert rounds_of(Repeat(None, *held)) == "beside"
    # The iteration reads what the test has computed.
    made = block(), block()
    looks = tuple(
        (Copy(m, s), *ask) for m, s, ask in zip(made, (front, back), testing, strict=True)
    )
    iterations = (Copy(back, made[0]),), (Copy(front, made[1]),)
    reading = (front,), (back,), *iterations, looks, (first, second)
    assert rounds_of(Repeat(None, *reading, harmless=True)) == "two"
    assert rounds_of(Repeat(None, *reading)) == "after"
    # The test makes the next state, too.
    both = ((*testing[0], *even), (*testing[1], *odd))
    assert rounds_of(Repeat(None, (front,), (back,), (), (), both, held[-1], True)) == "after"


def test_layouts():
    assert row_major((2, 3), 4) == (12, 4)
    assert Block((2, 3), F8).reach == 6
    strided = Block((3, 2), F8, kind="input", strides=(8, -48), dense=False)
    assert strided.reach == 1 + 2 + 6
    assert Block((0, 3), F8, strides=(8, 8), dense=False).reach == 0


def read(arguments, k, count):
    slots = (ctypes.c_void_p * 16).from_address(arguments.address)
    assert slots[k] % min(count, 8) == 0
    return ctypes.string_at(slots[k], count)


@pytest.mark.parametrize("t", [t for t in vars(types).values() if isinstance(t, types.ScalarType)])
def test_arguments_lie_as_kernels_read_them(t):
    made = Arguments(2, [types.bool_, t, types.int64])
    value = np.asarray(3).astype(t.numpy)[()]
    made.point([1 << 40, 5])
    made.scalars([True, value, -7])
    assert np.frombuffer(read(made, 0, 8), "u8")[0] == 1 << 40
    assert read(made, 2, 1) == b"\x01"
    assert np.frombuffer(read(made, 3, t.bytes), t.numpy)[0] == value
    assert np.frombuffer(read(made, 4, 8), "i8")[0] == -7


def test_arguments_beyond_their_type():
    made = Arguments(0, [types.int32, types.uint8, types.float32, types.float16])
    made.scalars([(1 << 32) + 5, -1, 1e300, 1e9])
    assert np.frombuffer(read(made, 0, 4), "i4")[0] == 5
    assert read(made, 1, 1) == b"\xff"
    assert np.isinf(np.frombuffer(read(made, 2, 4), "f4")[0])
    assert np.isinf(np.frombuffer(read(made, 3, 2), "f2")[0])
