"""Numbers that recorded operations compute: the instructions, arrays that grow, loops."""

from __future__ import annotations

import ctypes
import random
import threading
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.backend.native import loops
from treadle.backend.native.runtime import late, replay, structures
from treadle.backend.native.runtime.late import Growing, Late
from treadle.backend.native.runtime.structures import Outcome
from treadle.backend.native.runtime.tape import Tape
from treadle.backend.runtime.host import HostFunction
from treadle.backend.runtime.run import Unrecordable

pytestmark = pytest.mark.skipif(not replay.supported(), reason="calls are not repeated here")

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def evaluated(host: HostFunction, slots: list[Any]) -> tuple[Outcome, list[int]]:
    """The results of a host function, all of whose reads are instructions."""
    tape = Tape(1 << 20)
    found = tape.numbers.evaluate(tape.code, host, slots, ())
    outs = [np.zeros((), np.int64) for _ in found]
    for out, value in zip(outs, found, strict=True):
        word = out.ctypes.data
        register = tape.numbers.register(value)
        tape.code.append(late.Instruction(structures.InstructionKind.STORE, word, register))
    code = replay.Code(tape, ())
    return code.run(), [int(out) for out in outs]


@pytest.mark.parametrize("seed", range(40))
def test_instructions_compute_what_python_does(seed: int) -> None:
    """Random expressions over numbers in memory, with the types' wrapping and division by zero;
    indices outside of an array are those of its edge."""
    choose = random.Random(seed)
    slots: list[Any] = []
    entries: list[list[Any]] = []
    by_type: dict[str, list[int]] = {"bool": []}
    for name in INTEGERS:
        by_type[name] = []
        for _ in range(3):
            info = np.iinfo(name)
            value = choose.choice([0, 1, info.max, info.min, choose.randint(-9, 99) % 100, 3])
            slots.append(np.array(value, name))
            by_type[name].append(len(entries))
            entries.append(["read", len(slots) - 1, name, []])
    arithmetic = ("add", "subtract", "multiply", "minimum", "maximum", "floor_divide", "remainder",
                  "bitwise_and", "bitwise_or", "bitwise_xor")  # fmt: skip
    for _ in range(120):
        name = choose.choice(INTEGERS)

        def pick(of: str = name) -> int:
            return choose.choice(by_type[of])

        kind = choose.randrange(7)
        if kind == 6:
            info = np.iinfo(name)
            values = [choose.randint(info.min, info.max) for _ in range(12)]
            slots.append(np.array(values, name).reshape(choose.choice(((12,), (3, 4), (2, 1, 6)))))
            constant = np.int64(choose.randint(-2, 5)).tobytes().hex()
            entries.append(["const", "int64", constant])
            at = [choose.choice((pick("int64"), len(entries) - 1)) for _ in slots[-1].shape]
            entry, of = ["read", len(slots) - 1, name, at], name
        elif kind == 0:
            compare = choose.choice(("less", "less_equal", "greater", "greater_equal", "equal",
                                     "not_equal"))  # fmt: skip
            entry, of = ["apply", compare, "bool", [pick(), pick()]], "bool"
        elif kind == 1 and by_type["bool"]:
            entry, of = ["apply", "select", name, [pick("bool"), pick(), pick()]], name
        elif kind == 2:
            of = choose.choice(INTEGERS)
            entry = ["apply", "cast", of, [pick()]]
        elif kind == 3 and len(by_type["bool"]) > 1:
            op = choose.choice(("logical_and", "logical_or", "logical_xor", "logical_not"))
            args = [pick("bool") for _ in range(1 if op == "logical_not" else 2)]
            entry, of = ["apply", op, "bool", args], "bool"
        elif kind == 4 and not name.startswith("u"):
            op = choose.choice(("negative", "absolute", "invert"))
            entry, of = ["apply", op, name, [pick()]], name
        else:
            entry, of = ["apply", choose.choice(arithmetic), name, [pick(), pick()]], name
        by_type[of].append(len(entries))
        entries.append(entry)
    for part in ("multiplier", "shift"):
        entries.append(["reciprocal", choose.choice(by_type["int64"]), part])
    host = HostFunction(entries, list(range(len(entries))))
    outcome, found = evaluated(host, slots)
    assert outcome is Outcome.DONE
    assert found == [int(v) for v in host.function()(slots, ())]


