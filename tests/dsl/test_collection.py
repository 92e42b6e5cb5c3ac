"""The collector of cycles runs rarely during first calls, and as before afterwards."""

from __future__ import annotations

import gc
import os
import signal
import threading

import numpy as np
import pytest

import treadle as td
from treadle.dsl.process.collection import OBJECTS, collected_rarely


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


threshold = collected_rarely(lambda: gc.get_threshold()[0])


def test_a_first_call_is_collected_rarely():
    seen = []

    def f(a):
        seen.append(gc.get_threshold()[0])
        return a + 1

    compiled = td.jit(f, backend="native")
    assert list(compiled(np.arange(3))) == [1, 2, 3]
    assert seen == [OBJECTS] and gc.get_threshold() == (700, 10, 10)


def test_thresholds_are_those_of_before():
    @collected_rarely
    def outer(inner):
        return inner(), gc.get_threshold()[0]

    assert outer(threshold) == (OBJECTS, OBJECTS) and gc.get_threshold() == (700, 10, 10)
    with pytest.raises(ZeroDivisionError):
        collected_rarely(lambda: 1 // 0)()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("first", [0, OBJECTS + 1])
def test_collections_that_are_off_or_rarer_stay_so(first):
    gc.set_threshold(first, 10, 10)
    assert threshold() == first


def test_threads_restore_what_was_before_all():
    start = threading.Barrier(4)

    def often():
        start.wait()
        for _ in range(200):
            threshold()

    threads = [threading.Thread(target=often) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
def test_an_interruption_at_any_instant_restores_them():
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    caught = 0
    try:
        while caught < 500:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + caught * 1e-7)
                while True:
                    threshold()
            except KeyboardInterrupt:
                caught += 1
            assert gc.get_threshold() == (700, 10, 10)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_beside_another_threads_first_call():
    inside, done = threading.Event(), threading.Event()

    @collected_rarely
    def compiling():
        inside.set()
        done.wait(20)

    other = threading.Thread(target=compiling)
    other.start()
    inside.wait(20)
    pid = os.fork()
    if pid == 0:
        os._exit(gc.get_threshold() != (700, 10, 10))
    done.set()
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
