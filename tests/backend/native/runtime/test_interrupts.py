"""Ctrl-C in a long kernel: it ends between tasks, and everything goes on working."""

from __future__ import annotations

import _thread
import signal
import threading
import traceback

import numpy as np
import pytest

import treadle as td
from treadle.backend.native.runtime import threads


@pytest.fixture(autouse=True)
def listening():
    """A process that a shell has started in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(call, *args):
    """The traceback of `call`, which Ctrl-C ends after a moment."""
    with pytest.raises(KeyboardInterrupt) as stopped:
        timer = threading.Timer(0.1, _thread.interrupt_main)
        timer.start()
        call(*args)
    return traceback.extract_tb(stopped.value.__traceback__)


@pytest.fixture(params=["team", "python", "alone"])
def workers(request, monkeypatch):
    """Who runs the tasks."""
    if request.param == "alone":
        monkeypatch.setattr(threads, "thread_count", lambda: 1)
    elif request.param == "python":
        monkeypatch.setattr(threads, "team", lambda: None)
    return request.param


@pytest.fixture(scope="module")
def waves():
    """A function of n that takes n² sines, of which the largest is a result."""

    def wave(i, j):
        return td.sin(td.cast(i * j, td.float64))

    return td.jit(lambda n: td.max(td.generate((n, n), wave)), backend="native")


@pytest.mark.sample(2)
def test_a_long_kernel_is_interrupted(waves, workers):
    before = waves(100)
    stack = interrupted(waves, 200_000)  # minutes
    assert stack[-1].name in ("execute", "call") and stack[0].filename == __file__
    assert waves(100) == before


@pytest.mark.sample(2)
def test_a_stored_result_is_given_up(workers):
    step = td.jit(lambda a: td.map(lambda v: td.loop(1000, lambda k, s: s * 0.5 + v, v), a),
                  backend="native")  # fmt: skip
    small, large = np.ones(1000), np.ones(20_000_000)
    before = step(small)
    interrupted(step, large)
    np.testing.assert_array_equal(step(small), before)


def test_long_calls_are_not_repeated_by_native_code(monkeypatch):
    from treadle.backend.native import calls

    double = td.jit(lambda a: 2 * a, backend="native")
    a = np.ones(100)
    monkeypatch.setattr(calls, "LONG", 0.0)
    for _ in range(4):
        double(a)
    (program,) = next(p for p in double._programs.values() if p).values()
    assert program.executable.calls.replays.function is None
    monkeypatch.undo()
    for _ in range(3):
        double(a)
    assert program.executable.calls.replays.function is not None


@pytest.mark.parametrize("calls", [1, 5])  # by Python; by native code, which repeats short ones
@pytest.mark.parametrize("nested", [False, True])
def test_a_long_sequence_is_interrupted(calls, nested):
    """A loop that writes an element in each iteration is one kernel, which one thread runs."""

    def row(k, table):
        return td.loop(table.shape[0], lambda j, t: t.at[j].set(t[k % 8] * 0.5 + j), table)

    def walk(n, table):
        if nested:
            return td.loop(n, row, table)
        return td.loop(n, lambda k, t: t.at[k % 8].set(t[(k + 1) % 8] * 0.5 + k), table)

    sequence, table = td.jit(walk, backend="native"), np.ones(100)
    for _ in range(calls):
        before = sequence(1000, table)
    interrupted(sequence, 1 << 40, table)  # hours
    np.testing.assert_array_equal(sequence(1000, table), before)


def test_a_long_loop_of_several_operations_is_interrupted():
    """It is one kernel, too."""

    def walk(n, table):
        return td.loop(n, lambda k, t: td.roll(t, 1) / td.max(t), table)

    loop, table = td.jit(walk, backend="native"), np.arange(100.0)
    for _ in range(5):
        before = loop(1000, table)
    interrupted(loop, 1 << 40, table)  # hours
    np.testing.assert_array_equal(loop(1000, table), before)