def test_conditions_do_not_wrap() -> None:
    """Their integers are unbounded: what does not fit in 64 bits ends the operations."""
    entries = [["read", 0, "int64", []], ["bound", "multiply", "int64", [0, 0]]]
    host = HostFunction(entries, [1])
    assert evaluated(host, [np.array(1 << 31)]) == (Outcome.DONE, [1 << 62])
    assert evaluated(host, [np.array(1 << 32)])[0] is Outcome.FAILED


def test_python_cannot_ask_for_a_late_number() -> None:
    number = Late(0)
    for ask in (int, float, bool, lambda x: x < 3, lambda x: x + 1, lambda x: range(x)):
        with pytest.raises(Unrecordable):
            ask(number)
    array = Growing.of((number, 2), np.dtype("f4"))
    for name in ("nbytes", "size"):
        with pytest.raises(Unrecordable):
            getattr(array, name)
    assert array.shape == (number, 2)


def test_memory_grows_geometrically_and_is_given_back() -> None:
    memory = structures.Memory()
    words = (ctypes.c_int64 * 1)()
    patches = (ctypes.c_int64 * 1)(ctypes.addressof(words))
    memory.patches, memory.patch_count = ctypes.addressof(patches), 1
    grown = 0
    for n in range(1, 5000):
        before = memory.address
        replay.fill(memory, np.full(n, n, np.int64))
        grown += memory.address != before
        assert words[0] == memory.address and memory.address % 64 == 0
        assert memory.size == 8 * n <= memory.capacity < 16 * n + 64
        held = (ctypes.c_int64 * n).from_address(memory.address)
        assert held[0] == held[n - 1] == n
    assert grown <= 14
    replay.release(memory, 1 << 30)
    assert memory.capacity
    replay.release(memory, 100)
    assert not memory.capacity and not words[0]


def forward(a: Any, b: Any) -> Any:
    def row(i: Any, x: Any) -> Any:
        return td.update(x, i, (b[i] - td.the(a[i, :i] @ x[:i])) / a[i, i])

    return td.loop(b.shape[0], row, td.zeros_like(b))


def records(f: Any, *args: Any) -> int:
    return len(f.lower(*args).executable.calls.replays.records)


def test_calls_with_extents_of_the_counter_are_replayed() -> None:
    solve = td.jit(forward, backend="native")
    made = np.random.default_rng(0)
    a, b = np.tril(made.random((60, 60))) + 60 * np.eye(60), made.random(60)
    for _ in range(3):
        solve(a, b)
    assert records(solve, a, b) == 1
    for scale in (1.0, 2.0):
        np.testing.assert_allclose(solve(a * scale, b), np.linalg.solve(a * scale, b))


@pytest.mark.parametrize("parameter", [False, True])
def test_iterations_that_an_array_counts(parameter: bool, monkeypatch: Any) -> None:
    """Instructions read the number, or a kernel where a parameter is added."""
    deciding: list[str] = []
    held = loops.Computed.__call__
    monkeypatch.setattr(loops.Computed, "__call__",
                        lambda self, run: deciding.append("kernel") or held(self, run)
                        )  # fmt: skip

    def rows(x: Any, counts: Any, more: Any) -> Any:
        def row(k: Any, s: Any) -> Any:
            number = td.the(counts[k, 1]) + (more if parameter else 2)
            return td.iterate(number, lambda s: td.roll(s, 1) * 0.5, s) + x

        return td.loop(counts.shape[0], row, x)

    f = td.jit(rows, backend="native")
    made = np.random.default_rng(0)
    for _ in range(3):
        x, counts = made.random(9), made.integers(-4, 6, (40, 2))
        want = x
        for count in counts[:, 1]:
            n = max(count + 2, 0)
            want = np.roll(want, n) * 0.5**n + x
        np.testing.assert_allclose(f(x, counts, 2), want)
    assert bool(deciding) == parameter
    assert records(f, x, counts, 2) == 1


def test_a_histogram_that_finds_its_range_is_replayed() -> None:
    """Its check, that the range is finite, is of a number that a kernel computes."""
    f = td.jit(lambda x: td.histogram(x, 7), backend="native")
    x = np.random.default_rng(0).random(500)
    for scale in (1.0, 2.0, 3.0):
        for got, want in zip(f(x * scale), np.histogram(x * scale, 7), strict=True):
            np.testing.assert_array_equal(got, want)
    assert records(f, x) == 1
    for bad in (np.nan, np.inf):
        with pytest.raises(td.ShapeError, match="NaN or infinite"):
            f(np.where(np.arange(500) == 30, bad, x))
    assert f(x[:0])[0].sum() == 0 and list(f(x[:0])[1][[0, -1]]) == [0.0, 1.0]


def test_sums_of_states_that_grow_are_replayed() -> None:
    """The same record for data that makes other extents."""
    f = td.jit(lambda x: td.sum(td.iterate(
        6, lambda s: td.filter(lambda e: e < 2, td.concatenate([s, s + 0.6]))[0], x)))  # fmt: skip
    made = np.random.default_rng(1)
    for k in range(12):
        x = made.random(30) * (1 + k / 4)
        want = x
        for _ in range(6):
            want = np.concatenate([want, want + 0.6])
            want = want[want < 2]
        np.testing.assert_allclose(f(x), want.sum())
    assert records(f, x) == 1


def test_a_loop_is_recorded_once_for_all_extents_of_its_state(monkeypatch: Any) -> None:
    made: list[int] = []
    record = loops.LoopStep.record
    monkeypatch.setattr(loops.LoopStep, "record",
                        lambda *args: made.append(1) or record(*args))  # fmt: skip
    f = td.jit(lambda x: td.iterate(300, lambda s: td.filter(lambda e: e > 0.001, s * 0.99)[0], x))
    for k in range(6):
        x = np.random.default_rng(k).random(50)
        want = x * 0.99
        for _ in range(300):
            want = want[want > 0.001] * 0.99
        np.testing.assert_allclose(f(x), want / 0.99)
    assert len(made) <= 3  # once, and what was tried for complete calls


def test_a_mismatch_after_recording_is_reported_where_it_was_written() -> None:
    """Native code stops at the iteration; Python finds the line."""

    def program(a: Any, b: Any, stop: int) -> Any:
        return td.loop(stop, lambda k, s: s + td.sum(a[:k] * b[: k * k]), td.unit(0.0))

    compiled = td.jit(program)
    a, b = np.ones(400), np.ones(4)
    for _ in range(3):
        assert float(compiled(a, a, 2)) == 1.0
        with pytest.raises(td.ShapeError) as found:
            compiled(a, a, 40)
        assert "a[:k] * b[: k * k]" in str(found.value)
    assert float(compiled(a, b, 2)) == 1.0


@pytest.mark.parametrize("again", [False, True])
def test_an_array_that_grows_is_updated_by_a_loop_inside(again: bool, monkeypatch: Any) -> None:
    """In place, if nothing reads it that must run later."""
    copied: list[Any] = []
    copy = Tape.copied
    monkeypatch.setattr(Tape, "copied", lambda self, array, growing=False: (
        copied.append(array) or copy(self, array, growing)))  # fmt: skip

    def program(x: Any) -> Any:
        def step(k: Any, total: Any) -> Any:
            part = td.sqrt(x[: k + 2])
            made = td.loop(k + 1, lambda j, s: s.at[j + 1].add(td.roll(s[j], 1)), part)
            return total + made[k] + (td.sum(part * made) if again else td.sum(part))

        return td.loop(9, step, x[0] * 0)

    f = td.jit(program, backend="native")
    x = np.random.default_rng(3).random((20, 300))
    want = np.zeros(300)
    for k in range(9):
        made = np.sqrt(x[: k + 2])
        part = made.copy()
        for j in range(k + 1):
            made[j + 1] += np.roll(made[j], 1)
        want += made[k] + ((part * made).sum() if again else part.sum())
    for _ in range(4):
        np.testing.assert_allclose(f(x), want)
    assert bool(copied) == again


def test_many_threads_call_a_program_whose_state_grows() -> None:
    f = td.jit(lambda x, n: td.sum(td.iterate(n, lambda s: td.concatenate([s, s[:3]]), x)))
    wrong: list[object] = []

    def work(k: int) -> None:
        x = np.arange(5.0) + k
        for n in (0, 7, 1, 30, 30, 30, 2):
            if f(x, n) != x.sum() + n * x[:3].sum():
                wrong.append((k, n))

    several = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert not wrong


def test_tasks_for_all_threads_where_there_is_work() -> None:
    """Few tasks in the first iterations, many in the last."""

    def program(x: Any) -> Any:
        return td.iterate(12, lambda s: td.concatenate([s, s * 0.5 + td.sin(s)]), x)

    f = td.jit(lambda x: td.sum(program(x)))
    x = want = np.random.default_rng(2).random(64)
    for _ in range(12):
        want = np.concatenate([want, want * 0.5 + np.sin(want)])
    for _ in range(4):
        np.testing.assert_allclose(f(x), want.sum(), rtol=1e-9)
